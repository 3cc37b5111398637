//! States of the whole server.

use std::{io::Read, net::TcpStream, time::Duration};

use dev_apiserver::State;

use crate::client::*;

#[test]
fn refusal_ends_on_the_same_port() {
    let (server, client) = start();
    assert_eq!(client.get("/readyz").code, 200);
    let mut idle = TcpStream::connect(server.address()).expect("it listens");
    server.faults().set_state(State::Refuse);
    assert_eq!(idle.read(&mut [0]).unwrap_or(0), 0);
    let refused = TcpStream::connect(server.address()).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    server.faults().heal();
    assert_eq!(client.get("/readyz").code, 200);
}

#[test]
fn hang_ends_with_answers() {
    let (server, client) = start();
    assert_eq!(client.get("/readyz").code, 200);
    server.faults().set_state(State::Hang);
    TcpStream::connect(server.address()).expect("it accepts");
    std::thread::scope(|scope| {
        let late = scope.spawn(|| client.get("/readyz").code);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!late.is_finished());
        server.faults().heal();
        assert_eq!(late.join().expect("no panic"), 200);
    });
}

#[test]
fn partition_times_out_new_connections() {
    let (server, client) = start();
    server.faults().set_state(State::Partition);
    let patience = Duration::from_millis(150);
    let lost = TcpStream::connect_timeout(&server.address(), patience).expect_err("no answer");
    assert_eq!(lost.kind(), std::io::ErrorKind::TimedOut);
    server.faults().heal();
    assert_eq!(client.get("/readyz").code, 200);
}

#[test]
fn handshakes_fail() {
    let (server, client) = start();
    for state in [State::Alert, State::GarbageHandshake] {
        server.faults().set_state(state);
        assert!(client.try_send("GET", "/readyz", "", None).is_err(), "{state:?}");
    }
    assert_eq!((server.counters().handshakes, server.counters().connections), (0, 2));
    server.faults().heal();
    assert_eq!(client.get("/readyz").code, 200);
}

#[test]
fn connections_close_after_each_answer() {
    let (server, client) = start();
    server.faults().set_state(State::CloseAfterAnswer);
    let get = || client.try_send("GET", "/readyz", "", None).map(|got| got.code);
    assert_eq!(get().ok(), Some(200));
    // The client may only notice when it writes; either way it then opens a new connection.
    eventually("a second connection", || get().is_ok() && server.counters().connections > 1);
}
