//! The limit of deletions.

use serde_json::{Value, json};
use suite::{
    eventually, stays,
    sync::{Place, Setting, Stage, WIDGETS},
};

use crate::support::{is_held, is_in_sync, is_told, many};

fn gone(pairs: &[(Place, Place)]) -> usize {
    pairs.iter().filter(|(_, target)| target.get().is_none()).count()
}

#[test]
fn deletions_beyond_the_limit_wait_for_a_person() {
    let (stage, mut sidecar, pairs) = many("limit", 8, &["-max-deletions", "2/10m", "-qps", "0"]);
    for (source, _) in &pairs {
        source.delete();
    }
    is_held(&sidecar, 6.0);
    eventually("as many as usual are gone", || gone(&pairs) == 2);
    stays("the others are there", || gone(&pairs) == 2);
    let (code, remarks) = sidecar.ask("/readyz");
    assert!(code == 200 && remarks.contains("until that is raised"), "{remarks}");
    sidecar.wait_for("more is to be deleted at once");
    // A new process has one token.
    sidecar.kill();
    let mut sidecar = stage.start_served(&["-max-deletions", "2/10m", "-qps", "0"]);
    is_held(&sidecar, 5.0);
    eventually("its one deletion is done", || gone(&pairs) == 3);
    stays("the others are there still", || gone(&pairs) == 3);
    sidecar.kill();
    let _sidecar = stage.start(&["-max-deletions", "100/10s"]);
    for (source, _) in &pairs {
        source.wait_until_gone();
    }
}

/// A Namespace is deleted with all its content, by mistake or not, and cannot be restored.
#[test]
fn a_deleted_namespace_takes_no_copy_along() {
    let (stage, sidecar, pairs) = many("namespace", 3, &[]);
    stage.source_namespace().delete();
    is_held(&sidecar, 3.0);
    sidecar.wait_for("the source's Namespace or CustomResourceDefinition is being deleted");
    stays("all copies are there", || gone(&pairs) == 0);
    for (_, target) in &pairs {
        target.delete();
    }
    stage.source_namespace().wait_until_gone();
}

// --- objects that are not copies ---

#[test]
fn a_foreign_object_is_kept() {
    let stage = Stage::pull("nobodys", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
    let (source, target) = stage.pair(&WIDGETS, "web");
    let before = target.create_number(42);
    source.create_number(1);
    // What has the source's content becomes its copy.
    let (equal, equal_copy) = stage.pair(&WIDGETS, "equal");
    let uid = equal_copy.create_number(1)["metadata"]["uid"].clone();
    equal.create_number(1);
    let mut sidecar = stage.start_served(&[]);
    is_in_sync(&equal, &equal_copy);
    equal.set_number(2);
    equal_copy.wait_for_number(2);
    is_in_sync(&equal, &equal_copy);
    assert_eq!(equal_copy.uid(), uid);
    sidecar.wait_for("the target exists and is not managed by remote-sync");
    stage.stays_quiet();
    assert_eq!(target.read(), before);
    assert!(!source.is_claimed());
    is_told(&source, "SyncHeld", "");
    source.delete();
    source.wait_until_gone();
    stays("it stays", || target.read() == before);
    sidecar.kill();
    // A person says that it may be taken.
    source.create_number(1);
    let _sidecar = stage.start(&["-adopt", "always"]);
    target.wait_for_number(1);
    is_told(&source, "Adopted", "");
    assert_eq!(target.uid(), before["metadata"]["uid"]);
}

/// Finalizer and annotations are written by whoever may write the source.
#[test]
fn a_forged_source_deletes_nothing() {
    let stage = Stage::pull("forged", Setting::safe(&[&WIDGETS]));
    stage.create_target_namespace(&json!({}));
    let (source, target) = stage.pair(&WIDGETS, "victim");
    let before = target.create_number(7);
    let claims: Value = json!({
        "cloud.teleport.dev/sync-remote-generation": "1",
        "cloud.teleport.dev/sync-local-generation": "1",
        "cloud.teleport.dev/sync-local-uid": target.uid(),
    });
    let mut forged = WIDGETS.content(1);
    forged["metadata"] = json!({
        "finalizers": ["cloud.teleport.dev/sync-local"], "annotations": claims,
    });
    source.create(&forged);
    let _sidecar = stage.start(&[]);
    stays("it is as it was", || target.read() == before);
    source.delete();
    source.wait_until_gone();
    stays("it is there", || target.read() == before);
}
