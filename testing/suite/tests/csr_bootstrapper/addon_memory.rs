//! Add-ons of any length fit into the memory that the manifests allow: a hub must not end the heartbeat with them.

use serde_json::json;
use suite::{
    eventually,
    needs::{Need, needs},
    within,
};

use crate::{
    addon_registration::support::{CUSTOM, add, add_another, csrs, of_signer, stage},
    support::beats_again,
};

/// The limit of `manifests/csr-bootstrapper/deployment.yaml`, in KiB.
const LIMIT: u64 = 32 << 10;

/// All conditions that an agent looks at, with the longest messages that their CRD allows.
#[test]
fn conditions_of_200_addons_fit_into_32_mib() {
    let (spoke, mut agent, namespace) = stage("addon-memory", &[]);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    let message = "m".repeat(32 << 10);
    let kinds =
        ["Available", "ClusterCertificateRotated", "TokenRefreshed", "TokenInfrastructureReady"];
    let conditions = kinds.map(|kind| {
        json!({"type": kind, "status": "Unknown", "reason": "X", "message": message,
            "lastTransitionTime": "2026-11-23T00:00:00Z"})
    });
    let status = json!({"conditions": conditions, "healthCheck": {"mode": "Customized"}});
    for number in 0..200 {
        let name = format!("a{number}");
        spoke.hub.add_addon(&spoke.cluster, &name, &namespace);
        spoke.hub.set_addon_status(&spoke.cluster, &name, &status);
    }
    add(&spoke, &namespace, &of_signer(CUSTOM));
    eventually("a CSR is posted for the last one", || !csrs(&spoke).is_empty());
    for restarts in [false, true] {
        if restarts {
            agent.kill();
            agent = spoke.start(&[]);
            agent.wait_for_code("/readyz", 200);
        }
        beats_again(&agent, 1);
        let peak = agent.memory("VmHWM");
        assert!(peak < LIMIT, "{peak} KiB");
    }
}

/// Somebody else's keys in the add-ons' Secrets, of any cluster, or one of our own.
#[test]
fn secrets_of_40_addons_with_900_kib_each_fit_into_32_mib() {
    if !needs(Need::Embedded, "they would fill the real server's audit log, which the audits read")
    {
        return;
    }
    let (spoke, agent, namespace) = stage("addon-secrets", &[]);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    let large = "x".repeat(900 << 10).into_bytes();
    for number in 0..40 {
        let cluster = if number % 2 == 0 { &*spoke.cluster } else { "other" };
        let key = if number % 4 == 0 { "large" } else { "tls.crt" };
        let data = [(key, large.clone()), ("cluster-name", cluster.into())];
        let data = data.map(|(key, value)| (key.to_owned(), value)).into();
        let name = format!("a{number}");
        spoke.managed.put_secret(&namespace, &format!("{name}-hub-kubeconfig"), &data);
        add_another(&spoke.hub, &spoke.cluster, &name, &namespace);
    }
    // Debug builds need most of a minute for these 36 MB.
    within(120, "all were read", || agent.count("another cluster's") == 20);
    beats_again(&agent, 1);
    let peak = agent.memory("VmHWM");
    assert!(peak < LIMIT, "{peak} KiB");
}
