//! Listening socket of the endpoint: on both versions of IP unless one is named.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
};

use apiclient::error::{Error, Result};

use super::connection::ClientStream;

/// A bound socket, and what makes a client's stream of a connection.
pub struct HttpListener {
    pub(super) socket: TcpListener,
    pub(super) stream: Box<dyn Fn(TcpStream) -> io::Result<Box<dyn ClientStream>> + Send>,
}

impl HttpListener {
    /// Binds `host` and `port`, which `flag` named; errors call the address `what`.
    pub fn bind(
        (what, flag): (&str, &str),
        (host, port): (&str, u16),
        stream: impl Fn(TcpStream) -> io::Result<Box<dyn ClientStream>> + Send + 'static,
    ) -> Result<Self> {
        let address = parse(host).ok_or_else(|| {
            Error::bad_config(format!("{flag} {host:?} is neither an IP address nor localhost"))
        })?;
        let socket = listen_on(address, port).map_err(|e| {
            let shown = match address {
                None => format!(":{port}"),
                Some(address) => SocketAddr::new(address, port).to_string(),
            };
            Error::bad_config(format!("{what} {shown} cannot be served: {e}"))
        })?;
        Ok(Self { socket, stream: Box::new(stream) })
    }
}

/// The address of -metrics-host; `Some(None)` for every address of this host. No name service: a look-up could
/// outlast a SIGTERM.
fn parse(host: &str) -> Option<Option<IpAddr>> {
    match host {
        "" => Some(None),
        "localhost" => Some(Some(Ipv4Addr::LOCALHOST.into())),
        host => {
            let address: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
            // As in Go, `0.0.0.0` means both versions too (golang/go#17615): the kubelet probes the first address
            // of a pod, whichever version that is.
            Some(Some(address).filter(|address| !address.is_unspecified()))
        }
    }
}

/// Linux accepts IPv4 at the unspecified address of IPv6, too, unless net.ipv6.bindv6only is set.
fn listen_on(address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    let listener = match address {
        Some(address) => TcpListener::bind((address, port)),
        None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)) {
            // A host without IPv6.
            Err(error) if error.kind() != ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
            }
            bound => bound,
        },
    }?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
