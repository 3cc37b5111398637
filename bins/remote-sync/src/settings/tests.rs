//! Command lines and their settings.

use sidecar::flags::{Invocation, parse};

use super::*;
use crate::model::{annotations::Uid, rules::FieldPath};

/// The settings of a command line in a pod in namespace `own`.
fn settings(line: &str) -> Result<Settings, String> {
    let arguments = line.split_whitespace().map(Into::into);
    let Invocation::Run(flags) = parse("x", &table(), arguments)? else { panic!("help") };
    Settings::check(&flags, flags.some("namespace").or(Some("own")).map(str::to_owned))
}

const ONE: &str = "-resource widgets.example.com -remote-kubeconfig /etc/hub";

/// A command line with everything that is required.
fn with(line: &str) -> Result<Settings, String> {
    settings(&format!("{ONE} {line}"))
}

/// Checks the start of an error's sentence.
fn refused(lines: &[(&str, &str)]) {
    for (line, sentence) in lines {
        let refusal = settings(line).map(|_| ()).expect_err(line);
        assert!(refusal.starts_with(sentence), "{line}: {refusal}");
    }
}

fn refused_with(lines: &[(&str, &str)]) {
    for (line, sentence) in lines {
        let refusal = with(line).map(|_| ()).expect_err(line);
        assert!(refusal.starts_with(sentence), "{line}: {refusal}");
    }
}

#[test]
fn defaults_are_those_of_sync_controller_and_clustercache() {
    let settings = with("").unwrap();
    assert_eq!((settings.workers, settings.qps, settings.burst()), (8, 20, 30));
    assert_eq!((settings.operation, settings.dry_run), (Operation::Run, false));
    assert_eq!(settings.direction, Direction::Pull);
    assert_eq!(settings.resources, vec![ResourceArg::parse("widgets.example.com").unwrap()].into());
    assert_eq!(settings.mapping, NameMapping::default());
    assert_eq!(settings.finalizer, "cloud.teleport.dev/sync-local");
    assert_eq!(settings.keys.hash, "cloud.teleport.dev/last-uploaded-hash");
    assert_eq!(settings.propagation, Propagation::Foreground);
    let seconds = Duration::from_secs;
    assert_eq!(settings.probes, ProbeTiming::default());
    let orphans = OrphanSettings {
        policy: OrphanPolicy::Confirm,
        grace: seconds(300),
        most: 10,
        within: seconds(600),
    };
    assert_eq!(settings.orphans, orphans);
    assert_eq!((settings.timeout, settings.resync), (seconds(10), Some(seconds(36_000))));
    assert!(settings.election.is_none() && settings.registry.is_none());
    let default = |name: &str| table().iter().find(|flag| flag.name == name).unwrap().default;
    assert_eq!((default("metrics-host"), default("metrics-port")), ("0.0.0.0", "8387"));
}

#[test]
fn the_prefix_is_that_of_all_keys() {
    let settings = with("-annotation-prefix sync.example.com").unwrap();
    assert_eq!(settings.finalizer, "sync.example.com/sync-local");
    assert_eq!(settings.keys.paused, "sync.example.com/paused");
    assert!(settings.keys.is_ours("sync.example.com/whatever"));
    assert!(!settings.keys.is_ours("sync.example.com.org/paused"));
    assert_eq!(with("-finalizer a.b/C_d").unwrap().finalizer, "a.b/C_d");
    let long = format!("-finalizer a.b/{}", "f".repeat(64));
    refused_with(&[
        ("-annotation-prefix=", "-annotation-prefix \"\" is not a DNS name"),
        ("-annotation-prefix a/b", "-annotation-prefix \"a/b\" is not"),
        ("-finalizer sync-local", "-finalizer \"sync-local\" is not a DNS name, a slash and"),
        ("-finalizer a.b/", "-finalizer \"a.b/\" is not"),
        (&long, "-finalizer \"a.b/fff"),
    ]);
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
    refused(&[
        ("-resource pods", "no remote is configured: set -remote-kubeconfig"),
        (
            "-resource pods -remote-kubeconfig a=",
            "-remote-kubeconfig must be [NAME=]FILE, got \"a=\"",
        ),
        ("-resource pods -remote-kubeconfig /A", "the remote \"A\" has a name that is not a DNS"),
        ("-resource pods -remote-kubeconfig /a.b.yaml", "the remote \"a.b\" has a name"),
        ("-resource pods -remote-kubeconfig /", "the remote \"\" has a name"),
        (
            "-resource pods -remote-kubeconfig /a/x -remote-kubeconfig-secret n/x",
            "two remotes are named x",
        ),
    ]);
    for bad in ["x", "n/", "/x", "n/x:", "n/x:a/b", "N/x", "a=n", "n/x/y"] {
        let line = format!("-remote-kubeconfig-secret {bad}");
        let sentence = "-remote-kubeconfig-secret must be [NAME=]NAMESPACE/SECRET[:KEY]";
        refused_with(&[(&line, sentence)]);
    }
}

#[test]
fn a_registry_has_labels_and_a_namespace() {
    let registry = |line: &str| settings(&format!("-resource pods {line}")).map(|s| s.registry);
    let expected = |namespace: &str| {
        let selector = "team=a,cluster.x-k8s.io/cluster-name".into();
        Ok(Some(Registry { namespace: namespace.into(), selector }))
    };
    assert_eq!(registry("-remote-selector team=a"), expected("own"));
    assert_eq!(registry("-remote-selector team=a -remote-selector-namespace c"), expected("c"));
    refused(&[
        ("-resource pods -remote-selector=", "-remote-selector is empty"),
        (
            "-resource pods -remote-selector a -remote-selector-namespace A",
            "-remote-selector-namespace \"A\" is not the name",
        ),
    ]);
    refused_with(&[("-remote-selector-namespace c", "-remote-selector-namespace belongs to")]);
    let arguments = "-resource pods -remote-selector a".split(' ').map(Into::into);
    let Ok(Invocation::Run(flags)) = parse("x", &table(), arguments) else { panic!() };
    let refusal = Settings::check(&flags, None).unwrap_err();
    assert!(refusal.starts_with("-remote-selector needs a namespace"), "{refusal}");
}

#[test]
fn resources_are_named_and_named_once() {
    refused(&[
        ("-remote-kubeconfig /a", "-resource is required"),
        ("-remote-kubeconfig /a -resource a/b", "-resource must be plural.group or"),
        ("-remote-kubeconfig /a -resource pods,v1/pods", "-resource names pods twice"),
        ("-remote-kubeconfig /a -resource x.a.b -resource a.b/v2/x", "-resource names x.a.b twice"),
    ]);
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
fn a_suffix_is_the_end_of_a_name() {
    refused_with(&[
        ("-source-name-suffix -", "-source-name-suffix \"-\" is not a suffix of"),
        ("-source-name-suffix -EU", "-source-name-suffix \"-EU\" is not a suffix of"),
        ("-source-name-suffix -{name}", "-source-name-suffix \"-{name}\" is not a suffix"),
        ("-source-name-suffix -{cluster}-", "-source-name-suffix \"-{cluster}-\" is"),
        (
            "-target-namespace-suffix .a",
            "-target-namespace-suffix \".a\" is not a suffix of a name",
        ),
        ("-target-namespace-suffix -{x}", "-target-namespace-suffix \"-{x}\" is not a suffix"),
        ("-namespace-prefix -a", "-namespace-prefix \"-a\" is not a prefix of a name"),
        ("-namespace-prefix {cluster}-", "-namespace-prefix \"{cluster}-\" is not"),
    ]);
    let settings = with("-source-name-suffix .{cluster} -namespace-prefix my-").unwrap();
    let source = settings.mapping.names("hub").source("my-a", "x");
    assert_eq!(source, ("my-a".to_owned(), "x.hub".to_owned()));
}

#[test]
fn in_push_every_source_has_one_target() {
    let push = |suffix: &str, remotes: &str| {
        let line = format!("-resource pods -direction push -remote-kubeconfig {remotes}");
        settings(&format!("{line} -source-name-suffix={suffix}"))
    };
    assert!(push("", "/east").is_ok(), "one remote needs no suffix");
    assert!(push("-{cluster}", "/east,/west").is_ok());
    let sentence = "-source-name-suffix must contain {cluster} if there may be several remotes";
    for refusal in [
        push("-x", "/east,/west").unwrap_err(),
        push("-x", "/east -remote-selector a").unwrap_err(),
    ] {
        assert!(refusal.starts_with(sentence), "{refusal}");
    }
    let refusal = push("-{cluster}", "/west,/east,/us-east").unwrap_err();
    assert!(
        refusal.starts_with("the remotes east and us-east overlap in -source-name-suf"),
        "{refusal}"
    );
    assert!(push(".{cluster}", "/east,/us-east").is_ok(), "a name holds no dot");
    let settings = push("-{cluster}", "/east -remote-selector a").unwrap();
    assert_eq!(settings.clash("us-east", ["west", "east"]), Some("east"));
    assert_eq!(settings.clash("south", ["west", "east"]), None);
}

#[test]
fn in_pull_marks_keep_targets_apart() {
    let two = settings("-resource pods -remote-kubeconfig /east,/us-east").unwrap();
    assert_eq!(two.clash("east", ["us-east"]), None);
}

#[test]
fn an_orphan_goes_after_proof_or_stays() {
    let policy = |line: &str| with(line).map(|settings| settings.orphans.policy);
    assert_eq!(policy("-orphan-policy confirm"), Ok(OrphanPolicy::Confirm));
    assert_eq!(policy("-orphan-policy keep"), Ok(OrphanPolicy::Keep));
    let orphans = with("-max-deletions 3/1h -orphan-grace 0").unwrap().orphans;
    assert_eq!((orphans.most, orphans.within), (3, Duration::from_secs(3600)));
    assert_eq!(orphans.grace, Duration::ZERO);
    refused_with(&[
        ("-orphan-policy delete", "-orphan-policy must be confirm or keep, got"),
        ("-max-deletions 10", "-max-deletions must be N/TIME, both above zero, got \"10\""),
        ("-max-deletions 0/1m", "-max-deletions must be N/TIME"),
        ("-max-deletions 1/0", "-max-deletions must be N/TIME"),
        ("-max-deletions -1/1m", "-max-deletions must be N/TIME"),
        ("-max-deletions 1/x", "-max-deletions must be N/TIME"),
    ]);
}

#[test]
fn fields_have_rules() {
    let settings = with(
        "-resource deployments.apps -ignore-field apps/v1/deployments:/spec/replicas \
         -ignore-field widgets.example.com:/operation,deployments.apps:/spec/paused",
    )
    .unwrap();
    let rules: Vec<_> = settings.rules.iter().map(|(_, rules)| rules.clone()).collect();
    let path = |text| FieldPath::parse(text).unwrap();
    assert_eq!(rules[0].ignored, [path("/operation")]);
    assert_eq!(rules[1].ignored, [path("/spec/replicas"), path("/spec/paused")]);
    refused_with(&[
        ("-ignore-field gadgets.example.com:/spec/a", "-ignore-field: -resource does not name"),
        ("-ignore-field widgets.example.com", "-ignore-field must be KIND:POINTER"),
        ("-ignore-field widgets.example.com:spec", "-ignore-field must be KIND:POINTER"),
        ("-ignore-field widgets.example.com:/status/a", "-ignore-field must be KIND:POINTER"),
        (
            "-ignore-field widgets.example.com:/metadata/labels",
            "-ignore-field must be KIND:POINTER",
        ),
        ("-track nothing", "-track"),
    ]);
}

#[test]
fn there_is_one_task() {
    let operation = |line: &str| with(line).map(|settings| settings.operation);
    assert_eq!(operation("-once"), Ok(Operation::Once(Duration::ZERO)));
    assert_eq!(operation("-once -wait-timeout 9"), Ok(Operation::Once(Duration::from_secs(9))));
    assert_eq!(operation("-cleanup -dry-run"), Ok(Operation::Cleanup));
    for line in ["-once -cleanup", "-cleanup -print-rbac", "-print-rbac -once"] {
        refused_with(&[(line, "-once, -cleanup, -explain and -print-rbac exclude each other")]);
    }
    refused_with(&[("-cleanup -wait-timeout 9", "-wait-timeout belongs to -once")]);
}

#[test]
fn an_object_to_explain_is_a_kind_and_a_name() {
    let explained = |line: &str| with(line).map(|it| (it.operation, it.dry_run, it.workers));
    let (operation, dry_run, workers) = explained("-explain widgets.example.com team/web").unwrap();
    let Operation::Explain(wanted) = operation else { panic!("{operation:?}") };
    assert_eq!((&*wanted.namespace, &*wanted.name), ("team", "web"));
    assert_eq!(
        (wanted.to_string().as_str(), dry_run, workers),
        ("widgets.example.com team/web", true, 0)
    );
    let (operation, ..) = explained("-explain widgets.example.com web").unwrap();
    let Operation::Explain(wanted) = operation else { panic!("{operation:?}") };
    assert_eq!(wanted.to_string(), "widgets.example.com web");
    let form = "-explain must be KIND NAMESPACE/NAME, or KIND NAME";
    refused_with(&[
        ("-explain widgets.example.com a/b/c", form),
        ("-explain widgets.example.com A/b", form),
        (
            "-explain gadgets.example.com a/b",
            "-explain: -resource does not name gadgets.example.com",
        ),
        ("-explain widgets.example.com", "invalid value \"widgets.example.com\" for flag -explain"),
        (
            "-explain widgets.example.com a/b -once",
            "-once, -cleanup, -explain and -print-rbac exclude",
        ),
    ]);
}

#[test]
fn a_leader_is_elected_where_replicas_run() {
    let election = |line: &str| with(&format!("-leader-election {line}")).map(|s| s.election);
    let elected = election("-leader-election-name a").unwrap().unwrap();
    assert_eq!((&*elected.namespace, &*elected.name), ("own", "a"));
    for none in ["-once", "-cleanup", "-dry-run"] {
        assert!(election(none).unwrap().is_none(), "{none}");
    }
    assert!(election("-print-rbac").unwrap().is_some());
    refused_with(&[(
        "-leader-election-name A",
        "-leader-election-name \"A\" is not a valid object name",
    )]);
    let arguments = format!("{ONE} -leader-election");
    let Ok(Invocation::Run(flags)) = parse("x", &table(), arguments.split(' ').map(Into::into))
    else {
        panic!()
    };
    let refusal = Settings::check(&flags, None).unwrap_err();
    assert!(refusal.starts_with("-leader-election needs a namespace"), "{refusal}");
}

#[test]
fn identities_are_those_of_known_remotes() {
    let accepted = |line: &str| with(line).map(|settings| settings.accepted);
    let uid = "26291777-8586-4e93-9688-0fdade790120";
    let of = |old| AcceptedIdentity { remote: "hub".into(), old, new: Uid::parse(uid).unwrap() };
    let expected = vec![of(None), of(Uid::parse(uid))];
    assert_eq!(accepted(&format!("-accept-identity hub={uid},hub={uid}:{uid}")), Ok(expected));
    let new = format!("-accept-identity new={uid}");
    let uid_alone = "-accept-identity 26291777-8586-4e93-9688-0fdade790120";
    assert!(accepted(&format!("{new} -remote-selector a")).is_ok());
    refused_with(&[
        (&new, "-accept-identity: there is no remote new"),
        ("-accept-identity hub=", "-accept-identity must be NAME=UID or NAME=OLD:UID"),
        ("-accept-identity hub=b", "-accept-identity must be"),
        (uid_alone, "-accept-identity must be"),
    ]);
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    refused_with(&[
        ("-direction up", "-direction must be pull or push, got \"up\""),
        (
            "-target-propagation-policy foreground",
            "-target-propagation-policy must be Foreground or Background or Orphan, got \"foreground\"",
        ),
        ("-target-secret-name a/b", "-target-secret-name \"a/b\" is not a valid object name"),
        ("-source-namespace a.b", "-source-namespace \"a.b\" is not the name of a namespace"),
        (
            "-namespace-prefix my- -source-namespace other",
            "-source-namespace other does not start with -namespace-prefix my-",
        ),
        ("-concurrent-reconciles 0", "-concurrent-reconciles must be from 1 to 256, got 0"),
        ("-qps -1", "-qps must be from 0 to"),
        ("-probe-interval 0", "-probe-interval must be a time above zero"),
        ("-probe-timeout 0", "-probe-timeout must be a time above zero"),
        ("-timeout 0s", "-timeout must be a time above zero"),
        ("-namespace A", "the namespace \"A\" (-namespace, POD_NAMESPACE) is not a valid name"),
    ]);
    assert_eq!(with("-resync 0").unwrap().resync, None);
    assert_eq!(with("-target-secret-name a,a,b").unwrap().secrets, ["a", "b"]);
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

#[test]
fn one_target_namespace_is_for_one_source_namespace() {
    let settings = with("-source-namespace a -target-namespace b").unwrap();
    assert_eq!(settings.mapping.names("hub").target("a", "x"), ("b".into(), "x".into()));
    assert_eq!(settings.namespaces, NamespacePolicy::Never);
    let many = "-remote-kubeconfig /b -source-namespace a -target-namespace b";
    refused_with(&[
        ("-target-namespace b", "-target-namespace needs a -source-namespace"),
        ("-source-namespace a,c", "-source-namespace must be one namespace"),
        ("-source-namespace a -target-namespace B", "-target-namespace \"B\" is not the name"),
        (
            "-source-namespace a -target-namespace b -namespace-policy empty",
            "-target-namespace and -namespace-policy exclude each other",
        ),
        (
            "-source-namespace a -target-namespace b -target-namespace-suffix -x",
            "-target-namespace and -target-namespace-suffix exclude each other",
        ),
    ]);
    // The marks keep them apart.
    assert!(with(many).is_ok());
}
