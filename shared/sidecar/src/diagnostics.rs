//! `/healthz`, `/readyz`, `/metrics` and, where a program has one, `/debug/state`: one small HTTP endpoint, one
//! request a connection, a thread for each connection.

mod http;
mod listener;

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiclient::{error::Result, lock::lock};

use crate::{flags::Flags, runtime};

use self::listener::Stream;
pub use self::listener::{ClientSocket, HttpListener, Respond};

pub trait Report: Send + 'static {
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

/// Returns whether a loop that last ran at `beat` hangs; a loop that has not started does not.
pub fn stuck(beat: Option<Instant>, timeout: Duration) -> bool {
    beat.is_some_and(|beat| beat.elapsed() > timeout)
}

/// Beyond it, the oldest connection is closed: silent clients do not keep the kubelet waiting, and slow readers hold no
/// more responses than these.
const MAX_CONNECTIONS: usize = 16;

/// Serves `report` where -metrics-host and -metrics-port say, and at `more`, until the end of the process.
pub fn serve(flags: &Flags, more: Option<HttpListener>, report: impl Report) -> Result<()> {
    let mut listeners: Vec<_> = more.into_iter().collect();
    match u16::try_from(flags.number("metrics-port")) {
        Ok(0) | Err(_) => {}
        Ok(port) => listeners.push(HttpListener::plain(flags.text("metrics-host"), port)?),
    }
    start(listeners, report)
}

fn start(listeners: Vec<HttpListener>, report: impl Report) -> Result<()> {
    let report = Mutex::new(Box::new(report) as Box<dyn Report>);
    let server = Arc::new(Server { report, open: Mutex::default() });
    listeners.into_iter().try_for_each(|listener| {
        let server = server.clone();
        runtime::spawn("endpoint", move || listener.run(&server))
    })
}

struct Server {
    /// Locked while a response is made: clients that wait for one cost no memory.
    report: Mutex<Box<dyn Report>>,
    /// The oldest first.
    open: Mutex<VecDeque<Arc<ClientSocket>>>,
}

impl Server {
    fn admit(&self, client: &Arc<ClientSocket>) {
        let mut open = lock(&self.open);
        open.push_back(client.clone());
        if open.len() > MAX_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.close();
        }
    }

    fn dismiss(&self, client: &Arc<ClientSocket>) {
        lock(&self.open).retain(|it| !Arc::ptr_eq(it, client));
    }

    fn answer(&self, stream: &mut dyn Stream) -> io::Result<()> {
        let request = http::read_request(stream)?;
        let response = http::response(&request, &**lock(&self.report));
        stream.write_all(&response)?;
        stream.flush()
    }
}

#[cfg(test)]
mod tests;
