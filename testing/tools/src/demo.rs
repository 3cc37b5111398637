//! How both demos end: immediately, or at Ctrl-C.

use std::{env, time::Duration};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use suite::sidecar::Sidecar;

use crate::{measure, term::bold};

/// Returns whether `KEEP` asks to leave the programs running.
pub fn is_kept() -> bool {
    env::var("KEEP").is_ok_and(|keep| !keep.is_empty() && keep != "0")
}

/// Ends the programs by SIGTERM; returns how long the slowest took.
pub fn stop(programs: &mut [&mut Sidecar]) -> Duration {
    let stop = |sidecar: &mut &mut Sidecar| {
        let (code, time) = measure::terminate(sidecar);
        assert_eq!(code, Some(0), "{}", sidecar.log());
        time
    };
    programs.iter_mut().map(stop).max().unwrap_or_default()
}

/// Leaves the programs running until Ctrl-C; `commands` prints how to inspect them.
pub fn keep(programs: &mut [(&str, &mut Sidecar)], commands: impl FnOnce()) {
    println!("\n{}", bold("It goes on until Ctrl-C. Look at it from another terminal:"));
    commands();
    let mut signals = Signals::new([SIGINT, SIGTERM]).expect("signals");
    signals.forever().next();
    println!();
    for (name, sidecar) in programs {
        // Ctrl-C reached the program too, which may have ended already.
        let _ = sidecar.alive() && measure::terminate(sidecar).0.is_some();
        let log = sidecar.log();
        println!("The last line of {name}'s log: {}", log.lines().last().unwrap_or_default());
    }
}
