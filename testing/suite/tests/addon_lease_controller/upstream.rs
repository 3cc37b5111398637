//! The Go projects' tests as acceptance list; README.md of this crate says which they are. A number is
//! the line of a case in the Go sidecar's `controllers/lease_controller_test.go`.
//!
//! Elsewhere: d77, d87 in bins/addon-lease-controller/src/pod.rs; d97 is `reconcile::row_1_…`; d308 and
//! d725 `row_8_…`; d536 `row_13_…`; d556 and d698 `row_12_…`; d576 `row_3_…`; d591 `row_10_…`; d623
//! `row_2_…`; d606 and d322 any scenario with a Ready pod; d337 `lifecycle::a_pod_that_is_not_ready_…`;
//! the functional test `flags::the_argv_of_the_shipped_manifest_runs_unchanged` and `lifecycle`.
//! Of addon-framework's lease updater "reconcile" and "invalid lease" are `target::f_…`, "health check
//! false" `pod::f_…`; its checks by label and by /livez have no counterpart here.

use suite::{
    eventually,
    identity::Data,
    pause,
    scene::{POD, Scene, renew_time},
};

#[test]
fn d195_a_kubeconfig_with_a_token_is_used() {
    let scene = Scene::new("d195");
    scene.create_hub_account();
    scene.put_secret(&scene.token_secret(&scene.hub_token()));
    let _sidecar = scene.start(&[]);
    scene.wait_for_renewals(2);
}

#[test]
fn d195_a_token_beside_the_kubeconfig_is_used() {
    let scene = Scene::new("d195");
    scene.create_hub_account();
    let kubeconfig = scene.hub_kubeconfig(&serde_json::json!({"tokenFile": "token"}));
    let data: Data = [("kubeconfig", kubeconfig), ("token", scene.hub_token())]
        .map(|(key, value)| (key.to_owned(), value.into_bytes()))
        .into();
    scene.put_secret(&data);
    let _sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
}

#[test]
fn d213_a_secret_without_data_is_waited_out() {
    let scene = Scene::new("d213");
    scene.put_secret(&Data::new());
    let sidecar = scene.start(&[]);
    sidecar.wait_for("has no key \"kubeconfig\"");
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
}

#[test]
fn d294_a_lease_that_does_not_exist_is_created_with_its_renew_time() {
    let scene = Scene::new("d294");
    let _sidecar = scene.start(&[]);
    let lease = eventually("the Lease is there", || scene.lease());
    assert!(renew_time(Some(&lease)).is_some(), "{lease}");
}

#[test]
fn d386_stopping_works_before_and_after_the_start() {
    let scene = Scene::new("d386");
    for waits in [true, false] {
        let mut sidecar = scene.start(&[]);
        if waits {
            scene.delete_secret();
            sidecar.wait_for("Secret");
            scene.put_secret(&scene.new_credentials());
        } else {
            scene.wait_for_renewals(1);
        }
        sidecar.ends_at_once();
    }
}

#[test]
fn d521_without_pod_name_no_pod_is_asked_for() {
    let scene = Scene::new("d521");
    scene.delete_pod();
    let sidecar = scene.start_as(|command| {
        command.env_remove("POD_NAME");
    });
    scene.wait_for_renewals(2);
    assert!(!sidecar.log().contains(POD), "{}", sidecar.log());
}

#[test]
fn d707_a_hub_whose_certificate_is_not_trusted_is_not_used() {
    let scene = Scene::new("d707");
    let mut data = scene.new_credentials();
    let address = scene.hub_relay.address.to_string();
    let user = serde_json::json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
    let kubeconfig = suite::identity::kubeconfig(&address, &scene.managed.ca, &user);
    data.insert("kubeconfig".into(), kubeconfig.to_string().into_bytes());
    scene.put_secret(&data);
    let sidecar = scene.start(&[]);
    sidecar.wait_for("is not renewed");
    assert!(sidecar.log().contains("certificate"), "{}", sidecar.log());
    pause(500);
    assert!(scene.lease().is_none());
    scene.put_secret(&scene.new_credentials());
    scene.wait_for_renewals(1);
}
