//! Secrets stay where they belong: not in the log, Events, objects on the hub or the command line. Nothing
//! outside its namespace is touched.

use std::{collections::BTreeMap, fs};

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

/// Words that are long enough to mean something, of all that must not be seen: in PEM each line of a key.
fn pieces(secret: &str) -> Vec<String> {
    let words = secret.split(|c: char| !c.is_ascii_alphanumeric() && !"+/=._-".contains(c));
    words.filter(|word| word.len() >= 30).map(str::to_owned).collect()
}

/// A secret's pieces, plain and in base64.
fn all_pieces(secret: &[u8]) -> Vec<String> {
    let mut all = pieces(&String::from_utf8_lossy(secret));
    let encoded = BASE64_STANDARD.encode(secret);
    // Cut, so that it is found in any wrapping and wherever its last bytes differ.
    all.extend(
        encoded.as_bytes().chunks_exact(40).map(|c| String::from_utf8_lossy(c).into_owned()),
    );
    all
}

/// The keys and the token of all that this cluster ever used.
struct Secrets(BTreeMap<&'static str, Vec<u8>>);

impl Secrets {
    fn take(&mut self, name: &'static str, data: Option<Data>) {
        let key = data.and_then(|data| data.get("tls.key").cloned());
        self.0.insert(name, key.unwrap_or_else(|| panic!("no key: {name}")));
    }

    #[track_caller]
    fn absent_from(&self, place: &str, text: &str) {
        assert!(!text.contains("PRIVATE KEY"), "a key in {place}: {text}");
        for (name, secret) in &self.0 {
            for piece in all_pieces(secret) {
                assert!(!text.contains(&piece), "a piece of {name} in {place}: {text}");
            }
        }
    }
}

#[test]
fn secret_is_seen_nowhere() {
    let spoke = Spoke::new("secrecy");
    let bootstrap = spoke.bootstrap_kubeconfig();
    let mut secrets = Secrets(BTreeMap::new());
    secrets.0.insert("the bootstrap token", token_in(&bootstrap).into_bytes());
    spoke.put_bootstrap(&bootstrap);
    let agent = spoke.start(&[]);
    let own = spoke.directory.path().join("managed.kubeconfig");
    let own = token_in(&fs::read_to_string(own).expect("its kubeconfig"));
    secrets.0.insert("the own token", own.into_bytes());
    let request = spoke.hub.next_csr(&spoke.cluster);
    secrets.take("the first key", spoke.pending());
    spoke.hub.approve_csr(&request);
    spoke.hub.accept(&spoke.cluster);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    spoils_and_troubles(&spoke, &agent);
    let request = spoke.hub.csrs_of(&spoke.cluster);
    secrets.take("the second key", spoke.credential());
    assert_ne!(secrets.0["the first key"], secrets.0["the second key"]);

    secrets.absent_from("its command line and environment", &agent.command_line());
    secrets.absent_from("Events", &json!(spoke.events()).to_string());
    secrets.absent_from("requests on the hub", &json!(request).to_string());
    let cluster = spoke.hub.managed_cluster(&spoke.cluster);
    secrets.absent_from("the ManagedCluster", &json!(cluster).to_string());
    secrets.absent_from("metrics", &agent.ask("/metrics").1);
    secrets.absent_from("/readyz", &agent.ask("/readyz").1);
    let log = agent.log();
    assert!(log.lines().count() > 20 && log.contains("lease renewal failed"), "{log}");
    secrets.absent_from("the log", &log);
    assert!(!log.contains("hunter2") && !log.contains("BEGIN "), "{log}");
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
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace}, "data": {"kubeconfig": "aGk="},
        });
        spoke.managed.create(&SECRETS.collection(namespace), &secret)
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
