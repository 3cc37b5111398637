//! Other requests on the hub, too many of our own, and a hub that answers with errors alone.

use std::time::Instant;

use dev_apiserver::Rule;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    pause,
    spoke::Spoke,
    stays, within,
};

use crate::certificate::support::{
    csr, delete, due, joined_by, names, nothing_more, post_some, rotated, said, uid,
};

const HALTED: &str = "Stop creating csr since there are too many csr created already on hub";
const CSRS: &str = "certificatesigningrequests";

#[test]
fn finished_requests_do_not_count() {
    let spoke = Spoke::new("crowd");
    for (index, name) in post_some(&spoke, 12, &spoke.user()).iter().enumerate() {
        match index % 2 {
            0 => spoke.hub.approve_csr(name),
            _ => spoke.hub.deny_csr(name),
        }
    }
    // One less than would be too many.
    post_some(&spoke, 9, &spoke.user());
    let before = names(&spoke);
    let sidecar = spoke.start(&[]);
    let ours = eventually("it asks", || names(&spoke).into_iter().find(|n| !before.contains(n)));
    spoke.hub.approve_csr(&ours);
    joined_by(&spoke, &ours);
    assert_eq!(sidecar.count(HALTED), 0);
}

#[test]
fn ten_own_open_requests_halt_it() {
    let spoke = Spoke::new("halted");
    let open = post_some(&spoke, 10, &spoke.user());
    let sidecar = spoke.start(&[]);
    let message = said(&spoke, "ClientCertificateCreationHalted");
    assert!(message.starts_with(&format!("{HALTED}: kubectl delete csr ")), "{message}");
    assert!(open.iter().all(|name| message.contains(name)), "{message}");
    nothing_more(&spoke, 2000);
    assert_eq!((names(&spoke).len(), spoke.credential(), spoke.pending()), (10, None, None));
    assert_eq!(spoke.count_events("ClientCertificateCreationHalted"), 1);
    assert_eq!(sidecar.ask("/readyz").0, 503);
}

/// About a minute: that is how often a halted agent looks.
#[test]
fn halted_rotation_goes_on_when_there_is_room() {
    if !needs(Need::Embedded, "it approves renewals at once") {
        return;
    }
    let (spoke, old) = due("room");
    let open = post_some(&spoke, 10, &spoke.user());
    let start = Instant::now();
    let _sidecar = spoke.start(&[]);
    said(&spoke, "ClientCertificateCreationHalted");
    assert_eq!(rotated(&spoke, "False"), ("ClientCertificateUpdateFailed".into(), HALTED.into()));
    stays("it is halted", || names(&spoke).len() == 10);
    assert_eq!(spoke.credential(), Some(old));
    delete(&spoke, &open[0]);
    let ours = within(120, "it goes on", || names(&spoke).into_iter().find(|n| !open.contains(n)));
    assert!(start.elapsed().as_secs() >= 55, "{:?}: no loop", start.elapsed());
    spoke.hub.approve_csr(&ours);
    joined_by(&spoke, &ours);
    assert_eq!(rotated(&spoke, "True").0, "ClientCertificateUpdated");
    assert_eq!(spoke.count_events("ClientCertificateCreationHalted"), 1);
}

/// Every way to look at requests fails with `code`, from now on.
fn hide(spoke: &Spoke, with: u16) {
    for verb in ["list", "watch", "get"] {
        let rule = Rule::new(code(with)).verb(verb).resource(CSRS);
        spoke.hub.cluster.faults().add(rule.user(&spoke.how.user()));
    }
    spoke.hub.cluster.server().restart();
}

#[test]
fn unreadable_request_is_not_taken_for_absent() {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    for with in [403, 500, 503, 429] {
        let spoke = Spoke::new("hidden");
        let mut sidecar = spoke.start(&[]);
        let name = spoke.hub.next_csr(&spoke.cluster);
        let before = uid(&csr(&spoke, &name).expect("the request"));
        hide(&spoke, with);
        sidecar.wait_for(&format!(": {with}: "));
        nothing_more(&spoke, 1500);
        let log = sidecar.log();
        sidecar.kill();

        // Nor is it after a restart, which knows of it by its Secret alone.
        let again = spoke.start(&[]);
        again.wait_for(&format!(": {with}: "));
        nothing_more(&spoke, 1000);
        assert_eq!(uid(&csr(&spoke, &name).expect("it")), before, "{log}");
        let posted = spoke.hub.cluster.server().requests();
        let posts = posted.iter().filter(|r| r.verb == "create" && r.resource == CSRS).count();
        assert_eq!(posts, 1, "{log}\n{}", again.log());

        spoke.hub.cluster.faults().clear();
        spoke.hub.approve_csr(&name);
        joined_by(&spoke, &name);
    }
}

#[test]
fn lost_answer_to_the_post_makes_no_second_request() {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    let spoke = Spoke::new("lost-answer");
    let lost = Rule::new(dev_apiserver::Action::ApplyThenDrop).verb("create").resource(CSRS);
    spoke.hub.cluster.faults().add(lost.user(&spoke.how.user()).times(1));
    let _sidecar = spoke.start(&[]);
    let name = spoke.hub.approve_next(&spoke.cluster);
    joined_by(&spoke, &name);
    assert_eq!(names(&spoke), [name]);
}

#[test]
fn refused_post_is_repeated_with_the_same_key() {
    if !needs(Need::Embedded, "faults are asked for") {
        return;
    }
    for with in [403, 429, 500, 503] {
        let spoke = Spoke::new("refused");
        let rule = Rule::new(code(with)).verb("create").resource(CSRS).user(&spoke.how.user());
        let rule = spoke.hub.cluster.faults().add(rule);
        let sidecar = spoke.start(&[]);
        let key = eventually("the key is stored", || spoke.pending()?.get("tls.key").cloned());
        eventually("it is tried", || (spoke.hub.cluster.faults().hits(rule) >= 2).then_some(()));
        pause(1500);
        let tries = spoke.hub.cluster.faults().hits(rule);
        assert!(tries < 12, "{tries} tries in 2 s\n{}", sidecar.log());
        spoke.hub.cluster.faults().clear();
        // A back-off of several failures may take longer than anything else here.
        within(60, "it is posted", || (!names(&spoke).is_empty()).then_some(()));
        let name = spoke.hub.approve_next(&spoke.cluster);
        joined_by(&spoke, &name);
        assert_eq!(names(&spoke), [name]);
        assert_eq!(spoke.credential().expect("the Secret")["tls.key"], key);
    }
}
