//! kill -9 at every write of an add-on's registration to either cluster: the next start goes on, with one CSR.

use dev_apiserver::SignerOptions;
use suite::{
    eventually,
    kill::{Moment, at_every_write, hold},
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
        is_known(&data);
    }
    assert_eq!(csrs(&spoke).len(), 1, "{moment:?} {verb} {nth}, on the hub: {on_hub}");
    held
}

fn kill_at_every_write(moment: Moment) {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    let killed = [false, true]
        .map(|on_hub| at_every_write(|verb, nth| killed_at(on_hub, verb, nth, moment)));
    println!("{moment:?}: killed at {killed:?} writes, the second on the hub");
    assert!(killed[0] >= 3 && killed[1] >= 2, "{killed:?}");
}

#[test]
fn addon_registration_killed_after_each_write() {
    kill_at_every_write(Moment::After);
}

#[test]
fn addon_registration_killed_and_the_write_comes_late() {
    kill_at_every_write(Moment::Late);
}
