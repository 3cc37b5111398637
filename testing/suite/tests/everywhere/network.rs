//! The way to a server is away: F1 to F5, F8, F9.

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use dev_apiserver::{Action, State};
use suite::{
    pause,
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

/// All of them and when they were read: once for all who watch, as tests leave thousands that are over.
fn sockets() -> (Instant, Arc<Vec<Socket>>) {
    static LAST: Mutex<Option<(Instant, Arc<Vec<Socket>>)>> = Mutex::new(None);
    let mut last = LAST.lock().expect("lock");
    if last.as_ref().is_none_or(|(at, _)| at.elapsed() > Duration::from_millis(100)) {
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

/// Of the sockets that lead to a server, how long each is in `state` during this time.
fn watched(relay: &Relay, state: &str, time: Duration) -> Vec<Duration> {
    let remote = format!("0100007F:{:04X}", relay.address.port());
    let (start, mut seen) = (Instant::now(), HashMap::new());
    while start.elapsed() < time {
        let (at, all) = sockets();
        for socket in all.iter().filter(|it| it.remote == remote && it.state == state) {
            seen.entry(socket.local.clone()).or_insert((at, at)).1 = at;
        }
        pause(100);
    }
    seen.values().map(|(first, last)| *last - *first).collect()
}

const ESTABLISHED: &str = "01";
const SYN_SENT: &str = "02";

#[test]
fn f2_a_black_hole_is_given_up_after_5_s() {
    strike("hole", |subject| {
        let relay = subject.peer().relay;
        relay.set(Way::Closed);
        relay.set(Way::Hole);
        let times = watched(relay, SYN_SENT, Duration::from_secs(16));
        relay.set(Way::Open);
        let longest = times.iter().max().expect("it tries to connect");
        assert!(*longest < Duration::from_millis(5500), "{times:?}");
        assert!(times.len() >= 2, "it goes on trying: {times:?}");
        // What has a second for all has less for this.
        let least = if subject.renews_each_second() { 0 } else { 4 };
        assert!(*longest > Duration::from_secs(least), "{times:?}");
    });
}

#[test]
fn f2_a_lease_of_a_usual_period_has_5_s_too() {
    let scene = Scene::new("hole-minute");
    scene.hub_relay.set(Way::Hole);
    let _sidecar = scene.start(&["-lease-duration", "60"]);
    let times = watched(&scene.hub_relay, SYN_SENT, Duration::from_secs(12));
    let longest = times.iter().max().expect("it tries to connect");
    let (least, most) = (Duration::from_secs(4), Duration::from_millis(5500));
    assert!(*longest > least && *longest < most, "{times:?}");
}

#[test]
fn f3_a_server_that_never_speaks_tls_is_given_up_in_10_s() {
    strike("mute", |subject| {
        let relay = subject.peer().relay;
        relay.set(Way::Silent);
        relay.cut();
        let times = watched(relay, ESTABLISHED, Duration::from_secs(16));
        relay.set(Way::Open);
        let longest = times.iter().max().expect("it connects");
        assert!(*longest < Duration::from_millis(10_500), "{times:?}");
        assert!(times.len() >= 2, "it goes on trying: {times:?}");
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
