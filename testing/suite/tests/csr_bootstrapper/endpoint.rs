//! /healthz, /readyz and /metrics of the running program.

use std::time::SystemTime;

use suite::{eventually, relay::Way, sidecar::families, spoke::Spoke};

use crate::support::{beating, beats, beats_again};

#[test]
fn metrics_count_what_happened() {
    let spoke = Spoke::auto("metrics");
    let file = spoke.managed_kubeconfig();
    let agent = beating(&spoke, &["-spoke-kubeconfig", file.to_str().expect("a path")]);
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
    let end = seconds(spoke.certificate().expect("a certificate").not_after);
    assert_eq!(value("sidecar_certificate_expiration_timestamp_seconds"), end);
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
    let skew = format!("sidecar_clock_skew_seconds{{host=\"{host}\",target=\"hub\"}}");
    assert!(value(&skew).abs() < 60.0);
    let text = agent.ask("/metrics").1;
    assert!(text.contains("sidecar_build_info{name=\"csr-bootstrapper\","), "{text}");
    // The samples of each family are together, under one type.
    assert!(families(&text).len() >= 12, "{text}");
    assert!(!text.contains("leader_election_master_status"), "without an election: {text}");

    spoke.hub_relay.set(Way::Closed);
    eventually("failures are counted", || {
        agent.metric("sidecar_consecutive_failures") >= Some(2.0)
    });
    assert!(value("sidecar_lease_renewals_total{result=\"error\"}") >= 2.0);
    let (code, ready) = agent.ask("/readyz");
    assert_eq!(code, 200, "the credential is good");
    assert!(ready.contains("the heartbeat fails: ") && ready.contains(" since 20"), "{ready}");
    let before = beats(&agent);
    spoke.hub_relay.set(Way::Open);
    eventually("the heartbeat goes on", || beats(&agent) > before);
    assert_eq!(value("sidecar_consecutive_failures"), 0.0);
}
