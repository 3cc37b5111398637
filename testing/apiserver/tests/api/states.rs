//! States of the whole server, and the control interface.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use dev_apiserver::{Options, Server, State};
use serde_json::{Value, json};

use crate::client::*;

#[test]
fn refuses_and_comes_back_on_the_same_port() {
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
fn hangs_and_recovers() {
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
fn a_partition_times_out_new_connections() {
    let (server, client) = start();
    server.faults().set_state(State::Partition);
    let patience = Duration::from_millis(150);
    let lost = TcpStream::connect_timeout(&server.address(), patience).expect_err("no answer");
    assert_eq!(lost.kind(), std::io::ErrorKind::TimedOut);
    server.faults().heal();
    assert_eq!(client.get("/readyz").code, 200);
}

#[test]
fn handshakes_can_fail() {
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

#[test]
fn dropping_the_server_frees_the_port() {
    let (server, client) = start();
    let port = server.address().port();
    drop(server);
    assert!(client.try_send("GET", "/readyz", "", None).is_err());
    let options = Options { port, tls: false, ..Options::default() };
    let plain = Server::start(options).expect("the port is free again");
    assert_eq!(plain.url(), format!("http://127.0.0.1:{port}"));
    let token = plain.token("t", &[]);
    assert_eq!(Client::with_token(&plain, &token).get("/api/v1/namespaces").code, 200);
}

fn control(server: &Server, method: &str, path: &str, body: Value) -> Value {
    let address = server.control_address().expect("a control interface");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let body = body.to_string();
    let head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn the_control_interface() {
    let options = Options { control_port: Some(0), ..Options::default() };
    let server = Server::start(options).expect("a server");
    let client = Client::new(&server, "tester", &[]);
    let rule = json!({"resource": "/readyz", "times": 1, "action": {"answer": {"code": 500}}});
    assert_eq!(control(&server, "POST", "/faults", rule), json!({"id": 1}));
    assert_eq!(client.get("/readyz").code, 500);
    let drop_rule = json!({"action": "drop"});
    control(&server, "POST", "/faults", drop_rule);
    control(&server, "DELETE", "/faults", Value::Null);
    assert_eq!(client.get("/readyz").code, 200);
    assert_eq!(control(&server, "GET", "/requests", Value::Null)[0]["code"], 500);
    control(&server, "DELETE", "/requests", Value::Null);
    assert!(server.requests().is_empty());
    control(&server, "POST", "/server", json!({"state": "refuse"}));
    assert!(TcpStream::connect(server.address()).is_err());
    control(&server, "POST", "/heal", Value::Null);
    let token = control(&server, "POST", "/tokens", json!({"user": "x"}))["token"].clone();
    let bearer = Client::with_token(&server, token.as_str().expect("a token"));
    assert_eq!(bearer.get("/api/v1/namespaces").code, 200);
    let pair = control(&server, "POST", "/certificates", json!({"user": "x", "groups": ["g"]}));
    let text = |key: &str| pair[key].as_str().expect("text").to_string();
    let own = Client::with(&server, Some((text("certificate"), text("key"))));
    assert_eq!(own.get("/api/v1/namespaces").code, 200);
    let version = server.resource_version();
    control(&server, "POST", "/compact", Value::Null);
    assert_ne!(server.resource_version(), version);
}
