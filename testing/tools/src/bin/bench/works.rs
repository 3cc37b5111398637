//! A hub full of ManifestWorks, for OCM's klusterlet agent and for ours in mode Singleton, one after the other on the
//! same real servers: the time until all are applied, the delay of an edit on the hub then, and the memory.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use suite::{
    cluster::resource,
    listing::list,
    ocm::{self, AVAILABLE, Bootstrap, applied_works, is_true, works},
    pause,
    sidecar::Sidecar,
    spoke::Spoke,
    sync::load::Room,
    within,
};
use tools::{figures, measure};

use crate::{
    footprint::GO_FLAGS,
    table::{self, mib},
};

/// The number of works, of manifests per work, and of namespaces that share them.
struct Scene {
    works: usize,
    manifests: usize,
    namespaces: usize,
}

const SCENES: [Scene; 2] = [
    Scene { works: 500, manifests: 5, namespaces: 100 },
    Scene { works: 1000, manifests: 1, namespaces: 100 },
];
/// The number of clients that create and delete.
const CLIENTS: usize = 8;
/// The limit until all are applied, in seconds.
const PATIENCE: u64 = 400;
/// Memory is stable after this, in milliseconds.
const SETTLING: u64 = 20_000;
/// The number of sequential edits.
const EDITS: usize = 20;

pub(crate) fn measure() -> bool {
    let head = [
        "works",
        "agent",
        "applied, s",
        "CPU, s",
        "memory (RSS)",
        "anonymous",
        "edit, ms",
        "longest",
    ];
    let mut rows = vec![table::row(head)];
    for scene in &SCENES {
        for is_own in [false, true] {
            rows.push(row(scene, is_own));
        }
    }
    table::print(&rows);
    let when = format!("{}, {}.\n\n", figures::today(), measure::machine());
    figures::publish("works", &(when + &table::text(&rows)));
    true
}

fn row(scene: &Scene, is_own: bool) -> Vec<String> {
    let stage = Stage::new(if is_own { "works-own" } else { "works-go" }, scene);
    // It joins before works exist.
    let mut joining = stage.start(is_own);
    stage.spoke.hub.wait_for_condition(&stage.spoke.cluster, AVAILABLE, "True");
    joining.kill();
    stage.create_works();
    let begun = Instant::now();
    let agent = stage.start(is_own);
    stage.wait_until_applied();
    let (time, cpu) = (begun.elapsed(), agent.cpu_time());
    pause(SETTLING);
    let memory = Room::of(&agent);
    let edits: Vec<f64> = (0..EDITS).map(|edit| stage.edit(edit).as_secs_f64() * 1000.0).collect();
    drop(agent);
    stage.clear();
    let Scene { works, manifests, namespaces } = scene;
    vec![
        format!("{works} of {manifests}, in {namespaces} namespaces"),
        if is_own { "klusterlet-agent" } else { "OCM's klusterlet agent" }.to_owned(),
        format!("{:.1}", time.as_secs_f64()),
        format!("{:.1}", cpu.as_secs_f64()),
        mib(memory.resident),
        mib(memory.anonymous),
        format!("{:.0}", table::quantile(&edits, 0.5)),
        format!("{:.0}", table::quantile(&edits, 1.0)),
    ]
}

struct Stage<'a> {
    spoke: Spoke,
    scene: &'a Scene,
    namespaces: Vec<String>,
}

impl<'a> Stage<'a> {
    fn new(name: &str, scene: &'a Scene) -> Self {
        let spoke = Spoke::for_go(name, Bootstrap::Auto);
        ocm::serve_claims(&spoke.managed);
        ocm::serve_applied_works(&spoke.managed);
        let namespace = |_| spoke.managed.new_namespace("applied");
        let namespaces = (0..scene.namespaces).map(namespace).collect();
        Self { spoke, scene, namespaces }
    }

    fn start(&self, is_own: bool) -> Sidecar {
        match is_own {
            true => self.spoke.start_own_singleton(&[&GO_FLAGS[..], &["-v=0"]].concat()),
            false => self.spoke.start_go_singleton(&GO_FLAGS),
        }
    }

    fn create_works(&self) {
        in_parallel(self.scene.works, |work| {
            let metadata = json!({"name": name(work), "namespace": self.spoke.cluster});
            let object = json!({
                "apiVersion": works().api_version(), "kind": "ManifestWork", "metadata": metadata,
                "spec": {"workload": {"manifests": self.manifests(work, "first")}},
            });
            self.spoke.hub.cluster.create(&works().collection(&self.spoke.cluster), &object);
        });
    }

    fn wait_until_applied(&self) {
        let begun = Instant::now();
        for work in (0..self.scene.works).map(name) {
            let left = PATIENCE.saturating_sub(begun.elapsed().as_secs());
            within(left, "all works are applied", || {
                let work =
                    self.spoke.hub.cluster.get(&works().object(&self.spoke.cluster, &work))?;
                is_true(&work, "Applied").then_some(())
            });
        }
    }

    /// Returns the manifests of a work; the first has this value.
    fn manifests(&self, work: usize, value: &str) -> Vec<Value> {
        let namespace = &self.namespaces[work % self.namespaces.len()];
        let manifest = |index| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "data": {"key": if index == 0 { value } else { "value" }},
                "metadata": {"name": format!("{}-{index}", name(work)), "namespace": namespace},
            })
        };
        (0..self.scene.manifests).map(manifest).collect()
    }

    /// Changes a work; returns the time until its object has changed.
    fn edit(&self, edit: usize) -> Duration {
        let value = format!("edit {edit}");
        let patch = json!({"spec": {"workload": {"manifests": self.manifests(edit, &value)}}});
        let maps = resource("", "configmaps", "ConfigMap");
        let object = format!("{}-0", name(edit));
        let object = maps.object(&self.namespaces[edit % self.namespaces.len()], &object);
        let begun = Instant::now();
        let work = name(edit);
        self.spoke.hub.cluster.merge(&works().object(&self.spoke.cluster, &work), &patch);
        let key = || Some(self.spoke.managed.get(&object)?["data"]["key"].clone());
        while key() != Some(json!(value)) {
            assert!(begun.elapsed().as_secs() < PATIENCE, "the edit is not applied");
            pause(1);
        }
        begun.elapsed()
    }

    /// Deletes what the next agent would also process: the records and their objects.
    fn clear(&self) {
        let managed = &self.spoke.managed;
        let records = applied_works();
        let all = list(&managed.client, &records.everywhere(), "").expect("the records are listed");
        in_parallel(all.len(), |index| {
            let name = all[index]["metadata"]["name"].as_str().expect("a name");
            managed.release(&records.cluster_object(name));
            managed.delete(&records.cluster_object(name));
        });
        let maps = resource("", "configmaps", "ConfigMap");
        within(PATIENCE, "the garbage collector has deleted the objects", || {
            pause(500);
            let found = list(&managed.client, &maps.everywhere(), "").expect("they are listed");
            let applied = found.iter().filter(|map| map["data"]["key"].is_string());
            (applied.count() == 0).then_some(())
        });
    }
}

fn name(work: usize) -> String {
    format!("work-{work}")
}

fn in_parallel(count: usize, act: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let act = &act;
            scope.spawn(move || (client..count).step_by(CLIENTS).for_each(act));
        }
    });
}
