//! Authentication, and certificate signing requests.

use std::time::{Duration, SystemTime};

use base64::{Engine, engine::general_purpose::STANDARD};
use dev_apiserver::{Bearer, Ca, Issued, Options, Server, SignerOptions, signing_request};
use serde_json::{Value, json};

use crate::client::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request(extra: Value) -> Value {
    request_and_key(extra).0
}

fn request_and_key(extra: Value) -> (Value, String) {
    let (pem, key) = signing_request("u", &["g1", "g2"]);
    let mut object = json!({
        "metadata": {"generateName": "c-"},
        "spec": {
            "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    (object, key)
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
fn an_approved_request_is_signed_and_its_certificate_works_until_it_expires() {
    let signer = SignerOptions { lifetime: Duration::from_secs(2), ..SignerOptions::default() };
    let server = Server::start(Options { signer, ..Options::default() }).expect("a server");
    let client = Client::new(&server, "boot", &["starters"]);
    let (request, key) = request_and_key(json!({"expirationSeconds": 600}));
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
    std::thread::sleep(Duration::from_millis(2000));
    let expired = who();
    assert_eq!((expired.code, expired.reason()), (401, "Unauthorized"));
    assert_eq!(own.get("/readyz").code, 401);
    assert_eq!(server.requests().iter().filter(|r| r.user == "u").count(), 1);
}

#[test]
fn bad_requests_are_rejected() {
    let (_server, client) = start();
    for (extra, field) in [
        (json!({"request": "bm90IFBFTQ=="}), "spec.request"),
        (json!({"usages": []}), "spec.usages"),
        (json!({"expirationSeconds": 599}), "spec.expirationSeconds"),
        (json!({"signerName": "x"}), "spec.signerName"),
    ] {
        let got = client.post(REQUESTS, request(extra));
        assert_eq!((got.code, got.cause()), (422, field));
    }
}

#[test]
fn other_signers_and_denied_requests_stay_unsigned() {
    let (server, client) = start();
    let name = |got: Got| got.json["metadata"]["name"].as_str().expect("a name").to_string();
    let custom = name(client.post(REQUESTS, request(json!({"signerName": "example.com/x"}))));
    let denied = name(client.post(REQUESTS, request(Value::Null)));
    let signed_one = name(client.post(REQUESTS, request(Value::Null)));
    assert!(
        server.approve_csr(&custom) && server.deny_csr(&denied) && server.approve_csr(&signed_one)
    );
    signed(&server, &signed_one);
    for name in [custom, denied] {
        assert!(client.get(&format!("{REQUESTS}/{name}")).json["status"]["certificate"].is_null());
    }
}

#[test]
fn auto_approval() {
    let (server, client) = start();
    server.set_signer(SignerOptions { auto_approve: true, ..SignerOptions::default() });
    let created = client.post(REQUESTS, request(Value::Null)).json;
    signed(&server, created["metadata"]["name"].as_str().expect("a name"));
}

#[test]
fn credentials() {
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

#[test]
fn service_account_tokens() {
    let (server, client) = start();
    let path = "/api/v1/namespaces/a/serviceaccounts";
    let review = json!({"kind": "TokenRequest", "spec": {"expirationSeconds": 600}});
    assert_eq!(client.post(&format!("{path}/robot/token"), review.clone()).code, 404);
    client.post(path, json!({"metadata": {"name": "robot"}}));
    let got = client.post(&format!("{path}/robot/token"), review);
    assert_eq!(got.code, 201);
    let robot = Client::with_token(&server, got.json["status"]["token"].as_str().expect("a token"));
    let review = json!({"kind": "SelfSubjectReview"});
    let who = robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review).json;
    assert_eq!(
        who["status"]["userInfo"],
        json!({
            "username": "system:serviceaccount:a:robot",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
        })
    );
}

#[test]
fn a_second_server_can_reuse_the_ca() {
    let (first, client) = start();
    let options = Options { ca: Some(first.ca().clone()), ..Options::default() };
    let second = Server::start(options).expect("a server");
    let pair = first.client_certificate("u", &[], Duration::from_secs(60));
    assert_eq!(Client::with(&second, Some(pair)).get("/api/v1/namespaces").code, 200);
    assert_eq!(client.get("/version").code, 200);
}

#[test]
fn subjects_and_validity_can_be_read() {
    let ca = Ca::new("a");
    let (pem, _) = ca.client_certificate("u", &["g1", "g2"], Duration::from_secs(60));
    let issued = Issued::of(pem.as_bytes()).expect("a certificate");
    let bearer = Bearer { common_name: "u".into(), organizations: vec!["g1".into(), "g2".into()] };
    assert_eq!(issued.bearer, bearer);
    assert!(issued.not_before < SystemTime::now() && SystemTime::now() < issued.not_after);
    let (request, key) = signing_request("u", &["g1", "g2"]);
    assert_eq!(Bearer::of_request(request.as_bytes()), Some(bearer));
    assert_eq!((Bearer::of_request(key.as_bytes()), Issued::of(request.as_bytes())), (None, None));
}
