//! kill -9 at every write of an add-on's registration to either cluster: the next start goes on, with one CSR.

use dev_apiserver::SignerOptions;
use suite::{
    eventually,
    kill::{Moment, hold},
    needs::{Need, needs},
    pause,
};

use super::support::*;
use crate::support::{account, eventually_by};

/// Kills at the nth write of `verb`; false where the work was done before it came to that.
fn killed_at(on_hub: bool, verb: &str, nth: u32, moment: Moment) -> bool {
    let (spoke, mut agent, namespace) = stage("kill-addon", &[]);
    let options = SignerOptions { auto_approve: true, ..SignerOptions::default() };
    spoke.hub.cluster.server().set_signer(options);
    let cluster = if on_hub { &spoke.hub.cluster } else { &spoke.managed };
    let user = if on_hub { spoke.user() } else { account(&spoke) };
    let rule = hold(cluster.faults(), Some(&user), verb, nth, moment);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    let is_done = || {
        let has_it = data(&spoke.managed, &namespace, KUBE_CLIENT_SECRET).is_some();
        let addon = spoke.hub.addon(&spoke.cluster, ADDON).expect("the add-on");
        let told = addon["status"]["conditions"].to_string();
        has_it && has_no_request(&spoke) && told.contains("ClientCertificateUpdated")
    };
    let held = eventually("it is held or done", || {
        // In this order: the write that is held may be the one that makes it done.
        let done = is_done();
        let held = cluster.faults().hits(rule) > 0;
        (held || done).then_some(held)
    });
    if held {
        if matches!(moment, Moment::After) {
            // What was sent takes a moment to be done.
            pause(10);
        }
        agent.kill();
        cluster.faults().clear();
        let again = spoke.start(&[]);
        let what = format!("{moment:?} {verb} {nth}, on the hub: {on_hub}");
        eventually_by(&again, &format!("the next start does the rest: {what}"), is_done);
        if matches!(moment, Moment::Late) {
            pause(200);
        }
        let (data, _) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
        assert_ne!(code(&data), 401);
    }
    assert_eq!(csrs(&spoke).len(), 1, "{moment:?} {verb} {nth}, on the hub: {on_hub}");
    held
}

fn at_every_write(on_hub: bool, moment: Moment) -> usize {
    let mut killed = 0;
    for verb in ["create", "update", "patch", "delete"] {
        let killed_here = (1..).take_while(|nth| killed_at(on_hub, verb, *nth, moment)).count();
        println!("{moment:?}: killed at {killed_here} {verb}s, on the hub: {on_hub}");
        killed += killed_here;
    }
    killed
}

#[test]
fn addon_registration_killed_after_each_write() {
    if needs(Need::Embedded, "faults are asked for") {
        assert!(at_every_write(false, Moment::After) >= 3);
        assert!(at_every_write(true, Moment::After) >= 2);
    }
}

#[test]
fn addon_registration_killed_and_the_write_comes_late() {
    if needs(Need::Embedded, "faults are asked for") {
        assert!(at_every_write(false, Moment::Late) >= 3);
        assert!(at_every_write(true, Moment::Late) >= 2);
    }
}
