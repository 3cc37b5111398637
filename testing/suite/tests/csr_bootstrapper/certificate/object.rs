//! The CSR object: what approvers, signers and people rely on.

use serde_json::{Value, json};
use suite::{ocm::CLUSTER_LABEL, spoke::Spoke};

use crate::certificate::support::{SIGNER, csr};

/// The first request of a cluster; the agent ends with this function.
fn posted(spoke: &Spoke, flags: &[&str]) -> Value {
    let _sidecar = spoke.start(flags);
    let name = spoke.hub.next_csr(&spoke.cluster);
    csr(spoke, &name).expect("the request")
}

#[test]
fn csr_is_what_the_go_agent_posts() {
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
fn csr_asks_for_the_lifetime_of_the_flag() {
    let spoke = Spoke::new("lifetime");
    let csr = posted(&spoke, &["-client-cert-expiration-seconds", "3600"]);
    assert_eq!(csr["spec"]["expirationSeconds"], 3600);
}
