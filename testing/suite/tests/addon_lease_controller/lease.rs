//! The Lease: when it is created and renewed, and what other writers cost.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Duration,
};

use serde_json::json;
use shared::time::parse_micro_time;
use suite::{
    eventually,
    needs::{Need, needs},
    pause,
    relay::Way,
    scene::{Scene, renew_time},
    within,
};

use crate::support::{Rhythm, failures, renews};

#[test]
fn kalc07_f30_a_deleted_lease_comes_back() {
    let scene = Scene::new("deleted");
    let sidecar = scene.start(&["-lease-target", "both"]);
    renews(&sidecar, "managed", 1);
    scene.wait_for_renewals(1);
    let before = scene.lease().expect("the Lease");
    scene.hub.delete(&scene.hub_lease());
    let target = shared::resource::LEASES.object(&scene.namespace, "my-addon");
    scene.managed.delete(&target);
    within(2, "both are there", || scene.lease().is_some() && scene.managed_lease().is_some());
    let after = scene.lease().expect("the Lease");
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert!(renew_time(Some(&after)).is_some());
    assert_eq!((failures(&sidecar, "hub"), failures(&sidecar, "managed")), (0.0, 0.0));
}

#[test]
fn kalc08_a_changed_duration_reaches_a_lease_that_exists() {
    let scene = Scene::new("duration");
    let mut first = scene.start(&[]);
    scene.wait_for_renewals(1);
    first.terminate();
    let _second = scene.start(&["-lease-duration=77"]);
    eventually("the Lease has it", || {
        scene.lease().filter(|lease| lease["spec"]["leaseDurationSeconds"] == 77)
    });
}

#[test]
fn kalc10_others_that_write_cost_no_period() {
    let scene = Scene::new("conflicts");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let (rhythm, end) = (Rhythm::of(&scene), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !end.load(SeqCst) {
                count += 1;
                let label = json!({"metadata": {"labels": {"count": count.to_string()}}});
                scene.hub.merge(&scene.hub_lease(), &label);
                pause(200);
            }
        });
        renews(&sidecar, "hub", 4);
        end.store(true, SeqCst);
    });
    let gap = rhythm.longest_gap();
    assert!(gap < Duration::from_millis(2500), "{gap:?}");
    assert_eq!(failures(&sidecar, "hub"), 0.0, "{}", sidecar.log());
}

#[test]
fn a_renewal_is_one_request_of_few_bytes() {
    let scene = Scene::new("onerequest");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let host = scene.hub_relay.address.to_string();
    // In one read, as the counts move on.
    let counts = || {
        let metrics = sidecar.ask("/metrics").1;
        let sum = |part: &str| -> f64 {
            let lines =
                metrics.lines().filter(|line| line.starts_with("rest_client_requests_total"));
            let lines = lines.filter(|line| line.contains(&host) && line.contains(part));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        (sum(""), sum("method=\"PUT\""))
    };
    // Just after a renewal: the next one is a second away.
    renews(&sidecar, "hub", 1);
    let (all, puts) = counts();
    let before = scene.hub_relay.traffic();
    renews(&sidecar, "hub", 3);
    let (all_now, puts_now) = counts();
    let after = scene.hub_relay.traffic();
    assert!(puts_now - puts >= 3.0);
    assert_eq!(puts_now - puts, all_now - all, "nothing but PUT");
    let moved = after.to_server + after.to_client - before.to_server - before.to_client;
    let bytes = moved as f64 / (puts_now - puts);
    println!("{bytes:.0} bytes a renewal");
    assert!(bytes <= 1700.0, "{bytes:.0} bytes a renewal, TLS included");
}

#[test]
fn f34_fields_of_others_survive_and_ours_are_put_right() {
    let scene = Scene::new("foreign");
    let sidecar = scene.start(&[]);
    scene.wait_for_renewals(1);
    let theirs = json!({
        "metadata": {"labels": {"team": "blue"}, "annotations": {"a": "b"}},
        "spec": {"holderIdentity": "somebody", "leaseTransitions": 7},
    });
    scene.hub.merge(&scene.hub_lease(), &theirs);
    for theirs in [json!(3600), json!(null)] {
        scene.hub.merge(&scene.hub_lease(), &json!({"spec": {"leaseDurationSeconds": theirs}}));
        within(3, "it is 1 again", || {
            scene.lease().is_some_and(|lease| lease["spec"]["leaseDurationSeconds"] == 1)
        });
    }
    scene.wait_for_renewals(2);
    let lease = scene.lease().expect("the Lease");
    assert_eq!(lease["metadata"]["labels"]["team"], "blue");
    assert_eq!(lease["metadata"]["annotations"]["a"], "b");
    assert_eq!(lease["spec"]["holderIdentity"], "somebody");
    assert_eq!(lease["spec"]["leaseTransitions"], 7);
    // Labels that were taken away stay away.
    scene.hub.merge(&scene.hub_lease(), &json!({"metadata": {"labels": null}}));
    scene.wait_for_renewals(2);
    assert!(scene.lease().expect("the Lease")["metadata"]["labels"].is_null());
    assert_eq!(failures(&sidecar, "hub"), 0.0);
}

#[test]
fn kalc06_a_lease_is_born_with_a_renew_time() {
    let scene = Scene::new("kalc06");
    let _sidecar = scene.start(&["-lease-duration", "3600"]);
    let lease = eventually("the Lease is there", || scene.lease());
    assert!(renew_time(Some(&lease)).is_some(), "{lease}");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 3600);
    if needs(Need::Embedded, "requests are recorded there") {
        let mut requests = scene.hub.server().requests().into_iter();
        let create = requests.find(|it| it.verb == "create" && it.resource == "leases");
        let body = create.expect("a create").json();
        assert!(renew_time(Some(&body)).is_some(), "{body}");
    }
}

#[test]
fn kalc09_a_failed_call_is_tried_again_inside_the_period() {
    let scene = Scene::new("kalc09");
    let sidecar = scene.start(&["-lease-duration", "5"]);
    scene.wait_for_renewals(1);
    let before = renew_time(scene.lease().as_ref());
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("is not renewed");
    scene.hub_relay.set(Way::Open);
    sidecar.wait_for("is renewed again after");
    let times = [before, renew_time(scene.lease().as_ref())];
    let [before, after] =
        times.map(|time| parse_micro_time(&time.expect("a time")).expect("a MicroTime"));
    let gap = after.duration_since(before).expect("it moves forward");
    // One period and the first few back-offs, not two periods.
    assert!(gap.as_secs_f64() < 9.5, "{gap:?}");
}
