//! The Secret with the pending request: deleted or corrupted by others, shared by two processes, or stored for an
//! unreadable CSR.

use dev_apiserver::Rule;
use suite::{
    faults::code,
    needs::{Need, needs},
    spoke::{PENDING, Spoke},
};

use crate::{
    certificate::{another, joined_by, names, nothing_more},
    support::asking,
};

const CSRS: &str = "certificatesigningrequests";

/// Spoiled while no process runs: the next start requests with another key. Deleted while one runs: it has that key.
#[test]
fn stored_request_may_be_spoiled_or_deleted() {
    let (spoke, first, before) = asking("stored");
    drop(first);
    let mut data = spoke.pending().expect("the stored request");
    data.get_mut("tls.key").expect("a key").truncate(80);
    spoke.put_secret(PENDING, &data);
    let sidecar = spoke.start(&[]);
    let after = another(&spoke, &[before]);
    let key = spoke.pending().expect("the key is stored")["tls.key"].clone();
    spoke.delete_secret(PENDING);
    nothing_more(&spoke, 500);
    spoke.hub.approve_csr(&after);
    joined_by(&spoke, &after);
    assert_eq!(spoke.credential().expect("the Secret")["tls.key"], key);
    assert_eq!(names(&spoke).len(), 2, "{}", sidecar.log());
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

/// Every way to look at CSRs fails, for the program that runs and for the next one, which knows the request by its
/// Secret.
#[test]
fn unreadable_request_is_not_taken_for_absent() {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    for with in [403, 503] {
        let (spoke, mut sidecar, name) = asking("hidden");
        let hub = &spoke.hub.cluster;
        for verb in ["list", "watch", "get"] {
            let rule = Rule::new(code(with)).verb(verb).resource(CSRS);
            hub.faults().add(rule.user(&spoke.how.user()));
        }
        hub.server().restart();
        sidecar.wait_for(&format!(": {with}: "));
        nothing_more(&spoke, 1500);
        sidecar.kill();
        let again = spoke.start(&[]);
        again.wait_for(&format!(": {with}: "));
        nothing_more(&spoke, 1000);
        let asked = hub.server().requests();
        let posts = asked.iter().filter(|it| it.verb == "create" && it.resource == CSRS).count();
        assert_eq!(posts, 1, "{}\n{}", sidecar.log(), again.log());
        hub.faults().clear();
        spoke.hub.approve_csr(&name);
        joined_by(&spoke, &name);
    }
}
