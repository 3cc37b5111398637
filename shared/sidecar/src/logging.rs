//! Log on stderr, in klog's format or as JSON. A full or closed pipe drops lines and never blocks.

use std::{
    fmt::Write as _,
    io::{self, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    time::{Duration, SystemTime},
};

use env_logger::{Builder, Target};
use log::{
    Level, LevelFilter, Record,
    kv::{self, Key, Value, VisitSource},
};
use serde_json::json;

use apiclient::{log_line::printable, stop::start_thread, time::micro_time};

use crate::{VERSION, flags::Flags};

/// How many lines wait for a slow reader; further ones are dropped.
const MAX_QUEUED: usize = 256;
const MAX_TEXT: usize = 2000;

/// Sets up the log of `program`, and writes a first line with version and flags.
pub fn start(program: &str, flags: &Flags) -> Result<Log, String> {
    let format = match flags.text("logging-format") {
        "text" => klog,
        "json" => json_line,
        other => return Err(format!("-logging-format must be text or json, got {other:?}")),
    };
    let (sender, entries) = sync_channel(MAX_QUEUED);
    start_thread("log", move || write_out(&entries))
        .map_err(|e| format!("no thread for the log: {e}"))?;
    let level = match flags.number("v") {
        ..=1 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    };
    Builder::new()
        .filter_level(level)
        // ureq, ureq_proto and rustls log connections and frames, which no user can act on.
        .filter_module("ureq", LevelFilter::Off)
        .filter_module("rustls", LevelFilter::Off)
        .format(move |out, record| out.write_all(format(SystemTime::now(), record).as_bytes()))
        .target(Target::Pipe(Box::new(Lines(sender.clone()))))
        .init();
    log::info!(version = VERSION, flags:% = flags.given(); "{program} starts");
    Ok(Log(sender))
}

pub struct Log(SyncSender<Entry>);

impl Log {
    /// Flushes the queue, for at most `timeout`.
    pub fn finish(self, timeout: Duration) {
        let (done, written) = sync_channel(1);
        if self.0.try_send(Entry::End(done)).is_ok() {
            let _ = written.recv_timeout(timeout);
        }
    }
}

enum Entry {
    Line(Vec<u8>),
    End(SyncSender<()>),
}

fn write_out(entries: &Receiver<Entry>) {
    while let Ok(entry) = entries.recv() {
        // A closed stderr cannot be reported.
        let _ = match entry {
            Entry::Line(line) => io::stderr().write_all(&line).is_ok(),
            Entry::End(done) => done.send(()).is_ok(),
        };
    }
}

/// Receives one whole line per write from env_logger.
struct Lines(SyncSender<Entry>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Drops the line if the queue is full.
        let _ = self.0.try_send(Entry::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// klog's format: `I1121 12:00:00.000000       1 run.rs:42] text key=value`. Ambiguous values are quoted.
fn klog(now: SystemTime, record: &Record<'_>) -> String {
    let letter = match record.level() {
        Level::Error => 'E',
        Level::Warn => 'W',
        _ => 'I',
    };
    let time = micro_time(now);
    let (date, clock) = (time[5..10].replace('-', ""), &time[11..26]);
    let (process, place, text) = (std::process::id(), place(record), text(record));
    let mut line = format!("{letter}{date} {clock} {process:>7} {place}] {text}");
    for (key, value) in pairs(record) {
        // Writing into a String cannot fail.
        let _ = match value {
            serde_json::Value::String(text) if needs_no_quotes(&text) => {
                write!(line, " {key}={text}")
            }
            value => write!(line, " {key}={value}"),
        };
    }
    line + "\n"
}

fn needs_no_quotes(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '"', '=', '\\'])
}

/// The format of Kubernetes' JSON logs (component-base `logs/json`): keys are fields like `msg`, and `ts` is in
/// milliseconds.
fn json_line(now: SystemTime, record: &Record<'_>) -> String {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut line = json!({
        "ts": since.as_micros() as f64 / 1000.0,
        "level": record.level().as_str().to_ascii_lowercase(),
        "caller": place(record),
        "msg": text(record),
    });
    if let Some(line) = line.as_object_mut() {
        line.extend(pairs(record));
    }
    format!("{line}\n")
}

/// The keys of a line with their values: numbers, or text in one line. Empty values are dropped, such as the namespace
/// of a cluster-scoped object.
#[derive(Default)]
struct Pairs(Vec<(String, serde_json::Value)>);

impl<'kvs> VisitSource<'kvs> for Pairs {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        let number = value.to_u64().map(Into::into).or_else(|| value.to_f64().map(Into::into));
        let value = number.unwrap_or_else(|| printable(&value.to_string(), MAX_TEXT).into());
        if value != "" {
            self.0.push((key.to_string(), value));
        }
        Ok(())
    }
}

fn pairs(record: &Record<'_>) -> Vec<(String, serde_json::Value)> {
    let mut pairs = Pairs::default();
    // The visitor above never fails.
    let _ = record.key_values().visit(&mut pairs);
    pairs.0
}

fn text(record: &Record<'_>) -> String {
    printable(&record.args().to_string(), MAX_TEXT)
}

fn place(record: &Record<'_>) -> String {
    let file = record.file().unwrap_or_default();
    let file = file.rsplit('/').next().unwrap_or(file);
    format!("{file}:{}", record.line().unwrap_or_default())
}

#[cfg(test)]
mod tests;
