//! The thirty defects of the Go sidecar, one test each under its number: none of them is here.
//! They run on either server, as the scenarios do.

mod credentials;
mod lease;
mod process;

use std::fs;

use serde_json::json;
use shared::resource::PODS;
use suite::scene::{POD, Scene};

/// The uid of the pod: another one means that it was deleted.
fn pod_uid(scene: &Scene) -> String {
    let pod = scene.managed.get(&PODS.object(&scene.namespace, POD)).expect("the pod");
    pod["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

/// How many requests the sidecar sent so far, where they are recorded.
fn requests(scene: &Scene) -> Option<usize> {
    let servers = [scene.hub.embedded.as_ref()?, scene.managed.embedded.as_ref()?];
    let ours = |user: &str| user != "admin";
    Some(servers.iter().flat_map(|server| server.requests()).filter(|r| ours(&r.user)).count())
}

fn lines_of_proc(pid: u32, directory: &str) -> usize {
    fs::read_dir(format!("/proc/{pid}/{directory}")).map_or(0, Iterator::count)
}

fn label() -> serde_json::Value {
    json!({"metadata": {"labels": {"somebody": "else"}}})
}
