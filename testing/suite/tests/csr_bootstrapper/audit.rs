//! The rights of csr-bootstrapper, by the audit logs of a whole run on the real control plane: each is used, none is
//! missing, and on the hub it does only what it must.
//!
//! `SUITE=real testing/controlplane/run.sh sh -c 'cargo test -p suite --test csr_bootstrapper; cargo test
//! -p suite --test csr_bootstrapper -- --ignored'`

use std::{
    collections::BTreeSet,
    env,
    time::{Instant, SystemTime},
};

use apiclient::{resource::LEASES, time::micro_time};
use serde_json::{Value, json};
use suite::{
    audit::{
        self, assert_none_is_missing, assert_used, granted, is_in_group, is_of_account, text, user,
        words,
    },
    ocm::{AVAILABLE, Bootstrap, HEARTBEAT, PREFIX, SYNCED},
    pause,
    spoke::{Spoke, addon_rights, cluster_rights, rights},
};

use crate::support::beats_again;

/// The program's requests on "hub" or "managed" of which `is_ours` is true. The Go agent's are no business of ours;
/// nor those of tests that play an agent by hand.
fn requests(cluster: &str, is_ours: impl Fn(&Value) -> bool) -> Vec<Value> {
    let is_program = |event: &Value| text(event, "/userAgent").starts_with("csr-bootstrapper/");
    audit::requests(cluster, |event| is_program(event) && is_ours(event))
}

fn on_managed() -> Vec<Value> {
    let account = rights()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    requests("managed", |event| is_of_account(event, &account))
}

/// With a certificate, or with a bootstrap identity.
fn on_hub(certificate: bool) -> Vec<Value> {
    requests("hub", |event| match certificate {
        true => is_in_group(event, &format!("{PREFIX}managed-clusters")),
        false => user(event).starts_with("system:serviceaccount:open-cluster-management:"),
    })
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_every_granted_right_is_used() {
    assert_used(&granted(&[rights(), cluster_rights(), addon_rights()].concat()), &on_managed());
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_no_right_is_missing_but_where_it_was_taken_away() {
    assert_none_is_missing(&on_managed());
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_outside_its_namespace_only_granted_kinds_are_used() {
    for event in on_managed() {
        if text(&event, "/objectRef/resource").is_empty() {
            let uri = text(&event, "/requestURI");
            assert!(["/livez", "/healthz", "/version"].contains(&uri), "{uri}");
            continue;
        }
        let outside = ["clusterclaims", "clusterproperties", "namespaces", "nodes"];
        let reads = outside.map(|kind| ["list", "watch"].map(|verb| format!("{verb} {kind}")));
        let writes = ["create namespaces", "patch namespaces"].map(str::to_owned);
        if reads.concat().iter().chain(&writes).any(|known| *known == words(&event)) {
            continue;
        }
        let own = user(&event).split(':').nth(2).unwrap_or_default();
        let namespace = text(&event, "/objectRef/namespace");
        let words = words(&event);
        let is_of_addons = words == "get leases" || words.ends_with(" secrets");
        let of_addons = is_of_addons && namespace.starts_with(&format!("{own}-addons"));
        assert!(namespace == own || of_addons, "{event}");
    }
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_hub_sees_only_the_needed_writes_and_no_deletion() {
    let requests = "certificatesigningrequests";
    let asking = ["create", "get", "list", "watch"].map(|verb| format!("{verb} {requests}"));
    let cluster = |verbs: &[&str]| -> Vec<String> {
        verbs.iter().map(|verb| format!("{verb} managedclusters")).collect()
    };
    let more = ["patch managedclusters/status", "get leases", "update leases", "create events"];
    let addons = "managedclusteraddons";
    let of_addons = ["get", "list", "watch"].map(|verb| format!("{verb} {addons}"));
    for (certificate, own) in
        [(false, cluster(&["get", "create"])), (true, cluster(&["get", "list", "watch", "update"]))]
    {
        let mut allowed: BTreeSet<String> = asking.iter().cloned().chain(own).collect();
        if certificate {
            allowed.extend(more.map(str::to_owned));
            allowed.extend(of_addons.clone());
            allowed.insert(format!("patch {addons}/status"));
            allowed.insert("create serviceaccounts/token".to_owned());
        }
        let used: BTreeSet<String> = on_hub(certificate).iter().map(words).collect();
        println!("{used:#?}");
        let others: Vec<_> = used.difference(&allowed).collect();
        assert!(others.is_empty(), "certificate {certificate}: {others:?}");
    }
}

/// The cluster of an agent's request.
fn cluster(event: &Value) -> &str {
    user(event).strip_prefix(PREFIX).and_then(|user| user.split(':').next()).unwrap_or_default()
}

#[test]
#[ignore = "reads what the scenarios left on the real control plane: run it after them"]
fn audit_hub_sees_no_request_for_foreign_objects() {
    for event in on_hub(true).into_iter().chain(on_hub(false)) {
        let (verb, uri) = (text(&event, "/verb"), text(&event, "/requestURI"));
        let resource = text(&event, "/objectRef/resource");
        let name = text(&event, "/objectRef/name");
        if ["list", "watch"].contains(&verb) {
            let selector = match resource {
                "certificatesigningrequests" => {
                    uri.contains("labelSelector=open-cluster-management.io%2Fcluster-name%3D")
                        || uri.contains("fieldSelector=metadata.name%3D")
                }
                // All of its own namespace.
                "managedclusteraddons" => text(&event, "/objectRef/namespace") == cluster(&event),
                _ => uri.contains("fieldSelector=metadata.name%3D"),
            };
            assert!(selector, "{verb} {uri}");
        }
        if resource == "leases" {
            assert_eq!(name, HEARTBEAT, "{verb} {uri}");
        }
    }
}

/// Both agents side by side, with five add-ons each: what they ask the hub for while nothing happens, for SECONDS (60 by
/// default; the README has what was seen in 600).
#[test]
#[ignore = "needs the real control plane's audit log"]
fn audit_five_add_ons_cost_less_than_with_the_go_agent() {
    let seconds: u64 = env::var("SECONDS").map_or(60, |text| text.parse().expect("seconds"));
    let go = Spoke::for_go("go-five", Bootstrap::Auto);
    let _go_agent = go.start_go_agent(&GO_FLAGS);
    let ours = Spoke::auto("five");
    let _agent = ours.start(&["-cluster-healthcheck-period", "60s", "-v", "0"]);
    let both = [(&go, ours.addon_namespace()), (&ours, ours.addon_namespace())];
    for (spoke, namespace) in &both {
        spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
        (1..=5).for_each(|number| spoke.register_addon(namespace, &format!("addon{number}")));
    }
    for (spoke, _) in &both {
        (1..=5).for_each(|number| spoke.wait_until_registered(&format!("addon{number}")));
    }
    pause(5000);
    let mut asked = both.each_ref().map(|(spoke, _)| requests_of(&spoke.user()));
    for _ in 0..seconds {
        pause(1000);
        both.iter().for_each(|(spoke, namespace)| renew_all(spoke, namespace));
    }
    for ((spoke, _), asked) in both.iter().zip(&mut asked) {
        *asked = requests_of(&spoke.user()).split_off(asked.len());
    }
    for (name, asked) in ["Go agent", "csr-bootstrapper"].iter().zip(&asked) {
        let kinds: BTreeSet<_> = asked.iter().collect();
        println!("{name}: {} in {seconds} s", asked.len());
        for kind in kinds {
            println!("  {kind}: {}", asked.iter().filter(|it| *it == kind).count());
        }
    }
    assert!(asked[1].len() < asked[0].len(), "{asked:?}");
}

/// As an operator starts it: gates and the period of its health checks.
const GO_FLAGS: [&str; 2] =
    ["--feature-gates=AddonManagement=true", "--cluster-healthcheck-period=60s"];

/// What a user has asked the hub for so far.
fn requests_of(agent: &str) -> Vec<String> {
    audit::requests("hub", |event| user(event) == agent).iter().map(words).collect()
}

fn renew_all(spoke: &Spoke, namespace: &str) {
    for number in 1..=5 {
        let name = format!("addon{number}");
        let time = json!({"spec": {"renewTime": micro_time(SystemTime::now())}});
        spoke.managed.merge(&LEASES.object(namespace, &name), &time);
    }
}

/// No test of the past but of now: this one runs an agent.
#[test]
#[ignore = "needs the real control plane's audit log"]
fn audit_steady_state_sends_only_the_heartbeat() {
    let (spoke, agent) = crate::support::beating("audited", &[]);
    spoke.hub.wait_for_condition(&spoke.cluster, SYNCED, "True");
    pause(3000);
    let ours = || {
        let agent = spoke.user();
        requests("hub", |event| user(event) == agent).iter().map(words).collect::<Vec<_>>()
    };
    // Taken first: reading the whole log takes seconds, and the agent beats on meanwhile.
    let begun = Instant::now();
    let before = ours().len();
    beats_again(&agent, 10);
    // A line may come a moment after the answer.
    pause(500);
    let after = ours().split_off(before);
    // One each second, however slow this machine is.
    let most = begun.elapsed().as_secs() + 2;
    assert!(after.len() >= 9 && after.len() as u64 <= most, "{most}: {after:?}");
    assert!(after.iter().all(|words| words == "update leases"), "{after:?}");
}
