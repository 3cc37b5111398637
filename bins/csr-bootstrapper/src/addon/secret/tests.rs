use serde_json::json;

use super::*;

#[test]
fn secret_is_ours_if_it_says_so_or_is_empty() {
    let (c1, c2) = ("YzE=", "YzI=");
    for ours in [
        json!({"data": {"cluster-name": c1, "tls.crt": "eA=="}}),
        json!({"data": {"cluster-name": c1}, "type": "Opaque"}),
        json!({"data": {}}),
        json!({}),
    ] {
        assert_eq!(conflict_of(&ours, "c1"), None, "{ours}");
    }
    for other in [
        json!({"data": {"cluster-name": c2, "tls.crt": ""}}),
        json!({"data": {"tls.crt": ""}}),
        json!({"data": {"cluster-name": "%"}}),
        json!({"data": {"cluster-name": c1}, "type": "kubernetes.io/tls"}),
        json!({"data": {"cluster-name": c1}, "immutable": true}),
        json!({"type": "kubernetes.io/service-account-token"}),
    ] {
        assert!(conflict_of(&other, "c1").is_some(), "{other}");
    }
}
