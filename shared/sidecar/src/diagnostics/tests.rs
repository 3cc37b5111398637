use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv6Addr, TcpListener, TcpStream},
};

use super::*;

struct Half;

impl Report for Half {
    fn healthy(&self) -> std::result::Result<(), String> {
        Ok(())
    }
    fn ready(&self) -> std::result::Result<(), String> {
        Err("no lease yet".into())
    }
    fn metrics(&self) -> String {
        "up 1\n".into()
    }
}

struct Open;

impl Report for Open {
    fn healthy(&self) -> std::result::Result<(), String> {
        Ok(())
    }
    fn ready(&self) -> std::result::Result<(), String> {
        Ok(())
    }
    fn remarks(&self) -> String {
        "watch pods ns/x: 403\n".into()
    }
    fn metrics(&self) -> String {
        "x".repeat(8 << 20)
    }
    fn state(&self) -> Option<String> {
        Some("{}".into())
    }
}

fn served() -> u16 {
    serve("127.0.0.1", Half)
}

fn serve(host: &str, report: impl Report) -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    start(vec![HttpListener::plain(host, free).unwrap()], report).unwrap();
    free
}

fn ask(port: u16, request: &str) -> String {
    ask_at("127.0.0.1".parse().unwrap(), port, request)
}

fn ask_at(address: IpAddr, port: u16, request: &str) -> String {
    let mut client = TcpStream::connect((address, port)).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

const HEALTH: &str = "GET /healthz HTTP/1.1\r\n\r\n";

#[test]
fn paths_answer_as_a_kubelet_expects() {
    let port = served();
    assert!(ask(port, HEALTH).starts_with("HTTP/1.1 200 OK"));
    let ready = ask(port, "GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.ends_with("no lease yet\n"), "{ready}");
    assert!(ask(port, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("up 1\n"));
    assert!(ask(port, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask(port, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
}

#[test]
fn program_may_show_its_state_and_remarks() {
    let (get, port) = ("GET /debug/state HTTP/1.1\r\n\r\n", serve("127.0.0.1", Open));
    let state = ask(port, get);
    assert!(state.contains("200 OK") && state.contains("application/json"), "{state}");
    assert!(state.ends_with("\r\n\r\n{}"), "{state}");
    let ready = ask(port, "GET /readyz HTTP/1.1\r\n\r\n");
    assert!(ready.ends_with("\r\n\r\nok\nwatch pods ns/x: 403\n"), "{ready}");
    assert!(ask(served(), get).starts_with("HTTP/1.1 404"));
}

#[test]
fn without_a_host_both_versions_of_ip_are_served() {
    for host in ["", "0.0.0.0", "::", "[::]"] {
        let port = serve(host, Half);
        assert!(ask(port, HEALTH).contains("200 OK"), "{host:?} by IPv4");
        assert!(ask_at(Ipv6Addr::LOCALHOST.into(), port, HEALTH).contains("200 OK"), "{host:?}");
    }
    let port = serve("::1", Half);
    assert!(ask_at(Ipv6Addr::LOCALHOST.into(), port, HEALTH).contains("200 OK"));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "one address is one address");
}

#[test]
fn a_loop_is_stuck_after_two_minutes_and_not_before_it_started() {
    let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
    assert!(!stuck(None, LOOP_TIMEOUT), "the start-up delay");
    assert!(!stuck(ago(LOOP_TIMEOUT.as_secs() - 1), LOOP_TIMEOUT));
    assert!(stuck(ago(LOOP_TIMEOUT.as_secs() + 1), LOOP_TIMEOUT));
}

/// Counts how often its metrics are made, each of which waits for the gate.
#[derive(Clone, Default)]
struct Gated(Arc<Mutex<()>>, Arc<Mutex<usize>>);

impl Report for Gated {
    fn healthy(&self) -> std::result::Result<(), String> {
        Ok(())
    }
    fn ready(&self) -> std::result::Result<(), String> {
        Ok(())
    }
    fn metrics(&self) -> String {
        *lock(&self.1) += 1;
        drop(lock(&self.0));
        String::new()
    }
}

#[test]
fn nothing_is_made_for_a_client_that_was_closed() {
    let report = Gated::default();
    let (port, gate) = (serve("127.0.0.1", report.clone()), lock(&report.0));
    let mut crowd = Vec::new();
    for index in 0..3 * MAX_CONNECTIONS {
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        while index == 0 && *lock(&report.1) == 0 {
            std::thread::yield_now();
        }
        crowd.push(client);
    }
    let end = |mut client: TcpStream| drop(client.read_to_end(&mut Vec::new()));
    let last = crowd.split_off(2 * MAX_CONNECTIONS);
    crowd.into_iter().for_each(end);
    drop(gate);
    last.into_iter().for_each(end);
    assert!(*lock(&report.1) <= 1 + MAX_CONNECTIONS);
}

#[test]
fn junk_ends_its_connection_and_nothing_else() {
    let port = served();
    assert_eq!(ask(port, &"x".repeat(9000)), "");
    assert!(ask(port, HEALTH).contains("200 OK"));
}

#[test]
fn many_silent_clients_and_slow_readers_keep_nobody_waiting() {
    let port = serve("127.0.0.1", Open);
    let silent = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let slow = || {
        let mut client = silent();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        client
    };
    let crowd: Vec<_> = (0..3 * MAX_CONNECTIONS).flat_map(|_| [silent(), slow()]).collect();
    for _ in 0..10 {
        assert!(ask(port, HEALTH).contains("200 OK"));
    }
    drop(crowd);
}

#[test]
fn a_taken_port_is_a_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for host in ["127.0.0.1", "0.0.0.0"] {
        let error = HttpListener::plain(host, port).err().unwrap().to_string();
        let expected = format!("metrics address {host}:{port} cannot be served");
        assert!(error.contains(&expected), "{error}");
    }
    let error = HttpListener::plain("example.com", port).err().unwrap().to_string();
    assert!(error.contains("neither an IP address nor localhost"), "{error}");
}
