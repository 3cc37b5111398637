//! Command line in the style of Go. One table is the source for parsing, `-help` and the block in REFERENCE.md.

mod duration;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ffi::OsString, fmt::Write, ops::RangeInclusive, time::Duration};

use apiclient::resource::valid_name;
use lexopt::Parser;

pub use self::duration::duration;
use self::duration::seconds;
use crate::{REVISION, VERSION};

#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub name: &'static str,
    pub kind: FlagKind,
    /// As on the command line; empty for none.
    pub default: &'static str,
    pub help: &'static str,
    /// The heading in `-help`.
    pub group: &'static str,
}

impl Flag {
    /// Returns whether `-help` lists it.
    fn is_listed(&self) -> bool {
        !matches!(self.kind, FlagKind::Alias | FlagKind::Ignored | FlagKind::Refused)
    }
}

/// The kind of a flag's value; Go's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    /// Another name for the flag in `default`; `-help` does not list it.
    Alias,
    /// `-x` or `-x=false`; as in Go, never a separate argument.
    Bool,
    /// A duration in Go's format: `1m30s`.
    Duration,
    Int,
    /// May be repeated; commas join the values.
    List,
    /// A flag of the replaced program: accepted for compatibility, without effect. Its help is the reason, for the log;
    /// `-help` does not list it.
    Ignored,
    /// Two arguments, which a blank joins.
    Pair,
    Port,
    /// Like `Ignored`, but an error: users rely on its effect.
    Refused,
    /// A duration in Go's format, or a number of seconds.
    Seconds,
    String,
}

#[derive(Debug)]
pub enum Invocation<T> {
    /// Print this text and exit with 0.
    Print(String),
    /// Run with these settings.
    Run(T),
}

/// The values of all flags of the table, validated by kind.
#[derive(Clone, Debug)]
pub struct Flags {
    values: BTreeMap<&'static str, String>,
    given: Vec<&'static str>,
    ignored: BTreeMap<&'static str, &'static str>,
}

/// The longest period: a longer one is a typo.
const MAX_PERIOD: Duration = Duration::from_secs(86_400);

/// Rows of a flag table, by group: name, kind and default of each flag, and its help.
#[macro_export]
macro_rules! flag_rows {
    ($([$group:literal] $($name:literal $kind:ident $default:expr => $help:expr;)+)+) => {
        [$($($crate::flags::Flag {
            name: $name,
            kind: $crate::flags::FlagKind::$kind,
            default: $default,
            help: $help,
            group: $group,
        },)+)+]
    };
}

/// The flags of every program; `metrics_port` is the default port of the program.
pub fn common(metrics_port: &'static str) -> [Flag; 9] {
    flag_rows! {
        ["Connections"]
        "kubeconfig" String "" =>
            "Kubeconfig of the local cluster; without it KUBECONFIG, the pod's service account, then ~/.kube/config.";
        "master" String "" => "URL of the API server, instead of the kubeconfig's.";
        "namespace" String "" =>
            "The program's namespace; without it POD_NAMESPACE, then the service account's.";

        ["Endpoints and log"]
        "logging-format" String "text" => "Log lines as text or json.";
        "metrics-host" String "0.0.0.0" =>
            "Address for /healthz, /readyz and /metrics; 0.0.0.0 and :: both mean all addresses, IPv4 and IPv6.";
        "metrics-port" Port metrics_port => "Port for these endpoints; 0 disables them.";
        "v" Int "0" => "Log level: 0 for changes, 2 for each attempt.";

        ["Help"]
        "help" Bool "false" => "Print this help and exit.";
        "version" Bool "false" => "Print the version and exit.";
    }
}

/// The time limit of programs that wait for the hub's credential with `-once`.
pub const WAIT_TIMEOUT: [Flag; 1] = flag_rows! {
    ["Single run"]
    "wait-timeout" Seconds "24h" =>
        "With -once: how long to wait for a valid credential; 0 checks once.";
};

pub fn parse(
    program: &str,
    table: &[Flag],
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Invocation<Flags>, String> {
    let values = table.iter().map(|flag| (flag.name, flag.default.to_owned())).collect();
    let mut flags = Flags { values, given: Vec::new(), ignored: BTreeMap::new() };
    let mut parser = Parser::from_args(arguments);
    // Raw arguments: lexopt would read `-name` as a bundle of short flags.
    let mut next = move || {
        let argument = parser.raw_args().map_err(|e| e.to_string())?.next();
        let argument = argument.map(OsString::into_string).transpose();
        argument.map_err(|it| format!("argument {it:?} is not UTF-8"))
    };
    while let Some(argument) = next()? {
        let name = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| {
            format!("unexpected argument {argument:?}; booleans are set as -x=true")
        })?;
        let (name, inline) =
            name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
        let flag =
            find(table, name).ok_or_else(|| format!("flag provided but not defined: -{name}"))?;
        let value = match (inline, flag.kind) {
            (Some(value), _) => value.to_owned(),
            (None, FlagKind::Bool) => "true".to_owned(),
            (None, kind) => {
                // As in Go, even if it begins with a dash.
                let value = next()?.ok_or_else(|| format!("flag needs an argument: -{name}"))?;
                match kind {
                    FlagKind::Pair => value + &next()?.map_or(String::new(), |it| format!(" {it}")),
                    _ => value,
                }
            }
        };
        flags.set(flag, value)?;
    }
    Ok(if flags.switch("help") {
        Invocation::Print(help(program, table))
    } else if flags.switch("version") {
        let line = format!("{program} {VERSION} {REVISION}");
        Invocation::Print(format!("{}\n", line.trim_end()))
    } else {
        Invocation::Run(flags)
    })
}

pub const NO_NAMESPACE: &str =
    "the program's namespace is not known: set -namespace or POD_NAMESPACE";

/// Validates `name`; the error calls the setting `what`.
pub fn object_name(what: &str, name: impl Into<String>) -> Result<String, String> {
    let name = name.into();
    if valid_name(&name) {
        return Ok(name);
    }
    Err(format!("{what} {name:?} is not a valid object name"))
}

impl Flags {
    fn set(&mut self, flag: &Flag, value: String) -> Result<(), String> {
        check(flag, &value)?;
        if flag.kind == FlagKind::Ignored {
            self.ignored.insert(flag.name, flag.help);
        }
        let is_repeated = flag.kind == FlagKind::List && self.is_given(flag.name);
        let before = if is_repeated { format!("{},", self.text(flag.name)) } else { String::new() };
        self.values.insert(flag.name, before + &value);
        self.given.push(flag.name);
        Ok(())
    }

    /// The ignored flags on the command line, each with the reason.
    pub fn ignored(&self) -> &BTreeMap<&'static str, &'static str> {
        &self.ignored
    }

    /// The value of a flag, or its default.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    pub fn some(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|value| !value.is_empty())
    }

    pub fn required(&self, name: &str) -> Result<String, String> {
        self.some(name).map(str::to_owned).ok_or_else(|| format!("-{name} is required"))
    }

    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or_default()
    }

    pub fn number_in(&self, name: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
        let number = u32::try_from(self.number(name)).ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (min, max, given) = (range.start(), range.end(), self.text(name));
            format!("-{name} must be from {min} to {max}, got {given}")
        })
    }

    /// The value of a `Duration` or `Seconds` flag; a negative one is zero.
    pub fn duration(&self, name: &str) -> Duration {
        seconds(self.text(name)).unwrap_or_default()
    }

    /// The value of a `Duration` flag that must be above zero.
    pub fn period(&self, name: &str) -> Result<Duration, String> {
        let period = self.duration(name);
        if period.is_zero() || period > MAX_PERIOD {
            let given = self.text(name);
            return Err(format!("-{name} must be a time above zero, up to 24h, got {given:?}"));
        }
        Ok(period)
    }

    pub fn list(&self, name: &str) -> Vec<&str> {
        self.text(name).split(',').map(str::trim).filter(|value| !value.is_empty()).collect()
    }

    pub fn switch(&self, name: &str) -> bool {
        truth(self.text(name)) == Some(true)
    }

    /// The time limit of a single pass, by `-once` and `-wait-timeout`; `None` without `-once`.
    pub fn once(&self) -> Result<Option<Duration>, String> {
        match self.switch("once") {
            true => Ok(Some(self.duration("wait-timeout"))),
            false if self.is_given("wait-timeout") => {
                Err("-wait-timeout belongs to -once".to_owned())
            }
            false => Ok(None),
        }
    }

    /// Returns whether a flag was on the command line, with any value.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// The flags on the command line for the log, without user and password of URLs.
    pub fn given(&self) -> String {
        let shown = |name: &&str| format!("-{name}={}", without_password(self.text(name)));
        self.given.iter().map(shown).collect::<Vec<_>>().join(" ")
    }
}

/// Finds a flag by name or alias; `-h` means `-help`, as in Go.
fn find<'a>(table: &'a [Flag], name: &str) -> Option<&'a Flag> {
    let name = if name == "h" { "help" } else { name };
    let found = table.iter().find(|flag| flag.name == name)?;
    if found.kind == FlagKind::Alias { find(table, found.default) } else { Some(found) }
}

fn check(flag: &Flag, value: &str) -> Result<(), String> {
    let (fits, wanted) = match flag.kind {
        FlagKind::Bool => (truth(value).is_some(), "true or false"),
        FlagKind::Duration => (duration(value).is_some(), "a duration such as 30s or 1m30s"),
        FlagKind::Int => (value.parse::<i64>().is_ok(), "a whole number"),
        FlagKind::Pair => (value.contains(' '), "two values"),
        FlagKind::Port => (value.parse::<u16>().is_ok(), "a port from 0 to 65535"),
        FlagKind::Refused => {
            return Err(format!("-{} has no meaning here: {}", flag.name, flag.help));
        }
        FlagKind::Seconds => {
            (seconds(value).is_some(), "a duration such as 30s, or a number of seconds")
        }
        FlagKind::Alias | FlagKind::Ignored | FlagKind::List | FlagKind::String => (true, ""),
    };
    match fits {
        true => Ok(()),
        false => Err(format!("invalid value {value:?} for flag -{}: it takes {wanted}", flag.name)),
    }
}

/// strconv.ParseBool.
fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn without_password(value: &str) -> String {
    let Some((head, host)) = value.rsplit_once('@') else { return value.to_owned() };
    let scheme = head.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
    format!("{scheme}***@{host}")
}

/// The text of `-help`: groups in the order of the table, flags by name, as in Go.
pub fn help(program: &str, table: &[Flag]) -> String {
    let mut groups: Vec<(&str, Vec<&Flag>)> = Vec::new();
    for flag in table.iter().filter(|flag| flag.is_listed()) {
        match groups.iter_mut().find(|(group, _)| *group == flag.group) {
            Some((_, flags)) => flags.push(flag),
            None => groups.push((flag.group, vec![flag])),
        }
    }
    let mut text = format!("Usage of {program}:\n");
    for (group, mut flags) in groups {
        flags.sort_unstable_by_key(|flag| flag.name);
        // Writing into a String cannot fail.
        let _ = writeln!(text, "\n{group}:");
        let _ = flags.into_iter().try_for_each(|flag| usage(&mut text, flag));
    }
    text
}

fn usage(text: &mut String, flag: &Flag) -> std::fmt::Result {
    let value = match flag.kind {
        FlagKind::Alias | FlagKind::Bool | FlagKind::Ignored | FlagKind::Refused => "",
        FlagKind::Duration | FlagKind::Seconds => " duration",
        FlagKind::Int | FlagKind::Port => " int",
        FlagKind::List => " strings",
        FlagKind::Pair => " string string",
        FlagKind::String => " string",
    };
    let default = match flag.default {
        "" | "false" => String::new(),
        default => format!(" (default {default})"),
    };
    writeln!(text, "  -{}{value}\n    \t{}{default}", flag.name, flag.help)
}
