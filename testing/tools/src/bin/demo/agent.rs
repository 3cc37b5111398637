//! csr-bootstrapper and hub-kubeconfig-dumper: the cluster joins, and its certificate is renewed.

use std::time::{Duration, Instant};

use dev_apiserver::{Issued, Request};
use serde_json::Value;
use suite::{eventually, identity::Data, ocm, pause, sidecar::Sidecar};
use tools::{
    measure,
    term::{Timeline, after},
};

use crate::{
    files::Reader,
    stage::{CLUSTER, LIFETIME, PERIOD, Stage},
};

/// How often the agent is killed while it waits.
const CRASHES: usize = 3;

pub struct Agent<'a> {
    stage: &'a Stage,
    pub bootstrapper: Sidecar,
    pub dumper: Sidecar,
    files: Reader,
    /// Requests for a certificate that each crash left on the hub.
    pub requests_per_crash: usize,
    /// When the first certificate was saved, and the Secret's data then.
    first: Option<(Instant, Data)>,
}

impl<'a> Agent<'a> {
    pub fn start(stage: &'a Stage, timeline: &Timeline) -> Self {
        let begin = Instant::now();
        let agent = Self {
            stage,
            bootstrapper: stage.bootstrapper(),
            dumper: stage.dumper(),
            files: Reader::of(stage.directory()),
            requests_per_crash: 0,
            first: None,
        };
        timeline.step("csr-bootstrapper, dumper start", || {
            let csr = agent.stage.spoke.hub.next_csr(CLUSTER);
            let posted = agent.request(|request| {
                request.resource == "certificatesigningrequests" && request.code == 201
            });
            let cluster = agent.stage.spoke.hub.managed_cluster(CLUSTER);
            assert!(cluster.is_some(), "no ManagedCluster {CLUSTER} on the hub beside {csr}");
            format!("ManagedCluster and CSR {}", after(posted.at - begin))
        });
        agent
    }

    pub fn join(&mut self, timeline: &Timeline) {
        timeline.step("They wait for a person", || self.waits());
        let killed = format!("csr-bootstrapper: kill -9, {CRASHES}x");
        timeline.step(&killed, || self.crashes());
        timeline.step("A person approves the request", || self.approved());
        timeline.step("A person accepts the cluster", || self.accepted());
    }

    fn request(&self, wanted: impl Fn(&Request) -> bool) -> Request {
        eventually("csr-bootstrapper asks the hub", || self.stage.asked().into_iter().find(&wanted))
    }

    /// Returns csr-bootstrapper's requests to the hub since then, in words.
    pub fn requests_since(&self, since: Instant) -> Vec<String> {
        let requests = self.stage.asked().into_iter().filter(|request| request.at >= since);
        requests.map(|request| format!("{} {}", request.verb, request.path)).collect()
    }

    // --- the steps of joining ---

    fn waits(&self) -> String {
        for sidecar in [&self.bootstrapper, &self.dumper] {
            let why = sidecar.wait_for_code("/readyz", 503);
            assert_eq!(sidecar.ask("/healthz").0, 200, "/healthz while waiting: {why}");
        }
        assert!(self.stage.spoke.certificate().is_none(), "there is a certificate already");
        let written =
            ["kubeconfig", "tls.crt"].map(|name| self.stage.directory().join(name).exists());
        assert_eq!(written, [false; 2], "files before there is a credential");
        "healthy, not ready, no certificate".into()
    }

    fn crashes(&mut self) -> String {
        let before = self.requests();
        for _ in 0..CRASHES {
            self.bootstrapper.kill();
            let begin = Instant::now();
            self.bootstrapper = self.stage.bootstrapper();
            self.request(|request| {
                request.at > begin && request.resource == "certificatesigningrequests"
            });
            self.bootstrapper.wait_for_code("/readyz", 503);
            pause(200);
        }
        let now = self.requests();
        self.requests_per_crash = (now.len() - before.len()) / CRASHES;
        assert_eq!(before, now, "the requests on the hub");
        assert_eq!(now.len(), 1, "the requests on the hub: {now:?}");
        "the same CSR, and no other".into()
    }

    /// Returns names and uids of the CSRs on the hub.
    fn requests(&self) -> Vec<(String, String)> {
        let text = |object: &Value, field| object["metadata"][field].as_str().map(str::to_owned);
        let all = self.stage.spoke.hub.csrs_of(CLUSTER);
        all.iter().filter_map(|csr| Some((text(csr, "name")?, text(csr, "uid")?))).collect()
    }

    fn approved(&mut self) -> String {
        let spoke = &self.stage.spoke;
        let before = self.stage.saved().len();
        let begin = Instant::now();
        spoke.hub.approve_next(CLUSTER);
        let certificate = spoke.wait_for_certificate();
        let life = certificate.not_after.duration_since(certificate.not_before);
        assert_eq!(life.ok(), Some(LIFETIME), "the certificate's lifetime");
        let sets = self.files.wait_for(1);
        let (saved, data) = (self.stage.saved(), spoke.credential().expect("the Secret"));
        assert_eq!(saved.len() - before, 1, "writes of the Secret");
        assert_eq!(sets[0].1, data, "the files and the Secret");
        for sidecar in [&self.bootstrapper, &self.dumper] {
            sidecar.wait_for_code("/readyz", 200);
        }
        let (at, files) = (saved[before].at, sets[0].0);
        let count = data.len();
        self.first = Some((at, data));
        let (secret, files) = (after(at - begin), (files - begin).as_millis());
        format!("Secret {secret}, {count} files {files} ms")
    }

    fn accepted(&self) -> String {
        let hub = &self.stage.spoke.hub;
        let begin = Instant::now();
        hub.accept(CLUSTER);
        for kind in ["ManagedClusterJoined", "ManagedClusterConditionAvailable"] {
            hub.wait_for_condition(CLUSTER, kind, "True");
        }
        let time = begin.elapsed();
        // The hub's last condition of a new cluster: it is quiet from now on.
        hub.wait_for_condition(CLUSTER, "ManagedClusterConditionClockSynced", "True");
        pause(200);
        format!("Joined and Available {}", after(time))
    }

    // --- the heartbeat ---

    fn heartbeats(&self) -> Vec<Request> {
        let mut requests = self.stage.asked();
        requests.retain(|request| measure::is_renewal(request) && request.name == ocm::HEARTBEAT);
        requests
    }

    pub fn next_heartbeat(&self, since: Instant) -> Request {
        eventually("the heartbeat is renewed", || {
            self.heartbeats().into_iter().find(|request| request.at >= since)
        })
    }

    /// The period has been the ManagedCluster's default so far.
    pub fn faster(&self) -> String {
        let hub = &self.stage.spoke.hub;
        let cluster = hub.managed_cluster(CLUSTER).expect("the ManagedCluster");
        let before = cluster["spec"]["leaseDurationSeconds"].as_u64().expect("a period");
        assert_eq!(self.heartbeats().len(), 1, "heartbeats so far, one in {before} s");
        let begin = Instant::now();
        let seconds = PERIOD.as_secs() as u32;
        hub.set_lease_duration(CLUSTER, seconds);
        let first = self.next_heartbeat(begin);
        format!("every {seconds} s, not {before}: {}", after(first.at - begin))
    }

    // --- the next certificate ---

    pub fn renewed(&self) -> String {
        let spoke = &self.stage.spoke;
        let (begin, before) = self.first.as_ref().expect("the first certificate");
        let write = eventually("the certificate is renewed", || {
            self.stage.saved().into_iter().find(|request| request.at > *begin)
        });
        let csrs = spoke.hub.csrs_of(CLUSTER);
        let reasons = csrs.iter().map(ocm::reasons).collect::<Vec<_>>().concat();
        let by_hub = reasons.iter().filter(|reason| reason.starts_with("AutoApproved")).count();
        assert_eq!((csrs.len(), by_hub), (2, 1), "the requests on the hub: {reasons:?}");
        let now = spoke.credential().expect("the Secret");
        assert_ne!(now["tls.key"], before["tls.key"], "the key");
        let (age, life) = ((write.at - *begin).as_secs_f64(), LIFETIME.as_secs());
        format!("renewed after {age:.1} of {life} s, by itself")
    }

    pub fn goes_on(&mut self, addon: &mut Sidecar) -> String {
        let (begin, before) = self.first.as_ref().expect("the first certificate");
        let now = self.stage.spoke.credential().expect("the Secret");
        let write = self.stage.saved().into_iter().find(|request| request.at > *begin);
        let at = write.expect("the second certificate was saved").at;
        let lease = switch(at, || self.stage.renewals());
        let heartbeat = switch(at, || self.heartbeats());
        let sets: Vec<_> = self.files.wait_for(2).into_iter().map(|(_, set)| set).collect();
        assert!(sets == [before.clone(), now.clone()], "other sets of files than the two Secrets");
        let end = seconds(&now);
        for sidecar in [&self.bootstrapper, &self.dumper, &*addon] {
            let metric = "sidecar_certificate_expiration_timestamp_seconds";
            let used = || {
                sidecar.metric(metric).or(sidecar.metric(&format!("{metric}{{target=\"hub\"}}")))
            };
            eventually("the new certificate is in use", || used() == Some(end));
        }
        for sidecar in [&mut self.bootstrapper, &mut self.dumper, addon] {
            assert!(sidecar.alive(), "a process ended: {}", sidecar.log());
        }
        let longest = lease.max(heartbeat).as_secs_f64();
        format!("longest gap {longest:.3} s, same processes")
    }
}

/// Returns the expiry of the certificate in a Secret, in the format of metrics.
fn seconds(secret: &Data) -> f64 {
    let end = Issued::of(&secret["tls.crt"]).expect("a certificate").not_after;
    end.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

/// Waits for the first renewals on a new connection after `at`; returns the longest gap around the switch.
fn switch(at: Instant, renewals: impl Fn() -> Vec<Request>) -> Duration {
    let all = eventually("renewals with the new certificate", || {
        let all = renewals();
        let old = all.iter().rfind(|request| request.at < at)?.connection;
        let is_new = |request: &&Request| request.at > at && request.connection > old;
        (all.iter().filter(is_new).count() >= 2).then_some(all)
    });
    let start = all.iter().rposition(|request| request.at < at).expect("one before");
    let gaps = all[start..].windows(2).map(|pair| pair[1].at - pair[0].at);
    let longest = gaps.max().expect("two of them");
    assert!(longest < PERIOD.mul_f64(1.25), "a period was lost: {longest:?}");
    let old = all[start].connection;
    let still = all[start + 1..].iter().filter(|request| request.connection == old).count();
    assert!(still <= 1, "the old connection is still used");
    longest
}
