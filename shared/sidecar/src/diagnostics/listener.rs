//! Listening socket of the endpoint, for IPv4 and IPv6 by default, and its connections.

use std::{
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use apiclient::{
    error::{Error, Result},
    stop::start_thread,
};

use super::Server;

pub(super) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Answers the request from a stream.
pub(super) type Respond<'a> = dyn FnMut(&mut dyn Stream) -> io::Result<()> + 'a;

/// Passes a client's stream, plain or TLS, to the function that answers.
type Session = dyn Fn(&TcpStream, &mut Respond<'_>) -> io::Result<()> + Send + Sync;

/// For each read and write; Prometheus' scrape_timeout.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept, such as for lack of descriptors. The process ends without waiting for this thread.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub struct HttpListener {
    socket: TcpListener,
    session: Arc<Session>,
}

impl HttpListener {
    /// Binds `host` and `port`, which `flag` set; errors call the address `what`.
    pub(super) fn bind(
        (what, flag): (&str, &str),
        (host, port): (&str, u16),
        session: Arc<Session>,
    ) -> Result<Self> {
        let addresses = addresses(host, port).ok_or_else(|| {
            Error::bad_config(format!("{flag} {host:?} is neither an IP address nor localhost"))
        })?;
        let socket = TcpListener::bind(&*addresses).map_err(|e| {
            Error::bad_config(format!("{what} {host}:{port} cannot be served: {e}"))
        })?;
        Ok(Self { socket, session })
    }

    pub(super) fn plain(host: &str, port: u16) -> Result<Self> {
        let names = ("metrics address", "-metrics-host");
        let session = |mut client: &TcpStream, answer: &mut Respond<'_>| answer(&mut client);
        Self::bind(names, (host, port), Arc::new(session))
    }

    pub(super) fn run(&self, server: &Arc<Server>) {
        loop {
            if self.accept(server).is_err() {
                thread::sleep(RETRY_INTERVAL);
            }
        }
    }

    fn accept(&self, server: &Arc<Server>) -> io::Result<()> {
        let client = Arc::new(self.socket.accept()?.0);
        client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
        client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
        server.admit(&client);
        let (session, served, of) = (self.session.clone(), server.clone(), client.clone());
        let started = start_thread("client", move || {
            // The connection ends in any case.
            let _ = session(&of, &mut |stream| served.answer(&of, stream));
            served.dismiss(&of);
        });
        started.inspect_err(|_| server.dismiss(&client))
    }
}

/// The addresses of -metrics-host, of which the first that can be bound is used. There is no DNS: a look-up could
/// outlast SIGTERM.
fn addresses(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    let address: IpAddr = match host.trim_matches(['[', ']']) {
        "" => Ipv6Addr::UNSPECIFIED.into(),
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        host => host.parse().ok()?,
    };
    // As in Go, `0.0.0.0` means IPv4 and IPv6 (golang/go#17615): the kubelet probes the pod's first address, of either
    // family. The second address is for hosts without IPv6.
    Some(match address.is_unspecified() {
        true => vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()],
        false => vec![(address, port).into()],
    })
}
