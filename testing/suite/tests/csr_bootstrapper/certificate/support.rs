//! Helpers of these tests: a stage on which a renewal is due, answers to requests, and what comes of them.

use std::time::{Duration, SystemTime};

use apiclient::{error::Error, resource::Target};
use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Request, signing_request};
use serde_json::{Value, json};
use suite::{
    eventually,
    identity::{Data, hub_secret},
    ocm::{self, CLUSTER_LABEL, PREFIX, ROTATED, clusters, global},
    sidecar::Sidecar,
    spoke::{AGENT, Spoke},
    throughout, within,
};

use crate::certificate::forge::Subject;

pub(crate) const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

// --- stages ---

/// A cluster whose agent has a certificate that is due for rotation, on an embedded hub that knows the
/// cluster and did not accept it: renewals wait for a person. Also what its Secret holds.
pub(crate) fn due(name: &str) -> (Spoke, Data) {
    due_with(name, 600)
}

/// The same with so many seconds left.
pub(crate) fn due_with(name: &str, left: u64) -> (Spoke, Data) {
    let spoke = Spoke::new(name);
    introduce(&spoke);
    let old = credential(&spoke, hour_old(&spoke, left));
    spoke.put_secret(&spoke.secret, &old);
    (spoke, old)
}

/// Tells the hub of the cluster, as its agent did when it joined.
pub(crate) fn introduce(spoke: &Spoke) {
    let clusters = clusters();
    let body = json!({
        "apiVersion": clusters.api_version(), "kind": clusters.kind,
        "metadata": {"name": spoke.cluster}, "spec": {"hubAcceptsClient": false},
    });
    spoke.hub.cluster.create(&global(&clusters, &spoke.cluster).siblings(), &body);
}

fn hour_old(spoke: &Spoke, left: u64) -> (String, String) {
    let (now, groups) = (SystemTime::now(), groups(spoke));
    let groups: Vec<_> = groups.iter().map(String::as_str).collect();
    let (hour, rest) = (Duration::from_secs(3600), Duration::from_secs(left));
    let authority = spoke.hub.cluster.server().ca();
    authority.client_certificate_between(&spoke.user(), &groups, now - hour, now + rest)
}

/// A Secret as the agent leaves it.
pub(crate) fn credential(spoke: &Spoke, pair: (String, String)) -> Data {
    let address = spoke.hub_relay.address.to_string();
    let mut data = hub_secret(&address, &spoke.hub.cluster.ca, &pair);
    data.insert("cluster-name".into(), spoke.cluster.clone().into_bytes());
    data.insert("agent-name".into(), AGENT.into());
    data
}

pub(crate) fn groups(spoke: &Spoke) -> [String; 2] {
    [spoke.cluster.as_str(), "managed-clusters"].map(|group| format!("{PREFIX}{group}"))
}

/// What the agent asks for.
pub(crate) fn subject(spoke: &Spoke, from: i64, until: i64) -> Subject {
    Subject { user: spoke.user(), groups: groups(spoke).to_vec(), from, until }
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

pub(crate) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// What was asked with.
pub(crate) fn pem(csr: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(csr["spec"]["request"].as_str().expect("a request")).expect("base64")
}

pub(crate) fn delete(spoke: &Spoke, name: &str) {
    spoke.hub.cluster.delete(&global(&ocm::requests(), name));
}

/// The agent asks for nothing more for as long as given.
#[track_caller]
pub(crate) fn nothing_more(spoke: &Spoke, milliseconds: u64) {
    let before = names(spoke);
    throughout(milliseconds, "no other request is posted", || names(spoke) == before);
}

/// Another request as the administrator would post it, by hand: its name.
pub(crate) fn post(spoke: &Spoke, metadata: Value, request: &[u8]) -> String {
    let all = ocm::requests();
    let mut metadata = metadata;
    metadata["labels"] = json!({CLUSTER_LABEL: spoke.cluster});
    let body = json!({
        "apiVersion": all.api_version(), "kind": all.kind, "metadata": metadata,
        "spec": {
            "request": BASE64_STANDARD.encode(request), "signerName": SIGNER,
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    });
    name(&spoke.hub.cluster.create(&global(&all, "").siblings(), &body))
}

/// Requests for `user` of this cluster, as so many restarts of a forgetful agent leave them.
pub(crate) fn post_some(spoke: &Spoke, count: usize, user: &str) -> Vec<String> {
    let groups = groups(spoke);
    let groups: Vec<_> = groups.iter().map(String::as_str).collect();
    let metadata = json!({"generateName": format!("{}-", spoke.cluster)});
    (0..count)
        .map(|_| post(spoke, metadata.clone(), signing_request(user, &groups).0.as_bytes()))
        .collect()
}

/// The certificate that the hub's signer gives for the key of `csr`, got by a request of the suite's.
pub(crate) fn signed(spoke: &Spoke, csr: &Value) -> String {
    let name = post(spoke, json!({"generateName": "elsewhere-"}), &pem(csr));
    spoke.hub.approve_csr(&name);
    let certificate =
        eventually("the signer signs", || ocm::certificate(&self::csr(spoke, &name)?));
    delete(spoke, &name);
    certificate
}

/// Changes the status of a request as a signer does.
pub(crate) fn answer(spoke: &Spoke, name: &str, change: impl Fn(&mut Value)) {
    let all = ocm::requests();
    let target = Target { subresource: Some("status"), ..global(&all, name) };
    eventually(&format!("{name} is answered"), || {
        let mut request = csr(spoke, name).expect("the request");
        change(&mut request["status"]);
        match spoke.hub.cluster.client.replace(&target, &request) {
            Err(Error::Conflict(_)) => None,
            answer => Some(answer.unwrap_or_else(|error| panic!("{error}"))),
        }
    });
}

/// Answers a request with this certificate, whatever it is.
pub(crate) fn issue(spoke: &Spoke, name: &str, pem: impl AsRef<[u8]>) {
    let text = BASE64_STANDARD.encode(pem);
    answer(spoke, name, |status| status["certificate"] = json!(text));
}

/// The signer gives up.
pub(crate) fn fail(spoke: &Spoke, name: &str) {
    let condition = json!({
        "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": "no luck",
    });
    answer(spoke, name, |status| match status["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition.clone()),
        None => status["conditions"] = json!([condition]),
    });
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
    eventually("the stored request is removed", || spoke.pending().is_none().then_some(()));
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
