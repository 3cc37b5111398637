//! Clients of the endpoint that stall.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::operator::{alone, healthy, start};

#[test]
fn stalled_tls_clients_keep_no_probe_waiting() {
    let spoke = alone("operator-crowd");
    let (agent, port) = start(&spoke, &[]);
    healthy(port);
    let silent = || TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let half = || {
        let mut client = silent();
        // The first bytes of a ClientHello of 512 bytes.
        client.write_all(&[22, 3, 1, 2, 0, 1, 0]).expect("it is sent");
        client
    };
    let crowd: Vec<_> = (0..100).flat_map(|_| [silent(), half()]).collect();
    for _ in 0..5 {
        healthy(port);
        assert_eq!(agent.ask("/healthz").0, 200, "the plain port too");
    }
    drop(crowd);
    // Whoever does not speak TLS is sent away.
    let mut plain = silent();
    plain.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").expect("it is sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    healthy(port);
}
