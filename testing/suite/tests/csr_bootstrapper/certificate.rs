//! Helpers about certificates: a stage on which a renewal is due, answers to requests, and what comes of them. What
//! goes wrong with credentials is in `smoke` and in the model of `Certificate::sync`.

use std::time::{Duration, SystemTime};

use apiclient::{error::Error, resource::Target};
use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Ca, Request, SignerOptions};
use serde_json::{Value, json};
use suite::{
    eventually,
    identity::{Data, hub_secret},
    ocm::{self, PREFIX, ROTATED, clusters, global},
    sidecar::Sidecar,
    spoke::{AGENT, Spoke},
    throughout, within,
};

use crate::support::make_cluster;

// --- stages ---

/// A cluster whose agent has a certificate of an hour that is due for rotation, on an embedded hub that knows the
/// cluster and did not accept it: renewals wait for a person. Also what its Secret holds.
pub(crate) fn due(name: &str) -> (Spoke, Data) {
    let spoke = Spoke::new(name);
    make_cluster(&spoke, false);
    let (now, groups) = (SystemTime::now(), groups(&spoke));
    let (begin, end) = (now - Duration::from_secs(3600), now + Duration::from_secs(600));
    let groups = groups.each_ref().map(String::as_str);
    let authority = spoke.hub.cluster.server().ca();
    let pair = authority.client_certificate_between(&spoke.user(), &groups, begin, end);
    let address = spoke.hub_relay.address.to_string();
    let mut old = hub_secret(&address, &spoke.hub.cluster.ca, &pair);
    old.insert("cluster-name".into(), spoke.cluster.clone().into_bytes());
    old.insert("agent-name".into(), AGENT.into());
    spoke.put_secret(&spoke.secret, &old);
    (spoke, old)
}

/// From now on the embedded hub's certificates end after `lifetime` seconds, and begin `backdate` seconds early.
pub(crate) fn signs_for(spoke: &Spoke, lifetime: u64, backdate: u64) {
    let [lifetime, backdate] = [lifetime, backdate].map(Duration::from_secs);
    let options = SignerOptions { lifetime, backdate, auto_approve: false };
    spoke.hub.cluster.server().set_signer(options);
}

pub(crate) fn groups(spoke: &Spoke) -> [String; 2] {
    [spoke.cluster.as_str(), "managed-clusters"].map(|group| format!("{PREFIX}{group}"))
}

// --- requests ---

pub(crate) fn csr(spoke: &Spoke, name: &str) -> Option<Value> {
    spoke.hub.cluster.get(&global(&ocm::requests(), name))
}

pub(crate) fn names(spoke: &Spoke) -> Vec<String> {
    spoke.hub.csrs_of(&spoke.cluster).iter().map(name).collect()
}

pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("a name").to_owned()
}

/// The agent asks for nothing more for as long as given.
#[track_caller]
pub(crate) fn nothing_more(spoke: &Spoke, milliseconds: u64) {
    let before = names(spoke);
    throughout(milliseconds, "no other request is posted", || names(spoke) == before);
}

/// Waits for a request that is none of these.
#[track_caller]
pub(crate) fn another(spoke: &Spoke, known: &[String]) -> String {
    within(120, "another request is posted", || {
        names(spoke).into_iter().find(|name| !known.contains(name))
    })
}

/// Answers a request as a signer that no hub knows, with a certificate for this user.
pub(crate) fn sign(spoke: &Spoke, name: &str, user: &str, groups: &[&str]) {
    let csr = csr(spoke, name).expect("the CSR");
    let pem = Ca::new("signer").certificate_for(&csr, user, groups);
    let all = ocm::requests();
    let target = Target { subresource: Some("status"), ..global(&all, name) };
    let status = json!({"certificate": BASE64_STANDARD.encode(pem)});
    spoke.hub.cluster.merge(&target, &json!({"status": status}));
}

// --- outcomes ---

/// Waits for an Event of this reason; its message.
#[track_caller]
pub(crate) fn said(spoke: &Spoke, reason: &str) -> String {
    eventually(&format!("Event {reason}"), || {
        let event = spoke.events().into_iter().find(|event| event["reason"] == reason)?;
        Some(event["message"].as_str()?.to_owned())
    })
}

/// Waits until condition ClusterCertificateRotated is `status`; reason and message.
#[track_caller]
pub(crate) fn rotated(spoke: &Spoke, status: &str) -> (String, String) {
    eventually(&format!("{ROTATED} is {status}"), || {
        let (current, reason, message) = spoke.hub.condition(&spoke.cluster, ROTATED)?;
        (current == status).then_some((reason, message))
    })
}

/// The Secret holds the certificate of this request, the hub takes it, and nothing is left over.
#[track_caller]
pub(crate) fn joined_by(spoke: &Spoke, name: &str) {
    let issued = eventually("the certificate is issued", || {
        ocm::certificate(&csr(spoke, name).expect("the request"))
    });
    // After some failures the next try may take a while.
    within(40, "the Secret holds the certificate of the request", || {
        (spoke.credential()?.get("tls.crt")? == issued.as_bytes()).then_some(())
    });
    works(spoke);
    eventually("the stored request is removed", || spoke.pending().is_none());
}

/// Any consumer of the Secret can use the hub with it.
#[track_caller]
pub(crate) fn works(spoke: &Spoke) {
    let data = spoke.credential().expect("the Secret");
    kubeconfig::check_pair(&data["tls.crt"], &data["tls.key"]).expect("a pair");
    let answer = spoke.as_agent().get(&global(&clusters(), &spoke.cluster));
    assert!(matches!(answer, Ok(_) | Err(Error::Forbidden(_))), "{answer:?}");
}

/// The writes of the agent to the Secret with the credential, on the embedded server.
pub(crate) fn saves(spoke: &Spoke) -> Vec<Request> {
    let all = spoke.managed.server().requests().into_iter();
    all.filter(|request| {
        request.user.ends_with(":csr-bootstrapper") && request.resource == "secrets"
    })
    .filter(|request| ["create", "update", "patch"].contains(&request.verb.as_str()))
    .filter(|request| request.json()["metadata"]["name"] == spoke.secret.as_str())
    .collect()
}

/// What is in tls.crt and tls.key of each of these writes belongs together and is for the agent.
#[track_caller]
pub(crate) fn no_key_alone(spoke: &Spoke) {
    for save in saves(spoke) {
        let body = save.json();
        let part = |key: &str| BASE64_STANDARD.decode(body["data"][key].as_str()?).ok();
        let (certificate, key) =
            (part("tls.crt").expect("tls.crt"), part("tls.key").expect("tls.key"));
        kubeconfig::check_pair(&certificate, &key).expect("a pair");
        let bearer = dev_apiserver::Issued::of(&certificate).expect("a certificate").bearer;
        assert_eq!(bearer.common_name, spoke.user());
    }
}

/// A counter of requests that ended so.
pub(crate) fn ended(sidecar: &Sidecar, how: &str) -> f64 {
    sidecar.metric(&format!("sidecar_csr_ended_total{{reason=\"{how}\"}}")).unwrap_or_default()
}
