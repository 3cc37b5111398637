//! Faults of single requests.

use dev_apiserver::Action;

/// A fault, and the verb that it is restricted to, if any.
#[derive(Clone)]
pub struct Fault {
    pub action: Action,
    pub verb: Option<&'static str>,
}

impl Fault {
    /// Returns whether the program then waits for people, or for minutes: longer than a rest allows.
    pub fn is_refusal(&self) -> bool {
        match self.action {
            // A rejected list or watch may succeed when it is retried.
            Action::Answer { code: 403 | 404, .. } | Action::Forbid => {
                !matches!(self.verb, Some("list" | "watch"))
            }
            Action::HugeBody { .. } => true,
            _ => false,
        }
    }
}

/// Returns all faults of single requests.
pub fn faults() -> Vec<Fault> {
    let any = actions().into_iter().map(|action| Fault { action, verb: None });
    let [html, huge] = [answer(404, HTML, None), Action::HugeBody { bytes: 4 << 20 }];
    let reads = [
        ("list", Action::Forbid),
        ("watch", Action::Forbid),
        ("list", answer(403, HTML, None)),
        ("list", html.clone()),
        ("watch", html),
        ("list", answer(404, None, None)),
        ("watch", answer(403, None, None)),
        ("get", Action::Forbid),
        ("get", answer(404, None, None)),
        ("patch", Action::Forbid),
        ("create", answer(403, None, None)),
        ("delete", Action::Forbid),
        ("list", huge),
        ("watch", Action::WatchCut { events: 2 }),
        ("watch", Action::WatchSilent),
    ];
    any.chain(reads.map(|(verb, action)| Fault { action, verb: Some(verb) })).collect()
}

const HTML: Option<&str> = Some("<html><body><h1>It does not work</h1></body></html>");
const EXPIRED: Option<&str> =
    Some(r#"{"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}"#);

fn answer(code: u16, body: Option<&str>, retry_after: Option<&str>) -> Action {
    let (body, retry_after) = (body.map(str::to_owned), retry_after.map(str::to_owned));
    Action::Answer { code, body, retry_after }
}

/// Without [`Action::NullSpec`]: nobody can detect wrong content with a valid resourceVersion.
fn actions() -> Vec<Action> {
    vec![
        answer(500, None, None),
        answer(502, HTML, None),
        answer(503, None, None),
        answer(503, HTML, Some("1")),
        answer(504, None, None),
        answer(429, None, Some("1")),
        answer(401, None, None),
        answer(403, None, None),
        answer(404, None, None),
        answer(404, HTML, None),
        answer(410, EXPIRED, None),
        Action::Forbid,
        Action::Drop,
        Action::ApplyThenDrop,
        Action::ApplyThenDelay { milliseconds: 40 },
        Action::Delay { milliseconds: 40 },
        Action::Truncate,
        Action::Garbage,
        Action::Stall,
        Action::NotJson,
        Action::WrongKind,
        Action::HugeHeaders { bytes: 70_000 },
        Action::Redirect { location: "https://127.0.0.1:1/".into() },
    ]
}
