//! More of `smoke/doubt.rs`: answers of other servers, other clusters, and namespaces that cannot be read.

use dev_apiserver::{Action, Options};
use suite::{
    cluster::Cluster,
    eventually,
    faults::answer,
    sidecar::Sidecar,
    stays,
    sync::{Side, Stage},
};

use crate::{
    smoke::{clones::is_another, doubt::outlives},
    support::{is_in_sync, many, of_program, one},
};

/// What a balancer says that knows no server, and a server that is still starting.
#[test]
fn answers_of_another_server_delete_nothing() {
    let bare = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}"#;
    let empty = r#"{"kind": "WidgetList", "apiVersion": "sync.example.com/v1", "metadata": {}, "items": []}"#;
    let (stage, mut sidecar, source, target) = one("wrong", &[]);
    let hub = stage.remote().cluster.faults();
    for action in [
        answer(404, "<html>default backend - 404</html>"),
        answer(404, bare),
        answer(503, "<html>no backend</html>"),
        answer(200, empty),
        Action::NotJson,
        Action::WrongKind,
        Action::Forbid,
    ] {
        println!("{action:?}, to a running process and to a new one");
        hub.add(of_program(stage.remote(), action.clone()));
        stage.remote().relay.cut();
        outlives(&stage, &source, &target, || hub.clear());
        sidecar.kill();
        hub.add(of_program(stage.remote(), action));
        sidecar = stage.start(&[]);
        outlives(&stage, &source, &target, || hub.clear());
    }
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
        source.wait_until_gone();
    }
}

fn start_by_certificate(stage: &Stage) -> Sidecar {
    let file = stage.write("hub.kubeconfig", &stage.remote().kubeconfig_by_certificate());
    stage.start_as(|command| {
        command.args(["-remote-kubeconfig", &format!("hub={}", file.display())]);
    })
}

#[test]
fn another_cluster_at_the_hubs_address_deletes_nothing() {
    let (stage, source, target) = Stage::with_widget("same-address");
    let mut sidecar = start_by_certificate(&stage);
    is_in_sync(&source, &target);
    let (uid, before) = (target.uid(), stage.settled());
    // A server of the same authority, with nothing on it.
    let ca = stage.remote().cluster.server().ca().clone();
    let other = Cluster::embedded_with("other", Options { ca: Some(ca), ..Options::default() });
    let other = Side::new("other", other);
    stage.remote().relay.redirect(&other.cluster.address);
    is_another(&sidecar);
    stage.writes_no_more_than(before);
    // Nor does a start that sees only this one.
    sidecar.kill();
    let _sidecar = start_by_certificate(&stage);
    stays("the copy is there", || target.uid() == uid);
}
