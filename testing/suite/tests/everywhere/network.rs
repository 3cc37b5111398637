//! Lost connections: F1 to F5, F8, F9.

use std::{
    collections::HashMap,
    fs,
    ops::Range,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use dev_apiserver::{Action, State};
use suite::{
    Stopwatch, pause,
    relay::{Relay, Way},
    scene::Scene,
};

use crate::strike::{VERBS, answered_once_to, strike};

#[test]
fn f1_a_server_that_refuses_connections() {
    strike("refused", |subject| {
        subject.peer().relay.set(Way::Closed);
        pause(3000);
        assert!(subject.says("Connection refused"), "{}", subject.process.log());
        subject.peer().relay.set(Way::Open);
    });
}

/// Of a socket that connects or is connected.
struct Socket {
    local: String,
    remote: String,
    state: String,
}

/// All of them, and when they were read, which is after `before`: once for all who watch, as tests leave thousands that
/// are over, and on a busy machine a read of its own for each would leave no time for a second one.
fn sockets(before: Instant) -> (Instant, Arc<Vec<Socket>>) {
    static LAST: Mutex<Option<(Instant, Arc<Vec<Socket>>)>> = Mutex::new(None);
    let mut last = LAST.lock().expect("lock");
    if last.as_ref().is_none_or(|(at, _)| *at <= before) {
        let at = Instant::now();
        let table = fs::read_to_string("/proc/net/tcp").expect("the sockets");
        *last = Some((at, Arc::new(table.lines().filter_map(socket).collect())));
    }
    last.clone().expect("just read")
}

/// "   0: 0100007F:1F90 0100007F:D431 01 …"
fn socket(line: &str) -> Option<Socket> {
    let line = line.split_once(": ")?.1;
    let (local, remote, state) = (line.get(..13)?, line.get(14..27)?, line.get(28..30)?);
    [ESTABLISHED, SYN_SENT].contains(&state).then(|| Socket {
        local: local.to_owned(),
        remote: remote.to_owned(),
        state: state.to_owned(),
    })
}

/// A socket in a state, as it was looked for now and then: how long it was there is between two times.
struct Sight {
    /// When it was not there yet.
    before: Instant,
    first: Instant,
    last: Instant,
    gone: Option<Instant>,
}

#[derive(Debug)]
struct Stay {
    least: Duration,
    most: Duration,
}

/// Of the sockets that lead to a server, how long each is in `state` during this time, or until there were two on a
/// machine that leaves the program less of it.
fn watched(relay: &Relay, state: &str, time: Duration) -> Vec<Stay> {
    let remote = format!("0100007F:{:04X}", relay.address.port());
    let (start, watch, mut before) = (Instant::now(), Stopwatch::start(), Instant::now());
    let mut seen: HashMap<String, Sight> = HashMap::new();
    while start.elapsed() < time || seen.len() < 2 && watch.is_within(time) {
        pause(100);
        let (at, all) = sockets(before);
        let ours = all.iter().filter(|it| it.remote == remote && it.state == state);
        let there: Vec<_> = ours.map(|it| &it.local).collect();
        for local in &there {
            let sight = Sight { before, first: at, last: at, gone: None };
            seen.entry((*local).clone()).or_insert(sight).last = at;
        }
        for (_, sight) in seen.iter_mut().filter(|(local, _)| !there.contains(local)) {
            sight.gone.get_or_insert(at);
        }
        before = at;
    }
    let stay = |it: &Sight| Stay {
        least: it.last - it.first,
        most: it.gone.unwrap_or_else(Instant::now) - it.before,
    };
    seen.values().map(stay).collect()
}

const ESTABLISHED: &str = "01";
const SYN_SENT: &str = "02";

/// Checks that the longest try lasts as long as that.
#[track_caller]
fn lasts(stays: &[Stay], seconds: Range<f64>) {
    let longest = |of: fn(&Stay) -> Duration| stays.iter().map(of).max().expect("it connects");
    let (least, most) = (longest(|it| it.least), longest(|it| it.most));
    assert!(least.as_secs_f64() < seconds.end && most.as_secs_f64() > seconds.start, "{stays:?}");
}

/// 5 s, where one of 3 s, 6 s or 10 s would be another: a busy machine may end it late.
const CONNECTING: Range<f64> = 4.0..5.9;

#[test]
fn f2_a_black_hole_is_given_up_after_5_s() {
    strike("hole", |subject| {
        let relay = subject.peer().relay;
        relay.set(Way::Closed);
        relay.set(Way::Hole);
        let stays = watched(relay, SYN_SENT, Duration::from_secs(16));
        relay.set(Way::Open);
        assert!(stays.len() >= 2, "it goes on trying: {stays:?}");
        // What has a second for all has less for this.
        let least = if subject.renews_each_second() { 0.0 } else { CONNECTING.start };
        lasts(&stays, least..CONNECTING.end);
    });
}

#[test]
fn f2_a_lease_of_a_usual_period_has_5_s_too() {
    let scene = Scene::new("hole-minute");
    scene.hub_relay.set(Way::Hole);
    let _sidecar = scene.start(&["-lease-duration", "60"]);
    lasts(&watched(&scene.hub_relay, SYN_SENT, Duration::from_secs(12)), CONNECTING);
}

#[test]
fn f3_a_server_that_never_speaks_tls_is_given_up_in_10_s() {
    strike("mute", |subject| {
        let relay = subject.peer().relay;
        relay.set(Way::Silent);
        relay.cut();
        let stays = watched(relay, ESTABLISHED, Duration::from_secs(16));
        relay.set(Way::Open);
        assert!(stays.len() >= 2, "it goes on trying: {stays:?}");
        lasts(&stays, 0.0..11.5);
    });
}

#[test]
fn f4_garbage_and_alerts_in_the_place_of_tls() {
    strike("garbage", |subject| {
        let peer = subject.peer();
        for state in [State::GarbageHandshake, State::Alert] {
            peer.faults().set_state(state);
            peer.relay.cut();
            pause(2000);
        }
        peer.faults().heal();
    });
}

/// No help but time: the stalled connections stay as they are. A watch that stalls is a silent one: F55.
#[test]
fn f5_answers_that_begin_and_stall() {
    strike("stall", |subject| answered_once_to(&VERBS[..5], subject, &Action::Stall));
}

#[test]
fn f8_connections_that_are_closed_after_each_answer_or_cut() {
    strike("closing", |subject| {
        let peer = subject.peer();
        peer.faults().set_state(State::CloseAfterAnswer);
        peer.relay.cut();
        pause(3000);
        peer.faults().heal();
        for _ in 0..3 {
            peer.relay.cut();
            subject.stage.lives(&subject.process);
        }
    });
}

/// A watch is given up after 100 s without a bookmark.
#[test]
fn f9_connections_that_a_firewall_forgot() {
    strike("forgotten", |subject| {
        subject.peer().relay.forget();
        subject.stage.lives_within(150, &subject.process);
    });
}
