//! Go's command line from one table: parsing, `-help` and the README's block all read it.

use std::{collections::BTreeMap, ffi::OsString, fmt::Write, time::Duration};

use lexopt::{Arg, Parser};

/// One flag.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Without dashes.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// As it would be typed; empty for none.
    pub default: &'static str,
    /// What it does, in a sentence.
    pub help: &'static str,
}

/// What a flag takes; the names are those of Go's usage text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `-x` or `-x=false`; never a separate value, as in Go.
    Bool,
    /// A time as Go writes it: `1m30s`.
    Duration,
    /// A whole number.
    Int,
    /// May be repeated; values are put together with commas.
    List,
    /// 0 to 65535.
    Port,
    /// Of the program that ours replaces, without a meaning here; the help text says why, and `-help`
    /// does not list it.
    Refused,
    /// Anything.
    String,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Print this and exit 0.
    Print(String),
    /// Do the work.
    Run(Flags),
}

/// The values of all flags of the table, checked for their kind.
#[derive(Clone, Debug)]
pub struct Flags {
    values: BTreeMap<&'static str, String>,
    given: Vec<&'static str>,
}

/// Longer ones are a mistake, and nobody believes a leader for longer.
const DAY: Duration = Duration::from_secs(86_400);

/// The flags that every program has; `metrics_port` is the program's own default.
pub fn common(metrics_port: &'static str) -> [Flag; 9] {
    let flag = |name, kind, default, help| Flag { name, kind, default, help };
    [
        flag("help", Kind::Bool, "false", "Print this help and exit."),
        flag(
            "kubeconfig",
            Kind::String,
            "",
            "Kubeconfig of the cluster this runs on; without it KUBECONFIG, the pod's service account, then ~/.kube/config.",
        ),
        flag("logging-format", Kind::String, "text", "Log lines as text or json."),
        flag("master", Kind::String, "", "URL of the API server, instead of the kubeconfig's."),
        flag(
            "metrics-host",
            Kind::String,
            "0.0.0.0",
            "Address to serve /healthz, /readyz and /metrics on.",
        ),
        flag("metrics-port", Kind::Port, metrics_port, "Port to serve them on; 0 turns them off."),
        flag(
            "namespace",
            Kind::String,
            "",
            "The program's own namespace; without it POD_NAMESPACE, then the service account's.",
        ),
        flag("v", Kind::Int, "0", "Log level: 0 for changes, 2 for each attempt."),
        flag("version", Kind::Bool, "false", "Print the version and exit."),
    ]
}

/// Reads a command line against `table`.
///
/// # Errors
/// One sentence: an unknown flag, a missing or unfit value, a stray argument.
pub fn parse(
    program: &str,
    table: &[Flag],
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Request, String> {
    let mut values: BTreeMap<_, _> =
        table.iter().map(|flag| (flag.name, flag.default.to_owned())).collect();
    let mut given = Vec::new();
    let mut parser = Parser::from_args(long_form(table, arguments));
    while let Some(argument) = parser.next().map_err(|e| e.to_string())? {
        let name = match argument {
            Arg::Long(name) => name.to_owned(),
            Arg::Short(c) => return Err(format!("flag provided but not defined: -{c}")),
            Arg::Value(value) => {
                return Err(format!(
                    "argument {value:?} belongs to no flag (a switch is set by -x=true)"
                ));
            }
        };
        let Some(flag) = table.iter().find(|flag| flag.name == name || flag.name == alias(&name))
        else {
            return Err(format!("flag provided but not defined: -{name}"));
        };
        let value = match (flag.kind, parser.optional_value()) {
            (_, Some(value)) => {
                value.into_string().map_err(|_| format!("the value of -{name} is not UTF-8"))?
            }
            (Kind::Bool | Kind::Refused, None) => "true".to_owned(),
            (_, None) => return Err(format!("flag needs an argument: -{name}")),
        };
        let mut value = checked(flag, value)?;
        if flag.kind == Kind::List && given.contains(&flag.name) {
            value = format!("{},{value}", values[flag.name]);
        }
        values.insert(flag.name, value);
        given.push(flag.name);
    }
    let flags = Flags { values, given };
    Ok(if flags.switch("help") {
        Request::Print(help(program, table))
    } else if flags.switch("version") {
        Request::Print(format!("{program} {}\n", env!("CARGO_PKG_VERSION")))
    } else {
        Request::Run(flags)
    })
}

/// The text of `-help`, sorted by name as in Go.
pub fn help(program: &str, table: &[Flag]) -> String {
    let mut flags: Vec<_> = table.iter().filter(|flag| flag.kind != Kind::Refused).collect();
    flags.sort_by_key(|flag| flag.name);
    let mut text = format!("Usage of {program}:\n");
    for flag in flags {
        let value = match flag.kind {
            Kind::Bool | Kind::Refused => "",
            Kind::Duration => " duration",
            Kind::Int | Kind::Port => " int",
            Kind::List => " strings",
            Kind::String => " string",
        };
        let default = match flag.default {
            "" | "false" => String::new(),
            default => format!(" (default {default})"),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "  -{}{value}\n    \t{}{default}", flag.name, flag.help);
    }
    text
}

impl Flags {
    /// A value; empty if the flag has no default and was not given.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// A value, unless it is empty.
    pub fn some(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|value| !value.is_empty())
    }

    /// The value of an `Int` or `Port` flag.
    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or_default()
    }

    /// The value of a `Duration` flag; a negative one is no time at all.
    pub fn duration(&self, name: &str) -> Duration {
        duration(self.text(name)).unwrap_or_default()
    }

    /// The value of a `Duration` flag that is a wait.
    ///
    /// # Errors
    /// One sentence: no time at all, or so much that it is a mistake.
    pub fn period(&self, name: &str) -> Result<Duration, String> {
        let period = self.duration(name);
        if period.is_zero() || period > DAY {
            let given = self.text(name);
            return Err(format!("-{name} is a time above zero, up to 24h, not {given:?}"));
        }
        Ok(period)
    }

    /// The values of a `List` flag, without empty ones.
    pub fn list(&self, name: &str) -> Vec<&str> {
        self.text(name).split(',').map(str::trim).filter(|value| !value.is_empty()).collect()
    }

    /// The value of a `Bool` flag.
    pub fn switch(&self, name: &str) -> bool {
        truth(self.text(name)) == Some(true)
    }

    /// What the flags `once` and `wait-timeout` say together: one pass that ends, and how long it may wait.
    ///
    /// # Errors
    /// One sentence: a deadline without `-once`, or one that is no number of seconds.
    pub fn once(&self) -> Result<Option<Duration>, String> {
        let seconds = self.number("wait-timeout");
        match (self.switch("once"), u32::try_from(seconds)) {
            (true, Ok(seconds)) => Ok(Some(Duration::from_secs(seconds.into()))),
            (false, Ok(0)) => Ok(None),
            (false, Ok(_)) => Err("-wait-timeout belongs to -once".into()),
            (_, Err(_)) => Err(format!(
                "-wait-timeout is a number of seconds from 0 to {}, not {seconds}",
                u32::MAX
            )),
        }
    }

    /// Whether a flag was on the command line, with whatever value.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// The flags that were given, for the log; user and password of a URL are left out.
    pub fn given(&self) -> String {
        let shown = |name: &&str| format!("-{name}={}", without_password(self.text(name)));
        self.given.iter().map(shown).collect::<Vec<_>>().join(" ")
    }
}

/// Rewrites arguments into the one form that Go and lexopt agree on, `--name=value`: lexopt takes
/// `-name` for a bundle of short flags. As in Go, whatever follows a flag that is not a switch is its
/// value, also when it begins with a dash.
fn long_form(table: &[Flag], arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut long = Vec::new();
    while let Some(argument) = arguments.next() {
        let flag = argument.to_str().and_then(|text| {
            let name = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
            (!name.is_empty()).then_some(name)
        });
        let Some(flag) = flag else {
            long.push(argument);
            continue;
        };
        let mut whole = OsString::from(format!("--{flag}"));
        let takes_value = |kind| !matches!(kind, Kind::Bool | Kind::Refused) && !flag.contains('=');
        if table.iter().any(|known| known.name == flag && takes_value(known.kind))
            && let Some(value) = arguments.next()
        {
            whole.push("=");
            whole.push(value);
        }
        long.push(whole);
    }
    long
}

/// Go's flag package knows `-h` too.
fn alias(name: &str) -> &str {
    if name == "h" { "help" } else { name }
}

fn checked(flag: &Flag, value: String) -> Result<String, String> {
    let fits = match flag.kind {
        Kind::Bool => truth(&value).is_some(),
        Kind::Duration => duration(&value).is_some(),
        Kind::Int => value.parse::<i64>().is_ok(),
        Kind::Port => value.parse::<u16>().is_ok(),
        Kind::Refused => return Err(format!("-{} has no meaning here: {}", flag.name, flag.help)),
        Kind::List | Kind::String => true,
    };
    if fits { Ok(value) } else { Err(format!("invalid value {value:?} for flag -{}", flag.name)) }
}

/// strconv.ParseBool.
fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// time.ParseDuration; below zero is zero.
pub fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        seconds += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    Duration::try_from_secs_f64(if negative { 0.0 } else { seconds }).ok()
}

fn without_password(value: &str) -> String {
    let Some((head, host)) = value.rsplit_once('@') else { return value.to_owned() };
    let scheme = head.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
    format!("{scheme}***@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [Flag; 4] = [
        Flag { name: "lease-name", kind: Kind::String, default: "", help: "A name." },
        Flag { name: "v", kind: Kind::Int, default: "0", help: "A level." },
        Flag { name: "leader", kind: Kind::Bool, default: "false", help: "A switch." },
        Flag { name: "help", kind: Kind::Bool, default: "false", help: "Help." },
    ];

    fn run(line: &str) -> Result<Flags, String> {
        match parse("x", &TABLE, line.split_whitespace().map(OsString::from))? {
            Request::Run(flags) => Ok(flags),
            Request::Print(text) => Err(text),
        }
    }

    #[test]
    fn all_forms_of_go_are_read() {
        for line in ["-lease-name foo", "-lease-name=foo", "--lease-name foo", "--lease-name=foo"] {
            assert_eq!(run(line).unwrap().text("lease-name"), "foo", "{line}");
        }
        assert_eq!(run("-v=2").unwrap().number("v"), 2);
        assert_eq!(run("-v 4").unwrap().number("v"), 4);
        assert_eq!(run("-v -5").unwrap().number("v"), -5);
        assert_eq!(run("-lease-name -dash").unwrap().text("lease-name"), "-dash");
        assert_eq!(run("-lease-name --v=3").unwrap().text("lease-name"), "--v=3");
        assert_eq!(run("-lease-name=").unwrap().some("lease-name"), None);
        let flags = run("-v=0").unwrap();
        assert!(flags.is_given("v") && !flags.is_given("lease-name"));
        assert_eq!(run("-lease-name=a=b").unwrap().text("lease-name"), "a=b");
        for (line, on) in
            [("-leader", true), ("--leader=T", true), ("-leader=0", false), ("", false)]
        {
            assert_eq!(run(line).unwrap().switch("leader"), on, "{line}");
        }
    }

    #[test]
    fn f29_of_a_repeated_flag_the_last_counts() {
        assert_eq!(run("-v 1 -v=3").unwrap().number("v"), 3);
    }

    #[test]
    fn f29_what_go_refuses_is_refused_in_a_sentence() {
        for (line, sentence) in [
            ("-nope", "flag provided but not defined: -nope"),
            ("-nope=1", "flag provided but not defined: -nope"),
            ("-x", "flag provided but not defined: -x"),
            ("-lv", "flag provided but not defined: -lv"),
            ("-lease-name", "flag needs an argument: -lease-name"),
            ("-v two", "invalid value \"two\" for flag -v"),
            ("-v 99999999999999999999", "invalid value \"99999999999999999999\" for flag -v"),
            ("-leader=maybe", "invalid value \"maybe\" for flag -leader"),
        ] {
            assert_eq!(run(line).unwrap_err(), sentence, "{line}");
        }
        assert!(run("-leader true").unwrap_err().contains("belongs to no flag"));
        assert!(run("-- stray").unwrap_err().contains("belongs to no flag"));
    }

    #[test]
    fn durations_are_gos() {
        for (text, milliseconds) in [
            ("1m0s", 60_000),
            ("137s", 137_000),
            ("1.5h", 5_400_000),
            ("1h2m3s4ms", 3_723_004),
            ("250ms", 250),
            ("0", 0),
            ("0s", 0),
            ("-1m", 0),
            ("1000us", 1),
            ("1000\u{b5}s", 1),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in ["", "-", "1", "s", "1x", "1m1", "m1", "1..5s", "99999999999999999999h", "1d"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_list_is_repeated_and_a_refused_flag_says_why() {
        let table = [
            Flag { name: "url", kind: Kind::List, default: "", help: "Some." },
            Flag { name: "qps", kind: Kind::Refused, default: "", help: "there is one request." },
        ];
        let run = |line: &str| match parse("x", &table, line.split(' ').map(OsString::from)) {
            Ok(Request::Run(flags)) => Ok(flags),
            Ok(Request::Print(text)) => Err(text),
            Err(sentence) => Err(sentence),
        };
        let flags = run("-url a,b --url=c -url d").unwrap();
        assert_eq!(flags.list("url"), ["a", "b", "c", "d"]);
        let refusal = "-qps has no meaning here: there is one request.";
        assert_eq!(run("--qps=5").unwrap_err(), refusal);
        assert_eq!(run("-qps").unwrap_err(), refusal);
        assert!(!help("x", &table).contains("qps"));
    }

    #[test]
    fn help_lists_every_flag_in_order() {
        for line in ["-h", "-help", "--help", "-v 1 -h"] {
            let text = run(line).unwrap_err();
            let names: Vec<_> = text.lines().filter(|l| l.starts_with("  -")).collect();
            assert_eq!(
                names,
                ["  -help", "  -leader", "  -lease-name string", "  -v int"],
                "{line}"
            );
            assert!(text.contains("A level. (default 0)"), "{text}");
        }
    }

    #[test]
    fn the_log_shows_no_password() {
        let flags = run("-lease-name https://user:hunter2@host/path").unwrap();
        assert_eq!(flags.given(), "-lease-name=https://***@host/path");
        let bare = run("-lease-name user:hunter2@host").unwrap();
        assert_eq!(bare.given(), "-lease-name=***@host");
    }
}
