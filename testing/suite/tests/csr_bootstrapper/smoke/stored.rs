//! The Secret with the pending request: deleted or spoiled by others, shared by two processes, or
//! stored without an answer.

use dev_apiserver::{Action, Rule};
use suite::{
    eventually,
    identity::Data,
    needs::{Need, needs},
    spoke::{PENDING, Spoke},
};

use crate::certificate::support::{joined_by, names, nothing_more};

#[test]
fn deleted_stored_request_is_not_missed() {
    let spoke = Spoke::new("stored-deleted");
    let _sidecar = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    let key = eventually("the key is stored", || spoke.pending())["tls.key"].clone();
    spoke.delete_secret(PENDING);
    nothing_more(&spoke, 500);
    spoke.hub.approve_csr(&name);
    joined_by(&spoke, &name);
    assert_eq!(spoke.credential().expect("the Secret")["tls.key"], key);
}

/// What is stored is spoiled while nobody runs: the next start makes another key, and asks with that.
fn spoiled(what: &str, spoil: impl FnOnce(&mut Data)) {
    let spoke = Spoke::new(what);
    let first = spoke.start(&[]);
    let before = spoke.hub.next_csr(&spoke.cluster);
    drop(first);
    let mut data = spoke.pending().expect("the stored request");
    spoil(&mut data);
    spoke.put_secret(PENDING, &data);
    let sidecar = spoke.start(&[]);
    let after = eventually("it asks with another key", || {
        names(&spoke).into_iter().find(|name| *name != before)
    });
    spoke.hub.approve_csr(&after);
    joined_by(&spoke, &after);
    assert_eq!(names(&spoke).len(), 2, "{}", sidecar.log());
}

#[test]
fn stored_request_with_half_a_key_is_replaced() {
    spoiled("stored-half", |data| data.get_mut("tls.key").expect("a key").truncate(80));
}

/// Without an election, as while a Deployment is rolled out.
#[test]
fn two_processes_share_one_request() {
    let spoke = Spoke::new("two");
    let one = spoke.start(&[]);
    let two = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    nothing_more(&spoke, 1000);
    assert_eq!(names(&spoke), [name.as_str()], "{}\n--\n{}", one.log(), two.log());
    spoke.hub.approve_csr(&name);
    joined_by(&spoke, &name);
    for sidecar in [&one, &two] {
        sidecar.wait_for_code("/readyz", 200);
    }
    assert_eq!(names(&spoke), [name], "{}\n--\n{}", one.log(), two.log());
}

/// The retry finds what the first write stored, and goes on with that.
#[test]
fn lost_answer_to_the_store_keeps_the_stored_request() {
    if !needs(Need::Embedded, "answers can be lost") {
        return;
    }
    let spoke = Spoke::new("lost-store");
    let lost = Rule::new(Action::ApplyThenDrop).verb("create").resource("secrets");
    spoke.managed.faults().add(lost.times(1));
    let _sidecar = spoke.start(&[]);
    let name = spoke.hub.next_csr(&spoke.cluster);
    assert_eq!(spoke.pending().expect("the stored request")["csr-name"], name.as_bytes());
    spoke.hub.approve_csr(&name);
    joined_by(&spoke, &name);
}
