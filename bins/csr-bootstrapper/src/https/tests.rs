use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, pki_types::ServerName};

use super::*;
use sidecar::{
    diagnostics::{Report, serve},
    flag_rows,
    flags::{Flag, Invocation, parse},
};

/// More than two sockets take at once, and less than all clients may leave unread.
const LARGE: usize = (2 << 20) - 200;
const TABLE: [Flag; 1] = flag_rows! { ["Endpoints"] "metrics-port" Port "0" => "None."; };

struct Large;

impl Report for Large {
    fn healthy(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn ready(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn metrics(&self) -> String {
        "x".repeat(LARGE)
    }
}

#[test]
fn slow_half_closed_client_gets_the_whole_response() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = HttpsSettings { host: "127.0.0.1".into(), port: free };
    let (certificate, key) = self_signed().unwrap();
    let listener = settings.listen_with(certificate.clone(), &key).unwrap();
    let Ok(Invocation::Run(flags)) = parse("x", &TABLE, []) else { panic!() };
    serve(&flags, Some(listener), Large).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.into()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let socket = TcpStream::connect(("127.0.0.1", free)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = StreamOwned::new(ClientConnection::new(config, name).unwrap(), socket);
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    // Without a goodbye of TLS, after which nothing more would be read from it.
    client.sock.shutdown(Shutdown::Write).unwrap();
    // The server fills what it can.
    thread::sleep(Duration::from_millis(300));
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.len(), LARGE);
}
