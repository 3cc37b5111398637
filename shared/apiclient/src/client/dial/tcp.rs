//! TCP connections that detect a dead peer. ureq sets no keep-alive (<https://github.com/algesten/ureq/issues/547>) and
//! does not expose its socket.

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rustix::net::sockopt;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, LazyBuffers, NextTimeout, ShutdownHandle, Transport,
};

use super::left_of;

/// Go's keep-alive interval: a firewall with an idle limit of 30 s keeps the connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The time limit for unacknowledged data, including keep-alive probes.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to the first of `addresses` that answers. Each gets half of the remaining time, and the last one all of it.
pub(super) fn connect(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(ErrorKind::TimedOut, "no connection in time");
    for (place, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = if place + 1 < addresses.len() { left / 2 } else { left };
        if time.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(address, time) {
            Ok(stream) => return configure(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn configure(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    // Best effort: the kernel may not know an option.
    let _ = keep_alive(&stream);
    Ok(stream)
}

fn keep_alive(stream: impl AsFd) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
    let milliseconds = u32::try_from(USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(&stream, milliseconds)
}

/// Replaces ureq's own transport, which does not expose its socket.
pub(crate) struct TcpTransport {
    /// Shared with the agent, which may shut it down.
    stream: Arc<TcpStream>,
    buffers: LazyBuffers,
    /// While connecting, the time limit and its end. ureq's CONNECT link would restart the limit with each byte of the
    /// proxy.
    connecting: Option<(ureq::unversioned::transport::time::Duration, Instant)>,
}

impl TcpTransport {
    pub(super) fn new(stream: TcpStream, details: &ConnectionDetails) -> Result<Self, ureq::Error> {
        let stream = Arc::new(stream);
        let handle = Arc::downgrade(&stream);
        (details.register_shutdown)(handle as Weak<dyn ShutdownHandle>)?;
        let left = left_of(details).not_zero();
        let connecting = left.map(|left| (details.timeout.after, Instant::now() + *left));
        let config = &details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Self { stream, buffers, connecting })
    }

    /// `timeout`; while connecting, the rest of the time to connect.
    fn left_of(&self, mut timeout: NextTimeout) -> NextTimeout {
        if let Some((_, until)) = self.connecting.filter(|(time, _)| timeout.after == *time) {
            timeout.after = until.saturating_duration_since(Instant::now()).into();
        }
        timeout
    }
}

impl Transport for TcpTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let timeout = self.left_of(timeout).for_write();
        self.stream.set_write_timeout(remaining(timeout)?)?;
        let written = (&*self.stream).write_all(&self.buffers.output()[..amount]);
        written.map_err(|error| named(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = self.left_of(timeout).for_read();
        self.stream.set_read_timeout(remaining(timeout)?)?;
        let buffer = self.buffers.input_append_buf();
        let amount = loop {
            match (&*self.stream).read(buffer) {
                // Signals go to another thread: the time-out rarely restarts.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| named(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// A connection with unread bytes is closed: they belong to no request.
    fn is_open(&mut self) -> bool {
        // Connected: from here on, a timeout of the same length means the request's.
        self.connecting = None;
        let quiet = self.stream.set_nonblocking(true).is_ok()
            && matches!(self.stream.peek(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock);
        self.stream.set_nonblocking(false).is_ok() && quiet
    }
}

impl fmt::Debug for TcpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TcpTransport")
    }
}

/// `None` means no limit.
fn remaining(timeout: NextTimeout) -> Result<Option<Duration>, ureq::Error> {
    if timeout.after.is_zero() {
        return Err(ureq::Error::Timeout(timeout.reason));
    }
    Ok(timeout.not_zero().map(|time| *time))
}

/// A socket reports a time-out as WouldBlock.
fn named(error: io::Error, timeout: NextTimeout) -> ureq::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::{AddressFamily as Family, SocketFlags, SocketType, socket_with};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn listening(address: &str) -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// An address without a listener.
    fn closed() -> SocketAddr {
        listening("127.0.0.1:0").1
    }

    #[test]
    fn the_address_that_answers_is_taken() {
        let (_listener, open) = listening("127.0.0.1:0");
        for addresses in [vec![open], vec![closed(), open], vec![closed(), closed(), open]] {
            let stream = connect(&addresses, soon()).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), open);
        }
    }

    #[test]
    fn silent_address_leaves_half_of_the_time_to_the_others() {
        let (_listener, open) = listening("127.0.0.1:0");
        // Full: the kernel drops one more.
        let full =
            socket_with(Family::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&full, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let dead = SocketAddr::try_from(rustix::net::getsockname(&full).unwrap()).unwrap();
        let _first = TcpStream::connect(dead).unwrap();
        let deadline = Instant::now() + Duration::from_millis(500);
        let stream = connect(&[dead, open], deadline).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        assert!(Instant::now() < deadline);
        let error = connect(&[dead], Instant::now() + Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn nobody_at_all_is_a_refusal() {
        let error = connect(&[closed(), closed()], soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn connections_are_kept_alive() {
        let (_listener, open) = listening("127.0.0.1:0");
        let stream = connect(&[open], soon()).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap() && stream.nodelay().unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KEEPALIVE_INTERVAL);
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 30_000);
    }

    #[test]
    fn kept_connection_is_beyond_the_time_to_connect() {
        let (_listener, open) = listening("127.0.0.1:0");
        let stream = Arc::new(TcpStream::connect(open).unwrap());
        let time = Duration::from_secs(10).into();
        let (connecting, buffers) = (Some((time, Instant::now())), LazyBuffers::new(16, 16));
        let mut transport = TcpTransport { stream, buffers, connecting };
        let timeout = NextTimeout {
            after: time,
            reason: ureq::Timeout::Global,
            per_read: None,
            per_write: None,
        };
        assert!(transport.transmit_output(0, timeout).is_err(), "it is connecting");
        assert!(transport.is_open());
        assert!(transport.transmit_output(0, timeout).is_ok());
    }
}
