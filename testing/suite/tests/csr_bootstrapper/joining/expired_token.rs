//! Several hubs, and bootstrap tokens that have expired: they live for hours, and certificates are renewed without them.

use std::{fs, path::Path};

use serde_json::{Value, json};
use suite::{ocm::Bootstrap, stays};

use super::two_hubs::TwoHubs;
use crate::support::{beats_again, renews};

/// Leaves a token in the kubeconfig that no hub knows.
fn expire(file: &Path) {
    let text = fs::read_to_string(file).expect("the kubeconfig");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["users"][0]["user"] = json!({"token": "expired"});
    fs::write(file, config.to_string()).expect("the file is written");
}

#[test]
fn restart_with_an_expired_bootstrap_token_keeps_the_hub() {
    let stage = TwoHubs::new("expired-token", Bootstrap::Auto);
    let mut agent = stage.joins_first(&[]);
    agent.stops_as_asked();
    expire(&stage.files[0]);
    let agent = stage.start(&[]);
    beats_again(&agent, 1);
    renews(&stage.spoke);
    stays("the second hub hears nothing of the cluster", || {
        stage.second.managed_cluster(&stage.spoke.cluster).is_none()
    });
    agent.wait_for_code("/readyz", 200);
}
