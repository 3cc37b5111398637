//! The socket of a client, with one deadline for all that is read and written.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::atomic::AtomicUsize,
    time::{Duration, Instant},
};

/// For the TLS handshake, if there is one, the request and the response: Prometheus' scrape_timeout.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

pub trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Answers the request that comes over a stream.
pub type Respond<'a> = dyn FnMut(&mut dyn Stream) -> io::Result<()> + 'a;

pub struct ClientSocket {
    socket: TcpStream,
    deadline: Instant,
    pub(super) unsent: AtomicUsize,
}

impl ClientSocket {
    pub(super) fn new(socket: TcpStream) -> Self {
        let deadline = Instant::now() + CONNECTION_TIMEOUT;
        Self { socket, deadline, unsent: AtomicUsize::new(0) }
    }

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
