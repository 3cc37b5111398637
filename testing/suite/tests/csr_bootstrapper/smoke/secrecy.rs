//! Secrets stay where they belong: not in the log, Events, objects on the hub or the command line. Nothing
//! outside its namespace is touched.

use std::fs;

use apiclient::resource::SECRETS;
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;
use suite::{
    eventually,
    identity::{Data, token_in},
    needs::{Need, needs},
    ocm::AVAILABLE,
    relay::Way,
    sidecar::Sidecar,
    spoke::{BOOTSTRAP, PENDING, SECRET, Spoke},
    stays,
};

use crate::support::{account, beats_again, joins};

/// Parts of a secret that are long enough to mean something: in PEM each line of a key; and of its base64, cut so that
/// it is found in any wrapping.
fn pieces(secret: &[u8]) -> Vec<String> {
    let (text, encoded) = (String::from_utf8_lossy(secret), BASE64_STANDARD.encode(secret));
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"+/=._-".contains(c));
    let words = words.filter(|word| word.len() >= 30).map(str::to_owned);
    let parts = encoded.as_bytes().chunks_exact(40);
    words.chain(parts.map(|part| String::from_utf8_lossy(part).into_owned())).collect()
}

#[track_caller]
fn key(data: Option<Data>) -> Vec<u8> {
    data.and_then(|mut data| data.remove("tls.key")).expect("a key")
}

#[test]
fn secret_is_seen_nowhere() {
    let spoke = Spoke::new("secrecy");
    let bootstrap = spoke.bootstrap_kubeconfig();
    spoke.put_bootstrap(&bootstrap);
    let agent = spoke.start(&[]);
    let own = spoke.directory.path().join("managed.kubeconfig");
    let own = fs::read_to_string(own).expect("its kubeconfig");
    let request = spoke.hub.next_csr(&spoke.cluster);
    let first = key(spoke.pending());
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    spoils_and_troubles(&spoke, &agent);
    let second = key(spoke.credential());
    assert_ne!(first, second);

    let log = agent.log();
    assert!(log.lines().count() > 20 && log.contains("lease renewal failed"), "{log}");
    assert!(!log.contains("hunter2") && !log.contains("BEGIN "), "{log}");
    for (place, text) in [
        ("its command line and environment", agent.command_line()),
        ("Events", json!(spoke.events()).to_string()),
        ("requests on the hub", json!(spoke.hub.csrs_of(&spoke.cluster)).to_string()),
        ("the ManagedCluster", json!(spoke.hub.managed_cluster(&spoke.cluster)).to_string()),
        ("metrics", agent.ask("/metrics").1),
        ("/readyz", agent.ask("/readyz").1),
        ("the log", log),
    ] {
        assert!(!text.contains("PRIVATE KEY"), "a key in {place}: {text}");
        let tokens = [&bootstrap, &own].map(|kubeconfig| token_in(kubeconfig).into_bytes());
        for piece in tokens.iter().chain([&first, &second]).flat_map(|secret| pieces(secret)) {
            assert!(!text.contains(&piece), "{piece} in {place}: {text}");
        }
    }
}

/// What makes it complain about credentials: spoilt ones, and servers that go away; then it has another
/// certificate.
fn spoils_and_troubles(spoke: &Spoke, agent: &Sidecar) {
    let old = spoke.credential().expect("the Secret");
    let kubeconfig = json!({"users": [{"name": "x", "user": {"token": ["hunter2"], "password": "hunter2",
        "client-key-data": String::from_utf8_lossy(&old["tls.key"])}}]});
    spoke.put_bootstrap(&kubeconfig.to_string());
    agent.wait_for("no valid bootstrap kubeconfig");
    let mut spoilt = old.clone();
    spoilt.insert("kubeconfig".into(), kubeconfig.to_string().into_bytes());
    let key = String::from_utf8_lossy(&old["tls.key"]).replace("KEY-----\n", "KEY-----\nhunter2");
    spoilt.insert("tls.key".into(), key.into_bytes());
    spoke.put_secret(SECRET, &spoilt);
    // Requested with the key in memory; the hub approves it.
    eventually("there is another certificate", || {
        let data = spoke.credential()?;
        (data["tls.crt"] != old["tls.crt"] && data["tls.key"] != spoilt["tls.key"]).then_some(())
    });
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    beats_again(agent, 1);
    spoke.hub_relay.set(Way::Closed);
    spoke.managed_relay.set(Way::Closed);
    agent.wait_for("lease renewal failed");
    spoke.hub_relay.set(Way::Open);
    spoke.managed_relay.set(Way::Open);
    beats_again(agent, 1);
}

#[test]
fn secrets_in_other_namespaces_are_unchanged() {
    let spoke = Spoke::auto("own");
    let other = spoke.managed.new_namespace("other");
    let names = [SECRET, PENDING, BOOTSTRAP, "another"];
    let put = |namespace: &str, name: &str| {
        let data = [("kubeconfig".to_owned(), b"hi".to_vec())].into();
        spoke.managed.put_secret(namespace, name, &data);
        spoke.managed.get(&SECRETS.object(namespace, name)).expect("it")
    };
    let before = names.map(|name| put(&other, name));
    let own = put(&spoke.namespace, "another");
    let _agent = joins(&spoke, &[]);
    eventually("the stored request is removed", || spoke.pending().is_none());
    let now = || names.map(|name| spoke.managed.get(&SECRETS.object(&other, name)).expect("it"));
    stays("nobody touches them", || now() == before);
    let own_after = spoke.managed.get(&SECRETS.object(&spoke.namespace, "another"));
    assert_eq!(own_after, Some(own));
    if needs(Need::Embedded, "requests are recorded there") {
        let asked = spoke.managed.requests_of(&account(&spoke));
        let mut secrets = asked.iter().filter(|request| request.resource == "secrets");
        assert!(secrets.all(|request| request.namespace == spoke.namespace), "{asked:?}");
    }
}
