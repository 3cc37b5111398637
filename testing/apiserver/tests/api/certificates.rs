//! Authentication, and certificate signing requests.

use std::time::{Duration, SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use dev_apiserver::{Ca, Options, Server, SignerOptions, signing_request};
use serde_json::{Value, json};

use crate::client::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request_and_key() -> (Value, String) {
    let (pem, key) = signing_request("u", &["g1", "g2"]);
    let request = json!({
        "metadata": {"generateName": "c-"},
        "spec": {
            "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"], "expirationSeconds": 600,
        },
    });
    (request, key)
}

fn decoded(object: &Value) -> String {
    let text = object["status"]["certificate"].as_str().unwrap_or_default();
    let pem = STANDARD.decode(text).expect("base64");
    String::from_utf8(pem).expect("PEM")
}

fn signed(server: &Server, name: &str) -> String {
    let get = || server.get("certificates.k8s.io/v1", "certificatesigningrequests", "", name);
    let is_signed = || get().is_some_and(|c| c["status"]["certificate"].is_string());
    eventually("the certificate", is_signed);
    decoded(&get().expect("it was there"))
}

#[test]
fn approved_csr_gives_a_certificate_until_it_expires() {
    let signer = SignerOptions { lifetime: Duration::from_secs(4), ..SignerOptions::default() };
    let server = Server::start(Options { signer, ..Options::default() }).expect("a server");
    let client = Client::new(&server, "boot", &["starters"]);
    let (request, key) = request_and_key();
    let created = client.post(REQUESTS, request);
    assert_eq!(created.code, 201, "{}", created.text);
    assert_eq!(created.json["spec"]["username"], "boot");
    assert_eq!(created.json["spec"]["groups"], json!(["starters", "system:authenticated"]));
    let name = created.json["metadata"]["name"].as_str().expect("a name");
    let mut approved = created.json.clone();
    let condition = json!({"type": "Approved", "status": "True", "reason": "R", "message": ""});
    approved["status"]["conditions"] = json!([condition]);
    assert_eq!(client.put(&format!("{REQUESTS}/{name}/approval"), approved).code, 200);
    let pem = signed(&server, name);
    let own = Client::with(&server, Some((pem, key)));
    let who = || {
        let review = json!({"kind": "SelfSubjectReview"});
        own.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    };
    let info = who().json["status"]["userInfo"].clone();
    assert_eq!(info, json!({"username": "u", "groups": ["g1", "g2", "system:authenticated"]}));
    eventually("it expires", || who().code == 401);
    assert_eq!(who().reason(), "Unauthorized");
    assert_eq!(own.get("/readyz").code, 401);
}

#[test]
fn credentials_are_checked() {
    let (server, client) = start();
    assert_eq!(client.get(SECRETS).code, 200);
    assert_eq!(Client::with(&server, None).get(SECRETS).code, 401);
    let stranger = Ca::new("other").client_certificate("u", &[], Duration::from_secs(60));
    assert_eq!(Client::with(&server, Some(stranger)).get("/readyz").code, 401);
    let hour = Duration::from_secs(3600);
    let past = SystemTime::now() - hour;
    let expired = server.ca().client_certificate_between("u", &[], past - hour, past);
    assert_eq!(Client::with(&server, Some(expired)).get(SECRETS).code, 401);
    let token = server.token("t", &["g"]);
    let bearer = Client::with_token(&server, &token);
    assert_eq!(bearer.get(SECRETS).code, 200);
    assert_eq!(server.requests().last().map(|r| r.user.clone()), Some("t".into()));
    server.revoke(&token);
    assert_eq!(bearer.get(SECRETS).code, 401);
}
