//! What goes wrong.

use dev_apiserver::{Action, State};

const DAYS: i64 = 24 * 3600;

/// An answer instead of the right one.
pub fn answer(code: u16, retry_after: Option<&str>) -> Action {
    let html = "<html><body><h1>It does not work</h1></body></html>";
    let body = matches!(code, 500..).then(|| html.to_owned());
    Action::Answer { code, body, retry_after: retry_after.map(str::to_owned) }
}

/// F1 to F16 (and F33) that strike a single request; those of the whole server are [`outages`].
pub fn faults() -> Vec<Action> {
    vec![
        Action::Garbage,                                              // F4
        Action::Stall,                                                // F5
        Action::Truncate,                                             // F6
        Action::HugeHeaders { bytes: 70_000 },                        // F7
        Action::HugeBody { bytes: 4 << 20 },                          // F7
        Action::Drop,                                                 // F8
        Action::Delay { milliseconds: 700 },                          // F9
        answer(401, None),                                            // F10
        Action::Forbid,                                               // F12
        answer(429, Some("1")),                                       // F13
        answer(500, None),                                            // F14
        answer(502, None),                                            // F14
        answer(503, Some("1")),                                       // F14
        answer(504, None),                                            // F14
        Action::NotJson,                                              // F15
        Action::WrongKind,                                            // F15
        Action::NullSpec,                                             // F15
        Action::Redirect { location: "https://127.0.0.1:1/".into() }, // F16
        Action::ApplyThenDrop,                                        // F33
        Action::ApplyThenDelay { milliseconds: 700 },                 // F33
        Action::ApplyThenDelay { milliseconds: 1500 },                // F33
    ]
}

/// What happens to the whole server now and then.
#[derive(Clone)]
pub enum Outage {
    State(State),
    /// Every request meets it.
    Storm(Action),
    /// Its clock is wrong by so many seconds, which is no reason to be silent.
    Clock(i64),
    /// It comes back with what it had before.
    Restore,
}

/// F1, F2, F3, F4 twice, F8; F11 to F14 for all at once; F24; a backup.
pub fn outages() -> Vec<Outage> {
    vec![
        Outage::State(State::Refuse),
        Outage::State(State::Partition),
        Outage::State(State::Hang),
        Outage::State(State::Alert),
        Outage::State(State::GarbageHandshake),
        Outage::State(State::CloseAfterAnswer),
        Outage::Storm(answer(401, None)),
        Outage::Storm(Action::Forbid),
        Outage::Storm(answer(429, Some("1"))),
        Outage::Storm(answer(503, Some("1"))),
        Outage::Clock(400 * DAYS),
        Outage::Clock(-400 * DAYS),
        Outage::Restore,
    ]
}
