//! addon-lease-controller, with the credential from csr-bootstrapper.

use std::time::Instant;

use apiclient::resource::SECRETS;
use dev_apiserver::Request;
use serde_json::json;
use suite::{
    eventually, pause,
    relay::Way,
    scene::{ADDON, SECRET, renew_time},
    sidecar::Sidecar,
};
use tools::{
    measure::{self, Wire},
    term::{Timeline, after},
};

use crate::{
    agent::Agent,
    stage::{ADDON_NAMESPACE, CLUSTER, PERIOD, Stage},
};

pub struct Addon<'a> {
    stage: &'a Stage,
    pub sidecar: Sidecar,
    pub wire: Option<Wire>,
}

impl<'a> Addon<'a> {
    pub fn start(stage: &'a Stage, timeline: &Timeline) -> Self {
        let begin = Instant::now();
        let addon = Self { stage, sidecar: stage.lease_sidecar(), wire: None };
        timeline.step("addon-lease-controller starts", || {
            let first = addon.next_renewal(begin);
            let lease = stage.scene.lease();
            assert!(renew_time(lease.as_ref()).is_some(), "a Lease without renewTime: {lease:?}");
            assert_eq!(first.user, stage.spoke.user(), "who renews the Lease");
            format!("Lease on the hub {}", after(first.at - begin))
        });
        addon
    }

    // --- waits ---

    /// Waits for the first renewal after `since`.
    fn next_renewal(&self, since: Instant) -> Request {
        eventually("the Lease is renewed", || {
            self.stage.renewals().into_iter().find(|request| request.at >= since)
        })
    }

    fn requests_since(&self, since: Instant) -> Vec<Request> {
        let mut requests = measure::requests(&self.stage.scene);
        requests.retain(|request| request.at >= since);
        requests
    }

    fn age(&self) -> f64 {
        self.stage.renewals().last().map_or(0.0, |last| last.at.elapsed().as_secs_f64())
    }

    // --- the steps ---

    /// Everything sent to the hub is counted, so nobody else may send requests meanwhile.
    pub fn renewed(&mut self, agent: &Agent) -> String {
        let cluster = || self.stage.spoke.hub.managed_cluster(CLUSTER);
        let (begin, before) = (Instant::now(), cluster());
        let wire = measure::renewals_on_the_wire(&self.stage.scene, 2);
        let others = agent.requests_since(begin);
        assert_eq!(others, Vec::<String>::new(), "csr-bootstrapper's requests meanwhile");
        assert!(cluster() == before, "the hub has told csr-bootstrapper something meanwhile");
        let requests = self.requests_since(begin);
        assert!(requests.iter().all(|request| request.method == "PUT"), "other than PUT");
        let times: Vec<_> = requests.iter().map(|request| request.at).collect();
        let periods = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        assert_eq!(wire.requests, wire.renewals, "other requests than renewals");
        assert_eq!(wire.connections, 0, "the connection is not kept");
        self.wire = Some(wire);
        let period = measure::median(periods);
        format!("a PUT every {period:.3} s, nothing else")
    }

    pub fn unready(&self) -> String {
        let begin = Instant::now();
        self.stage.scene.set_ready(false);
        self.sidecar.wait_for("the Lease goes stale");
        let noticed = begin.elapsed();
        pause(5500);
        let requests = self.requests_since(begin + noticed).len();
        assert_eq!(requests, 0, "the Lease is still renewed");
        let (age, begin) = (self.age(), Instant::now());
        self.stage.scene.set_ready(true);
        let time = self.next_renewal(begin).at - begin;
        format!("ages to {age:.1} s; renewed {}", after(time))
    }

    pub fn deleted(&self) -> String {
        let begin = Instant::now();
        self.stage.scene.hub.delete(&self.stage.scene.hub_lease());
        let created = eventually("the Lease is created again", || {
            let created = |request: &Request| request.at >= begin && request.verb == "create";
            self.stage.renewals().into_iter().find(created)
        });
        let time = created.at - begin;
        assert!(time < PERIOD.mul_f64(1.25), "created only {}", after(time));
        format!("there again {}", after(time))
    }

    pub fn hub_away(&self, agent: &Agent) -> String {
        self.stage.scene.hub_relay.set(Way::Closed);
        self.sidecar.wait_for_code("/readyz", 503);
        let age = self.age();
        for sidecar in [&self.sidecar, &agent.bootstrapper, &agent.dumper] {
            let healthy = sidecar.ask("/healthz").0;
            assert_eq!(healthy, 200, "/healthz while the hub is away");
        }
        format!("not ready after {age:.1} s, all healthy")
    }

    pub fn hub_back(&mut self, agent: &Agent) -> String {
        let begin = Instant::now();
        self.stage.scene.hub_relay.set(Way::Open);
        let lease = self.next_renewal(begin).at - begin;
        let heartbeat = agent.next_heartbeat(begin).at - begin;
        self.sidecar.wait_for("lease renewal recovered");
        self.sidecar.wait_for_code("/readyz", 200);
        assert!(self.sidecar.alive(), "the process ended");
        format!("both renewed again {}", after(lease.max(heartbeat)))
    }

    /// csr-bootstrapper gives the add-on its own credential, and reports it as available.
    pub fn enabled(&self) -> String {
        let (hub, managed) = (&self.stage.spoke.hub, &self.stage.spoke.managed);
        hub.add_addon(CLUSTER, ADDON, ADDON_NAMESPACE);
        let registrations = json!([{"signerName": "kubernetes.io/kube-apiserver-client"}]);
        hub.set_addon_status(CLUSTER, ADDON, &json!({"registrations": registrations}));
        // Like the add-on's manager. The cluster may renew its own certificate meanwhile.
        let label = "open-cluster-management.io/addon-name";
        let request = eventually("the add-on asks for a certificate", || {
            let mut requests = hub.csrs_of(CLUSTER).into_iter();
            let request = requests.find(|it| it["metadata"]["labels"][label] == ADDON)?;
            Some(request["metadata"]["name"].as_str()?.to_owned())
        });
        hub.approve_csr(&request);
        let begin = Instant::now();
        let secret = SECRETS.object(ADDON_NAMESPACE, SECRET);
        eventually("the add-on has a credential", || managed.get(&secret));
        let time = begin.elapsed();
        hub.wait_for_addon(CLUSTER, ADDON, "True");
        format!("credential {}, Available", after(time))
    }

    pub fn wire(&self) -> &Wire {
        self.wire.as_ref().expect("the step that counts")
    }
}
