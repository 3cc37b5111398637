//! The CSR object: what approvers, signers and people rely on.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use dev_apiserver::Bearer;
use serde_json::{Value, json};
use suite::{
    needs::{Need, needs},
    ocm::CLUSTER_LABEL,
    spoke::Spoke,
};

use crate::certificate::support::{SIGNER, csr, groups, pem};

/// The first request of a cluster; the agent ends with this function.
fn posted(spoke: &Spoke, flags: &[&str]) -> Value {
    let _sidecar = spoke.start(flags);
    let name = spoke.hub.next_csr(&spoke.cluster);
    csr(spoke, &name).expect("the request")
}

#[test]
fn object_is_what_the_go_agent_posts() {
    let spoke = Spoke::new("object");
    let csr = posted(&spoke, &[]);
    let (metadata, spec) = (&csr["metadata"], &csr["spec"]);
    let name = metadata["name"].as_str().expect("a name");
    let hash = name.strip_prefix(&format!("{}-", spoke.cluster)).expect("the cluster's name");
    assert!(hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{name}");
    assert_eq!(metadata["labels"], json!({CLUSTER_LABEL: spoke.cluster}));
    assert_eq!(metadata["annotations"], Value::Null);
    assert_eq!(spec["signerName"], SIGNER);
    assert_eq!(spec["usages"], json!(["digital signature", "key encipherment", "client auth"]));
    assert_eq!(spec.get("expirationSeconds"), None);
    assert_eq!(spec["username"], spoke.how.user());
}

#[test]
fn object_names_the_agent_and_both_groups() {
    let spoke = Spoke::new("subject");
    let csr = posted(&spoke, &[]);
    let Bearer { common_name, mut organizations } =
        Bearer::of_request(&pem(&csr)).expect("a request");
    assert_eq!(common_name, spoke.user());
    // Groups have no order.
    organizations.sort();
    let mut groups = groups(&spoke);
    groups.sort();
    assert_eq!(organizations, groups);
}

#[test]
fn object_asks_for_the_lifetime_of_the_flag() {
    let spoke = Spoke::new("lifetime");
    let csr = posted(&spoke, &["-client-cert-expiration-seconds", "3600"]);
    assert_eq!(csr["spec"]["expirationSeconds"], 3600);
}

#[test]
fn object_holds_a_request_that_openssl_verifies() {
    if !needs(Need::Tool(&["openssl", "version"]), "there is no openssl") {
        return;
    }
    let spoke = Spoke::new("openssl");
    let text = openssl(&pem(&posted(&spoke, &[])));
    for part in ["verify OK", "ASN1 OID: prime256v1", "ecdsa-with-SHA256", "Version: 1 (0x0)"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let mut groups = groups(&spoke);
    groups.sort();
    let subject = format!("O = {}, O = {}, CN = {}", groups[0], groups[1], spoke.user());
    assert!(text.contains(&subject), "{text}");
    assert!(!text.contains("X509v3"), "{text}");
}

/// What openssl says of a request.
fn openssl(pem: &[u8]) -> String {
    let mut child = Command::new("openssl")
        .args([
            "req",
            "-noout",
            "-verify",
            "-text",
            "-nameopt",
            "RFC2253,space_eq,sep_comma_plus_space",
        ])
        .args(["-nameopt", "-dn_rev"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl starts");
    child.stdin.take().expect("its stdin").write_all(pem).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[test]
fn object_of_the_next_key_has_another_name() {
    let one = posted(&Spoke::new("keys"), &[]);
    let two = posted(&Spoke::new("keys"), &[]);
    let hash = |csr: &Value| {
        csr["metadata"]["name"].as_str().map(|name| name[name.len() - 16..].to_owned())
    };
    assert_ne!(hash(&one), hash(&two));
    assert_ne!(pem(&one), pem(&two));
}
