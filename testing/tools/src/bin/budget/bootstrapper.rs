//! csr-bootstrapper: several joined clusters, with a heartbeat each second.

use std::{sync::Arc, time::Instant};

use dev_apiserver::Request;
use suite::{
    cluster::Cluster,
    eventually,
    ocm::{AVAILABLE, Bootstrap, Hub},
    pause,
    sidecar::Sidecar,
    spoke::Spoke,
};
use tools::measure::median;

use crate::{
    RUNS,
    table::{RESIDENT, Table, note},
};

/// The number of heartbeats over which requests and bytes are counted.
const COUNTED: usize = 10;
const ADDONS: usize = 5;
/// `-v 0`, and no other periodic requests during the count.
pub(crate) const FLAGS: [&str; 4] = ["-v", "0", "-cluster-healthcheck-period", "1h"];

impl Table {
    /// Measures several joined clusters at rest.
    pub(crate) fn bootstrapper(&mut self, managed: &Arc<Cluster>) -> Vec<(Spoke, Sidecar)> {
        let hub = Hub::on(Cluster::embedded("hub"));
        let join = |_| {
            let spoke = Spoke::between(hub.clone(), managed.clone(), "budget", Bootstrap::Auto);
            let agent = spoke.start(&FLAGS);
            spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
            spoke.hub.set_lease_duration(&spoke.cluster, 1);
            (spoke, agent)
        };
        let members: Vec<(Spoke, Sidecar)> = (0..RUNS).map(join).collect();
        // Conditions, taints and the clock are settled by then.
        members.iter().for_each(|(spoke, _)| wait_for_heartbeats(spoke, 5));
        self.at_rest(members.iter().map(|(_, one)| one), [ANONYMOUS, THREADS]);
        self.requests(&members[0].0, 0);
        members
    }

    /// Measures what add-ons add, and how soon the next process works.
    pub(crate) fn addons(&mut self, members: Vec<(Spoke, Sidecar)>) {
        let resident =
            || median(members.iter().map(|(_, one)| one.memory("VmRSS") as f64).collect());
        let spaces: Vec<_> = members.iter().map(|(spoke, _)| spoke.addon_namespace()).collect();
        let add = |name: &str| {
            let both = members.iter().zip(&spaces);
            both.for_each(|((spoke, _), namespace)| {
                spoke.register_addon(namespace, name);
                spoke.wait_until_registered(name);
            });
            members.iter().for_each(|(spoke, _)| wait_for_heartbeats(spoke, 3));
        };
        add("addon1");
        let one = resident();
        self.at_most("resident memory with an add-on", RESIDENT, one, "KiB");
        (2..=ADDONS).for_each(|number| add(&format!("addon{number}")));
        let more = (resident() - one) / (ADDONS - 1) as f64;
        self.at_most("  for each further one", 150.0, more, "KiB");
        note("each with a Lease and with a certificate for the hub's API server");
        // The Lease of each add-on is read every 30 s.
        self.requests(&members[0].0, ADDONS);
        self.end_and_beginning(members);
        note("OCM's registration agent: 96 MB of file, 85 MB resident, a GET and a PUT each time");
    }

    /// Measures the requests at rest; at most `reads` of them to the local cluster.
    fn requests(&mut self, spoke: &Spoke, reads: usize) {
        wait_for_heartbeats(spoke, 1);
        pause(300);
        let (start, before) = (Instant::now(), spoke.hub_relay.traffic());
        wait_for_heartbeats(spoke, COUNTED - 1);
        wait_for_heartbeats(spoke, 1);
        pause(300);
        let after = spoke.hub_relay.traffic();
        let seen = |mut requests: Vec<Request>| {
            requests.retain(|request| request.at > start);
            requests
        };
        let (hub, own) = (seen(on_hub(spoke)), seen(on_own(spoke)));
        let beats = hub.iter().filter(|request| is_heartbeat(request)).count();
        self.row(
            "heartbeats in 10 periods of 1 s",
            "10",
            &beats.to_string(),
            (COUNTED..=COUNTED + 1).contains(&beats),
        );
        let bytes = after.to_server + after.to_client - before.to_server - before.to_client;
        self.at_most("  bytes both ways, each", BYTES, bytes as f64 / beats as f64, "bytes");
        let others = hub.len() - beats;
        self.at_most("  other requests to the hub", 0.0, others as f64, "");
        let status = hub.iter().filter(|request| request.subresource == "status").count();
        self.at_most("  status writes", 0.0, status as f64, "");
        self.at_most("  requests to its own cluster", reads as f64, own.len() as f64, "");
        note(
            "beside the watches that stay open; /livez and /version each -cluster-healthcheck-period",
        );
        assert_eq!(after.connections, before.connections, "the connection to the hub is not kept");
    }

    /// Measures the end at SIGTERM, and how soon the next process of the same cluster works.
    fn end_and_beginning(&mut self, members: Vec<(Spoke, Sidecar)>) {
        let mut starts = Vec::new();
        for spoke in self.ends(members) {
            let begin = Instant::now();
            let _agent = spoke.start(&FLAGS);
            let first = eventually("the first heartbeat", || {
                on_hub(&spoke).into_iter().find(|it| it.at > begin && is_heartbeat(it))
            });
            starts.push((first.at - begin).as_secs_f64() * 1000.0);
        }
        self.at_most("restart to first heartbeat", 150.0, median(starts), "ms");
    }
}

/// Limits; measured: 1,360 KiB and 1,498 bytes.
const ANONYMOUS: f64 = 1536.0;
const BYTES: f64 = 1700.0;
const THREADS: f64 = 16.0;

/// Returns all requests that the agent sent to the hub as its own user.
fn on_hub(spoke: &Spoke) -> Vec<Request> {
    let mut requests = spoke.hub.cluster.server().requests();
    requests.retain(|request| request.user == spoke.user());
    requests
}

/// Returns all requests that it sent to its local cluster, including health checks of the API server.
fn on_own(spoke: &Spoke) -> Vec<Request> {
    let account = format!("system:serviceaccount:{}:", spoke.namespace);
    let mut requests = spoke.managed.server().requests();
    requests.retain(|request| request.user.starts_with(&account));
    requests
}

fn is_heartbeat(request: &Request) -> bool {
    request.verb == "update" && request.resource == "leases" && request.code == 200
}

pub(crate) fn wait_for_heartbeats(spoke: &Spoke, times: usize) {
    let count = || on_hub(spoke).iter().filter(|request| is_heartbeat(request)).count();
    let goal = count() + times;
    eventually("heartbeats", || count() >= goal);
}
