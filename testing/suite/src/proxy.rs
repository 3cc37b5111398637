//! A proxy between a program and its servers.

use std::{
    io::{self, Read, Write, copy},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use crate::relay::loopback;

/// An HTTP proxy that connects to one server, whatever the request, and records requests.
pub struct Proxy {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub fn to(target: &str) -> Self {
        let listener = TcpListener::bind((loopback(target), 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (sink, target) = (asked.clone(), target.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (sink, target) = (sink.clone(), target.clone());
                thread::spawn(move || tunnel(client, &target, &sink));
            }
        });
        Self { address, asked }
    }

    /// Returns its URL, for HTTPS_PROXY.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the head of each request.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("lock").clone()
    }
}

fn tunnel(mut client: TcpStream, target: &str, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let head = read_head(&mut client)?;
    asked.lock().expect("lock").push(head);
    let server = TcpStream::connect(target)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    join(client, server)
}

/// Reads the head of a request.
///
/// # Errors
/// If the client disconnects before its end.
pub fn read_head(client: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Forwards bytes in both directions until the client ends.
///
/// # Errors
/// If a connection breaks.
pub fn join(mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = copy(&mut from, &mut to);
        to.shutdown(Shutdown::Both)
    });
    copy(&mut client, &mut server)?;
    server.shutdown(Shutdown::Both)
}
