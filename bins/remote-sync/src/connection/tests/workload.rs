//! TestRunningOnWorkloadCluster: whether a remote is the cluster that the program runs on.

use apiclient::{client::Propagation, resource::PODS};

use serde_json::json;

use super::*;

fn pod(namespace: &str, name: &str, uid: &str, in_cluster: ClusterConfig) -> Arc<OwnPod> {
    let value = |text: &str| Some(text.to_owned());
    let variable = |variable: &str| match variable {
        "POD_NAMESPACE" => value(namespace),
        "POD_NAME" => value(name),
        "POD_UID" => value(uid),
        _ => None,
    };
    Arc::new(OwnPod::of(variable, Box::new(move || Ok(in_cluster.clone()))).unwrap())
}

/// A server that has the pod `default/me`, that pod's uid, and a route to the server from inside.
fn home() -> (Bench, String, ClusterConfig) {
    let bench = Bench::connected(quick());
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "me", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let client = bench.connection.client().unwrap();
    let created = client.create(&PODS.object("default", "me"), &body).unwrap();
    let uid = created["metadata"]["uid"].as_str().unwrap().to_owned();
    let server = bench.server.url().replace("127.0.0.1", "localhost");
    let inside = ClusterConfig { server, auth: Auth::None, ..bench.config() };
    (bench, uid, inside)
}

/// The host that a connection uses for this pod.
fn connect(bench: &Bench, pod: Option<Arc<OwnPod>>) -> (Arc<Connection>, Supervisor) {
    let settings = ConnectionConfig { pod, ..settings("hub", quick()) };
    let connection = Connection::new(settings, &Stop::default());
    let notifier = Notifier::new(nobody(), Instant::now());
    let mut supervisor =
        Supervisor::new(connection.clone(), CredentialSource::Offered, notifier, || 0.5);
    connection.offer(Ok(bench.config()));
    supervisor.run_once();
    (connection, supervisor)
}

fn host(bench: &Bench, pod: Option<Arc<OwnPod>>) -> String {
    connect(bench, pod).0.client().unwrap().host()
}

#[test]
fn only_the_own_pods_cluster_is_the_home_cluster() {
    let (bench, uid, inside) = home();
    let is_inside = |namespace: &str, name: &str, uid: &str| {
        host(&bench, Some(pod(namespace, name, uid, inside.clone()))).starts_with("localhost:")
    };
    assert!(is_inside("default", "me", &uid), "match");
    assert!(!is_inside("default", "you", &uid), "name mismatch");
    assert!(!is_inside("kube-system", "me", &uid), "namespace mismatch");
    assert!(!is_inside("default", "me", "another"), "uid mismatch");
    let client = bench.connection.client().unwrap();
    client
        .delete(&PODS.object("default", "me"), Propagation::Background, &Default::default())
        .unwrap();
    assert!(!is_inside("default", "me", &uid), "no pod");
    assert!(host(&bench, None).starts_with("127.0.0.1:"), "no metadata");
    let none = |_: &str| Some(String::new());
    assert!(OwnPod::of(none, Box::new(move || Ok(inside.clone()))).is_none(), "no metadata");
}

#[test]
fn credentials_are_rotated_on_the_way_inside() {
    let (bench, uid, inside) = home();
    let (connection, mut supervisor) = connect(&bench, Some(pod("default", "me", &uid, inside)));
    let session = connection.session().unwrap();
    let token = |config: &ClusterConfig| match &config.auth {
        Auth::Token(token) => token.clone(),
        _ => panic!("no token"),
    };
    let other = bench.config();
    assert_ne!(token(&session.client.config()), token(&other));
    connection.offer(Ok(other.clone()));
    supervisor.run_once();
    let config = session.client.config();
    assert!(config.server.contains("localhost"), "{config:?}");
    assert_eq!(token(&config), token(&other));
    assert_eq!(connection.session().unwrap().number, 1);
}

#[test]
fn a_cluster_that_does_not_show_its_pods_is_another_one() {
    let (bench, uid, inside) = home();
    bench.server.faults().deny("get", "pods", "");
    assert!(host(&bench, Some(pod("default", "me", &uid, inside.clone()))).starts_with("127."));
    bench.server.faults().clear();
    let broken = Action::Answer { code: 500, body: None, retry_after: None };
    bench.server.faults().add(Rule::new(broken).resource("pods"));
    let (connection, _) = connect(&bench, Some(pod("default", "me", &uid, inside)));
    assert!(is_down(&connection), "any other failure fails");
    assert!(connection.health().error.unwrap().contains("get pods default/me on cluster hub: 500"));
}
