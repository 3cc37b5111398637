//! The default user of an add-on's certificate, which is another one as of OCM 1.3.

use serde_json::json;
use suite::{spoke::AGENT, stays};

use super::support::*;

#[test]
fn certificate_of_the_former_default_user_stays() {
    let (spoke, mut agent, namespace) = stage("addon-user", &[]);
    let former = format!("{}:agent:{AGENT}", group(&spoke));
    let named = json!({"user": former, "groups": [group(&spoke)]});
    add(&spoke, &namespace, &json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    spoke.hub.approve_next(&spoke.cluster);
    let (data, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert_eq!(issued.bearer.common_name, former);
    // As before OCM 1.3 without a user.
    register(&spoke, &of_signer(KUBE_CLIENT));
    let is_kept = || {
        let now = super::support::data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET);
        csrs(&spoke).len() == 1 && now.as_ref() == Some(&data)
    };
    stays("it is kept", is_kept);
    agent.stops_as_asked();
    let agent = spoke.start(&[]);
    agent.wait_for_code("/readyz", 200);
    stays("it is kept after a restart", is_kept);
    // Another user that the add-on names counts.
    let named = json!({"user": user(&spoke), "groups": [group(&spoke)]});
    register(&spoke, &json!([{"signerName": KUBE_CLIENT, "subject": named}]));
    spoke.hub.approve_next(&spoke.cluster);
    let (_, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, Some(&data));
    assert_eq!(issued.bearer.common_name, user(&spoke));
}
