//! Command lines and their settings.

use sidecar::flags::{Invocation, parse};

use super::*;
use crate::model::rules::FieldPath;

/// The settings of a command line in a pod in namespace `own`.
fn settings(line: &str) -> Result<Settings, String> {
    settings_in(Some("own"), line)
}

fn settings_in(namespace: Option<&str>, line: &str) -> Result<Settings, String> {
    let arguments = line.split_whitespace().map(Into::into);
    let Invocation::Run(flags) = parse("x", &table(), arguments)? else { panic!("help") };
    Settings::check(&flags, flags.some("namespace").or(namespace).map(str::to_owned))
}

/// A command line with everything that is required.
fn with(line: &str) -> Result<Settings, String> {
    settings(&format!("-resource widgets.example.com -remote-kubeconfig /etc/hub {line}"))
}

fn push(suffix: &str, remotes: &str) -> Result<Settings, String> {
    let line = format!("-resource pods -direction push -remote-kubeconfig {remotes}");
    settings(&format!("{line} -source-name-suffix={suffix}"))
}

#[test]
fn defaults_are_as_in_sync_controller_and_clustercache() {
    let settings = with("").unwrap();
    assert_eq!((settings.workers, settings.qps), (8, 20));
    assert_eq!((settings.operation, settings.dry_run), (Operation::Run, false));
    assert_eq!((settings.local_role, settings.marks_sources), (Role::Target, true));
    assert_eq!(settings.resources, vec![ResourceArg::parse("widgets.example.com").unwrap()]);
    assert_eq!(settings.mapping, NameMapping::default());
    assert_eq!(settings.finalizer, "cloud.teleport.dev/sync-local");
    assert_eq!(settings.keys.hash, "cloud.teleport.dev/last-uploaded-hash");
    assert_eq!(settings.propagation, Propagation::Foreground);
    let seconds = Duration::from_secs;
    assert_eq!(settings.probes, ProbeTiming::default());
    let orphans = OrphanSettings { grace: Some(seconds(300)), most: 10, within: seconds(600) };
    assert_eq!((settings.orphans, settings.adopts_any), (orphans, false));
    assert_eq!((settings.timeout, settings.resync), (seconds(10), Some(seconds(36_000))));
    assert!(settings.election.is_none() && settings.registry.is_none());
    let default = |name: &str| table().iter().find(|flag| flag.name == name).unwrap().default;
    assert_eq!((default("metrics-host"), default("metrics-port")), ("0.0.0.0", "8387"));
}

#[test]
fn sync_controllers_names_of_flags_are_accepted() {
    let settings = with(
        "-remote-resource-suffix -a -local-namespace-suffix -b -local-secret-name c \
         -local-propagation-policy Orphan",
    )
    .unwrap();
    let NameMapping { resource_suffix, namespace_suffix, .. } = &settings.mapping;
    assert_eq!((&**resource_suffix, &**namespace_suffix), ("-a", "-b"));
    assert_eq!((settings.secrets, settings.propagation), (vec!["c".into()], Propagation::Orphan));
}

#[test]
fn accepted_flags_and_their_values() {
    let keys = with("-finalizer sync.example.com/C_d").unwrap();
    assert_eq!(keys.finalizer, "sync.example.com/C_d");
    assert_eq!(keys.keys.paused, "sync.example.com/paused");
    assert!(keys.keys.is_ours("sync.example.com/whatever"));
    assert!(!keys.keys.is_ours("sync.example.com.org/paused"));

    let mapping = |line: &str| with(line).unwrap().mapping.names("hub");
    let suffixed = mapping("-source-name-suffix .{cluster} -namespace-prefix my-");
    assert_eq!(&*suffixed.source_key("my-a/x"), "my-a/x.hub");
    // Marks keep the copies of several hubs apart.
    let one = mapping("-source-namespace a -target-namespace b -remote-kubeconfig /b");
    assert_eq!(&*one.target_key("a/x"), "b/x");

    let orphans = |line: &str| with(line).unwrap().orphans;
    assert_eq!(orphans("-orphan-grace never").grace, None);
    let given = orphans("-max-deletions 3/1h -orphan-grace 0");
    assert_eq!((given.most, given.within), (3, Duration::from_secs(3600)));
    assert_eq!(given.grace, Some(Duration::ZERO));

    let timing = with("-probe-interval 2s -timeout 8s").unwrap().probes;
    assert_eq!([timing.retry, timing.interval, timing.timeout].map(|it| it.as_secs()), [6, 2, 4]);
    assert_eq!(with("-resync 0").unwrap().resync, None);
    assert_eq!(with("-target-secret-name a,a,b").unwrap().secrets, ["a", "b"]);
}

#[test]
fn fields_have_rules() {
    let settings = with(
        "-resource deployments.apps -ignore-field apps/v1/deployments:/spec/replicas \
         -ignore-field widgets.example.com:/operation,deployments.apps:/spec/paused",
    )
    .unwrap();
    let rules = settings.rules;
    let path = |text| FieldPath::parse(text).unwrap();
    assert_eq!(rules[0].ignored, [path("/operation")]);
    assert_eq!(rules[1].ignored, [path("/spec/replicas"), path("/spec/paused")]);
}

#[test]
fn a_remote_has_the_name_of_its_kubeconfig_or_another() {
    let line = "-resource pods -remote-kubeconfig west=/b,/etc/east.kubeconfig,/a=b/north \
        -remote-kubeconfig-secret ns/south-kubeconfig -remote-kubeconfig-secret up=ns/hub:config";
    let remotes = settings(line).unwrap().remotes;
    let names: Vec<_> = remotes.iter().map(|remote| &*remote.name).collect();
    assert_eq!(names, ["west", "east", "north", "south", "up"]);
    assert_eq!(remotes[0].source, RemoteSource::File("/b".into()));
    let secret = |name: &str, key: Option<&str>| RemoteSource::Secret {
        namespace: "ns".into(),
        name: name.into(),
        key: key.map(str::to_owned),
    };
    assert_eq!(remotes[3].source, secret("south-kubeconfig", None));
    assert_eq!(remotes[4].source, secret("hub", Some("config")));
}

#[test]
fn a_registry_has_labels_and_a_namespace() {
    let registry = |text: &str| {
        let settings = settings(&format!("-resource pods -remote-selector {text}")).unwrap();
        settings.registry.map(|registry| (registry.namespace, registry.selector)).unwrap()
    };
    let selector = || "team=a,cluster.x-k8s.io/cluster-name".to_owned();
    assert_eq!(registry("team=a"), ("own".to_owned(), selector()));
    assert_eq!(registry("clusters:team=a"), ("clusters".to_owned(), selector()));
    let line = "-resource pods -remote-selector clusters:a";
    assert!(settings_in(None, line).unwrap().known_clusters.is_none());
}

#[test]
fn in_push_every_source_has_one_target() {
    assert!(push("", "/east").is_ok(), "one remote needs no suffix");
    assert!(push("-{cluster}", "/east,/west").is_ok());
    assert!(push(".{cluster}", "/east,/us-east").is_ok(), "a name holds no dot");
    let settings = push("-{cluster}", "/east -remote-selector a").unwrap();
    assert_eq!(settings.clash("us-east", ["west", "east"]), Some("east"));
    assert_eq!(settings.clash("south", ["west", "east"]), None);
    let pull = with("-remote-kubeconfig /us-east").unwrap();
    assert_eq!(pull.clash("hub", ["us-east"]), None, "the marks keep targets apart");
}

#[test]
fn there_is_one_task() {
    let operation = |line: &str| with(line).map(|settings| settings.operation);
    assert_eq!(operation("-once"), Ok(Operation::Once(Duration::ZERO)));
    assert_eq!(operation("-once -wait-timeout 9"), Ok(Operation::Once(Duration::from_secs(9))));
    assert_eq!(operation("-cleanup -dry-run"), Ok(Operation::Cleanup));
    for (object, namespace) in [("team/web", "team"), ("web", "")] {
        let settings = with(&format!("-explain widgets.example.com {object}")).unwrap();
        let Operation::Explain(wanted) = &settings.operation else { panic!("{settings:?}") };
        assert_eq!((&*wanted.namespace, &*wanted.name), (namespace, "web"));
        assert_eq!((settings.dry_run, settings.workers), (true, 0));
    }
}

#[test]
fn a_leader_is_elected_where_replicas_run() {
    let election = |line: &str| with(&format!("-leader-election {line}")).unwrap().election;
    assert_eq!(election("-leader-election-name a"), Some(("own".into(), "a".into())));
    for none in ["-once", "-cleanup", "-dry-run"] {
        assert!(election(none).is_none(), "{none}");
    }
    assert!(election("-print-rbac").is_some());
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    let long = format!("-finalizer a.b/{}", "f".repeat(64));
    for (line, sentence) in [
        ("-finalizer sync-local", "-finalizer must be a DNS name, a slash and a name"),
        (&long, "-finalizer must be"),
        ("-direction up", "-direction must be pull or push, got \"up\""),
        ("-adopt never", "-adopt must be equal or always, got \"never\""),
        ("-track nothing", "-track must be source or target, got"),
        (
            "-target-propagation-policy foreground",
            "-target-propagation-policy must be Foreground or Background or Orphan, got \"fore",
        ),
        ("-orphan-grace keep", "-orphan-grace must be a time such as 5m, or never, got \"keep\""),
        ("-max-deletions 10", "-max-deletions must be N/TIME, both above zero, got \"10\""),
        ("-ignore-field gadgets.example.com:/spec/a", "-ignore-field: -resource does not name"),
        ("-ignore-field widgets.example.com", "-ignore-field must be KIND:POINTER"),
        ("-target-secret-name a/b", "-target-secret-name must be an object's name, got \"a/b\""),
        ("-source-namespace a.b", "-source-namespace must be the name of a namespace, got"),
        ("-source-namespace a -target-namespace B", "-target-namespace must be the name"),
        ("-target-namespace b", "-target-namespace needs a -source-namespace"),
        (
            "-source-namespace a -target-namespace b -namespace-policy empty",
            "-target-namespace and -namespace-policy exclude each other",
        ),
        (
            "-source-namespace a -target-namespace b -target-namespace-suffix -x",
            "-target-namespace and -target-namespace-suffix exclude each other",
        ),
        (
            "-namespace-prefix my- -source-namespace other",
            "-source-namespace other does not start with -namespace-prefix my-",
        ),
        ("-source-name-suffix -", "-namespace-prefix, -source-name-suffix or -target"),
        ("-source-name-suffix -{name}", "-namespace-prefix, -source-name-suffix or"),
        ("-namespace-prefix {cluster}-", "-namespace-prefix, -source-name-suffix or"),
        ("-concurrent-reconciles 0", "-concurrent-reconciles must be from 1 to 256, got 0"),
        ("-probe-interval 0", "-probe-interval must be a time above zero"),
        ("-namespace A", "the namespace \"A\" (-namespace, POD_NAMESPACE) is not a valid name"),
        ("-leader-election-name A", "-leader-election-name \"A\" is not a valid object name"),
        ("-remote-selector=", "-remote-selector must be [NAMESPACE:]SELECTOR, got \"\""),
        ("-once -cleanup", "-once, -cleanup, -explain and -print-rbac exclude each other"),
        ("-cleanup -wait-timeout 9", "-wait-timeout belongs to -once"),
        ("-explain widgets.example.com a/b/c", "-explain must be KIND NAMESPACE/NAME, or KIND"),
        ("-explain gadgets.example.com a/b", "-explain: -resource does not name gadgets"),
        ("-explain widgets.example.com", "invalid value \"widgets.example.com\" for flag -ex"),
        ("-resource a/b", "-resource must be plural.group or"),
        ("-resource x.a.b -resource a.b/v2/x", "-resource names x.a.b twice"),
        ("-remote-kubeconfig a=", "-remote-kubeconfig must be [NAME=]FILE, got \"a=\""),
        ("-remote-kubeconfig /A", "the name of the remote \"A\" is not a DNS label: set another"),
        ("-remote-kubeconfig own=/x", "a remote cannot be named own"),
        ("-remote-kubeconfig-secret n/hub", "two remotes are named hub"),
    ] {
        let refusal = with(line).map(|_| ()).expect_err(line);
        assert!(refusal.starts_with(sentence), "{line}: {refusal}");
    }
    for bad in ["x", "n/", "/x", "n/x:", "N/x", "a=n", "n/x/y"] {
        let refusal = with(&format!("-remote-kubeconfig-secret {bad}")).unwrap_err();
        let sentence = "-remote-kubeconfig-secret must be [NAME=]NAMESPACE/SECRET[:KEY]";
        assert!(refusal.starts_with(sentence), "{bad}: {refusal}");
    }
    let many = "-source-name-suffix must contain {cluster} if there may be several remotes";
    for (refusal, sentence) in [
        (settings("-remote-kubeconfig /a"), "-resource is required"),
        (settings("-resource pods"), "no remote is configured: set -remote-kubeconfig"),
        (push("-x", "/east,/west"), many),
        (push("-x", "/east -remote-selector a"), many),
        (push("-{cluster}", "/west,/east,/us-east"), "the remotes east and us-east overlap in -s"),
        (settings_in(None, "-resource pods -remote-selector a"), "-remote-selector needs a name"),
        (
            settings_in(None, "-resource a.b -remote-kubeconfig /a -leader-election"),
            "-leader-election needs a namespace",
        ),
    ] {
        let refusal = refusal.unwrap_err();
        assert!(refusal.starts_with(sentence), "{sentence}: {refusal}");
    }
}

#[test]
fn the_readme_shows_the_flags_as_they_are() {
    let help = sidecar::flags::help("remote-sync", &table());
    let block = format!("<!-- flags:remote-sync -->\n```text\n{help}```\n<!-- end -->");
    assert!(
        include_str!("../../REFERENCE.md").contains(&block),
        "REFERENCE.md should hold\n{block}"
    );
}
