//! Orphans, copies without a source: proof, grace, and what is left of them.

use suite::{pause, relay::Way, sync::words, throughout};

use crate::support::{is_connected, is_held, is_in_sync, one};

/// A source may come back with its cluster: time without a connection does not count.
#[test]
fn an_outage_restarts_an_orphans_grace_and_its_source_may_come_back() {
    let (stage, sidecar, source, target) = one("outage", &["-orphan-grace", "8s"]);
    let uid = target.uid();
    source.delete_by_force();
    is_held(&sidecar, 1.0);
    stage.remote().relay.set(Way::Closed);
    is_connected(&sidecar, false);
    // It would have been over long ago.
    pause(9000);
    stage.remote().relay.set(Way::Open);
    is_connected(&sidecar, true);
    throughout(2000, "it is there for its grace", || target.get().is_some());
    source.create_number(4);
    target.wait_for_number(4);
    is_in_sync(&source, &target);
    throughout(8500, "the copy is there", || target.uid() == uid);
    let writes = stage.writes();
    assert!(!words(&writes).iter().any(|it| it.contains("delete")), "{:?}", words(&writes));
}

#[test]
fn once_ends_an_orphan_whose_grace_fits_its_time() {
    let (stage, mut sidecar, source, target) = one("once-orphan", &[]);
    sidecar.kill();
    source.delete_by_force();
    // The grace exceeds its time: it reports the orphan instead of waiting.
    for times in [&["-wait-timeout", "2"][..], &[]] {
        let (code, log) = stage.run(&[&["-once", "-orphan-grace", "5m"][..], times].concat());
        assert_eq!(code, Some(0), "{log}");
        let left = log.lines().find(|line| line.contains("ended without syncing it"));
        assert!(
            left.is_some_and(|it| it.contains("name=one") && it.contains("state=held")),
            "{log}"
        );
        assert!(target.get().is_some());
    }
    let (code, log) = stage.run(&["-once", "-orphan-grace", "2s", "-wait-timeout", "20"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(target.get().is_none(), "{log}");
    assert!(!log.contains("ended without syncing it"), "{log}");
}
