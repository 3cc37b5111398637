use serde_json::json;

use super::{
    context::tests::secret,
    managed_cluster_addon::tests::{addon, hosted_by},
    *,
};

/// The Secrets to keep and those to delete, where one of add-on `test` is stored.
fn compared(
    addon: Option<AddOn>,
    stored: &RegistrationSecret,
    is_gone: bool,
) -> (Vec<RegistrationSecret>, Vec<RegistrationSecret>) {
    let addons = addon.map(|addon| (addon.name.clone(), Arc::new(addon))).into_iter().collect();
    let stored = [(stored.clone(), "test".to_owned())].into();
    let desired = desired(&addons, &stored, |_| is_gone);
    let secrets = |kept: bool| {
        let all = desired.iter().filter(|(_, it)| it.is_some() == kept);
        all.map(|(secret, _)| secret.clone()).collect()
    };
    (secrets(true), secrets(false))
}

#[test]
fn another_place_is_wanted_and_the_old_one_is_obsolete() {
    let name = "test-x.io-s-client-cert";
    let mut more = hosted_by("hosting1");
    more["status"] = json!({"registrations": [{"signerName": "x.io/s"}]});
    let (here, there) = (secret(false, name), secret(true, name));
    assert_eq!(compared(Some(addon(&more)), &here, false), (vec![there], vec![here]));
}

/// A terminating add-on keeps its Secrets, and gets no new ones.
#[test]
fn secret_stays_until_its_addon_is_gone_for_certain() {
    let stored = secret(false, "test-x.io-s-client-cert");
    let it = vec![stored.clone()];
    let signers = json!([{"signerName": "x.io/s"}, {"signerName": "x.io/new"}]);
    let addon = addon(&json!({"status": {"registrations": signers}}));
    let deleting = AddOn { terminating: true, ..addon };
    assert_eq!(compared(Some(deleting.clone()), &stored, false), (it.clone(), vec![]));
    let without = AddOn { registrations: Vec::new(), ..deleting };
    assert_eq!(compared(Some(without.clone()), &stored, false), (vec![], vec![]));
    let obsolete = AddOn { terminating: false, ..without };
    assert_eq!(compared(Some(obsolete), &stored, false), (vec![], it.clone()));
    assert_eq!(compared(None, &stored, false), (vec![], vec![]));
    assert_eq!(compared(None, &stored, true), (vec![], it));
}
