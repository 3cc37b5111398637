//! The content of copies, and edits by others.

use suite::sync::LOCAL_GENERATION;

use crate::support::{is_in_sync, one_budget};

#[test]
fn a_deleted_copy_is_created_again() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = one_budget("deleted-copy", compat);
        source.set_number(2);
        is_in_sync(&source, &target);
        assert_eq!(source.annotation(LOCAL_GENERATION).as_deref(), Some("2"));
        let uid = target.uid();
        target.delete();
        target.wait("a new one", |object| object["metadata"]["uid"] != uid);
        is_in_sync(&source, &target);
        assert_eq!(source.annotation(LOCAL_GENERATION).as_deref(), Some("1"));
        assert_eq!(target.number(), Some(2));
        stage.stays_quiet();
    }
}

#[test]
fn an_edit_of_the_copys_spec_is_undone() {
    for compat in [true, false] {
        let (stage, _sidecar, source, target) = one_budget("edited", compat);
        target.set_number(9);
        target.wait_for_number(1);
        is_in_sync(&source, &target);
        stage.stays_quiet();
    }
}
