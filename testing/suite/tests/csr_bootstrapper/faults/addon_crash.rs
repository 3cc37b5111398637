//! kill -9 at every write of an add-on's registration to either cluster: the next start continues, with one CSR.

use dev_apiserver::SignerOptions;
use suite::{
    kill::{Moment, at_every_write, hold, killed},
    pause,
};

use crate::{
    addon_registration::support::*,
    support::{account, eventually_by},
};

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
        let has_it = spoke.managed.read_secret(&namespace, KUBE_CLIENT_SECRET).is_some();
        let addon = spoke.hub.addon(&spoke.cluster, ADDON).expect("the add-on");
        let told = addon["status"]["conditions"].to_string();
        has_it && has_no_request(&spoke) && told.contains("ClientCertificateUpdated")
    };
    let held = killed(&mut agent, cluster.faults(), rule, is_done);
    if held {
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

/// Also where the write arrives after the next start.
#[test]
fn addon_registration_survives_a_kill_at_every_write() {
    for moment in [Moment::After, Moment::Late] {
        let killed = at_every_write(|on_hub, verb, nth| killed_at(on_hub, verb, nth, moment));
        println!("{moment:?}: killed at {killed:?} writes, the second on the hub");
        assert!(killed[0] >= 3 && killed[1] >= 2, "{killed:?}");
    }
}
