//! SIGTERM ends the program within a second; only a finished `-once` is a success.

use std::time::Duration;

use suite::{dumper::Stage, relay::Way, sidecar::Sidecar};

#[test]
fn sigterm_ends_it_at_once_whatever_it_waits_for() {
    let stage = Stage::new("sigterm");
    let mut command = stage.command(0);
    command.args(["-once", "-wait-timeout", "3600"]);
    let mut once = Sidecar::spawn(command, 0);
    once.wait_for("it does not exist");
    let (code, time) = once.terminate();
    assert!(code == Some(1) && time < Duration::from_secs(1), "{code:?} after {time:?}");
    stage.put_secret(&stage.credentials());
    let mut sidecar = stage.start_ready(&[]);
    sidecar.ends_at_once();
    // Also while a request hangs.
    stage.relay.set(Way::Silent);
    let mut sidecar = stage.start(&[]);
    sidecar.wait_for_code("/healthz", 200);
    sidecar.ends_at_once();
}
