//! /healthz, /readyz and /metrics of the running program.

use std::time::SystemTime;

use suite::{eventually, ocm::AVAILABLE, relay::Way, sidecar::families, spoke::Spoke, stays};

use crate::support::{beating, beats, beats_again, joins};

#[test]
fn ready_is_a_credential_that_can_be_used() {
    let spoke = Spoke::new("ready");
    spoke.delete_secret(&spoke.bootstrap);
    let agent = spoke.start(&[]);
    // What is wrong with the Secret, and whether there is anybody to ask.
    let why = |nobody: bool| {
        eventually(&format!("/readyz says why, nobody to ask: {nobody}"), || {
            let (code, body) = agent.ask("/readyz");
            let named = body.starts_with(&format!("Secret {}/{} ", spoke.namespace, spoke.secret));
            let asks = !body.contains("there is no bootstrap kubeconfig to request one with");
            (code == 503 && named && asks != nobody).then_some(())
        });
    };
    why(true);
    agent.wait_for_times("no valid bootstrap kubeconfig", 1);
    spoke.put_bootstrap("nonsense");
    agent.wait_for_times("no valid bootstrap kubeconfig", 2);
    why(true);
    spoke.put_bootstrap(&spoke.bootstrap_kubeconfig());
    why(false);
    let request = spoke.hub.next_csr(&spoke.cluster);
    assert_eq!(agent.ask("/readyz").0, 503, "nobody approved {request}");
    spoke.hub.approve_csr(&request);
    agent.wait_for_code("/readyz", 200);
    assert_eq!(agent.ask("/healthz"), (200, "ok\n".to_owned()));
}

#[test]
fn healthy_without_any_server_from_the_start() {
    for way in [Way::Closed, Way::Silent] {
        let spoke = Spoke::auto("nowhere");
        spoke.hub_relay.set(way);
        spoke.managed_relay.set(way);
        let agent = spoke.start(&[]);
        let body = agent.wait_for_code("/readyz", 503);
        assert!(body.len() > 5, "{body}");
        stays("healthy", || agent.ask("/healthz").0 == 200);
        spoke.hub_relay.set(Way::Open);
        spoke.managed_relay.set(Way::Open);
        agent.wait_for_code("/readyz", 200);
        spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    }
}

#[test]
fn metrics_count_what_happened() {
    let (spoke, agent) = beating("metrics", &[]);
    beats_again(&agent, 2);
    let value = |sample: &str| {
        agent.metric(sample).unwrap_or_else(|| panic!("no {sample}: {}", agent.ask("/metrics").1))
    };
    let seconds = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64()
    };
    let now = seconds(SystemTime::now());
    assert_eq!(value("sidecar_csr_posted_total"), 1.0);
    assert_eq!(value("sidecar_csr_ended_total{reason=\"Issued\"}"), 1.0);
    assert!((now - value("sidecar_certificate_saved_timestamp_seconds")).abs() < 60.0);
    let issued = spoke.certificate().expect("a certificate");
    assert_eq!(
        value("sidecar_certificate_expiration_timestamp_seconds"),
        seconds(issued.not_after)
    );
    assert!((now - value("sidecar_last_success_timestamp_seconds")).abs() < 60.0);
    assert_eq!(value("sidecar_consecutive_failures"), 0.0);
    assert!(value("sidecar_lease_renewal_interval_seconds") >= 0.5);
    assert!((now - value("process_start_time_seconds")).abs() < 60.0);
    assert!(value("process_resident_memory_bytes") > 100_000.0);
    let host = spoke.hub_relay.address;
    let puts = format!(
        "rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"PUT\",target=\"hub\"}}"
    );
    assert!(value(&puts) >= 2.0);
    assert!(
        value(&format!("sidecar_clock_skew_seconds{{host=\"{host}\",target=\"hub\"}}")).abs()
            < 60.0
    );
    let text = agent.ask("/metrics").1;
    assert!(text.contains("sidecar_build_info{name=\"csr-bootstrapper\","), "{text}");
    assert!(!text.contains("leader_election_master_status"), "without an election: {text}");

    spoke.hub_relay.set(Way::Closed);
    let failures = || agent.metric("sidecar_consecutive_failures") >= Some(2.0);
    eventually("failures are counted", || failures().then_some(()));
    assert!(value("sidecar_lease_renewals_total{result=\"error\"}") >= 2.0);
    let before = beats(&agent);
    spoke.hub_relay.set(Way::Open);
    eventually("the heartbeat goes on", || (beats(&agent) > before).then_some(()));
    assert_eq!(value("sidecar_consecutive_failures"), 0.0);
}

#[test]
fn a_family_of_metrics_stands_together_under_one_type() {
    let spoke = Spoke::auto("families");
    let file = spoke.managed_kubeconfig();
    let agent = joins(&spoke, &["-spoke-kubeconfig", file.to_str().expect("a path")]);
    eventually("the heartbeat begins", || (beats(&agent) >= 1.0).then_some(()));
    let metrics = agent.ask("/metrics").1;
    assert!(families(&metrics).len() >= 12, "{metrics}");
}

#[test]
fn a_port_that_is_taken_is_refused_at_the_start() {
    let spoke = Spoke::auto("taken");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let mut agent = spoke.start(&["-metrics-port", &port]);
    assert_eq!(agent.wait().code(), Some(1), "{}", agent.log());
    let log = agent.log();
    assert!(log.lines().last().is_some_and(|line| line.contains(&port)), "{log}");
}
