//! A real process with real flags: its log, its endpoint and its exit.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{PATIENCE, eventually, pause, repository::root};

/// The running process; dropping it kills it, and fails the test if it ever panicked.
pub struct Sidecar {
    child: Child,
    /// Its standard output.
    printed: Lines,
    /// Its log.
    lines: Lines,
    readers: [JoinHandle<()>; 2],
    pub port: u16,
}

/// Programs promise to end within a second of SIGTERM. Tests allow another for a busy machine; `budget` does not.
pub const AT_ONCE: Duration = Duration::from_secs(2);

type Lines = Arc<Mutex<Vec<String>>>;

/// The most verbose log level; even its output must not contain secrets.
pub const VERBOSE: [&str; 2] = ["-v", "5"];

/// Returns a program's path: in `BIN_DIR`, else next to the tests; for demo, soak and budget, the static one in
/// `dist/`.
pub fn program(name: &str) -> PathBuf {
    let directory = env::var_os("BIN_DIR").map(PathBuf::from).unwrap_or_else(|| {
        let test = env::current_exe().expect("the path of this program");
        // target/debug/deps/test-… or target/debug/demo
        let directory = test.parent().expect("a directory");
        if directory.ends_with("deps") {
            directory.parent().expect("a directory").to_owned()
        } else {
            root().join("dist")
        }
    });
    let program = directory.join(name);
    let how = if directory.ends_with("dist") { "make dist" } else { "cargo build --workspace" };
    assert!(program.exists(), "{} is not built: {how}", program.display());
    program.canonicalize().expect("its path")
}

/// Returns a port without a listener. It is below the system's ephemeral ports, so that no connection takes it before
/// it is used.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        // Programs that start together have neighboring process ids.
        let start = (std::process::id() as u16).wrapping_mul(40_503);
        let port = 12_000 + start.wrapping_add(NEXT.fetch_add(1, SeqCst)) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns a command with only a container's environment.
pub fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Returns `words` followed by the program of `command` and its arguments, in its environment.
pub fn behind(words: &[&str], command: &Command) -> Command {
    let mut other = Command::new(words[0]);
    other.args(&words[1..]).arg(command.get_program());
    as_in(command, other)
}

/// Returns `command` with the static program instead of its own, if `make dist` built it and `BIN_DIR` is not set.
pub fn shipped(command: &Command) -> Option<Command> {
    if env::var_os("BIN_DIR").is_some() {
        return None;
    }
    let name = Path::new(command.get_program()).file_name()?;
    let dist = root().join("dist").join(name);
    dist.is_file().then(|| as_in(command, Command::new(dist)))
}

/// Adds the arguments and the environment of `command` to `other`.
fn as_in(command: &Command, mut other: Command) -> Command {
    other.args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        other.env(name, value.unwrap_or_default());
    }
    other.stdin(Stdio::null()).stdout(Stdio::null());
    other
}

/// Returns the sentence of a usage error. Only a pointer to the help follows it, because people see only the last log
/// lines of an exited container.
#[track_caller]
pub fn usage_error<'a>(program: &str, stderr: &'a str) -> &'a str {
    let help = format!("\nRun '{program} -help' for usage.\n");
    let sentence = stderr.strip_suffix(&help).unwrap_or_else(|| panic!("no help in {stderr:?}"));
    assert!(!sentence.is_empty() && !sentence.contains('\n'), "{stderr:?}");
    sentence
}

/// Returns the families of a page of metrics; checks descriptions, the order of samples, and unique series.
#[track_caller]
pub fn families(metrics: &str) -> Vec<&str> {
    let (mut families, mut kind, mut series) = (Vec::new(), "", BTreeSet::new());
    for line in metrics.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (family, sentence) = help.split_once(' ').expect("a sentence");
            assert!(sentence.len() > 10 && !families.contains(&family), "{line}");
            families.push(family);
            continue;
        }
        let family = *families.last().expect("a family");
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            kind = typed.strip_prefix(family).expect("the type follows the help").trim_start();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(family.ends_with("_total"), kind == "counter", "{line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok() && series.insert(sample), "{line}");
        let name = sample.split('{').next().unwrap_or_default();
        let part = name.strip_prefix(family).expect("a sample of the family");
        let parts = ["_bucket", "_sum", "_count"];
        assert!(
            if kind == "histogram" { parts.contains(&part) } else { part.is_empty() },
            "{line}"
        );
    }
    families
}

/// Returns whether a log line contains `part`, whose quotes are not escaped.
fn holds(line: &str, part: &str) -> bool {
    line.contains(part) || line.replace("\\\"", "\"").contains(part)
}

/// Reads the output of a process, line by line, until all writers are gone.
fn collect(from: impl Read + Send + 'static, lines: Lines, shown: bool) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if shown {
                eprintln!("    {line}");
            }
            lines.lock().expect("lock").push(line);
        }
    })
}

impl Sidecar {
    /// Starts `command`; `port` is its endpoint's, or 0 for none.
    pub fn spawn(mut command: Command, port: u16) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let [printed, lines] = [(); 2].map(|()| Lines::default());
        let show = env::var_os("SHOW_LOG").is_some();
        let readers = [
            collect(stdout.expect("its stdout"), printed.clone(), false),
            collect(stderr.expect("its stderr"), lines.clone(), show),
        ];
        Self { child, printed, lines, readers, port }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        self.lines.lock().expect("lock").join("\n")
    }

    /// Returns its standard output, once it has ended.
    #[track_caller]
    pub fn printed(&self) -> String {
        let [reader, _] = &self.readers;
        eventually("all that it printed is read", || reader.is_finished());
        self.printed.lock().expect("lock").join("\n")
    }

    /// Returns the number of log lines that contain `part`.
    pub fn count(&self, part: &str) -> usize {
        self.lines.lock().expect("lock").iter().filter(|line| holds(line, part)).count()
    }

    /// Counts only warnings and errors: at higher levels, a retry is logged too.
    pub fn warnings(&self, part: &str) -> usize {
        let lines = self.lines.lock().expect("lock");
        lines.iter().filter(|line| line.starts_with(['W', 'E']) && holds(line, part)).count()
    }

    /// Waits for a log line that contains `part`.
    #[track_caller]
    pub fn wait_for(&self, part: &str) {
        self.wait_for_times(part, 1);
    }

    #[track_caller]
    pub fn wait_for_times(&self, part: &str, times: usize) {
        let end = Instant::now() + Duration::from_secs(PATIENCE);
        while self.count(part) < times {
            assert!(Instant::now() < end, "no {part:?} ({times}) in\n{}", self.log());
            pause(10);
        }
    }

    /// Sends a request to the endpoint; returns code 0 without an answer.
    pub fn ask(&self, path: &str) -> (u16, String) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return (0, String::new());
        };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut answer = String::new();
        if stream.write_all(request.as_bytes()).is_err()
            || stream.read_to_string(&mut answer).is_err()
        {
            return (0, String::new());
        }
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let body =
            answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        (code, body)
    }

    /// Waits until the endpoint answers `path` with `code`; returns the body.
    #[track_caller]
    pub fn wait_for_code(&self, path: &str, code: u16) -> String {
        let mut last = (0, String::new());
        let end = Instant::now() + Duration::from_secs(PATIENCE);
        while last.0 != code {
            assert!(Instant::now() < end, "{path} is {last:?}, not {code}\n{}", self.log());
            pause(20);
            last = self.ask(path);
        }
        last.1
    }

    /// Returns a value of /metrics, by name and labels as printed.
    pub fn metric(&self, sample: &str) -> Option<f64> {
        let metrics = self.ask("/metrics").1;
        metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill -{signal} {pid}");
    }

    /// Sends SIGTERM and waits; returns the exit code and the duration.
    #[track_caller]
    pub fn terminate(&mut self) -> (Option<i32>, Duration) {
        self.ending(|process| process.signal("TERM"))
    }

    /// Runs `end` and waits; returns the exit code and the duration.
    #[track_caller]
    pub fn ending(&mut self, end: impl FnOnce(&Self)) -> (Option<i32>, Duration) {
        end(self);
        let begin = Instant::now();
        let status = self.exit();
        let time = begin.elapsed();
        self.read_to_the_end();
        (status.code(), time)
    }

    /// Checks that SIGTERM ends it with exit code 0, [at once](AT_ONCE).
    #[track_caller]
    pub fn ends_at_once(&mut self) {
        self.ends_at_once_by(|process| process.signal("TERM"));
    }

    /// Also checks that it logs the signal.
    #[track_caller]
    pub fn stops_as_asked(&mut self) {
        self.ends_at_once();
        assert_eq!(self.count("stopped by a signal"), 1, "{}", self.log());
    }

    #[track_caller]
    pub fn ends_at_once_by(&mut self, end: impl FnOnce(&Self)) {
        let (code, time) = self.ending(end);
        assert_eq!(code, Some(0), "{}", self.log());
        assert!(time < AT_ONCE, "{time:?}\n{}", self.log());
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let status = self.exit();
        self.read_to_the_end();
        status
    }

    #[track_caller]
    fn exit(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the process ends", || child.try_wait().expect("its state"))
    }

    /// Waits for the readers, which may lag behind, but not forever: a child process may hold the pipe too.
    fn read_to_the_end(&self) {
        let end = Instant::now() + Duration::from_secs(3);
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < end {
            pause(5);
        }
    }

    /// Kills the process, like a crash.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Returns a field of /proc/PID/status in KiB, such as VmRSS or RssAnon.
    pub fn memory(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
    }

    /// Returns its command line and its environment.
    pub fn command_line(&self) -> String {
        let read = |what: &str| fs::read(format!("/proc/{}/{what}", self.pid())).expect("of /proc");
        ["cmdline", "environ"]
            .map(|what| String::from_utf8_lossy(&read(what)).into_owned())
            .join(" ")
    }

    /// Returns its CPU time so far, to 10 ms: one tick wherever Linux runs containers.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        Duration::from_millis(ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
    }

    /// Returns the number of its open file descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.kill();
        self.read_to_the_end();
        if !thread::panicking() {
            assert!(!self.log().contains("panicked"), "{}", self.log());
        }
    }
}
