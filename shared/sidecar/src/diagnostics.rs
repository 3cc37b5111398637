//! `/healthz`, `/readyz`, `/metrics` and, where a program has one, `/debug/state`: one small HTTP endpoint,
//! one request a connection. Single-threaded, non-blocking.

mod connection;
mod listener;

use std::{
    io::{self, ErrorKind},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use apiclient::{error::Result, stop::Stop};

use crate::{flags::Flags, runtime};

use self::connection::HttpConnection;
pub use self::{connection::ClientStream, listener::HttpListener};

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

/// Liveness timeout of a main loop: a heartbeat every 15 s, and the longest request with its retries.
pub const LOOP_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns whether a loop hangs that last ran at `beat`; one that has not started does not.
pub fn stuck(beat: Option<Instant>, timeout: Duration) -> bool {
    beat.is_some_and(|beat| beat.elapsed() > timeout)
}

/// Beyond it, a connection of the address with the most connections is closed: many from one address do not keep
/// the kubelet waiting.
const MAX_CONNECTIONS: usize = 64;
/// Bytes of responses that clients are slow to read, all together.
const MAX_UNSENT: usize = 2 << 20;
/// The longest delay until the end of the process is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Serves `report` where -metrics-host and -metrics-port say, and at `more`, in a thread of its own.
pub fn serve(
    flags: &Flags,
    more: Option<HttpListener>,
    stop: &Stop,
    report: impl Report,
) -> Result<()> {
    let mut listeners: Vec<_> = more.into_iter().collect();
    match u16::try_from(flags.number("metrics-port")) {
        Ok(0) | Err(_) => {}
        Ok(port) => listeners.push(plain(flags.text("metrics-host"), port)?),
    }
    if listeners.is_empty() { Ok(()) } else { start(listeners, stop, report) }
}

fn plain(host: &str, port: u16) -> Result<HttpListener> {
    let names = ("metrics address", "-metrics-host");
    HttpListener::bind(names, (host, port), |socket| Ok(Box::new(socket)))
}

fn start(listeners: Vec<HttpListener>, stop: &Stop, report: impl Report) -> Result<()> {
    let (stop, mut server) = (stop.clone(), Server { listeners, connections: Vec::new(), report });
    runtime::spawn("endpoint", move || {
        while !stop.raised() {
            if server.poll().is_err() {
                // Out of memory or descriptors: no reason to spin.
                stop.wait(POLL_INTERVAL);
            }
        }
    })
}

struct Server<R> {
    listeners: Vec<HttpListener>,
    /// The oldest first.
    connections: Vec<HttpConnection>,
    report: R,
}

impl<R: Report> Server<R> {
    /// Waits for something to do, and does it.
    fn poll(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        let (accepts, active) = ready.split_at(self.listeners.len());
        let (now, mut active) = (Instant::now(), active.iter());
        self.connections.retain_mut(|connection| {
            let idle = active.next() != Some(&true);
            now < connection.deadline && (idle || connection.advance(&self.report))
        });
        while self.connections.iter().map(HttpConnection::unsent_bytes).sum::<usize>() > MAX_UNSENT
        {
            self.evict();
        }
        let mut accepted = Ok(());
        for (place, _) in accepts.iter().enumerate().filter(|(_, ready)| **ready) {
            // A failure of one listener does not keep the other waiting.
            accepted = self.accept(place).and(accepted);
        }
        accepted
    }

    /// Returns which of the listeners and the connections, in this order, can go on.
    fn wait(&self) -> io::Result<Vec<bool>> {
        let listeners = self.listeners.iter();
        let mut polled: Vec<_> =
            listeners.map(|listener| PollFd::new(&listener.socket, PollFlags::IN)).collect();
        polled.extend(self.connections.iter().map(|connection| {
            let wanted = if connection.sends() { PollFlags::OUT } else { PollFlags::IN };
            PollFd::new(connection.socket(), wanted)
        }));
        match poll(&mut polled, Timespec::try_from(POLL_INTERVAL).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {
                Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts a connection; a complete request is answered at once.
    fn accept(&mut self, place: usize) -> io::Result<()> {
        let listener = &self.listeners[place];
        let (socket, address) = match listener.socket.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            accepted => accepted?,
        };
        socket.set_nonblocking(true)?;
        let mut connection = HttpConnection::new((listener.stream)(socket)?, address.ip());
        if connection.advance(&self.report) {
            if self.connections.len() >= MAX_CONNECTIONS {
                self.evict();
            }
            self.connections.push(connection);
        }
        Ok(())
    }

    /// Closes the oldest connection of the address that has most of them.
    fn evict(&mut self) {
        let count = |address| self.connections.iter().filter(|it| it.address == address).count();
        let places = 0..self.connections.len();
        // Of equals the last one counts: from behind, that is the oldest.
        let place = places.rev().max_by_key(|place| count(self.connections[*place].address));
        if let Some(place) = place {
            self.connections.remove(place);
        }
    }
}

#[cfg(test)]
mod tests;
