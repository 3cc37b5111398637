//! The cost of a program, measured from outside: file, memory, system calls, traffic, time to exit.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use dev_apiserver::Request;
pub use suite::measure::median;
use suite::{relay::Traffic, scene::Scene, sidecar::Sidecar};

// --- the file ---

/// What the program file is.
#[derive(Debug)]
pub struct Binary {
    pub bytes: u64,
    /// No interpreter and no library needed.
    pub is_static: bool,
    pub is_stripped: bool,
}

/// Looks at an ELF file of 64 bits, little-endian.
pub fn binary(path: &Path) -> Binary {
    let file = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let elf = Elf(&file);
    assert!(file.starts_with(b"\x7fELF\x02\x01"), "{} is no 64-bit ELF file", path.display());
    Binary {
        bytes: file.len() as u64,
        is_static: !elf.has_interpreter() && !elf.needs_libraries(),
        is_stripped: !elf.has_symbols(),
    }
}

/// The few fields of ELF that are needed here (man 5 elf).
struct Elf<'a>(&'a [u8]);

const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const SHT_SYMTAB: u64 = 2;
const DT_NEEDED: u64 = 1;

impl Elf<'_> {
    fn number(&self, at: u64, width: usize) -> u64 {
        let at = usize::try_from(at).expect("an offset");
        self.0[at..at + width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Offsets of the entries of a table whose offset, entry size and count are at these places.
    fn table(&self, offset: u64, size: u64, count: u64) -> impl Iterator<Item = u64> + use<> {
        let (offset, size) = (self.number(offset, 8), self.number(size, 2));
        (0..self.number(count, 2)).map(move |index| offset + index * size)
    }

    fn segments(&self) -> impl Iterator<Item = u64> + use<> {
        self.table(0x20, 0x36, 0x38)
    }

    fn has_interpreter(&self) -> bool {
        self.segments().any(|segment| self.number(segment, 4) == PT_INTERP)
    }

    /// A static-pie has a dynamic section too, for its own relocations.
    fn needs_libraries(&self) -> bool {
        let dynamic = self.segments().filter(|segment| self.number(*segment, 4) == PT_DYNAMIC);
        dynamic
            .map(|segment| (self.number(segment + 8, 8), self.number(segment + 32, 8)))
            .any(|(at, size)| (at..at + size).step_by(16).any(|e| self.number(e, 8) == DT_NEEDED))
    }

    fn has_symbols(&self) -> bool {
        self.table(0x28, 0x3a, 0x3c).any(|section| self.number(section + 4, 4) == SHT_SYMTAB)
    }
}

// --- the process ---

/// Resident memory in KiB: all of it, and what isn't backed by a file.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub resident: u64,
    pub anonymous: u64,
}

pub fn memory(sidecar: &Sidecar) -> Memory {
    Memory { resident: sidecar.memory("VmRSS"), anonymous: sidecar.memory("RssAnon") }
}

/// Anonymous memory of this process, in KiB: code that runs for the first time is 64 KiB more of resident memory, and
/// no leak.
pub fn own_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Sends SIGTERM; the exit code, and the time until the process had ended, to a fraction of a
/// millisecond.
pub fn terminate(sidecar: &mut Sidecar) -> (Option<i32>, Duration) {
    let start = Instant::now();
    sidecar.signal("TERM");
    let stat = format!("/proc/{}/stat", sidecar.pid());
    while start.elapsed() < Duration::from_secs(10) {
        // A process that has ended stays as a zombie until somebody waits for it.
        let text = fs::read_to_string(&stat).unwrap_or_default();
        if !text.contains(')') || text.contains(") Z ") {
            break;
        }
        thread::sleep(Duration::from_micros(200));
    }
    let time = start.elapsed();
    (sidecar.wait().code(), time)
}

/// System calls of all its threads by name, over `during`; a sentence where they can't be counted.
pub fn system_calls(pid: u32, during: impl FnOnce()) -> Result<Vec<(String, u64)>, String> {
    let mut strace = Command::new("strace")
        .args(["-f", "-c", "-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("strace: {e}"))?;
    let mut lines = BufReader::new(strace.stderr.take().expect("its stderr")).lines();
    let attached = lines.next().and_then(Result::ok).unwrap_or_default();
    if !attached.contains("attached") {
        let _ = strace.wait();
        return Err(attached);
    }
    during();
    let strace_pid = strace.id().to_string();
    let _ = Command::new("kill").args(["-INT", &strace_pid]).status();
    let table: Vec<String> = lines.map_while(Result::ok).collect();
    let _ = strace.wait();
    Ok(table.iter().filter_map(|line| counted(line)).collect())
}

/// `  0.00    0.000000           0        40           sendto`, with a count of errors before the name or
/// not.
fn counted(line: &str) -> Option<(String, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let name = (*words.last()?).to_owned();
    let calls = words.get(3)?.parse().ok()?;
    words[0].parse::<f64>().is_ok_and(|_| name != "total").then_some((name, calls))
}

// --- on the wire ---

/// What so many renewals took on the hub.
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

/// Counts on the hub from now on until `times` renewals are through.
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

/// Waits for a renewal and then a little longer, so that nothing is under way.
pub fn in_the_middle_of_a_period(scene: &Scene) {
    scene.wait_for_renewals(1);
    suite::pause(300);
}

/// The sidecar's requests to the hub so far.
pub fn requests(scene: &Scene) -> Vec<Request> {
    let mut requests = scene.hub.server().requests();
    requests.retain(|request| {
        request.namespace == scene.cluster && request.user_agent.starts_with("addon-lease")
    });
    requests
}

/// Whether this request wrote the Lease, and the server said so.
pub fn is_renewal(request: &Request) -> bool {
    matches!(request.verb.as_str(), "create" | "update")
        && request.resource == "leases"
        && (200..300).contains(&request.code)
}

/// What figures depend on.
pub fn machine() -> String {
    let rustc = Command::new("rustc").arg("-V").output().ok();
    let rustc = rustc.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Without what a distribution appends.
    let kernel = kernel.trim().split('-').next().unwrap_or_default();
    format!("{}, Linux {kernel}, {cpus} CPUs, {}", rustc.trim(), env::consts::ARCH)
}

// --- numbers ---

/// `1234567` as `1,234,567`.
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

    #[test]
    fn lines_of_strace_with_and_without_errors() {
        let line = " 12.00    0.000120           3        40        20 recvfrom";
        assert_eq!(counted(line), Some(("recvfrom".to_owned(), 40)));
        let line = "  0.00    0.000000           0         7           sendto";
        assert_eq!(counted(line), Some(("sendto".to_owned(), 7)));
        assert_eq!(counted("100.00    0.000120           3        47        20 total"), None);
        assert_eq!(counted("% time     seconds  usecs/call     calls    errors syscall"), None);
        assert_eq!(counted("------ ----------- ----------- --------- --------- ---------"), None);
    }
}
