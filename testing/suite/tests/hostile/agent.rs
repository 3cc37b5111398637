//! csr-bootstrapper and a hub whose objects and errors are of any shape.

use serde_json::{Value, json};
use suite::{ocm::AUTO, pause, within};

use crate::{
    shapes,
    subjects::{Agent, about, answer},
};

#[test]
fn a_managed_cluster_of_any_shape_leaves_what_was_known_of_it() {
    let subject = Agent::new("agent-cluster");
    let agent = subject.joined(&[]);
    let faults = subject.hub().faults();
    let good = subject.spoke.hub.managed_cluster(&subject.spoke.cluster).expect("the cluster");
    for (name, value) in shapes::values() {
        let mut odd = good.clone();
        odd["spec"]["x"] = value.clone();
        subject.hub().put(odd);
        // Read again, too: as a list, and as the answer to a write.
        let list = json!({"kind": "ManagedClusterList", "metadata": {"resourceVersion": "1"}, "items": value});
        faults.add(about("managedclusters", "list", answer(200, &list)).times(1));
        faults.add(about("managedclusters", "patch", answer(200, &json!({"x": value}))).times(1));
        subject.hub().restart();
        pause(700);
        assert_eq!(agent.ask("/healthz").0, 200, "{name}");
        faults.clear();
    }
    subject.hub().put(good);
    subject.gives_signs(&agent);
    subject.container.fits(&agent);
}

#[test]
fn requests_of_any_shape_do_not_keep_it_from_its_certificate() {
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
    within(80, &format!("it joins\n{}", agent.log()), || {
        (agent.ask("/readyz").0 == 200).then_some(())
    });
    subject.container.fits(&agent);
}

/// As where the add-ons of a cluster have thousands of answered requests that nobody swept away yet.
#[test]
fn requests_are_counted_page_by_page() {
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
    within(60, &format!("it joins\n{}", agent.log()), || {
        (agent.ask("/readyz").0 == 200).then_some(())
    });
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
