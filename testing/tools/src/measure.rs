//! The cost of a program, measured from outside: traffic, and the time to exit.

use std::{
    env, fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use dev_apiserver::Request;
pub use suite::measure::median;
use suite::{relay::Traffic, scene::Scene, sidecar::Sidecar};

/// Sends SIGTERM; returns the exit code, and the time until the process ended, to a fraction of a millisecond.
pub fn terminate(sidecar: &mut Sidecar) -> (Option<i32>, Duration) {
    let start = Instant::now();
    sidecar.signal("TERM");
    let stat = format!("/proc/{}/stat", sidecar.pid());
    while start.elapsed() < Duration::from_secs(10) {
        // An ended process stays a zombie until somebody waits for it.
        let text = fs::read_to_string(&stat).unwrap_or_default();
        if !text.contains(')') || text.contains(") Z ") {
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    let time = start.elapsed();
    (sidecar.wait().code(), time)
}

// --- on the wire ---

/// The traffic of renewals on the hub.
#[derive(Debug)]
pub struct Wire {
    pub renewals: usize,
    pub requests: usize,
    pub bytes: u64,
    pub connections: u64,
}

impl Wire {
    pub fn bytes_per_renewal(&self) -> f64 {
        self.bytes as f64 / self.renewals.max(1) as f64
    }

    pub fn requests_per_renewal(&self) -> f64 {
        self.requests as f64 / self.renewals.max(1) as f64
    }
}

/// Counts the traffic on the hub from now until `times` renewals are done.
pub fn renewals_on_the_wire(scene: &Scene, times: usize) -> Wire {
    in_the_middle_of_a_period(scene);
    let (start, before) = (Instant::now(), scene.hub_relay.traffic());
    scene.wait_for_renewals(times);
    in_the_middle_of_a_period(scene);
    let seen: Vec<_> = requests(scene).into_iter().filter(|request| request.at > start).collect();
    wire(&seen, before, scene.hub_relay.traffic())
}

fn wire(seen: &[Request], before: Traffic, after: Traffic) -> Wire {
    Wire {
        renewals: seen.iter().filter(|request| is_renewal(request)).count(),
        requests: seen.len(),
        bytes: after.to_server + after.to_client - before.to_server - before.to_client,
        connections: after.connections - before.connections,
    }
}

/// Waits for a renewal and a little longer, so that no request is in flight.
pub fn in_the_middle_of_a_period(scene: &Scene) {
    scene.wait_for_renewals(1);
    suite::pause(300);
}

/// Returns the sidecar's requests to the hub so far.
pub fn requests(scene: &Scene) -> Vec<Request> {
    let mut requests = scene.hub.server().requests();
    requests.retain(|request| {
        request.namespace == scene.cluster && request.user_agent.starts_with("addon-lease")
    });
    requests
}

/// Returns whether the request wrote the Lease successfully.
pub fn is_renewal(request: &Request) -> bool {
    matches!(request.verb.as_str(), "create" | "update")
        && request.resource == "leases"
        && (200..300).contains(&request.code)
}

/// Describes what figures depend on: compiler, kernel and machine.
pub fn machine() -> String {
    let rustc = Command::new("rustc").arg("-V").output().ok();
    let rustc = rustc.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Without the distribution's suffix.
    let kernel = kernel.trim().split('-').next().unwrap_or_default();
    format!("{}, Linux {kernel}, {cpus} CPUs, {}", rustc.trim(), env::consts::ARCH)
}

// --- numbers ---

/// Formats `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!([0, 999, 1000, 2_097_152].map(grouped), ["0", "999", "1,000", "2,097,152"]);
    }
}
