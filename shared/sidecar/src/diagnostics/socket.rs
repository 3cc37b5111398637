//! Listening socket of the endpoint: on both versions of IP unless one is named.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketFlags, SocketType, bind, ipproto, listen as begin, socket_with,
        sockopt,
    },
};

/// As the standard library has it.
const BACKLOG: i32 = 128;

/// The address that -metrics-host names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// Every address of this host. As in Go, `0.0.0.0` means all of both versions too (golang/go#17615):
    /// the kubelet probes the first address of a pod, whichever version that is.
    All,
    One(IpAddr),
}

impl Address {
    /// No name service: a look-up could outlast a SIGTERM.
    pub(super) fn parse(host: &str) -> Option<Self> {
        match host {
            "" => Some(Self::All),
            "localhost" => Some(Self::One(Ipv4Addr::LOCALHOST.into())),
            host => {
                let address: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
                Some(if address.is_unspecified() { Self::All } else { Self::One(address) })
            }
        }
    }

    /// The address in a sentence.
    pub(super) fn with(self, port: u16) -> String {
        match self {
            Self::All => format!(":{port}"),
            Self::One(address) => SocketAddr::new(address, port).to_string(),
        }
    }
}

/// A listener that never waits.
pub(super) fn listen(address: &Address, port: u16) -> io::Result<TcpListener> {
    let listener = match address {
        Address::One(address) => socket((*address, port).into()),
        Address::All => match socket((Ipv6Addr::UNSPECIFIED, port).into()) {
            // A host without IPv6.
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL | Errno::PROTONOSUPPORT) => {
                socket((Ipv4Addr::UNSPECIFIED, port).into())
            }
            other => other,
        },
    }?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn socket(address: SocketAddr) -> Result<TcpListener, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // Independent of net.ipv6.bindv6only.
        sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
    }
    bind(&socket, &address)?;
    begin(&socket, BACKLOG)?;
    Ok(socket.into())
}
