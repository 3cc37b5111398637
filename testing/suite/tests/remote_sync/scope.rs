//! The scope of an instance: namespaces and prefixes.

use suite::sync::{Place, Setting, Stage, WIDGETS};

use crate::support::is_in_sync;

/// A hub that many clusters share: each sees its own namespace only, and copies go into an existing namespace.
#[test]
fn one_namespace_is_watched_and_all_copies_go_into_another() {
    let setting = Setting { namespace_suffix: String::new(), ..Setting::safe(&[&WIDGETS]) };
    let stage = Stage::pull("fleet", setting);
    // On the embedded server, too, it may do what is printed, and nothing more.
    stage.enforce_rbac();
    let source = stage.source(&WIDGETS, "one");
    source.create_number(1);
    let [far, copies] = ["far", "copies"].map(|part| format!("{}-{part}", stage.namespace));
    stage.remote().cluster.create_namespace(&far);
    let far = stage.source_in(0, &WIDGETS, &far, "two");
    far.create_number(1);
    // A Role needs its namespace.
    stage.own.cluster.create_namespace(&copies);
    let target = Place::new(&stage.own.cluster, &WIDGETS, &copies, "one");
    let flags = ["-source-namespace", &*stage.namespace, "-target-namespace", &*copies];
    let _sidecar = stage.start(&flags);
    is_in_sync(&source, &target);
    target.set_health(4);
    source.wait_for_health(4);
    source.set_number(2);
    target.wait_for_number(2);
    is_in_sync(&source, &target);
    assert!(stage.target(&WIDGETS, "one").get().is_none(), "in no namespace of its own");
    assert!(far.finalizers().is_empty() && target.sibling(&WIDGETS, "two").get().is_none());
    source.delete();
    source.wait_until_gone();
    assert!(target.get().is_none());
}

/// All names in the words of another organisation.
#[test]
fn another_finalizer_changes_all_names() {
    let (stage, source, target) = Stage::with_widget("prefix");
    let _sidecar = stage.start(&["-finalizer", "sync.example.org/sync-local"]);
    target.wait_for_number(1);
    let published = "sync.example.org/sync-remote-generation";
    source.wait(published, |it| it["metadata"]["annotations"][published] == "1");
    assert_eq!(source.finalizers(), ["sync.example.org/sync-local"]);
    let all = format!("{}{}{}", source.read(), target.read(), stage.target_namespace().read());
    assert!(!all.contains("teleport"), "{all}");
    source.annotate("sync.example.org/paused", Some("true"));
    stage.settled();
    source.set_number(2);
    stage.stays_quiet();
}
