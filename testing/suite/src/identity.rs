//! Credentials on either server: service account tokens, kubeconfigs with them, and client certificates by CSR.

use apiclient::resource::Target;
use base64::{Engine, prelude::BASE64_STANDARD};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

pub use crate::cluster::Data;
use crate::{
    cluster::{Cluster, resource},
    eventually,
    relay::Relay,
};

/// Requests a token of a service account, by TokenRequest.
pub fn token(cluster: &Cluster, namespace: &str, account: &str) -> String {
    let accounts = resource("", "serviceaccounts", "ServiceAccount");
    let target = Target { subresource: Some("token"), ..accounts.object(namespace, account) };
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = cluster.create(&target, &request);
    answer["status"]["token"].as_str().expect("a token").to_owned()
}

/// Returns a client certificate and its key, in PEM: requested, approved and signed as for any agent.
pub fn certificate(cluster: &Cluster, user: &str, group: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    let pem = params.serialize_request(&key).and_then(|csr| csr.pem()).expect("a CSR");
    let certificate = eventually("the certificate is signed", {
        let name = post(cluster, &pem);
        move || signed(cluster, &name)
    });
    (certificate, key.serialize_pem())
}

fn post(cluster: &Cluster, pem: &str) -> String {
    let csrs =
        resource("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest");
    let all = Target { resource: &csrs, namespace: None, name: None, subresource: None };
    let mut csr = cluster.create(
        &all,
        &json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "suite-"},
            "spec": {
                "request": BASE64_STANDARD.encode(pem),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["digital signature", "client auth"],
            },
        }),
    );
    let name = csr["metadata"]["name"].as_str().expect("a name").to_owned();
    csr["status"]["conditions"] =
        json!([{"type": "Approved", "status": "True", "reason": "Suite", "message": "for a test"}]);
    let approval = Target { name: Some(&name), subresource: Some("approval"), ..all };
    cluster.client.replace(&approval, &csr).expect("the CSR is approved");
    name
}

fn signed(cluster: &Cluster, name: &str) -> Option<String> {
    let csrs =
        resource("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest");
    let target = Target { resource: &csrs, namespace: None, name: Some(name), subresource: None };
    let csr = cluster.get(&target)?;
    let certificate = BASE64_STANDARD.decode(csr["status"]["certificate"].as_str()?).ok()?;
    String::from_utf8(certificate).ok()
}

/// Returns a kubeconfig for `server` ("host:port"), with everything inline.
pub fn kubeconfig(server: &str, ca: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "default",
        "clusters": [{"name": "default", "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority-data": BASE64_STANDARD.encode(ca),
        }}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "users": [{"name": "default", "user": user}],
    })
}

/// Returns a kubeconfig with a new token of a service account, through this relay.
pub fn kubeconfig_of_account(
    cluster: &Cluster,
    way: &Relay,
    namespace: &str,
    account: &str,
) -> String {
    let user = json!({"token": token(cluster, namespace, account)});
    kubeconfig(&way.address.to_string(), &cluster.ca, &user).to_string()
}

/// Returns the token in such a kubeconfig.
pub fn token_in(kubeconfig: &str) -> String {
    let config: Value = serde_json::from_str(kubeconfig).expect("JSON");
    config["users"][0]["user"]["token"].as_str().expect("a token").to_owned()
}

/// Returns a Secret's data like OCM's: the kubeconfig refers to `tls.crt` and `tls.key` next to it.
pub fn hub_secret(server: &str, ca: &str, (certificate, key): &(String, String)) -> Data {
    let user = json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
    let kubeconfig = kubeconfig(server, ca, &user).to_string();
    [("kubeconfig", kubeconfig), ("tls.crt", certificate.clone()), ("tls.key", key.clone())]
        .map(|(key, value)| (key.to_owned(), value.into_bytes()))
        .into()
}
