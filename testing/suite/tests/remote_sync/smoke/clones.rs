//! Remotes that show the identity of another cluster: clones, liars, and kubeconfigs that lead elsewhere.

use suite::{
    needs::{Need, needs},
    sidecar::Sidecar,
    stays,
    sync::WIDGETS,
};

use crate::{
    faults::known_clusters::{accept, copied, rival, shows, uid},
    support::{has_pairs, is_in_sync, is_refused, one},
};

/// A rebuilt cluster may take over its former copies, but no copy of another known cluster.
#[test]
fn an_accepted_identity_takes_no_copy_from_another_cluster() {
    if !needs(Need::Embedded, "there are three servers") {
        return;
    }
    let (stage, source, target) = copied("taken");
    let copy = target.uid();
    rival(&stage);
    accept(&stage, "east", &uid(&stage.remotes[1]));
    let sidecar = stage.start_served(&[]);
    has_pairs(&sidecar, "east", "conflict", 1.0);
    source.set_number(2);
    target.wait_for_number(2);
    stays("it stays that", || (target.uid(), target.number()) == (copy.clone(), Some(2)));
}

/// Without a name of its own the clone has none of the other one's sources: its copies would be orphans. It is refused
/// alone, from its start or when it begins to lie.
#[test]
fn remotes_with_one_identity_delete_no_copies() {
    if !needs(Need::Embedded, "a remote can lie") {
        return;
    }
    let (stage, source, target) = copied("twins");
    let copy = target.uid();
    let west = uid(stage.remote());
    let mut lie = shows(&stage.remotes[1], &west);
    let sidecar = stage.start_served(&[]);
    for (number, name) in [(2, "two"), (3, "three")] {
        is_refused(&sidecar, "east", true);
        is_refused(&sidecar, "west", false);
        let (code, ready) = sidecar.ask("/readyz");
        assert!(code == 200 && ready.contains("cluster east is not connected"), "{code} {ready}");
        let state = sidecar.ask("/debug/state").1;
        assert!(state.contains("IdentityRefused"), "{state}");
        source.set_number(number);
        target.wait_for_number(number);
        let is = (copy.clone(), Some(number));
        stays("it is west's copy", || (target.uid(), target.number()) == is);
        // The end of the lie is noticed on the same connection.
        stage.remotes[1].cluster.faults().remove(lie);
        is_refused(&sidecar, "east", false);
        stage.source_in(1, &WIDGETS, &stage.namespace, name).create_number(7);
        stage.target(&WIDGETS, name).wait_for_number(7);
        assert_eq!((target.uid(), target.number()), is);
        lie = shows(&stage.remotes[1], &west);
    }
}

#[test]
fn a_kubeconfig_of_another_cluster_deletes_nothing() {
    let (stage, sidecar, source, target) = one("another", &[]);
    let (uid, before) = (target.uid(), stage.settled());
    // The one other cluster that there is on either kind of stage, with all rights on it.
    let other = std::fs::read_to_string(&stage.own.cluster.kubeconfig).expect("the file");
    stage.write("hub.kubeconfig", &other);
    is_another(&sidecar);
    source.set_number(2);
    stage.writes_no_more_than(before);
    assert_eq!((target.uid(), target.number()), (uid.clone(), Some(1)));
    stage.write("hub.kubeconfig", &stage.remote().kubeconfig());
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    assert_eq!(target.uid(), uid);
}

/// Waits until the program says that the hub is another cluster than before.
#[track_caller]
pub(crate) fn is_another(sidecar: &Sidecar) {
    is_refused(sidecar, "hub", true);
    assert!(sidecar.ask("/readyz").1.contains("hub"), "{:?}", sidecar.ask("/readyz"));
}
