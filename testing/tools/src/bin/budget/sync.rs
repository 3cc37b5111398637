//! remote-sync: an idle process, the writes per change, and ten thousand pairs in sync.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use suite::{
    cluster::Cluster,
    pause,
    sidecar::Sidecar,
    sync::{
        Setting, Stage, WIDGETS,
        load::{self, Room},
    },
};
use tools::measure::grouped;

use crate::{
    RUNS,
    table::{Table, note},
};

/// The number of pairs whose memory is measured.
const PAIRS: usize = 10_000;
/// Memory is stable after this, in milliseconds.
const SETTLING: u64 = 10_000;
/// How long the requests of an idle process are counted, in milliseconds.
const IDLE: u64 = 20_000;
/// The time limit until all pairs are in sync. Slow machines must meet it too: it only ends a run that hangs.
const LIMIT: Duration = Duration::from_secs(300);
/// The limit of an idle process, in KiB.
const ANONYMOUS: f64 = 2048.0;
/// Two lists of 20 pages, one of namespaces, three watches, discovery (repeated before each watch), connecting, and a
/// read of each cluster's identity per probe interval.
const REQUESTS: f64 = 66.0;
const BUSY: [&str; 5] = ["-qps", "0", "-concurrent-reconciles", "16", "-leader-election=false"];

const THREADS: f64 = 12.0;

fn stage(hub: &Arc<Cluster>, managed: &Arc<Cluster>, setting: Setting) -> Stage {
    Stage::between(managed.clone(), vec![("hub", hub.clone())], "budget", setting)
}

impl Table {
    /// Measures copies and their cost.
    pub(crate) fn copies(&mut self, hub: &Arc<Cluster>, managed: &Arc<Cluster>) {
        self.writes(&stage(hub, managed, Setting::safe(&[&WIDGETS]).secrets(&["token"])));
        let (hub, managed) = (Cluster::embedded("hub"), Cluster::embedded("managed"));
        self.pairs(&stage(&hub, &managed, Setting::safe(&[&WIDGETS])));
        note("sync-controller: 44 MB of file, 37.5 MB resident, 57.8 MB with 1,000 pairs");
    }

    /// Measures one remote and one kind, with the defaults: probes and watches.
    pub(crate) fn sync(&mut self, hub: &Arc<Cluster>, managed: &Arc<Cluster>) {
        let start = |_| {
            let stage = stage(hub, managed, Setting::safe(&[&WIDGETS]));
            let sidecar = stage.start_deployed(&[]);
            load::wait_for_pairs(&sidecar, 0, LIMIT);
            (stage, sidecar)
        };
        let idle: Vec<(Stage, Sidecar)> = (0..RUNS).map(start).collect();
        pause(SETTLING);
        self.at_rest(idle.iter().map(|(_, one)| one), [ANONYMOUS, THREADS]);
        let (stage, _) = &idle[0];
        stage.forget_requests();
        pause(IDLE);
        let (mut probes, mut others) = (0, Vec::new());
        for side in stage.sides() {
            let user = side.user();
            for request in side.cluster.server().requests().iter().filter(|it| it.user == user) {
                match &*request.path {
                    "/api/v1/namespaces/kube-system" => probes += 1,
                    path => others.push(format!("{} {path}", request.verb)),
                }
            }
        }
        let seconds = IDLE / 1000;
        self.at_most(&format!("idle {seconds} s: probes of two clusters"), 4.0, probes.into(), "");
        self.at_most("  other requests", 0.0, others.len() as f64, "");
        others.iter().for_each(|other| note(other));
        self.ends(idle);
    }

    /// Checks the exact number of writes in each case; see REFERENCE.md of remote-sync.
    fn writes(&mut self, stage: &Stage) {
        let flags = ["-qps", "0", "-leader-election=false"];
        let sidecar = stage.start_deployed(&flags);
        load::wait_for_pairs(&sidecar, 0, LIMIT);
        let mut case = |what: &str, expected: usize, change: &dyn Fn()| {
            let before = stage.settled();
            change();
            let writes = stage.settled() - before;
            let figure = format!("writes: {what}");
            self.row(&figure, &expected.to_string(), &writes.to_string(), writes == expected);
            if writes != expected {
                let all = stage.writes();
                all[before..].iter().for_each(|one| note(&format!("{} {}", one.code, one.words)));
            }
        };
        let source = |name| stage.source(&WIDGETS, name);
        let target = |name| stage.target(&WIDGETS, name);
        case("new object and namespace, with the request that finds it missing", 5, &|| {
            drop(source("a").create_number(1))
        });
        case("new object", 3, &|| drop(source("b").create_number(1)));
        case("spec", 2, &|| drop(source("b").set_number(2)));
        case("label", 1, &|| drop(source("b").merge(&json!({"metadata": {"labels": {"a": "b"}}}))));
        case("status", 1, &|| drop(target("b").set_health(1)));
        stage.source_secret("token").create(&json!({}));
        let owner = target("b");
        case("Secret", 1, &|| drop(stage.create_target_secret("token", "one", Some(&owner))));
        let reads = || stage.asked(&stage.own, "get", WIDGETS.resource.plural.as_ref());
        let before = reads();
        case("deletion", 2, &|| source("b").delete());
        let read = reads() - before;
        case("nothing, for a second", 0, &|| pause(500));
        drop(sidecar);
        let restarted = stage.start_deployed(&flags);
        case("restart", 0, &|| load::wait_for_pairs(&restarted, 1, LIMIT));
        self.row("live reads: deletion", "1", &read.to_string(), read == 1);
    }

    fn pairs(&mut self, stage: &Stage) {
        let empty = stage.start_deployed(&BUSY);
        load::wait_for_pairs(&empty, 0, LIMIT);
        pause(SETTLING);
        let base = Room::of(&empty);
        let begun = Instant::now();
        stage.put_sources(0, 0..PAIRS);
        load::wait_for_pairs(&empty, PAIRS, LIMIT);
        let time = begun.elapsed();
        pause(SETTLING);
        let made = Room::of(&empty);
        drop(empty);
        stage.forget_requests();
        let sidecar = stage.start_deployed(&BUSY);
        load::wait_for_pairs(&sidecar, PAIRS, LIMIT);
        pause(SETTLING);
        let (room, (requests, writes)) = (Room::of(&sidecar), stage.counted());
        let pairs = grouped(PAIRS as u64);
        self.at_most(&format!("{pairs} pairs: resident"), 25_600.0, room.resident as f64, "KiB");
        let each = |room: Room| {
            let more = room.resident.saturating_sub(base.resident);
            more as f64 * 1024.0 / PAIRS as f64
        };
        self.at_most("  each, beyond none", 620.0, each(room), "bytes");
        let over = room.peak - room.resident;
        self.at_most("  peak while listing, above that", 16_384.0, over as f64, "KiB");
        self.at_most("  writes of the restart: its time", 1.0, writes as f64, "");
        self.at_most("  its other requests", REQUESTS, requests as f64, "");
        self.at_most("  resident where all were new", 25_600.0, made.resident as f64, "KiB");
        note(&format!(
            "made in {:.1} s, then {:.0} bytes each; anonymous {} KiB; at most {} KiB",
            time.as_secs_f64(),
            each(made),
            grouped(room.anonymous),
            grouped(made.peak)
        ));
    }
}
