//! kill -9 at every write to either cluster, when joining and during a rotation. The next start continues
//! from whatever was written: one CSR, and never a key without its certificate.

use dev_apiserver::SignerOptions;
use suite::{
    identity::Data,
    kill::{Moment, at_every_write, hold, killed},
    needs::{Need, needs},
    ocm::{Bootstrap, Hub},
    pause,
    spoke::Spoke,
};

use crate::{
    certificate::{due, names, no_key_alone, works},
    support::{account, eventually_by},
};

/// What is under way.
#[derive(Clone, Copy, Debug)]
enum Work {
    Join,
    Rotation,
}

impl Work {
    fn stage(self) -> (Spoke, Option<Data>) {
        match self {
            Self::Join => (Spoke::joining(Hub::new(), "kill-join", Bootstrap::Auto), None),
            Self::Rotation => {
                let (spoke, old) = due("kill-rotation");
                let options = SignerOptions { auto_approve: true, ..SignerOptions::default() };
                spoke.hub.cluster.server().set_signer(options);
                (spoke, Some(old))
            }
        }
    }
}

/// There is another certificate.
fn is_new(spoke: &Spoke, old: Option<&Data>) -> bool {
    let data = spoke.credential();
    data.as_ref().is_some_and(|data| data.contains_key("tls.crt")) && data.as_ref() != old
}

/// What has served is gone, and the hub was told, too.
fn is_done(spoke: &Spoke, old: Option<&Data>) -> bool {
    let condition = match old {
        None => "ManagedClusterConditionAvailable",
        Some(_) => "ClusterCertificateRotated",
    };
    let told = || spoke.hub.condition(&spoke.cluster, condition);
    let gone = || spoke.pending().is_none();
    is_new(spoke, old) && gone() && told().is_some_and(|(status, ..)| status == "True")
}

/// Kills at the nth write of `verb`; false where the work was done before it came to that.
fn killed_at(work: Work, on_hub: bool, verb: &str, nth: u32, moment: Moment) -> bool {
    let (spoke, old) = work.stage();
    let cluster = if on_hub { &spoke.hub.cluster } else { &spoke.managed };
    // On the hub only the agent writes by HTTP meanwhile.
    let user = (!on_hub).then(|| account(&spoke));
    let rule = hold(cluster.faults(), user.as_deref(), verb, nth, moment);
    let mut sidecar = spoke.start(&[]);
    let held = killed(&mut sidecar, cluster.faults(), rule, || is_done(&spoke, old.as_ref()));
    if held {
        let again = spoke.start(&[]);
        let what = format!("{moment:?} {verb} {nth}, on the hub: {on_hub}");
        // A stored request that comes late may stay for the next rotation.
        let late = matches!(moment, Moment::Late);
        let served = || late || spoke.pending().is_none();
        eventually_by(&again, &format!("the next start does the rest: {what}"), || {
            is_new(&spoke, old.as_ref()) && served()
        });
        if late {
            pause(200);
            assert!(is_new(&spoke, old.as_ref()), "{what}\n{}", again.log());
        }
        works(&spoke);
    }
    let requests = names(&spoke);
    assert_eq!(requests.len(), 1, "{moment:?} {verb} {nth}, on the hub: {on_hub}");
    no_key_alone(&spoke);
    held
}

/// Kills at each write to either cluster, of which there are at least so many; also where the write arrives after the
/// next start.
#[track_caller]
fn kill_at_every_write(work: Work, least: [usize; 2]) {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    for moment in [Moment::After, Moment::Late] {
        let killed = at_every_write(|on_hub, verb, nth| killed_at(work, on_hub, verb, nth, moment));
        println!("{work:?}, {moment:?}: killed at {killed:?} writes, the second on the hub");
        assert!(killed[0] >= least[0] && killed[1] >= least[1], "{killed:?}");
    }
}

#[test]
fn kill_after_every_write_of_a_join_leaves_one_csr() {
    kill_at_every_write(Work::Join, [6, 3]);
}

#[test]
fn kill_after_every_write_of_a_rotation_leaves_one_csr() {
    kill_at_every_write(Work::Rotation, [5, 2]);
}
