//! Connections through proxies.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use apiclient::error::Error;
use kubeconfig::config::ClusterConfig;
use suite::proxy::{Proxy, join, read_head};

use crate::{client, lease, server};

/// A proxy for one connection.
fn proxy(serve: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || serve(listener.accept().unwrap().0));
    address
}

/// SOCKS5 without a user: RFC 1928. The host that is asked for.
fn socks5(client: &mut TcpStream) -> String {
    let mut read = |count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).map(|()| bytes)
    };
    let methods = read(2).unwrap()[1];
    read(methods.into()).unwrap();
    client.write_all(&[5, 0]).unwrap();
    let mut head = [0; 5];
    client.read_exact(&mut head).unwrap();
    assert_eq!(head[3], 3, "a name, for the proxy to resolve");
    let mut name = vec![0; usize::from(head[4]) + 2];
    client.read_exact(&mut name).unwrap();
    name.truncate(name.len() - 2);
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    String::from_utf8(name).unwrap()
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
    let proxy = Proxy::to(&server.address().to_string());
    let url = proxy.url().replace("//", "//user:p%40ss@");
    let result = through(access, url, Some("hub.invalid"));
    assert!(matches!(result, Error::NotFound(_)), "{result:?}");
    let head = &proxy.asked()[0];
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
    let target = server.address();
    let address = proxy(move |mut client| {
        assert_eq!(socks5(&mut client), "hub.invalid");
        let _ = join(client, TcpStream::connect(target).unwrap());
    });
    let result = through(access, format!("socks5://{address}"), Some("hub.invalid"));
    assert!(matches!(result, Error::NotFound(_)), "{result:?}");
}

#[test]
fn refusing_proxy_is_named_in_the_error() {
    let (_server, access) = server();
    let address = proxy(|mut client| {
        read_head(&mut client).unwrap();
        client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let result = through(access, format!("http://{address}"), None);
    assert!(matches!(&result, Error::Unreachable(text) if text.contains("proxy")), "{result:?}");
}
