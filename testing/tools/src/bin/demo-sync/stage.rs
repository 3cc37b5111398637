//! A hub and a cluster, and remote-sync's settings for them.

use std::{sync::Arc, time::Instant};

use dev_apiserver::{Options, Request};
use serde_json::json;
use suite::{
    cluster::Cluster,
    eventually, pause,
    sidecar::Sidecar,
    sync::{self, Place, Setting, Side, WIDGETS},
};

/// The suffix of the names on the hub.
const SUFFIX: &str = "-east";
pub const SECRET: &str = "web-token";

pub struct Stage {
    pub sync: sync::Stage,
    /// An empty server with the hub's CA.
    pub other: Arc<Cluster>,
}

impl Stage {
    pub fn set() -> Self {
        let setting = Setting::safe(&[&WIDGETS]).same_names().secrets(&[SECRET]);
        let setting = Setting { suffix: SUFFIX.into(), ..setting };
        let hub = Cluster::embedded("hub");
        let ca = Some(hub.server().ca().clone());
        let other = Cluster::embedded_with("other", Options { ca, ..Options::default() });
        let cluster = Cluster::embedded("cluster");
        let sync = sync::Stage::between(cluster, vec![("hub", hub)], "team", setting);
        // The Secret must exist: the program may write it, but not create it.
        sync.source_secret(SECRET).create(&json!({"type": "Opaque"}));
        // It serves the same kinds, but has no objects.
        drop(Side::new("other", other.clone()));
        Self { sync, other }
    }

    pub fn start(&self) -> Sidecar {
        // By certificate, which the other server accepts too.
        let kubeconfig = self.sync.remote().kubeconfig_by_certificate();
        let file = self.sync.write("hub.kubeconfig", &kubeconfig);
        self.sync.start_as(|command| {
            // The last of repeated flags wins.
            command
                .args(["-remote-kubeconfig", &format!("hub={}", file.display())])
                .args(["-qps", "0", "-v", "0"]);
        })
    }

    // --- objects ---

    /// Returns the object on the hub, by its name here.
    pub fn there(&self, name: &str) -> Place {
        self.sync.source(&WIDGETS, name)
    }

    pub fn here(&self, name: &str) -> Place {
        self.sync.target(&WIDGETS, name)
    }

    /// Creates widgets on the hub, without HTTP.
    pub fn fill(&self, count: usize) {
        for number in 0..count {
            let place = self.there(&format!("w{number}"));
            let mut object = WIDGETS.content(7);
            object["apiVersion"] = json!(WIDGETS.resource.api_version());
            object["kind"] = json!(WIDGETS.resource.kind);
            object["metadata"] = json!({"name": place.name, "namespace": place.namespace});
            place.cluster.server().put(object);
        }
    }

    /// Returns the number of widgets here.
    pub fn count(&self) -> usize {
        let (resource, namespace) = (&WIDGETS.resource, &self.sync.namespace);
        let server = self.sync.own.cluster.server();
        server.list(&resource.api_version(), &resource.plural, namespace).len()
    }

    // --- requests to the servers ---

    /// Returns the program's requests to all three servers, by time.
    pub fn requests(&self) -> Vec<Request> {
        let users = [self.sync.remote().user(), self.sync.own.user()];
        let servers = [&self.sync.remote().cluster, &self.sync.own.cluster, &self.other];
        let all = servers.iter().flat_map(|cluster| cluster.server().requests());
        let mut all: Vec<_> = all.filter(|request| users.contains(&request.user)).collect();
        all.sort_by_key(|request| request.at);
        all
    }

    /// Returns the write requests for what is synced: neither Events nor the record of known clusters.
    pub fn writes(&self) -> Vec<Request> {
        let mut all = self.requests();
        let is_read = |verb: &str| matches!(verb, "get" | "list" | "watch");
        let others = ["events", "configmaps"];
        all.retain(|it| !is_read(&it.verb) && !others.contains(&&*it.resource));
        all
    }

    /// Waits for `count` writes after `since` and checks that there are no more; returns the last one.
    pub fn wait_for_writes(&self, since: Instant, count: usize) -> Request {
        let writes = || {
            let mut all = self.writes();
            all.retain(|request| request.at >= since);
            all
        };
        eventually(&format!("{count} writes"), || writes().len() >= count);
        pause(300);
        let all = writes();
        let words: Vec<_> = all.iter().map(|it| format!("{} {}", it.verb, it.path)).collect();
        assert_eq!(all.len(), count, "writes: {words:?}");
        all[count - 1].clone()
    }
}
