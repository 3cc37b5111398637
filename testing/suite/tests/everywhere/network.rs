//! Connections that are refused, swallowed, garbled, stalled, cut or forgotten.

use std::{collections::HashSet, fs};

use dev_apiserver::{Action, State};
use suite::{
    pause,
    relay::{Relay, Way},
    within,
};

use crate::{
    stage::RECOVERY,
    strike::{Subject, VERBS, answered_once_to, strike},
};

#[test]
fn refused_connections_are_reported_and_survived() {
    strike("refused", |subject| {
        subject.peer().relay.set(Way::Closed);
        pause(3000);
        assert!(subject.says("Connection refused"), "{}", subject.process.log());
        subject.peer().relay.set(Way::Open);
    });
}

const ESTABLISHED: &str = "01";
const SYN_SENT: &str = "02";

/// The local ends of all sockets that lead to a server and are in this state, by lines such as
/// "   0: 0100007F:1F90 0100007F:D431 01 …".
fn sockets(relay: &Relay, state: &str) -> HashSet<String> {
    let remote = format!("0100007F:{:04X}", relay.address.port());
    let table = fs::read_to_string("/proc/net/tcp").expect("the sockets");
    let local = |line: &str| {
        let line = line.split_once(": ")?.1;
        let is_it = line.get(14..27)? == remote && line.get(28..30)? == state;
        is_it.then(|| line[..13].to_owned())
    };
    table.lines().filter_map(local).collect()
}

/// Without a limit of the program's own, Linux would go on for two minutes, and with an open connection for ever.
const GIVEN_UP: u64 = 60;

/// Waits until the connections to a server that are in this state are given up, and there is another.
#[track_caller]
fn tries_again(relay: &Relay, state: &str) {
    let look = || {
        pause(100);
        sockets(relay, state)
    };
    let tries = within(RECOVERY, "it tries", || Some(look()).filter(|it| !it.is_empty()));
    within(GIVEN_UP, "it gives up", || look().is_disjoint(&tries));
    within(RECOVERY, "it tries again", || !look().is_empty());
}

#[test]
fn black_hole_is_given_up_and_tried_again() {
    strike("hole", |subject| {
        let relay = subject.peer().relay;
        relay.set(Way::Closed);
        relay.set(Way::Hole);
        tries_again(relay, SYN_SENT);
        relay.set(Way::Open);
    });
}

#[test]
fn server_that_never_speaks_tls_is_given_up() {
    strike("mute", |subject| {
        let relay = subject.peer().relay;
        relay.set(Way::Silent);
        relay.cut();
        tries_again(relay, ESTABLISHED);
        relay.set(Way::Open);
    });
}

#[test]
fn answers_that_stall_are_given_up() {
    strike("stall", stalled_answers);
}

/// No help but time: the stalled connections stay as they are. Not of a watch, which is then a silent one.
pub(crate) fn stalled_answers(subject: &Subject) {
    answered_once_to(&VERBS[..5], subject, &Action::Stall);
}

#[test]
fn connections_closed_cut_or_answered_oddly_cost_nothing() {
    strike("closing", |subject| {
        let peer = subject.peer();
        for state in [State::CloseAfterAnswer, State::GarbageHandshake, State::Alert] {
            peer.faults().set_state(state);
            peer.relay.cut();
            pause(2000);
        }
        peer.faults().heal();
        for _ in 0..3 {
            peer.relay.cut();
            subject.stage.lives(&subject.process);
        }
    });
}

/// A watch is given up after 100 s without a bookmark.
#[test]
fn connections_dropped_by_a_firewall_are_given_up() {
    strike("forgotten", |subject| {
        subject.peer().relay.forget();
        subject.stage.lives_within(150, &subject.process);
    });
}
