//! Connections through proxies.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
};

use apiclient::error::Error;
use kubeconfig::config::ClusterConfig;

use crate::{client, lease, server};

/// A proxy for one connection, which tells what it was asked and then relays to `target`.
fn proxy(
    target: String,
    greet: impl FnOnce(&mut TcpStream) -> Option<String> + Send + 'static,
) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (told, asked) = channel();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        if let Some(wish) = greet(&mut client) {
            told.send(wish).unwrap();
            relay(client, TcpStream::connect(target).unwrap());
        }
    });
    (address, asked)
}

fn relay(client: TcpStream, server: TcpStream) {
    let pump = |mut from: TcpStream, mut to: TcpStream| {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    };
    let (back_from, back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || pump(back_from, back_to));
    pump(client, server);
}

fn connect(client: &mut TcpStream) -> Option<String> {
    let head = read_head(client)?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    Some(head)
}

fn read_head(client: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// SOCKS5 with user and password, for a name: RFC 1928 and 1929.
fn socks5(client: &mut TcpStream) -> Option<String> {
    let mut read = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).ok().map(|()| bytes)
    };
    let methods = read(2)?[1];
    read(methods.into())?;
    client.write_all(&[5, 0]).ok()?;
    let mut head = [0; 5];
    client.read_exact(&mut head).ok()?;
    assert_eq!(head[3], 3, "a name, for the proxy to resolve");
    let mut name = vec![0; usize::from(head[4]) + 2];
    client.read_exact(&mut name).ok()?;
    name.truncate(name.len() - 2);
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).ok()?;
    String::from_utf8(name).ok()
}

fn through(mut access: ClusterConfig, proxy: String, server: Option<&str>) -> Error {
    if let Some(server) = server {
        access.server = format!("https://{server}:6443");
        access.server_name = Some("localhost".into());
    }
    access.proxy = Some(proxy);
    client(access).get(&lease("x")).unwrap_err()
}

#[test]
fn http_proxy_sees_no_credential_of_the_server() {
    let (server, access) = server();
    let (address, asked) = proxy(server.address().to_string(), connect);
    let result = through(access, format!("http://user:p%40ss@{address}"), Some("hub.invalid"));
    assert!(matches!(result, Error::NotFound(_)), "{result:?}");
    let head = asked.recv().unwrap();
    assert!(head.starts_with("CONNECT hub.invalid:6443 HTTP/1.1\r\n"), "{head}");
    // user:p@ss, decoded once.
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpwQHNz\r\n"), "{head}");
    assert_eq!(
        server.requests().last().unwrap().user,
        "sidecar",
        "the client certificate went inside"
    );
}

#[test]
fn socks5_proxy_resolves_the_name_itself() {
    let (server, access) = server();
    let (address, asked) = proxy(server.address().to_string(), socks5);
    let result = through(access, format!("socks5://{address}"), Some("hub.invalid"));
    assert!(matches!(result, Error::NotFound(_)), "{result:?}");
    assert_eq!(asked.recv().unwrap(), "hub.invalid");
}

#[test]
fn refusing_proxy_is_named_in_the_error() {
    let (_server, access) = server();
    let (address, _asked) = proxy(String::new(), |client| {
        read_head(client)?;
        client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").ok()?;
        None
    });
    let result = through(access, format!("http://{address}"), None);
    assert!(matches!(&result, Error::Unreachable(text) if text.contains("proxy")), "{result:?}");
}
