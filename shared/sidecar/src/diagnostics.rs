//! `/healthz`, `/readyz`, `/metrics` and, where a program has one, `/debug/state`: one small HTTP endpoint,
//! one request a connection. One thread serves all clients and waits for none of them.

mod connection;
pub mod https;
mod socket;

use std::{
    io::{self, ErrorKind},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use apiclient::{
    error::{Error, Result},
    stop::Stop,
    thread::start_thread,
};

use crate::flags::Flags;

use self::connection::{ClientStream, HttpConnection};

/// The report of a program on itself.
pub trait Report: Send + Sync + 'static {
    /// `Err` with the reason when the process is broken and must be restarted; never because a
    /// server is away.
    fn healthy(&self) -> std::result::Result<(), String>;
    /// `Err` with the reason when the program does not do its job at present.
    fn ready(&self) -> std::result::Result<(), String>;
    /// Obstacles that do not keep the program from its job, a line each; shown by `/readyz`.
    fn remarks(&self) -> String {
        String::new()
    }
    /// Prometheus' text format.
    fn metrics(&self) -> String;
    /// The state of the program, as JSON for people; `None` where it has no such page.
    fn state(&self) -> Option<String> {
        None
    }
}

/// A loop reports every 15 s; a request with its retries and look-ups may take a minute.
pub const LONGEST_BEAT: Duration = Duration::from_secs(120);

/// Returns whether a loop hangs that last ran at `beat` and may pause for `longest`; one that has not
/// started does not.
pub fn stuck(beat: Option<Instant>, longest: Duration) -> bool {
    beat.is_some_and(|beat| beat.elapsed() > longest)
}

/// The limit of connections. Beyond it, a connection of the address with the most connections is closed: many
/// from one address do not keep the kubelet waiting.
const MOST_CONNECTIONS: usize = 64;
/// Bytes of responses that clients are slow to read, all together.
const MOST_UNSENT: usize = 2 << 20;
/// The longest delay until the end of the process is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Serves `report` where -metrics-host and -metrics-port say, in a thread of its own; port 0 serves
/// nothing.
///
/// # Errors
/// `BadConfig` when the address cannot be bound.
pub fn serve(flags: &Flags, stop: &Stop, report: impl Report) -> Result<()> {
    serve_with(flags, None, stop, report)
}

/// As [`serve`], in the same thread also by HTTPS.
///
/// # Errors
/// `BadConfig` when an address cannot be bound.
pub fn serve_with(
    flags: &Flags,
    https: Option<HttpsListener>,
    stop: &Stop,
    report: impl Report,
) -> Result<()> {
    let mut listeners: Vec<_> = https.into_iter().map(|listener| listener.0).collect();
    match u16::try_from(flags.number("metrics-port")) {
        Ok(0) | Err(_) => {}
        Ok(port) => listeners.push(plain(flags.text("metrics-host"), port)?),
    }
    if listeners.is_empty() { Ok(()) } else { start(listeners, stop, report) }
}

/// A listener for HTTPS that is bound.
pub struct HttpsListener(Listener);

/// A listener, and what makes a client's stream of a connection.
struct Listener {
    socket: TcpListener,
    stream: Box<dyn Fn(TcpStream) -> io::Result<Box<dyn ClientStream>> + Send>,
}

/// A listener for HTTP, on the address of -metrics-host.
fn plain(host: &str, port: u16) -> Result<Listener> {
    let socket = bind("metrics address", "-metrics-host", host, port)?;
    Ok(Listener { socket, stream: Box::new(|stream| Ok(Box::new(stream))) })
}

fn bind(what: &str, flag: &str, host: &str, port: u16) -> Result<TcpListener> {
    let address = socket::Address::parse(host).ok_or_else(|| {
        Error::bad_config(format!("{flag} {host:?} is neither an IP address nor localhost"))
    })?;
    socket::listen(&address, port).map_err(|e| {
        Error::bad_config(format!("{what} {} cannot be served: {e}", address.with(port)))
    })
}

fn start(listeners: Vec<Listener>, stop: &Stop, report: impl Report) -> Result<()> {
    let (stop, mut server) = (stop.clone(), Server { listeners, connections: Vec::new(), report });
    let serve = move || {
        while !stop.raised() {
            if server.poll().is_err() {
                // Out of memory or descriptors: no reason to spin.
                stop.wait(POLL_INTERVAL);
            }
        }
    };
    let failed = |e| Error::bad_config(format!("no thread for the endpoint: {e}"));
    start_thread("endpoint", serve).map_err(failed)
}

struct Server<R> {
    listeners: Vec<Listener>,
    /// The oldest first.
    connections: Vec<HttpConnection>,
    report: R,
}

impl<R: Report> Server<R> {
    /// Waits for something to do, and does it.
    fn poll(&mut self) -> io::Result<()> {
        let (accepts, active) = self.wait()?;
        for (connection, active) in self.connections.iter_mut().zip(active) {
            if active {
                connection.advance(&self.report);
            }
        }
        let now = Instant::now();
        self.connections.retain(|connection| connection.is_open(now));
        while self.unsent_bytes() > MOST_UNSENT {
            self.evict();
        }
        let mut accepted = Ok(());
        for (place, _) in accepts.into_iter().enumerate().filter(|(_, ready)| *ready) {
            // A failure of one listener does not keep the other waiting.
            accepted = self.accept(place).and(accepted);
        }
        accepted
    }

    /// Returns which listeners have a connection to accept, and which connections can advance.
    fn wait(&self) -> io::Result<(Vec<bool>, Vec<bool>)> {
        let listeners = self.listeners.iter().map(|listener| &listener.socket);
        let mut polled: Vec<_> =
            listeners.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        polled.extend(self.connections.iter().map(|connection| {
            let wanted = if connection.sends() { PollFlags::OUT } else { PollFlags::IN };
            PollFd::new(connection.socket(), wanted)
        }));
        match poll(&mut polled, Timespec::try_from(POLL_INTERVAL).ok().as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((Vec::new(), Vec::new())),
            Err(error) => return Err(error.into()),
        }
        let mut active: Vec<_> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let connections = active.split_off(self.listeners.len());
        Ok((active, connections))
    }

    /// Accepts connections, a few at a time so that the others have their turns too. Complete requests are
    /// answered at once.
    fn accept(&mut self, place: usize) -> io::Result<()> {
        for _ in 0..MOST_CONNECTIONS {
            let listener = &self.listeners[place];
            let mut connection = match listener.socket.accept() {
                Ok((stream, address)) => {
                    stream.set_nonblocking(true)?;
                    HttpConnection::new((listener.stream)(stream)?, address.ip())
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            connection.advance(&self.report);
            if connection.is_open(Instant::now()) {
                if self.connections.len() >= MOST_CONNECTIONS {
                    self.evict();
                }
                self.connections.push(connection);
            }
        }
        Ok(())
    }

    /// Closes the oldest connection of the address that has most of them.
    fn evict(&mut self) {
        let of = |connection: &HttpConnection| {
            let same = |other: &&HttpConnection| other.address() == connection.address();
            self.connections.iter().filter(same).count()
        };
        let places = 0..self.connections.len();
        // Of equals the last one counts: from behind, that is the oldest.
        if let Some(place) = places.rev().max_by_key(|place| of(&self.connections[*place])) {
            self.connections.remove(place);
        }
    }

    fn unsent_bytes(&self) -> usize {
        self.connections.iter().map(HttpConnection::unsent_bytes).sum()
    }
}

#[cfg(test)]
mod tests;
