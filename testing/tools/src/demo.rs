//! How both demos end: at once, or left running until Ctrl-C.

use std::{env, time::Duration};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use suite::sidecar::Sidecar;

use crate::{measure, term::bold};

/// Whether `KEEP` asks to leave the programs running.
pub fn is_kept() -> bool {
    env::var("KEEP").is_ok_and(|keep| !keep.is_empty() && keep != "0")
}

/// Ends the programs by SIGTERM; how long the slowest took.
pub fn stop(programs: &mut [&mut Sidecar]) -> Duration {
    let stop = |sidecar: &mut &mut Sidecar| {
        let (code, time) = measure::terminate(sidecar);
        assert_eq!(code, Some(0), "{}", sidecar.log());
        time
    };
    programs.iter_mut().map(stop).max().unwrap_or_default()
}

/// Leaves the programs running until Ctrl-C, while `commands` tell people what to look at.
pub fn keep(programs: &mut [(&str, &mut Sidecar)], commands: impl FnOnce()) {
    println!("\n{}", bold("It goes on until Ctrl-C. Look at it from another terminal:"));
    commands();
    let mut signals = Signals::new([SIGINT, SIGTERM]).expect("signals");
    signals.forever().next();
    println!();
    for (name, sidecar) in programs {
        // Ctrl-C has reached the program as well: it may have ended already.
        let _ = sidecar.alive() && measure::terminate(sidecar).0.is_some();
        let log = sidecar.log();
        println!("The last line of {name}'s log: {}", log.lines().last().unwrap_or_default());
    }
}
