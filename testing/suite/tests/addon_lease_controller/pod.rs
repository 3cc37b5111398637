//! The pod whose readiness the Lease reports.

use apiclient::resource::PODS;
use serde_json::{Value, json};
use suite::{
    eventually,
    needs::{Need, needs},
    scene::{POD, Scene},
    throughout,
};

use crate::support::{NO_POD, STALE, renews};

fn statuses(app: bool, lease: bool) -> Value {
    let one = |name: &str, ready: bool| {
        let image = "example.com/none:1";
        json!({"name": name, "ready": ready, "image": image, "imageID": "", "restartCount": 0})
    };
    json!([one("app", app), one("lease", lease)])
}

/// Another pod changes nothing.
#[test]
fn recreated_pod_resumes_renewals() {
    let scene = Scene::new("podback");
    scene.create_pod("my-addon-1");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    scene.managed.delete(&PODS.object(&scene.namespace, "my-addon-1"));
    renews(&sidecar, "hub", 2);
    assert_eq!(sidecar.count(STALE), 0, "{}", sidecar.log());
    scene.delete_pod();
    sidecar.wait_for(NO_POD);
    scene.ages(1200);
    scene.create_pod(POD);
    sidecar.wait_for("it has no Ready condition yet");
    scene.ages(500);
    scene.set_ready(true);
    scene.wait_for_renewals(1);
}

#[test]
fn other_containers_decide_when_the_own_one_is_named() {
    let scene = Scene::new("container");
    // While its own probe fails, the pod is not Ready, which must not matter.
    let unready = json!([{"type": "Ready", "status": "False"}]);
    let status =
        |app, lease| json!({"conditions": unready, "containerStatuses": statuses(app, lease)});
    scene.set_pod_status(&status(true, false));
    let sidecar = scene.start(&["-container-name", "lease"]);
    sidecar.wait_for_code("/readyz", 200);
    scene.set_pod_status(&status(false, true));
    sidecar.wait_for("reason=\"container app is not ready\"");
    scene.ages(1200);
    scene.set_pod_status(&status(true, false));
    scene.wait_for_renewals(1);
}

/// Many things set that variable; only people who mean it set the flag.
#[test]
fn unknown_container_of_the_environment_is_ignored() {
    let scene = Scene::new("containerother");
    scene.set_pod_status(&json!({"conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": statuses(true, true)}));
    let sidecar = scene.start_as(|command| {
        command.env("CONTAINER_NAME", "elsewhere");
    });
    renews(&sidecar, "hub", 1);
    assert_eq!(sidecar.warnings("the pod has no container elsewhere"), 1, "{}", sidecar.log());
    let strict = scene.start(&["-container-name", "elsewhere"]);
    strict.wait_for_code("/readyz", 503);
}

#[test]
fn unready_pod_costs_no_request() {
    if !needs(Need::Embedded, "requests are recorded there") {
        return;
    }
    let scene = Scene::new("no-request");
    scene.set_ready(false);
    scene.delete_secret();
    let sidecar = scene.start(&[]);
    sidecar.wait_for("waiting for the Secret");
    sidecar.wait_for(STALE);
    let watched = |of: &str| {
        let requests = scene.managed.server().requests();
        requests.iter().any(|it| it.verb == "watch" && it.resource == of)
    };
    eventually("both watches run", || watched("pods") && watched("secrets"));
    let before = asked(&scene);
    throughout(1500, "nothing is asked", || asked(&scene) == before);
}

#[test]
fn missing_pod_name_turns_the_readiness_check_off() {
    let scene = Scene::new("no-pod-name");
    scene.delete_pod();
    let sidecar = scene.start_as(|command| {
        let namespace = &scene.namespace;
        command
            .env_remove("POD_NAME")
            .env_remove("POD_NAMESPACE")
            .env("WATCH_NAMESPACE", namespace);
    });
    scene.wait_for_renewals(1);
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for("credentials rotated");
    scene.wait_for_renewals(1);
    if needs(Need::Embedded, "requests are recorded there") {
        let requests = scene.managed.server().requests();
        assert!(!requests.iter().any(|it| it.resource == "pods" && it.user != "admin"));
    }
}

/// How many requests the sidecar sent so far.
fn asked(scene: &Scene) -> usize {
    let all = [&scene.hub, &scene.managed].map(|cluster| cluster.server().requests()).into_iter();
    all.flatten().filter(|request| request.user != "admin").count()
}
