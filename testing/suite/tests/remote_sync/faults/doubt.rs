//! More of `smoke/doubt.rs`: answers of other servers and of other clusters, forbidden lists.

use dev_apiserver::{Action, Options};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually,
    faults::answer,
    pause,
    relay::Way,
    sidecar::Sidecar,
    stays,
    sync::{Place, Side, Stage, WIDGETS},
    throughout, within,
};

use crate::{
    smoke::{clones::is_another, doubt::outlives, gate::is_held},
    support::{is_in_sync, many, of_program, one},
};

/// What a balancer says that knows no server, and a server that is still starting.
#[test]
fn answers_of_another_server_delete_nothing() {
    let bare = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}"#;
    let empty = r#"{"kind": "WidgetList", "apiVersion": "sync.example.com/v1", "metadata": {}, "items": []}"#;
    for action in [
        answer(404, "<html>default backend - 404</html>"),
        answer(404, bare),
        answer(503, "<html>no backend</html>"),
        answer(200, empty),
        Action::NotJson,
        Action::WrongKind,
        Action::Forbid,
    ] {
        let (stage, mut sidecar, source, target) = one("wrong", &WIDGETS, &[]);
        let hub = stage.remote().cluster.faults();
        hub.add(of_program(stage.remote(), action.clone()));
        stage.remote().relay.cut();
        outlives(&stage, &source, &target, || hub.clear());
        sidecar.kill();
        hub.add(of_program(stage.remote(), action));
        let _sidecar = stage.start(&[]);
        outlives_start(&stage, &source, &target, || hub.clear());
    }
}

#[track_caller]
fn outlives_start(stage: &Stage, source: &Place, target: &Place, heal: impl FnOnce()) {
    let uid = target.uid();
    stage.stays_quiet();
    heal();
    source.set_number(9);
    // What failed a few times is listed again after up to 30 s.
    within(45, "it is copied", || target.number() == Some(9));
    assert_eq!(target.uid(), uid);
}

/// A proxy's page, or an authorizer that lags: who could read the Namespace before knows nothing of it now.
#[test]
fn an_unreadable_namespace_deletes_nothing() {
    let (stage, _sidecar, pairs) = many("unreadable", 3, &[]);
    pairs[0].0.delete();
    pairs[0].0.wait_until_gone();
    let hub = stage.remote().cluster.faults();
    let page = answer(404, "<html>default backend - 404</html>");
    for ((source, target), action) in pairs[1..].iter().zip([page, Action::Forbid]) {
        let rule = of_program(stage.remote(), action).verb("get").resource("namespaces");
        let rule = hub.add(rule.name(source.namespace.as_deref().unwrap()));
        source.delete();
        eventually("it is asked", || hub.hits(rule) > 0);
        stays("the copy is there", || target.get().is_some());
        hub.remove(rule);
        within(45, "it is gone", || source.get().is_none());
    }
}

/// Only the list is forbidden: a read would prove the source's end, but a missing list gives no reason to read.
#[test]
fn what_a_forbidden_list_lacks_is_not_gone() {
    let (stage, mut sidecar, source, target) = one("list", &WIDGETS, &[]);
    sidecar.kill();
    let (hub, before) = (stage.remote().cluster.faults(), stage.settled());
    source.delete_by_force();
    let rule = hub.add(of_program(stage.remote(), Action::Forbid).verb("list").resource("widgets"));
    let _sidecar = stage.start(&[]);
    eventually("its list is refused", || hub.hits(rule) > 0);
    stage.writes_no_more_than(before);
    assert!(target.get().is_some());
    hub.remove(rule);
    // What failed a few times is listed again after up to 30 s.
    within(45, "the orphan goes", || target.get().is_none());
}

/// A source may come back with its cluster: time without a connection does not count.
#[test]
fn an_outage_restarts_an_orphans_grace() {
    let (stage, sidecar, source, target) = one("outage", &WIDGETS, &["-orphan-grace", "4s"]);
    let is_connected = |wanted: f64| {
        let sample = "remote_sync_cluster_connected{remote=\"hub\"}";
        eventually("the hub comes or goes", || sidecar.metric(sample) == Some(wanted));
    };
    source.delete_by_force();
    is_held(&sidecar, 1.0);
    stage.remote().relay.set(Way::Closed);
    is_connected(0.0);
    // It would have been over long ago.
    pause(5000);
    stage.remote().relay.set(Way::Open);
    is_connected(1.0);
    throughout(3000, "it is there for its grace", || target.get().is_some());
    target.wait_until_gone();
}

// --- another cluster than before ---

fn start_by_certificate(stage: &Stage) -> Sidecar {
    let file = stage.write("hub.kubeconfig", &stage.remote().kubeconfig_by_certificate());
    stage.start_as(|command| {
        command.args(["-remote-kubeconfig", &format!("hub={}", file.display())]);
    })
}

/// A server of the same authority, with nothing on it.
fn impostor(stage: &Stage) -> Side {
    let ca = stage.remote().cluster.server().ca().clone();
    let other = Cluster::embedded_with("other", Options { ca: Some(ca), ..Options::default() });
    Side::new("other", other)
}

#[test]
fn another_cluster_at_the_hubs_address_deletes_nothing() {
    let (stage, source, target) = Stage::with_widget("same-address");
    let mut sidecar = start_by_certificate(&stage);
    is_in_sync(&source, &target);
    let (uid, before) = (target.uid(), stage.settled());
    let other = impostor(&stage);
    stage.remote().relay.redirect(&other.cluster.address);
    is_another(&sidecar);
    stage.writes_no_more_than(before);
    // Nor does a start that sees only this one.
    sidecar.kill();
    let _sidecar = start_by_certificate(&stage);
    stays("the copy is there", || target.uid() == uid);
}

/// The cluster is asked who it is once more after it said that a source is gone: what answers by then may be
/// another one.
#[test]
fn a_sources_end_is_believed_of_its_own_cluster_alone() {
    let (stage, sidecar, source, target) = one("gone", &WIDGETS, &[]);
    let (hub, before) = (stage.remote().cluster.faults(), stage.settled());
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "kube-system", "uid": "0d6ff0b4-3b39-4b5b-9f5c-000000000002", "resourceVersion": "1",
    }});
    let answer = of_program(stage.remote(), answer(200, other));
    let rule = hub.add(answer.verb("get").resource("namespaces").name("kube-system"));
    source.delete_by_force();
    let changed = "remote_sync_cluster_identity_refused{remote=\"hub\"}";
    eventually("it is another cluster", || {
        assert!(target.get().is_some(), "another cluster's word proves nothing");
        sidecar.metric(changed) > Some(0.0)
    });
    stage.writes_no_more_than(before);
    assert!(target.get().is_some());
    hub.remove(rule);
    // The identity is read again and again, on the same connection.
    eventually("it is itself", || sidecar.metric(changed) == Some(0.0));
    target.wait_until_gone();
}
