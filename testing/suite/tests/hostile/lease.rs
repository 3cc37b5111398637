//! addon-lease-controller and servers whose answers are too large, odd or endless.

use apiclient::time::micro_time;
use dev_apiserver::Action;
use serde_json::json;
use std::time::SystemTime;
use suite::{faults::answer, scene::ADDON, within};

use crate::{
    shapes,
    subjects::{Lease, about},
};

/// A Lease of the right name that says this beside.
fn lease(subject: &Lease, more: &serde_json::Value) -> serde_json::Value {
    let now = micro_time(SystemTime::now());
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": ADDON, "namespace": subject.scene.cluster, "resourceVersion": "1", "uid": "u"},
        "spec": {"renewTime": now, "x": more},
    })
}

#[test]
fn oversized_lease_fails_only_its_request() {
    let subject = Lease::new("lease-shapes");
    let sidecar = subject.start();
    subject.renews(&sidecar);
    let faults = subject.scene.hub.faults();
    for (name, value) in shapes::values() {
        let before = sidecar.count("needs more than 64 KiB of memory");
        let rules = ["update", "get"].map(|verb| {
            faults.add(about("leases", verb, answer(200, lease(&subject, &value))).times(2))
        });
        within(20, &format!("{name} is asked for"), || {
            rules.iter().any(|rule| faults.hits(*rule) > 0)
        });
        within(20, &format!("{name} is answered"), || {
            sidecar.count("needs more than 64 KiB of memory") > before
        });
        assert_eq!(sidecar.ask("/healthz").0, 200, "{name}");
        faults.clear();
        // So that the next one is news.
        subject.renews(&sidecar);
    }
    subject.container.fits(&sidecar);
}

#[test]
fn oversized_errors_take_no_memory() {
    let subject = Lease::new("lease-refusals");
    let sidecar = subject.start();
    subject.renews(&sidecar);
    let faults = subject.scene.hub.faults();
    let struck = |rule| {
        let rule = faults.add(rule);
        within(20, "it is asked for", || faults.hits(rule) > 0);
        // The answer is read by then.
        subject.renews(&sidecar);
        faults.clear();
    };
    for (_, value) in shapes::values() {
        let status =
            json!({"kind": "Status", "code": 500, "message": "no", "details": {"causes": value}});
        struck(about("leases", "update", answer(500, &status)).times(2));
    }
    for bytes in [16 << 20, 256 << 20] {
        struck(about("leases", "update", Action::HugeBody { bytes }).times(1));
    }
    subject.renews(&sidecar);
    subject.container.fits(&sidecar);
}

#[test]
fn oversized_pod_is_reported_and_renewals_go_on() {
    let subject = Lease::new("lease-pod");
    let sidecar = subject.start();
    subject.renews(&sidecar);
    // The last of them fits.
    for (name, value) in shapes::values().into_iter().filter(|(name, _)| *name != "quotes") {
        // So that each is news.
        subject.put_pod(&json!({}));
        let before = sidecar.count("needs more than");
        subject.put_pod(&json!({"x": value}));
        within(20, name, || sidecar.count("needs more than") > before);
        subject.renews(&sidecar);
    }
    let remarks = sidecar.ask("/readyz");
    assert!(remarks.0 == 200 && remarks.1.contains("needs more than"), "{remarks:?}");
    subject.put_pod(&json!({}));
    within(20, "the remark goes", || !sidecar.ask("/readyz").1.contains("needs more than"));
    subject.container.fits(&sidecar);
}
