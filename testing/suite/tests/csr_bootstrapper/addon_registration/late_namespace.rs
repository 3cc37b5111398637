//! An add-on's namespace that comes after the add-on, as with its ManifestWork: nothing is requested twice meanwhile.

use suite::needs::{Need, needs};

use super::{support::*, token};
use crate::support::count;

#[test]
fn token_without_a_namespace_is_requested_once() {
    if !needs(Need::Embedded, "rights are in a namespace that does not exist yet") {
        return;
    }
    let (spoke, agent, _) = stage("token-unsaved", token::TOKENS);
    let namespace = format!("{}-late", spoke.namespace);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    token::wait_for_infrastructure(&spoke);
    agent.wait_for_times("the credential of an add-on is not kept", 3);
    spoke.managed.create_namespace(&namespace);
    spoke.allow_addons(&spoke.managed, &namespace);
    token::token(&spoke, &namespace, None);
    assert_eq!(count(&spoke, "create serviceaccounts/token"), 1);
}
