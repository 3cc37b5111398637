use super::*;
use crate::flag_rows;

const TABLE: [Flag; 4] = flag_rows! {
    ["Lease"]
    "lease-name" String "" => "A name.";
    ["Log"]
    "v" Int "0" => "A level.";
    ["Lease"]
    "leader" Bool "false" => "A switch.";
    ["Help"]
    "help" Bool "false" => "Help.";
};

fn run(line: &str) -> Result<Flags, String> {
    match parse("x", &TABLE, line.split_whitespace().map(OsString::from))? {
        Invocation::Run(flags) => Ok(flags),
        Invocation::Print(text) => Err(text),
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
    for (line, on) in [("-leader", true), ("--leader=T", true), ("-leader=0", false), ("", false)] {
        assert_eq!(run(line).unwrap().switch("leader"), on, "{line}");
    }
}

#[test]
fn repeated_flag_counts_with_its_last_value() {
    assert_eq!(run("-v 1 -v=3").unwrap().number("v"), 3);
}

#[test]
fn arguments_go_refuses_are_refused_with_a_reason() {
    for (line, sentence) in [
        ("-nope", "flag provided but not defined: -nope"),
        ("-nope=1", "flag provided but not defined: -nope"),
        ("-x", "flag provided but not defined: -x"),
        ("-lv", "flag provided but not defined: -lv"),
        ("--hlep", "flag provided but not defined: -hlep"),
        ("-lease-name", "flag needs an argument: -lease-name"),
        ("-v two", "invalid value \"two\" for flag -v: it takes a whole number"),
        (
            "-v 99999999999999999999",
            "invalid value \"99999999999999999999\" for flag -v: it takes a whole number",
        ),
        ("-leader=maybe", "invalid value \"maybe\" for flag -leader: it takes true or false"),
    ] {
        assert_eq!(run(line).unwrap_err(), sentence, "{line}");
    }
    let stray = run("-leader true").unwrap_err();
    assert_eq!(stray, "unexpected argument \"true\"; booleans are set as -x=true");
    assert!(run("--").unwrap_err().contains("unexpected argument \"--\""));
}

#[test]
fn a_list_is_repeated() {
    let table = flag_rows! { ["Some"] "url" List "" => "Some."; };
    let arguments = "-url a,b --url=c -url d".split(' ').map(OsString::from);
    let Ok(Invocation::Run(flags)) = parse("x", &table, arguments) else { panic!() };
    assert_eq!(flags.list("url"), ["a", "b", "c", "d"]);
}

#[test]
fn ignored_and_refused_flags_are_not_listed() {
    let table = flag_rows! {
        ["Without effect"]
        "burst" Ignored "" => "none.";
        "config" Refused "" => "no file.";
    };
    for line in ["-burst=5", "--burst 5"] {
        let flags = parse("x", &table, line.split(' ').map(OsString::from));
        let Ok(Invocation::Run(flags)) = flags else { panic!("{line}") };
        assert_eq!(flags.ignored(), &BTreeMap::from([("burst", "none.")]));
    }
    let refused = parse("x", &table, ["-config=x".into()]).unwrap_err();
    assert_eq!(refused, "-config has no meaning here: no file.");
    let help = help("x", &table);
    assert_eq!(help, "Usage of x:\n");
}

#[test]
fn a_pair_takes_two_arguments_or_one_with_a_blank() {
    let table = flag_rows! { ["Some"] "pair" Pair "" => "Two."; };
    let run = |line: &[&str]| parse("x", &table, line.iter().map(OsString::from));
    for line in [&["-pair", "a", "b"][..], &["-pair=a b"], &["--pair", "a", "b"]] {
        let Ok(Invocation::Run(flags)) = run(line) else { panic!("{line:?}") };
        assert_eq!(flags.text("pair"), "a b");
    }
    let refusal = run(&["-pair", "a"]).unwrap_err();
    assert_eq!(refusal, "invalid value \"a\" for flag -pair: it takes two values");
    assert!(help("x", &table).contains("-pair string string"));
}

#[test]
fn help_lists_every_flag_in_its_group() {
    let usage = "Usage of x:

Lease:
  -leader
    \tA switch.
  -lease-name string
    \tA name.

Log:
  -v int
    \tA level. (default 0)

Help:
  -help
    \tHelp.
";
    for line in ["-h", "-help", "--help", "-v 1 -h"] {
        assert_eq!(run(line).unwrap_err(), usage, "{line}");
    }
}

#[test]
fn the_log_shows_no_password() {
    let flags = run("-lease-name https://user:hunter2@host/path").unwrap();
    assert_eq!(flags.given(), "-lease-name=https://***@host/path");
    let bare = run("-lease-name user:hunter2@host").unwrap();
    assert_eq!(bare.given(), "-lease-name=***@host");
}

#[test]
fn once_has_a_deadline_that_may_be_nothing() {
    let table = flag_rows! {
        ["Single run"]
        "once" Bool "false" => "Once.";
        "wait-timeout" Seconds "1h" => "Wait.";
    };
    let once = |line: &str| match parse("x", &table, line.split_whitespace().map(OsString::from))? {
        Invocation::Run(flags) => flags.once(),
        Invocation::Print(text) => Err(text),
    };
    for (line, seconds) in [
        ("-once", 3600),
        ("-once -wait-timeout 0", 0),
        ("-once -wait-timeout 90", 90),
        ("-once -wait-timeout 1m30s", 90),
    ] {
        assert_eq!(once(line), Ok(Some(Duration::from_secs(seconds))), "{line}");
    }
    assert_eq!(once(""), Ok(None));
    assert_eq!(once("-wait-timeout 90"), Err("-wait-timeout belongs to -once".into()));
    let refused = once("-once -wait-timeout soon").unwrap_err();
    assert!(
        refused.ends_with("it takes a duration such as 30s, or a number of seconds"),
        "{refused}"
    );
}
