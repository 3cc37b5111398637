//! The heartbeat: OCM's own integration test (`managedcluster_lease_test.go:35-175`) and what is better
//! here than there.

use dev_apiserver::Rule;
use suite::{
    eventually,
    faults::code,
    needs::{Need, needs},
    ocm::{AVAILABLE, HEARTBEAT, SYNCED},
    pause,
    spoke::Spoke,
    throughout,
};

use crate::support::{beating, beats, beats_again, count, joined, renewed, renews, sent, words};

// --- managedcluster_lease_test.go ---

// ocm managedcluster_lease_test.go:35
#[test]
fn heartbeat_goes_on_and_the_cluster_stays_available() {
    let (spoke, agent) = beating("constant", &[]);
    spoke.hub.wait_for_condition(&spoke.cluster, SYNCED, "True");
    let errors = || agent.metric("sidecar_lease_renewals_total{result=\"error\"}");
    // A real hub may have created the Lease a moment later than it was looked for.
    let before = errors();
    for _ in 0..4 {
        renews(&spoke);
    }
    // Five seconds without a sign would be its end.
    throughout(6000, "it is available", || {
        spoke.hub.condition(&spoke.cluster, AVAILABLE).is_some_and(|it| it.0 == "True")
    });
    assert_eq!(errors(), before, "{}", agent.log());
}

// ocm managedcluster_lease_test.go:60
#[test]
fn silent_cluster_is_lost_and_comes_back() {
    // A look at the spoke each minute: what brings it back is that the hub says Unknown.
    let (spoke, agent) = beating("silent", &["-cluster-healthcheck-period", "60s"]);
    beats_again(&agent, 1);
    agent.signal("STOP");
    let reason = spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "Unknown");
    assert_eq!(reason, "ManagedClusterLeaseUpdateStopped");
    agent.signal("CONT");
    let reason = spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    assert_eq!(reason, "ManagedClusterAvailable");
}

// ocm managedcluster_lease_test.go:130
#[test]
fn lease_duration_change_is_followed_at_once() {
    let (spoke, agent) = joined("duration", &[]);
    eventually("the heartbeat begins", || (beats(&agent) >= 1.0).then_some(()));
    let before = beats(&agent);
    throughout(1500, "a minute is not over", || beats(&agent) == before);
    spoke.hub.set_lease_duration(&spoke.cluster, 1);
    eventually("three heartbeats", || beats(&agent) >= before + 3.0);
    let interval = agent.metric("sidecar_lease_renewal_interval_seconds").expect("the metric");
    assert!(interval >= 0.9, "{interval}");
    spoke.hub.set_lease_duration(&spoke.cluster, 60);
    agent.wait_for("period=60.0");
    let before = beats(&agent);
    throughout(2500, "a minute is not over", || beats(&agent) <= before + 1.0);
}

// --- better than there ---

#[test]
fn first_heartbeat_follows_a_late_lease_at_once() {
    if !needs(Need::Embedded, "the real hub makes the Lease when it likes") {
        return;
    }
    let spoke = Spoke::auto("late");
    let user = spoke.user();
    let late = spoke.hub.cluster.faults().add(Rule::new(code(404)).resource("leases").user(&user));
    let agent = spoke.start(&[]);
    eventually("it looks for the Lease twice", || {
        (spoke.hub.cluster.faults().hits(late) > 1).then_some(())
    });
    spoke.hub.cluster.faults().remove(late);
    eventually("the first heartbeat", || beats(&agent) >= 1.0);
    assert_eq!(count(&spoke, "create leases"), 0);
}

#[test]
fn a_deleted_lease_is_the_hubs_to_make_and_is_renewed_again() {
    let (spoke, agent) = beating("deleted", &[]);
    let uid = |spoke: &Spoke| {
        let lease = spoke.hub.heartbeat(&spoke.cluster)?;
        Some(lease["metadata"]["uid"].as_str()?.to_owned())
    };
    let before = uid(&spoke).expect("the Lease");
    let leases = apiclient::resource::LEASES.object(&spoke.cluster, HEARTBEAT);
    spoke.hub.cluster.delete(&leases);
    eventually("the hub makes another", || uid(&spoke).filter(|uid| *uid != before));
    beats_again(&agent, 2);
    renews(&spoke);
    if needs(Need::Embedded, "requests are recorded there") {
        assert_eq!(count(&spoke, "create leases"), 0);
    }
}

#[test]
fn a_lease_that_stays_away_is_looked_for_and_not_made() {
    if !needs(Need::Embedded, "the real hub makes the Lease at once") {
        return;
    }
    let (spoke, agent) = beating("away", &[]);
    beats_again(&agent, 1);
    let away =
        spoke.hub.cluster.faults().add(Rule::new(code(404)).resource("leases").user(&spoke.user()));
    agent.wait_for("lease renewal failed");
    pause(2000);
    assert!(spoke.hub.cluster.faults().hits(away) >= 2, "it goes on looking");
    assert_eq!(count(&spoke, "create leases"), 0);
    spoke.hub.cluster.faults().remove(away);
    eventually("it is renewed again", || agent.count("lease renewal recovered") == 1);
}

#[test]
fn one_request_renews_and_only_the_time_changes() {
    if !needs(Need::Embedded, "the bodies of requests are in the embedded server's log") {
        return;
    }
    let (spoke, agent) = beating("one-put", &[]);
    beats_again(&agent, 2);
    // Nobody but the hub's administrator says what else is in it.
    let leases = apiclient::resource::LEASES.object(&spoke.cluster, HEARTBEAT);
    let foreign = serde_json::json!({"metadata": {"annotations": {"theirs": "1"}},
        "spec": {"leaseDurationSeconds": 7, "acquireTime": null}});
    spoke.hub.cluster.merge(&leases, &foreign);
    beats_again(&agent, 3);
    let before = sent(&spoke).len();
    beats_again(&agent, 3);
    let puts = sent(&spoke).split_off(before);
    assert!(puts.len() >= 3, "{puts:?}");
    let mut bodies = puts.iter().map(|request| {
        assert_eq!(words(request), "update leases", "and nothing else");
        let mut lease = request.json();
        let time = lease["spec"]["renewTime"].take();
        assert_eq!(lease["metadata"]["annotations"]["theirs"], "1");
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 7, "the hub's business");
        lease["metadata"]["resourceVersion"].take();
        (lease, time.as_str().map(str::to_owned))
    });
    let (first, mut last) = bodies.next().expect("a heartbeat");
    for (lease, time) in bodies {
        assert_eq!(lease, first);
        assert!(time > last, "{time:?} after {last:?}");
        last = time;
    }
}

#[test]
fn heartbeat_goes_on_after_a_restart() {
    let (spoke, mut agent) = beating("restart", &["-cluster-healthcheck-period", "60s"]);
    beats_again(&agent, 2);
    let serial = spoke.credential().expect("the Secret")["tls.crt"].clone();
    for crash in [false, true] {
        if crash {
            agent.kill();
        } else {
            agent.terminate();
        }
        let before = renewed(&spoke);
        agent = spoke.start(&["-cluster-healthcheck-period", "60s"]);
        // Not after the minute of a heartbeat that begins anew.
        eventually("the heartbeat goes on", || renewed(&spoke) != before);
    }
    assert!(spoke.credential().expect("the Secret")["tls.crt"] == serial, "the same certificate");
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1);
    let available = spoke.hub.condition(&spoke.cluster, AVAILABLE).expect("the condition");
    assert_eq!(available.0, "True", "nobody noticed");
}
