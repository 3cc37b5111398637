use serde_json::{Value, json};

use super::*;
use crate::addon::{cache::AddOns, managed_cluster_addon::AddOnNamespace};

fn addon(name: &str, hosted: bool, signers: &[&str]) -> (String, Option<AddOn>) {
    let key = "addon.open-cluster-management.io/hosting-cluster-name";
    let annotations = if hosted { json!({key: "hosting1"}) } else { json!({}) };
    let registrations: Vec<Value> =
        signers.iter().map(|signer| json!({"signerName": signer})).collect();
    let addon = AddOn::of(&json!({
        "metadata": {"name": name, "annotations": annotations},
        "status": {"namespace": "ns", "registrations": registrations},
    }));
    (name.to_owned(), addon)
}

fn secret(hosted: bool, name: &str) -> RegistrationSecret {
    let namespace = AddOnNamespace { hosted, name: "ns".into() };
    RegistrationSecret { namespace, name: name.into() }
}

fn stored(addon: &str, secret: RegistrationSecret) -> (RegistrationSecret, StoredRegistration) {
    (secret, StoredRegistration { addon: addon.into(), request: None })
}

fn planned(
    addons: Vec<(String, Option<AddOn>)>,
    stored: &[(RegistrationSecret, StoredRegistration)],
    apart: bool,
) -> Plan {
    let mut cache = AddOns::default();
    cache.replace_addons(addons);
    let known = cache.since(&KnownAddOns::default()).expect("they are new");
    let names = AgentNames { cluster: "c1".into(), agent: "a1".into() };
    plan(&PlanInputs {
        addons: &known,
        stored,
        names: &names,
        driver: KubeClientDriver::Csr,
        apart,
    })
}

#[test]
fn another_place_is_wanted_and_the_old_one_is_obsolete() {
    let (here, there) =
        (secret(false, "a-x.io-s-client-cert"), secret(true, "a-x.io-s-client-cert"));
    let plan = planned(vec![addon("a", true, &["x.io/s"])], &[stored("a", here.clone())], true);
    let wanted: Vec<_> = plan.wanted.iter().map(|one| &one.secret).collect();
    assert_eq!((wanted, plan.obsolete), (vec![&there], vec![here]));
}

#[test]
fn where_both_clusters_are_one_the_place_is_the_same() {
    let name = "a-x.io-s-client-cert";
    for (before, now) in [(false, true), (true, false), (true, true)] {
        let known = [stored("a", secret(before, name))];
        let plan = planned(vec![addon("a", now, &["x.io/s"])], &known, false);
        assert_eq!(plan.wanted[0].secret, secret(false, name));
        assert_eq!(plan.obsolete, []);
    }
}

/// Those beyond what may be are not requested; those that are there stay.
#[test]
fn of_too_many_registrations_none_is_obsolete() {
    let signers: Vec<_> = (0..16).map(|number| format!("x.io/{number}")).collect();
    let signers: Vec<_> = signers.iter().map(String::as_str).collect();
    let mut addons: Vec<_> =
        (0..40).map(|number| addon(&format!("a{number:02}"), false, &signers)).collect();
    addons.push(addon("z", false, &["x.io/s"]));
    let known = [
        stored("z", secret(false, "z-x.io-s-client-cert")),
        stored("z", secret(false, "z-x.io-other-client-cert")),
        stored("y", secret(false, "y-x.io-s-client-cert")),
    ];
    let plan = planned(addons, &known, true);
    assert_eq!((plan.wanted.len(), plan.too_many), (MOST_REGISTRATIONS, true));
    assert_eq!(plan.obsolete, [known[1].0.clone(), known[2].0.clone()]);
}

/// An add-on is gone once a complete list lacks it; a terminating one keeps its Secrets.
#[test]
fn secret_stays_until_its_addon_is_gone_for_certain() {
    let known = [stored("a", secret(false, "a-x.io-s-client-cert"))];
    let names = AgentNames { cluster: "c1".into(), agent: "a1".into() };
    let unlisted = KnownAddOns::default();
    let before_a_list = plan(&PlanInputs {
        addons: &unlisted,
        stored: &known,
        names: &names,
        driver: KubeClientDriver::Csr,
        apart: true,
    });
    assert_eq!(before_a_list, Plan::default());
    let unreadable = planned(vec![("a".to_owned(), None)], &known, true);
    assert_eq!(unreadable, Plan::default());
    let deleting = || {
        let (name, addon) = addon("a", false, &["x.io/s", "x.io/new"]);
        (name, addon.map(|addon| AddOn { terminating: true, ..addon }))
    };
    let plan = planned(vec![deleting()], &known, true);
    let wanted: Vec<_> = plan.wanted.iter().map(|one| &one.secret).collect();
    assert_eq!((wanted, plan.obsolete), (vec![&known[0].0], vec![]));
    assert_eq!(planned(Vec::new(), &known, true).obsolete, [known[0].0.clone()]);
}
