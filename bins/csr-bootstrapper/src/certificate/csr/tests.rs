pub(crate) mod authority;

use std::{
    io::{ErrorKind, Write},
    process::{Command, Stdio},
};

use apiclient::resource::valid_name;

use self::authority::*;
use super::*;

/// The output of openssl for `input`; `None` without openssl.
fn openssl(arguments: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new("openssl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: openssl is not there");
            return None;
        }
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

fn kept(request: &CertificateRequest, names: &AgentNames) -> Data {
    let values = request.stored_texts(names).into_iter();
    values.map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec().into())).collect()
}

/// The Go agent's template for an add-on.
fn of_addon() -> CsrTemplate {
    let text = str::to_owned;
    CsrTemplate {
        subject: Subject {
            user: text("addon-user"),
            groups: vec![text("group1"), text("group2")],
            units: vec![text("unit1"), text("unit2")],
        },
        dns_names: vec![text("a.addon.open-cluster-management.io"), text("b.example")],
        signer: text("example.com/signer"),
        name_prefix: text("addon-cluster1-a-"),
        labels: [(CLUSTER_LABEL, text("cluster1"))].into(),
    }
}

/// RFC 2253 begins with the last part.
#[test]
fn openssl_verifies_requests_and_reads_their_names() {
    let agent = "CN=system:open-cluster-management:cluster1:agent1,\
        O=system:open-cluster-management:managed-clusters,O=system:open-cluster-management:cluster1";
    let hosts = "DNS:a.addon.open-cluster-management.io, DNS:b.example";
    for (template, subject, more) in [
        (template(), agent, "ASN1 OID: prime256v1"),
        (of_addon(), "CN=addon-user,OU=unit2,OU=unit1,O=group2,O=group1", hosts),
    ] {
        let request = CertificateRequest::new(&template).unwrap();
        let arguments = ["req", "-verify", "-noout", "-subject", "-nameopt", "RFC2253", "-text"];
        let Some(text) = openssl(&arguments, &request.pem().unwrap()) else { return };
        for part in ["verify OK", "Signature Algorithm: ecdsa-with-SHA256", subject, more] {
            assert!(text.contains(part), "{text}");
        }
        let public = openssl(&["req", "-pubkey", "-noout"], &request.pem().unwrap());
        assert_eq!(public, openssl(&["pkey", "-pubout"], &request.key));
    }
}

#[test]
fn the_name_is_the_requests_and_a_valid_one() {
    let names = AgentNames { cluster: "a".repeat(63), ..names() };
    let request = CertificateRequest::new(&names.csr_template()).unwrap();
    assert!(valid_name(&request.name), "{}", request.name);
    assert_eq!(request.name.len(), 63 + 1 + 16);
    let other = CertificateRequest::new(&names.csr_template()).unwrap();
    assert_ne!(request.name, other.name);
    let of_addon = CertificateRequest::of_key(request.key.clone(), &of_addon()).unwrap();
    assert!(of_addon.name.starts_with("addon-cluster1-a-"));
    assert_ne!(of_addon.name[of_addon.name.len() - 16..], request.name[64..]);
    assert_eq!(format!("{request:?}"), format!("CertificateRequest({})", request.name));
}

#[test]
fn the_object_equals_the_go_agents_except_its_name() {
    let request = CertificateRequest::new(&template()).unwrap();
    let object = request.object(&template(), None).unwrap();
    let expected = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {
            "name": request.name,
            "labels": {"open-cluster-management.io/cluster-name": "cluster1"},
        },
        "spec": {
            "request": object["spec"]["request"],
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    });
    assert_eq!(object, expected);
    let limited = request.object(&template(), Some(86_400)).unwrap();
    assert_eq!(limited["spec"]["expirationSeconds"], 86_400);
}

#[test]
fn a_stored_request_comes_back_whole_and_for_the_same_names() {
    let [request, other] = [0, 1].map(|_| CertificateRequest::new(&template()).unwrap());
    let whole = kept(&request, &names());
    assert_eq!(CertificateRequest::of_secret(&whole, &names()), Some(request.clone()));
    for key in whole.keys() {
        let half = &whole[key][..whole[key].len() / 2];
        for value in [&b""[..], b"x", b"\xff", half, &kept(&other, &names())[key]] {
            let mut broken = whole.clone();
            broken.insert(key.clone(), value.to_vec().into());
            let restored = CertificateRequest::of_secret(&broken, &names());
            assert_eq!(restored.is_some(), broken == whole, "{key}");
        }
        let mut without = whole.clone();
        without.remove(key);
        assert!(CertificateRequest::of_secret(&without, &names()).is_none(), "without {key}");
    }
    for other in [
        AgentNames { cluster: "cluster2".into(), ..names() },
        AgentNames { agent: "agent10".into(), ..names() },
    ] {
        assert!(CertificateRequest::of_secret(&whole, &other).is_none());
        // The Secret has the other names, the request does not.
        assert!(CertificateRequest::of_secret(&kept(&request, &other), &other).is_none());
    }
}
