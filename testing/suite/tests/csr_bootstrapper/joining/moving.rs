//! Corner cases of a move to another hub: a restart, another token, a local cluster that rejects writes, an address where
//! nobody answers.

use std::sync::Arc;

use dev_apiserver::{Action, Rule};
use suite::{
    eventually,
    needs::{Need, needs},
    ocm::{Bootstrap, Hub},
    pause,
    relay::{Relay, Way},
    sidecar::Sidecar,
    spoke::{SECRET, Spoke, UNKNOWN},
    throughout, within,
};

use crate::joining::support::{account, joined, kubeconfig, repaired, roles, settled};

/// A cluster whose hub moved to one that knows nothing of it, where its request waits for a person.
struct Waiting {
    spoke: Spoke,
    sidecar: Sidecar,
    hub: Arc<Hub>,
    request: String,
}

/// Waits until the cluster asks there: failures have their pace.
#[track_caller]
fn asked(hub: &Hub, cluster: &str) -> String {
    within(60, "the new hub is asked", || {
        hub.csrs_of(cluster).pop()?["metadata"]["name"].as_str().map(str::to_owned)
    })
}

fn waiting_elsewhere(name: &str) -> Waiting {
    let (spoke, sidecar) = joined(name);
    let hub = Hub::new();
    spoke.put_bootstrap(&hub.bootstrap_kubeconfig(&hub.cluster.address, Bootstrap::Manual));
    let request = asked(&hub, &spoke.cluster);
    Waiting { spoke, sidecar, hub, request }
}

impl Waiting {
    /// The request from before is answered, and there was no other one.
    #[track_caller]
    fn joins(mut self) {
        self.hub.approve_csr(&self.request);
        self.hub.accept(&self.spoke.cluster);
        self.spoke.hub = self.hub;
        within(60, "the certificate of the new hub is saved", || {
            let now = self.spoke.credential()?;
            kubeconfig(&now).contains(&self.spoke.hub.cluster.address).then_some(())
        });
        settled(&self.spoke, &self.sidecar);
        assert_eq!(roles(&self.spoke), ["bootstrap"], "{}", self.sidecar.log());
        assert!(self.sidecar.alive());
    }
}

#[test]
fn a_request_at_the_new_hub_is_found_again_after_a_restart() {
    if !needs(Need::Embedded, "there is a second hub") {
        return;
    }
    let mut waiting = waiting_elsewhere("moving-restart");
    waiting.sidecar.kill();
    waiting.sidecar = waiting.spoke.start(&[]);
    let found = format!("CSR {} is not approved yet", waiting.request);
    within(60, "it is found", || (waiting.sidecar.count(&found) > 0).then_some(()));
    waiting.joins();
}

/// The old hub still renews the agent's certificate, which is of no use next to the new hub's kubeconfig.
#[test]
fn secret_deleted_during_a_move_is_requested_at_the_new_hub() {
    if !needs(Need::Embedded, "there is a second hub") {
        return;
    }
    let waiting = waiting_elsewhere("moving-deleted");
    let (old, cluster) = (waiting.spoke.hub.clone(), waiting.spoke.cluster.clone());
    waiting.spoke.delete_secret(&waiting.spoke.secret);
    throughout(3000, "nothing is requested at the old hub", || old.csrs_of(&cluster).len() == 1);
    waiting.joins();
    assert_eq!(old.csrs_of(&cluster).len(), 1);
}

/// Another token for the same place ends the pause after failures, and says nothing of who is known there.
fn end_the_wait(spoke: &Spoke, address: &str) {
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(address, spoke.how));
}

// --- the local cluster ---

#[test]
fn a_certificate_that_cannot_be_saved_is_no_word_of_the_new_hub() {
    if !needs(Need::Embedded, "rights can be taken away at once") {
        return;
    }
    let (spoke, mut sidecar) = joined("moving-save");
    let before = spoke.credential().expect("the Secret");
    let rule = Rule::new(Action::Forbid).verb("update").resource("secrets").name(SECRET);
    let rule = rule.user(&account(&spoke));
    let faults = spoke.managed.faults();
    let rule = faults.add(rule);
    let relay = Relay::to(&spoke.hub.cluster.address);
    let address = relay.address.to_string();
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&address, spoke.how));
    eventually("the write is refused", || (faults.hits(rule) > 0).then_some(()));
    pause(7000);
    assert_eq!(spoke.credential().as_ref(), Some(&before));
    assert_eq!(sidecar.count(UNKNOWN), 0, "{}", sidecar.log());
    faults.clear();
    end_the_wait(&spoke, &address);
    let now = repaired(&spoke, &mut sidecar, &before);
    assert!(kubeconfig(&now).contains(&address), "{}", kubeconfig(&now));
}

// --- nobody answers ---

#[test]
fn it_moves_once_somebody_answers_at_the_new_address() {
    let (spoke, mut sidecar) = joined("moving-late");
    let before = spoke.credential().expect("the Secret");
    let late = Relay::to(&spoke.hub.cluster.address);
    late.set(Way::Closed);
    let address = late.address.to_string();
    spoke.put_bootstrap(&spoke.hub.bootstrap_kubeconfig(&address, spoke.how));
    sidecar.wait_for("at its new address");
    pause(2000);
    late.set(Way::Open);
    let now = repaired(&spoke, &mut sidecar, &before);
    assert!(kubeconfig(&now).contains(&address), "{}", kubeconfig(&now));
}
