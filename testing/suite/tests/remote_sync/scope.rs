//! The scope of an instance: namespaces and prefixes.

use suite::sync::{Setting, Stage, WIDGETS};

use crate::support::is_in_sync;

#[test]
fn only_the_given_namespace_is_watched() {
    let stage = Stage::pull("scoped", Setting::safe(&[&WIDGETS]));
    let hub = &stage.remote().cluster;
    let [near, far] = ["near", "far"].map(|part| format!("{}-{part}", stage.namespace));
    for namespace in [&near, &far] {
        hub.create_namespace(namespace);
        stage.source_in(0, &WIDGETS, namespace, "one").create_number(1);
    }
    let _sidecar = stage.start(&["-source-namespace", &near]);
    let place = |namespace: &str| stage.target_in(0, &WIDGETS, namespace, "one");
    is_in_sync(&stage.source_in(0, &WIDGETS, &near, "one"), &place(&near));
    stage.settled();
    assert!(place(&far).get().is_none());
    let far = stage.source_in(0, &WIDGETS, &far, "one");
    assert!(far.finalizers().is_empty());
}

/// All names in the words of another organisation.
#[test]
fn another_finalizer_changes_all_names() {
    let (stage, source, target) = Stage::with_widget("prefix");
    let _sidecar = stage.start(&["-finalizer", "sync.example.org/sync-local"]);
    target.wait_for_number(1);
    source.wait_for_annotation("sync.example.org/sync-remote-generation", "1");
    assert_eq!(source.finalizers(), ["sync.example.org/sync-local"]);
    let all = format!("{}{}{}", source.read(), target.read(), stage.target_namespace().read());
    assert!(!all.contains("teleport"), "{all}");
    source.annotate("sync.example.org/paused", Some("true"));
    stage.settled();
    source.set_number(2);
    stage.stays_quiet();
}
