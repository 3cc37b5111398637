//! What happens, and its visible results.

use std::time::{Duration, Instant};

use suite::{
    eventually, pause,
    relay::Way,
    sidecar::Sidecar,
    sync::{HASH, load::Room},
};
use tools::{
    measure,
    term::{Timeline, after, spoken},
};

use crate::stage::{SECRET, Stage};

/// The number of additional widgets.
const MORE: usize = 1000;
/// The writes for a new object in an existing namespace, a new spec, a status, a Secret and a deletion.
pub const WRITES: [usize; 5] = [NEW, SPEC, STATUS, UPLOAD, DELETION];
/// Finalizer, the copy, generations.
const NEW: usize = 3;
/// The copy, generations.
const SPEC: usize = 2;
const STATUS: usize = 1;
const UPLOAD: usize = 1;
/// The copy, the finalizer.
const DELETION: usize = 2;
/// How long nothing happens.
const IDLE: Duration = Duration::from_secs(3);

/// Figures for the table.
pub struct Seen {
    /// With one pair, and with all.
    pub memory: [Option<Room>; 2],
    /// Requests in the idle time, except probes.
    pub idle: usize,
    /// Writes at a start with everything in sync.
    pub restart: usize,
    /// Widgets lost here because of an empty hub.
    pub lost: usize,
}

pub struct Play<'a> {
    stage: &'a Stage,
    pub sidecar: Sidecar,
    pub seen: Seen,
}

impl<'a> Play<'a> {
    pub fn begin(stage: &'a Stage, timeline: &Timeline) -> Self {
        let begin = Instant::now();
        let sidecar = stage.start();
        let seen = Seen { memory: [None; 2], idle: 0, restart: 0, lost: 0 };
        let play = Self { stage, sidecar, seen };
        timeline.step("remote-sync starts", || {
            play.wait_until_open();
            format!("both clusters connected {}", after(begin.elapsed()))
        });
        play
    }

    pub fn live(&mut self, timeline: &Timeline) {
        timeline.step("On the hub: a widget, web-east", || self.created());
        timeline.step("Here: its status changes", || self.status_changed(1));
        timeline.step("Here: a Secret is made for it", || self.secret());
        timeline.step("On the hub: its spec changes", || self.spec_changed());
        self.seen.memory[0] = Some(Room::of(&self.sidecar));
        let more = format!("On the hub: {} more widgets", measure::grouped(MORE as u64));
        timeline.step(&more, || self.filled());
        self.seen.memory[1] = Some(Room::of(&self.sidecar));
        timeline.step("Nothing happens for 3 s", || self.idle());
        timeline.step("kill -9, and started again", || self.restarted());
    }

    pub fn lose_the_hub(&mut self, timeline: &Timeline) {
        timeline.step("The hub is gone", || self.hub_away());
        timeline.step("The hub is back", || self.hub_back());
        timeline.step("An EMPTY cluster answers instead", || self.replaced());
        timeline.step("Started again, with only that", || self.restarted_there());
        timeline.step("Started again, with the hub", || self.restored());
    }

    pub fn delete(&self, timeline: &Timeline) {
        timeline.step("On the hub: web-east is deleted", || self.deleted());
    }

    // --- waits ---

    /// Waits until all kinds are ready.
    fn wait_until_open(&self) {
        eventually("both clusters are connected and listed", || {
            (self.sidecar.ask("/readyz") == (200, "ok\n".into())).then_some(())
        });
    }

    /// Waits until the program refuses a cluster other than the recorded one.
    fn wait_until_refused(&self) {
        eventually("another cluster is refused", || {
            (self.metric("remote_sync_cluster_identity_refused") > 0.0).then_some(())
        });
    }

    fn metric(&self, name: &str) -> f64 {
        self.sidecar.metric(&format!("{name}{{remote=\"hub\"}}")).unwrap_or(0.0)
    }

    /// Checks the number of widgets here.
    fn all_there(&self) -> String {
        let count = self.stage.count();
        assert_eq!(count, MORE + 1, "widgets here: {}", self.sidecar.log());
        format!("all {} stay", measure::grouped(count as u64))
    }

    /// Returns how long after `begin` the last of these writes came; checks that there are no others.
    fn wrote(&self, begin: Instant, count: usize) -> String {
        let last = self.stage.wait_for_writes(begin, count);
        let plural = if count == 1 { "" } else { "s" };
        format!("{}, {count} write{plural}", after(last.at - begin))
    }

    // --- a life in sync ---

    fn created(&self) -> String {
        let begin = Instant::now();
        self.stage.there("web").create_number(3);
        // Two more for the namespace: the first finds it missing.
        let wrote = self.wrote(begin, NEW + 2);
        assert_eq!(self.stage.here("web").number(), Some(3), "the copy's spec");
        format!("here as web {wrote}")
    }

    fn status_changed(&self, number: u64) -> String {
        let begin = Instant::now();
        self.stage.here("web").set_health(number);
        let wrote = self.wrote(begin, STATUS);
        assert_eq!(self.stage.there("web").healthy(), Some(number), "the status on the hub");
        format!("on the hub {wrote}")
    }

    fn secret(&self) -> String {
        let sync = &self.stage.sync;
        let begin = Instant::now();
        sync.create_target_secret(SECRET, "not for the log", Some(&self.stage.here("web")));
        let wrote = self.wrote(begin, UPLOAD);
        let (from, to) = (sync.target_secret(SECRET).read(), sync.source_secret(SECRET).read());
        assert_eq!(
            (&to["data"], to["metadata"]["annotations"][HASH].is_string()),
            (&from["data"], true)
        );
        format!("on the hub {wrote}")
    }

    fn spec_changed(&self) -> String {
        let begin = Instant::now();
        self.stage.there("web").set_number(4);
        let wrote = self.wrote(begin, SPEC);
        assert_eq!(self.stage.here("web").number(), Some(4), "the copy's spec");
        format!("here {wrote}")
    }

    fn filled(&self) -> String {
        let begin = Instant::now();
        self.stage.fill(MORE);
        let last = self.stage.wait_for_writes(begin, MORE * NEW);
        self.all_there();
        format!("all here {}, {NEW} writes each", after(last.at - begin))
    }

    fn idle(&mut self) -> String {
        let begin = Instant::now();
        std::thread::sleep(IDLE);
        let mut asked = self.stage.requests();
        // Probes check whether a cluster answers, and which one it is.
        let probe = "/api/v1/namespaces/kube-system";
        asked.retain(|request| request.at >= begin && request.path != probe);
        self.seen.idle = asked.len();
        assert!(asked.is_empty(), "{asked:?}");
        "no request but the probes".into()
    }

    fn restart(&mut self) -> Instant {
        self.sidecar.kill();
        let begin = Instant::now();
        self.sidecar = self.stage.start();
        begin
    }

    /// Returns the number of writes since then, after a while.
    fn written(&self, since: Instant) -> usize {
        pause(1500);
        self.stage.writes().iter().filter(|request| request.at >= since).count()
    }

    fn restarted(&mut self) -> String {
        let begin = self.restart();
        self.wait_until_open();
        let time = begin.elapsed();
        self.seen.restart = self.written(begin);
        assert_eq!(self.seen.restart, 0, "writes after a restart");
        let pairs = measure::grouped(MORE as u64 + 1);
        format!("{pairs} known {}, no write", after(time))
    }

    // --- doubt ---

    fn hub_away(&self) -> String {
        let begin = Instant::now();
        self.stage.sync.remote().relay.set(Way::Closed);
        eventually("the connection counts as lost", || {
            (self.metric("remote_sync_cluster_connected") == 0.0).then_some(())
        });
        let noticed = begin.elapsed();
        assert_eq!(self.sidecar.ask("/readyz").0, 200, "ready without the hub");
        self.stage.here("web").set_health(2);
        pause(1500);
        format!("noticed in {}; {}", spoken(noticed), self.all_there())
    }

    fn hub_back(&self) -> String {
        let begin = Instant::now();
        self.stage.sync.remote().relay.set(Way::Open);
        let wrote = self.wrote(begin, STATUS);
        assert_eq!(self.stage.there("web").healthy(), Some(2), "the status on the hub");
        format!("status follows {wrote}")
    }

    /// The other server accepts the certificate and serves the kind, but has no objects.
    fn replaced(&mut self) -> String {
        let begin = Instant::now();
        self.stage.sync.remote().relay.redirect(&self.stage.other.address);
        self.wait_until_refused();
        let time = begin.elapsed();
        // This waits for longer than the grace.
        assert_eq!(self.written(begin), 0, "writes");
        format!("noticed in {}; {}", spoken(time), self.all_there())
    }

    fn restarted_there(&mut self) -> String {
        let begin = self.restart();
        self.wait_until_refused();
        assert_eq!(self.written(begin), 0, "writes");
        self.seen.lost = MORE + 1 - self.stage.count();
        format!("not the recorded one; {}", self.all_there())
    }

    fn restored(&mut self) -> String {
        self.sidecar.kill();
        self.stage.sync.remote().relay.redirect(&self.stage.sync.remote().cluster.address);
        let begin = self.restart();
        self.wait_until_open();
        assert_eq!(self.written(begin), 0, "writes");
        "in sync, nothing written".into()
    }

    // --- the end ---

    fn deleted(&self) -> String {
        let begin = Instant::now();
        let (there, here) = (self.stage.there("web"), self.stage.here("web"));
        there.delete();
        there.wait_until_gone();
        let wrote = self.wrote(begin, DELETION);
        assert!(here.get().is_none(), "the copy is still here");
        assert_eq!(self.stage.count(), MORE, "the others");
        format!("gone on both {wrote}")
    }
}
