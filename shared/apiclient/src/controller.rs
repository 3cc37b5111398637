//! Controller loop: reconcile at each change, when it is due, and at least once per [`Stop::SLICE`].

use std::time::Instant;

use crate::stop::Stop;

/// Calls `reconcile` until it returns `None` or `stop` is raised. `reconcile` returns when it is due without a change;
/// [`Stop::wake`] reports a change.
pub fn run(stop: &Stop, mut reconcile: impl FnMut() -> Option<Instant>) {
    loop {
        // Before `reconcile`, so that no change during it is missed.
        let seen = stop.wakes();
        let Some(due) = reconcile() else { return };
        if stop.wait_for_change(seen, due.min(Instant::now() + Stop::SLICE)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_during_reconcile_is_not_missed() {
        let (stop, mut calls) = (Stop::default(), 0);
        run(&stop, || {
            calls += 1;
            stop.wake();
            (calls < 3).then(|| Instant::now() + Stop::SLICE)
        });
        assert_eq!(calls, 3);
    }

    #[test]
    fn it_ends_with_the_process() {
        let (stop, mut calls) = (Stop::default(), 0);
        run(&stop, || {
            calls += 1;
            stop.raise();
            Some(Instant::now() + Stop::SLICE)
        });
        assert_eq!(calls, 1);
    }
}
