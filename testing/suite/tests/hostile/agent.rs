//! csr-bootstrapper and a hub whose objects and errors are of any shape.

use serde_json::{Value, json};
use suite::{faults::answer, ocm::AUTO, pause, within};

use crate::{
    shapes,
    subjects::{Agent, about},
};

#[test]
fn csrs_of_any_shape_keep_it_from_no_certificate() {
    let subject = Agent::new("agent-csr");
    let faults = subject.hub().faults();
    for (_, value) in shapes::values() {
        let resource = "certificatesigningrequests";
        let list = json!({"kind": "CertificateSigningRequestList", "metadata": {}, "items": value});
        let status =
            json!({"kind": "Status", "code": 503, "message": "x", "details": {"causes": value}});
        let csr = json!({"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1",
            "metadata": {"name": "x"}, "status": value});
        faults.add(about(resource, "list", answer(200, &list)).times(1));
        faults.add(about(resource, "create", answer(503, &status)).times(1));
        faults.add(about(resource, "get", answer(200, &csr)).times(1));
    }
    let agent = subject.start();
    pause(8000);
    faults.clear();
    within(80, &format!("it joins\n{}", agent.log()), || agent.ask("/readyz").0 == 200);
    subject.container.fits(&agent);
}

/// As where the add-ons of a cluster have thousands of answered requests that nobody swept away yet.
#[test]
fn csrs_are_counted_page_by_page() {
    let subject = Agent::new("agent-count");
    let cluster = &subject.spoke.cluster;
    assert!(cluster.starts_with(AUTO));
    let request = |name: String, addon: Value, conditions: Value| {
        subject.hub().put(json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name, "labels": {
                "open-cluster-management.io/cluster-name": cluster,
                "open-cluster-management.io/addon-name": addon,
            }},
            "spec": {"request": "x".repeat(1500), "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["digital signature", "key encipherment", "client auth"]},
            "status": {"conditions": conditions},
        }));
    };
    for index in 0..4000 {
        request(
            format!("addon-{cluster}-{index}"),
            json!("a"),
            json!([{"type": "Approved", "status": "True"}]),
        );
    }
    let agent = subject.start();
    within(60, &format!("it joins\n{}", agent.log()), || agent.ask("/readyz").0 == 200);
    let lists: Vec<String> = subject
        .hub()
        .requests()
        .into_iter()
        .filter(|it| it.verb == "list" && it.resource == "certificatesigningrequests")
        .filter(|it| it.query.contains("labelSelector"))
        .map(|it| it.query)
        .collect();
    assert!(lists.len() >= 8 && lists.iter().all(|query| query.contains("limit=500")), "{lists:?}");
    subject.container.fits(&agent);
}
