//! Add-ons of any length fit into the memory that the manifests allow: a hub must not end the heartbeat with them.

use serde_json::{Value, json};
use suite::{eventually, sidecar::Sidecar, spoke::Spoke};

use crate::{
    addon_registration::support::CUSTOM,
    support::{beats_again, joined},
};

/// The limit of `manifests/csr-bootstrapper/deployment.yaml`, in KiB.
const LIMIT: u64 = 32 << 10;

/// All conditions that an agent looks at, with the longest messages that their CRD allows.
fn conditions() -> Value {
    let message = "m".repeat(32 << 10);
    let kinds =
        ["Available", "ClusterCertificateRotated", "TokenRefreshed", "TokenInfrastructureReady"];
    let of_kind = |kind| {
        json!({"type": kind, "status": "Unknown", "reason": "X", "message": message,
            "lastTransitionTime": "2026-11-23T00:00:00Z"})
    };
    kinds.map(of_kind).into()
}

/// Installs this many add-ons with such conditions, and waits until the agent serves the last one.
fn install(spoke: &Spoke, count: usize) {
    let (namespace, conditions) = (spoke.addon_namespace(), conditions());
    for number in 0..count {
        let name = format!("a{number}");
        spoke.hub.add_addon(&spoke.cluster, &name, &namespace);
        let status = json!({"conditions": conditions, "healthCheck": {"mode": "Customized"}});
        spoke.hub.set_addon_status(&spoke.cluster, &name, &status);
    }
    spoke.hub.add_addon(&spoke.cluster, "last", &namespace);
    let status = json!({"registrations": [{"signerName": CUSTOM}]});
    spoke.hub.set_addon_status(&spoke.cluster, "last", &status);
    eventually("a CSR is posted for the last one", || has_csr(spoke, "last"));
}

fn fits(agent: &Sidecar) {
    beats_again(agent, 1);
    let peak = agent.memory("VmHWM");
    assert!(peak < LIMIT, "{peak} KiB");
}

#[test]
fn conditions_of_200_addons_fit_into_32_mib() {
    let (spoke, mut agent) = joined("addon-memory", &[]);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    install(&spoke, 200);
    fits(&agent);
    agent.kill();
    let agent = spoke.start(&[]);
    agent.wait_for_code("/readyz", 200);
    fits(&agent);
}

fn has_csr(spoke: &Spoke, addon: &str) -> bool {
    let label = "open-cluster-management.io/addon-name";
    spoke.hub.csrs_of(&spoke.cluster).iter().any(|csr| csr["metadata"]["labels"][label] == addon)
}
