//! The two hubs compared: an agent that is played by hand gets the same answers from either.

use std::time::{Duration, SystemTime};

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Issued, signing_request};
use serde_json::{Value, json};
use shared::{
    client::{Client, Patch, Reload, Timeouts},
    error::{Error, Result},
    kubeconfig::{self, Reach},
    resource::{LEASES, Target},
    time::micro_time,
};
use suite::{
    eventually,
    identity::hub_secret,
    ocm::{self, ACCEPTED, AVAILABLE, CLUSTER_LABEL, HEARTBEAT, PREFIX, SYNCED, clusters, global},
    pause, real,
    spoke::{SECRET, Spoke},
    throughout,
};

// --- the agent by hand ---

/// A client with the bootstrap identity.
fn bootstrap(spoke: &Spoke) -> Client {
    let file = spoke.write_bootstrap(&spoke.bootstrap_kubeconfig());
    let access = kubeconfig::from_file(&file, Reach::Anywhere).expect("a kubeconfig");
    let timing = Timeouts::with_request(Duration::from_secs(10));
    Client::new("hub", access, Reload::Never, timing).expect("a client")
}

fn register(spoke: &Spoke, client: &Client) -> Value {
    let clusters = clusters();
    let body = json!({
        "apiVersion": clusters.api_version(), "kind": clusters.kind,
        "metadata": {"name": spoke.cluster}, "spec": {"hubAcceptsClient": false},
    });
    client.create(&global(&clusters, &spoke.cluster).siblings(), &body).expect("it may register")
}

/// Asks for a certificate; the request's name and the key.
fn request(spoke: &Spoke, client: &Client) -> Result<(String, String)> {
    let group = format!("{PREFIX}{}", spoke.cluster);
    request_as(spoke, client, &spoke.user(), &[&group, &format!("{PREFIX}managed-clusters")])
}

fn request_as(
    spoke: &Spoke,
    client: &Client,
    user: &str,
    groups: &[&str],
) -> Result<(String, String)> {
    let (pem, key) = signing_request(user, groups);
    let all = ocm::requests();
    let target = Target { resource: &all, namespace: None, name: None, subresource: None };
    let labels = json!({CLUSTER_LABEL: spoke.cluster});
    let body = json!({
        "apiVersion": all.api_version(), "kind": all.kind,
        "metadata": {"generateName": format!("{}-", spoke.cluster), "labels": labels},
        "spec": {
            "request": BASE64_STANDARD.encode(pem),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    });
    let created = client.create(&target, &body)?;
    Ok((created["metadata"]["name"].as_str().expect("a name").to_owned(), key))
}

fn find(spoke: &Spoke, name: &str) -> Value {
    let all = spoke.hub.csrs_of(&spoke.cluster);
    all.into_iter().find(|request| request["metadata"]["name"] == name).expect("the request")
}

/// Waits for the certificate and puts it into the Secret.
fn collect(spoke: &Spoke, (name, key): (String, String)) -> Issued {
    let certificate =
        eventually("the certificate is signed", || ocm::certificate(&find(spoke, &name)));
    let address = spoke.hub_relay.address.to_string();
    let data = hub_secret(&address, &spoke.hub.cluster.ca, &(certificate, key));
    spoke.put_secret(SECRET, &data);
    spoke.wait_for_certificate()
}

/// Registers, asks, is approved and accepted by a person; the agent's client.
fn join(spoke: &Spoke) -> Client {
    let client = bootstrap(spoke);
    register(spoke, &client);
    let request = request(spoke, &client).expect("it may ask");
    spoke.hub.approve_csr(&request.0);
    collect(spoke, request);
    spoke.hub.accept(&spoke.cluster);
    spoke.hub.wait_for_condition(&spoke.cluster, ACCEPTED, "True");
    eventually("the Lease is there", || spoke.hub.heartbeat(&spoke.cluster));
    spoke.as_agent()
}

/// A heartbeat as the Go agent sends it.
fn beat(spoke: &Spoke, agent: &Client, at: SystemTime) {
    let target = LEASES.object(&spoke.cluster, HEARTBEAT);
    eventually("the Lease is renewed", || {
        let mut lease = agent.get(&target).ok()?;
        lease["spec"]["renewTime"] = json!(micro_time(at));
        agent.replace(&target, &lease).ok()
    });
}

/// Says that the cluster is available, as the agent's status does.
fn report(spoke: &Spoke, agent: &Client) {
    let clusters = clusters();
    let target = global(&clusters, &spoke.cluster);
    eventually("the status is written", || {
        let cluster = agent.get(&target).ok()?;
        let mut conditions = cluster["status"]["conditions"].as_array()?.clone();
        conditions.retain(|condition| condition["type"] != AVAILABLE);
        conditions.push(json!({
            "type": AVAILABLE, "status": "True", "reason": "ManagedClusterAvailable",
            "message": "Managed cluster is available",
            "lastTransitionTime": cluster["metadata"]["creationTimestamp"],
        }));
        let version = &cluster["metadata"]["resourceVersion"];
        let patch = json!({
            "metadata": {"uid": cluster["metadata"]["uid"], "resourceVersion": version},
            "status": {"conditions": conditions},
        });
        let status = Target { subresource: Some("status"), ..target };
        agent.patch(&status, Patch::Merge, &patch).ok()
    });
}

#[track_caller]
fn wait_for_taints(spoke: &Spoke, keys: &[&str]) {
    eventually(&format!("the taints are {keys:?}"), || {
        let cluster = spoke.hub.managed_cluster(&spoke.cluster)?;
        let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().map(|taint| &taint["key"]).eq(keys).then_some(())
    });
}

// --- the hub ---

#[test]
fn hub_waits_for_a_person() {
    let spoke = Spoke::new("hub-person");
    let client = bootstrap(&spoke);
    let created = register(&spoke, &client);
    assert_eq!(created["spec"]["leaseDurationSeconds"], 60, "the definition's default");
    let (name, _) = request(&spoke, &client).expect("it may ask");
    throughout(1500, "nobody decided", || {
        ocm::reasons(&find(&spoke, &name)).is_empty()
            && spoke.hub.condition(&spoke.cluster, ACCEPTED).is_none()
            && spoke.hub.heartbeat(&spoke.cluster).is_none()
    });
    spoke.hub.deny_csr(&name);
    assert_eq!(ocm::reasons(&find(&spoke, &name)), ["Suite"]);
}

#[test]
fn hub_gives_an_accepted_cluster_its_lease() {
    let spoke = Spoke::new("hub-accepts");
    join(&spoke);
    let message = "Accepted by hub cluster admin".to_owned();
    assert_eq!(
        spoke.hub.condition(&spoke.cluster, ACCEPTED),
        Some(("True".into(), "HubClusterAdminAccepted".into(), message))
    );
    let lease = spoke.hub.heartbeat(&spoke.cluster).expect("the Lease");
    assert_eq!(lease["metadata"]["labels"], json!({CLUSTER_LABEL: spoke.cluster}));
    assert_eq!(lease["spec"]["holderIdentity"], HEARTBEAT);
    assert_eq!(lease["spec"].as_object().map(serde_json::Map::len), Some(2), "{lease}");
    assert_eq!(spoke.hub.condition(&spoke.cluster, SYNCED), None, "nobody renewed it yet");
}

#[test]
fn hub_notices_life_and_silence() {
    let spoke = Spoke::new("hub-heartbeat");
    let agent = join(&spoke);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beat(&spoke, &agent, SystemTime::now());
    report(&spoke, &agent);
    let reason = spoke.hub.wait_for_condition(&spoke.cluster, SYNCED, "True");
    assert_eq!(reason, "ManagedClusterClockSynced");
    wait_for_taints(&spoke, &[]);
    let reason = spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "Unknown");
    assert_eq!(reason, "ManagedClusterLeaseUpdateStopped");
    wait_for_taints(&spoke, &["cluster.open-cluster-management.io/unreachable"]);

    // A heartbeat alone does not bring it back: the agent has to say so.
    beat(&spoke, &agent, SystemTime::now());
    throughout(1000, "it is unknown", || {
        spoke.hub.condition(&spoke.cluster, AVAILABLE).is_some_and(|it| it.0 == "Unknown")
    });
    beat(&spoke, &agent, SystemTime::now());
    report(&spoke, &agent);
    throughout(2000, "it is available", || {
        spoke.hub.condition(&spoke.cluster, AVAILABLE).is_some_and(|it| it.0 == "True")
    });
}

#[test]
fn hub_reports_a_wrong_clock() {
    let spoke = Spoke::new("hub-clock");
    let agent = join(&spoke);
    beat(&spoke, &agent, SystemTime::now() + Duration::from_secs(3600));
    let reason = spoke.hub.wait_for_condition(&spoke.cluster, SYNCED, "False");
    assert_eq!(reason, "ManagedClusterClockOutOfSync");
    beat(&spoke, &agent, SystemTime::now());
    spoke.hub.wait_for_condition(&spoke.cluster, SYNCED, "True");
}

#[test]
fn hub_approves_renewals_of_accepted_clusters() {
    let spoke = Spoke::new("hub-renewal");
    let agent = join(&spoke);
    // The real hub's caches may know the approval before the role.
    let renewal = eventually("it may ask again", || request(&spoke, &agent).ok());
    let name = renewal.0.clone();
    collect(&spoke, renewal);
    assert_eq!(ocm::reasons(&find(&spoke, &name)), ["AutoApprovedByHubCSRApprovingController"]);

    // A name that only begins like its own is another cluster's.
    let group = format!("{PREFIX}{}", spoke.cluster);
    let (foreign, _) =
        request_as(&spoke, &agent, &format!("{group}2:agent1"), &[&group]).expect("it may ask");
    let (masters, _) =
        request_as(&spoke, &agent, &spoke.user(), &[&group, "b"]).expect("it may ask");
    throughout(1500, "nobody approves that", || {
        [&foreign, &masters].iter().all(|name| ocm::reasons(&find(&spoke, name)).is_empty())
    });
}

#[test]
fn hub_denies_again() {
    let spoke = Spoke::new("hub-denies");
    let agent = join(&spoke);
    spoke.hub.deny(&spoke.cluster);
    let reason = spoke.hub.wait_for_condition(&spoke.cluster, ACCEPTED, "False");
    assert_eq!(reason, "HubClusterAdminDenied");
    assert!(spoke.hub.heartbeat(&spoke.cluster).is_some(), "what it had stays");
    // Without rights on the embedded server, the request is only not approved.
    pause(500);
    match request(&spoke, &agent) {
        Ok((name, _)) if !real() => throughout(1000, "nobody approves that", || {
            ocm::reasons(&find(&spoke, &name)).is_empty()
        }),
        Err(Error::Forbidden(_)) if real() => {}
        other => panic!("{other:?}"),
    }
    spoke.hub.accept(&spoke.cluster);
    spoke.hub.wait_for_condition(&spoke.cluster, ACCEPTED, "True");
}

#[test]
fn hub_takes_trusted_clusters_without_a_word() {
    let spoke = Spoke::auto("hub-auto");
    let client = bootstrap(&spoke);
    register(&spoke, &client);
    let request = request(&spoke, &client).expect("it may ask");
    let name = request.0.clone();
    let issued = collect(&spoke, request);
    // The real signer sorts them.
    let mut groups = issued.bearer.organizations;
    groups.sort();
    assert_eq!(
        groups,
        [spoke.cluster.as_str(), "managed-clusters"].map(|o| format!("{PREFIX}{o}"))
    );
    assert_eq!(ocm::reasons(&find(&spoke, &name)), ["AutoApprovedByHubCSRApprovingController"]);
    spoke.hub.wait_for_condition(&spoke.cluster, ACCEPTED, "True");

    // Once is enough: a person's word stands.
    spoke.hub.deny(&spoke.cluster);
    spoke.hub.wait_for_condition(&spoke.cluster, ACCEPTED, "False");
    throughout(1000, "it stays denied", || {
        spoke.hub.condition(&spoke.cluster, ACCEPTED).is_some_and(|it| it.0 == "False")
    });
}

#[test]
fn hub_lets_a_deleted_cluster_go() {
    let spoke = Spoke::new("hub-deletes");
    join(&spoke);
    spoke.hub.delete(&spoke.cluster);
    eventually("the cluster is gone", || {
        spoke.hub.managed_cluster(&spoke.cluster).is_none().then_some(())
    });
}
