//! Listening socket of the endpoint, on both versions of IP unless one is named, and the sockets of its clients.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use apiclient::{
    error::{Error, Result},
    thread::start_thread,
};

use super::Server;

pub trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Answers the request that comes over a stream.
pub type Respond<'a> = dyn FnMut(&mut dyn Stream) -> io::Result<()> + 'a;

/// Passes a client's stream, its socket or TLS over it, to the function that answers.
type Session = dyn Fn(&ClientSocket, &mut Respond<'_>) -> io::Result<()> + Send + Sync;

/// For the TLS handshake, if there is one, the request and the response: Prometheus' scrape_timeout.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Out of memory or descriptors: no reason to spin.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub struct HttpListener {
    socket: TcpListener,
    session: Arc<Session>,
}

impl HttpListener {
    /// Binds `host` and `port`, which `flag` named; errors call the address `what`.
    pub fn bind(
        (what, flag): (&str, &str),
        (host, port): (&str, u16),
        session: Arc<Session>,
    ) -> Result<Self> {
        let addresses = addresses(host).ok_or_else(|| {
            Error::bad_config(format!("{flag} {host:?} is neither an IP address nor localhost"))
        })?;
        let addresses: Vec<_> =
            addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
        let socket = TcpListener::bind(&*addresses).map_err(|e| {
            let shown = match &*addresses {
                [address] => address.to_string(),
                _ => format!(":{port}"),
            };
            Error::bad_config(format!("{what} {shown} cannot be served: {e}"))
        })?;
        Ok(Self { socket, session })
    }

    pub(super) fn plain(host: &str, port: u16) -> Result<Self> {
        let names = ("metrics address", "-metrics-host");
        let session = |mut client: &ClientSocket, answer: &mut Respond<'_>| answer(&mut client);
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
        let (socket, deadline) = (self.socket.accept()?.0, Instant::now() + CONNECTION_TIMEOUT);
        let client = Arc::new(ClientSocket { socket, deadline });
        server.admit(&client);
        let (session, server) = (self.session.clone(), server.clone());
        start_thread("client", move || {
            // An error ends the connection, as success does.
            let _ = session(&client, &mut |stream| server.answer(stream));
            server.dismiss(&client);
        })
    }
}

/// The socket of a client, with one deadline for all that is read and written.
pub struct ClientSocket {
    socket: TcpStream,
    deadline: Instant,
}

impl ClientSocket {
    /// Ends the thread that reads or writes here.
    pub(super) fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn time_left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for &ClientSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.time_left()?)?;
        (&self.socket).read(buffer)
    }
}

impl Write for &ClientSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.time_left()?)?;
        (&self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The addresses of -metrics-host, of which the first that can be bound counts. No name service: a look-up could
/// outlast a SIGTERM.
fn addresses(host: &str) -> Option<Vec<IpAddr>> {
    let address = match host.trim_matches(['[', ']']) {
        "" => Ipv6Addr::UNSPECIFIED.into(),
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        host => host.parse::<IpAddr>().ok()?,
    };
    // As in Go, `0.0.0.0` means both versions too (golang/go#17615): the kubelet probes the first address of a pod,
    // whichever version that is. The second is for hosts without IPv6.
    Some(match address.is_unspecified() {
        true => vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
        false => vec![address],
    })
}
