//! The hub's credentials in the Secret: replaced, half replaced, deleted.

use suite::scene::Scene;

use crate::support::{DELETED, failures, renews};

#[test]
fn rotated_secret_is_used_without_a_failed_renewal() {
    let scene = Scene::new("turns");
    scene.create_hub_account();
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    for round in 0..3 {
        let data = match round % 2 {
            0 => scene.token_secret(&scene.hub_token()),
            _ => scene.new_credentials(),
        };
        scene.put_secret(&data);
        sidecar.wait_for_times("credentials rotated server=\"the hub\"", round + 1);
        renews(&sidecar, "hub", 1);
    }
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn half_a_new_key_pair_leaves_the_old_pair_in_use() {
    let scene = Scene::new("torn");
    let mut old = scene.new_credentials();
    scene.put_secret(&old);
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let new = scene.new_credentials();
    old.insert("tls.crt".into(), new["tls.crt"].clone());
    scene.put_secret(&old);
    sidecar.wait_for("keeping the current");
    sidecar.wait_for("do not belong together");
    renews(&sidecar, "hub", 2);
    scene.put_secret(&new);
    sidecar.wait_for("credentials rotated");
    renews(&sidecar, "hub", 1);
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn deleted_secret_stops_renewals_until_it_is_back() {
    let scene = Scene::new("back");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    for round in 1..=2 {
        scene.delete_secret();
        sidecar.wait_for_times(DELETED, round);
        scene.ages(1200);
        scene.put_secret(&scene.new_credentials());
        scene.wait_for_renewals(1);
    }
}
