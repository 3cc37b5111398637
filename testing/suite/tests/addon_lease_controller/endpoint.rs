//! /healthz, /readyz and /metrics of the running program.

use suite::{eventually, relay::Way, scene::Scene};

use crate::support::{failures, renews};

/// Seconds since 1970.
fn now() -> f64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64()
}

#[test]
fn readyz_fails_three_periods_after_the_last_renewal() {
    let scene = Scene::new("ready");
    scene.delete_secret();
    let sidecar = scene.start(&[]);
    let body = sidecar.wait_for_code("/readyz", 503);
    assert!(body.contains("is not renewed: "), "{body}");
    scene.put_secret(&scene.new_credentials());
    sidecar.wait_for_code("/readyz", 200);
    scene.hub_relay.set(Way::Closed);
    sidecar.wait_for("lease renewal failed");
    let last = sidecar.metric("sidecar_last_success_timestamp_seconds{target=\"hub\"}");
    let age = || now() - last.expect("it was renewed");
    let (code, body) = sidecar.ask("/readyz");
    assert!(code == 200 || age() > 3.0, "{} s are no three periods", age());
    assert!(body.contains(" on the hub: ") && body.contains(" failures since 20"), "{body}");
    eventually("three periods are over", || sidecar.ask("/readyz").0 == 503);
    assert!(age() > 2.99, "{} s are no three periods", age());
    let body = sidecar.ask("/readyz").1;
    assert!(body.contains(" failures since 20") && body.contains("update leases "), "{body}");
    assert_eq!(sidecar.ask("/healthz"), (200, "ok\n".to_owned()), "whatever the hub does");
    scene.hub_relay.set(Way::Open);
    sidecar.wait_for_code("/readyz", 200);
}

#[test]
fn metrics_count_renewals_and_requests() {
    let (scene, start) = (Scene::new("metrics"), now());
    let sidecar = scene.start(&["-lease-target=both"]);
    renews(&sidecar, "hub", 3);
    renews(&sidecar, "managed", 1);
    sidecar.wait_for_code("/readyz", 200);
    let end = now();
    let value = |sample: &str| sidecar.metric(sample).unwrap_or_else(|| panic!("no {sample}"));
    for target in ["hub", "managed"] {
        let of = |name: &str| value(&format!("{name}{{target=\"{target}\"}}"));
        let last = of("sidecar_last_success_timestamp_seconds");
        assert!((start..=now()).contains(&last), "{start} {last}");
        assert_eq!(of("sidecar_consecutive_failures"), 0.0);
        assert!(of("sidecar_lease_renewal_interval_seconds") >= 0.8);
        assert_eq!(of("certwatcher_read_certificate_errors_total"), 0.0);
        assert_eq!(failures(&sidecar, target), 0.0);
    }
    assert_eq!(value("certwatcher_read_certificate_total{target=\"hub\"}"), 1.0);
    assert!(value("sidecar_certificate_expiration_timestamp_seconds{target=\"hub\"}") > end);
    // Linux counts this time in jiffies since a start of its own.
    assert!((start - 2.0..=end).contains(&value("process_start_time_seconds")));
    assert!(value("process_resident_memory_bytes") > 100_000.0);
    let host = scene.hub_relay.address;
    let skew = format!("sidecar_clock_skew_seconds{{host=\"{host}\",target=\"hub\"}}");
    assert!(value(&skew).abs() < 60.0, "one machine has one clock");
    let puts = format!(
        "rest_client_requests_total{{code=\"200\",host=\"{host}\",method=\"PUT\",target=\"hub\"}}"
    );
    assert!(value(&puts) >= 2.0);
    assert!(
        sidecar.ask("/metrics").1.contains("sidecar_build_info{name=\"addon-lease-controller\",")
    );

    scene.hub_relay.set(Way::Closed);
    let consecutive = || sidecar.metric("sidecar_consecutive_failures{target=\"hub\"}");
    eventually("failures in a row", || consecutive() >= Some(2.0));
    assert!(failures(&sidecar, "hub") >= 2.0);
    let lost = puts.replace("200", "<error>");
    assert!(sidecar.metric(&lost) >= Some(2.0), "{}", sidecar.ask("/metrics").1);
    scene.hub_relay.set(Way::Open);
    renews(&sidecar, "hub", 1);
    assert_eq!(consecutive(), Some(0.0));
}
