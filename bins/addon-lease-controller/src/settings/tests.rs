use sidecar::flags::parse;

use super::*;

/// The settings of a command line; `env` is `NAME=value` words, the service account is in `sa`.
fn settings(line: &str, env: &str) -> Result<Settings, String> {
    checked(line, env, Some("sa"))
}

fn checked(line: &str, env: &str, account: Option<&str>) -> Result<Settings, String> {
    let arguments = line.split_whitespace().map(Into::into);
    let Invocation::Run(flags) = parse("x", &table(), arguments)? else { panic!("help") };
    let variable = |name: &str| {
        let mut words = env.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
    };
    let own = flags.some("namespace").map(str::to_owned).or_else(|| variable("POD_NAMESPACE"));
    Settings::check(&flags, &variable, own.or_else(|| account.map(str::to_owned)))
}

/// The same settings outside of a pod.
fn bare(line: &str, env: &str) -> Result<Settings, String> {
    checked(line, env, None)
}

const HUB: &str = "-lease-name a -lease-namespace c -hub-kubeconfig-secret s";

fn secret_namespace(line: &str, env: &str) -> String {
    let hub = settings(line, env).unwrap().hub.unwrap();
    hub.secret().unwrap().0.to_owned()
}

#[test]
fn defaults_are_those_of_the_go_sidecar() {
    let settings = settings(HUB, "").unwrap();
    assert_eq!(settings.period, Duration::from_secs(60));
    assert_eq!(settings.startup_delay, Duration::from_secs(10));
    assert_eq!((settings.managed, settings.pod, settings.election), (None, None, None));
    let default = |name: &str| table().iter().find(|flag| flag.name == name).unwrap().default;
    assert_eq!((default("metrics-host"), default("metrics-port")), ("0.0.0.0", "8384"));
}

#[test]
fn secret_is_looked_for_in_one_namespace() {
    assert_eq!(secret_namespace(HUB, "WATCH_NAMESPACE=w POD_NAMESPACE=p"), "w");
    assert_eq!(secret_namespace(HUB, "WATCH_NAMESPACE= POD_NAMESPACE=p"), "p");
    assert_eq!(secret_namespace(HUB, ""), "sa");
    assert_eq!(secret_namespace(&format!("{HUB} -namespace n"), "POD_NAMESPACE=p"), "n");
}

#[test]
fn the_gate_needs_both_names_of_the_pod() {
    assert_eq!(settings(HUB, "POD_NAME=x").unwrap().pod, None);
    assert_eq!(settings(HUB, "POD_NAMESPACE=p").unwrap().pod, None);
    let pod = Some(("p".to_owned(), "x".to_owned()));
    assert_eq!(settings(HUB, "POD_NAME=x POD_NAMESPACE=p").unwrap().pod, pod);
}

#[test]
fn the_required_flags_are_asked_for_first() {
    for (line, env) in [("", ""), ("-leader-election", ""), ("", "POD_NAME=x POD_NAMESPACE=p")] {
        assert_eq!(bare(line, env).unwrap_err(), "-lease-name is required", "{line}");
    }
    let line = "-lease-name a -hub-kubeconfig-secret s";
    assert_eq!(bare(line, "").unwrap_err(), "-lease-namespace is required");
}

#[test]
fn own_container_comes_from_the_flag_or_the_environment() {
    let own = |line: &str, env| settings(&format!("{HUB} {line}"), env).unwrap().own_container;
    let container = |name: &str, strict| Some(OwnContainer { name: name.to_owned(), strict });
    assert_eq!(own("", ""), None);
    assert_eq!(own("", "CONTAINER_NAME=e"), container("e", false));
    assert_eq!(own("-container-name f", "CONTAINER_NAME=e"), container("f", true));
}

#[test]
fn the_target_follows_what_is_named() {
    let target = |line: &str| {
        let settings = settings(line, "POD_NAMESPACE=p").unwrap();
        (settings.hub.is_some(), settings.managed)
    };
    let managed = |namespace: &str| Some(namespace.to_owned());
    assert_eq!(target(HUB), (true, None));
    assert_eq!(target("-lease-name a"), (false, managed("p")));
    assert_eq!(target(&format!("{HUB} -lease-target both")), (true, managed("p")));
    assert_eq!(target(&format!("{HUB} -lease-target managed")), (false, managed("p")));
    assert_eq!(target("-lease-name a -managed-lease-namespace m"), (false, managed("m")));
    let file = "-lease-name a -lease-namespace c -hub-kubeconfig /f";
    assert_eq!(target(file), (true, None));
}

#[test]
fn requests_get_half_a_period() {
    for (period, timeout) in [(1, 1), (4, 2), (60, 10), (3600, 10)] {
        let settings = settings(&format!("{HUB} -lease-duration {period}"), "").unwrap();
        assert_eq!(settings.request_timeout(), Duration::from_secs(timeout));
    }
}

#[test]
fn unusable_settings_are_refused_with_a_reason() {
    for (line, sentence) in [
        ("", "-lease-name is required"),
        ("-lease-name a -hub-kubeconfig-secret s", "-lease-namespace is required"),
        ("-lease-name a -lease-namespace c -lease-target both", "-hub-kubeconfig-secret or"),
        (
            "-lease-name a -lease-namespace c -hub-kubeconfig-secret s -hub-kubeconfig /f",
            "exclude each other",
        ),
        ("-lease-name a -lease-target all", "-lease-target must be hub, managed or both"),
        ("-lease-name ../secrets/x", "-lease-name \"../secrets/x\" is not a valid object name"),
        ("-lease-name a -namespace B", "-namespace or POD_NAMESPACE \"B\" is not a valid"),
        ("-lease-name a -lease-duration 0", "-lease-duration must be a number"),
        ("-lease-name a -startup-delay -1", "-startup-delay must be a number"),
    ] {
        let refusal = settings(line, "").unwrap_err();
        assert!(refusal.contains(sentence), "{line}: {refusal}");
    }
    let refusal = settings(HUB, "POD_NAME=a/b POD_NAMESPACE=p").unwrap_err();
    assert_eq!(refusal, "POD_NAME \"a/b\" is not a valid object name");
}

#[test]
fn the_readme_shows_the_flags_as_they_are() {
    let help = sidecar::flags::help("addon-lease-controller", &table());
    let block = format!("<!-- flags:addon-lease-controller -->\n```text\n{help}```\n<!-- end -->");
    assert!(
        include_str!("../../REFERENCE.md").contains(&block),
        "REFERENCE.md should hold\n{block}"
    );
}
