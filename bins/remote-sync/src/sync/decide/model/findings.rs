//! What the model finds where a safeguard is missing.

use explorer::Violation;

use super::{
    begin::Begin,
    rule::{Rule, Safeguard},
    world::REMOTES,
    *,
};

/// Something that goes wrong: what may happen, where it begins, and the invariant that breaks.
struct Finding {
    events: Events,
    shows: [u8; REMOTES],
    begin: Begin,
    troubles: u8,
    what: &'static str,
}

impl Finding {
    fn violation(&self, rule: Rule) -> Option<Violation> {
        let starts = vec![self.begin.world(self.shows, self.troubles)];
        explore(&Sync { rule, events: self.events, starts }).violation
    }

    /// Fails unless this goes wrong without the safeguard, and only then.
    #[track_caller]
    fn shows_need_of(&self, safeguard: Safeguard) {
        self.is_found(Rule::without(safeguard));
        if let Some(violation) = self.violation(Rule::new()) {
            panic!("{violation}");
        }
    }

    /// Fails unless the rule breaks the invariant, on a short way.
    #[track_caller]
    fn is_found(&self, rule: Rule) {
        let violation = self.violation(rule).expect(self.what);
        println!("{violation}");
        assert!(violation.what.contains(self.what), "{violation}");
        assert!(violation.trace.len() <= 16, "{violation}");
    }
}

/// One name, one remote, nothing ever happens.
const NOTHING: Events = Events {
    names: 1,
    remotes: 1,
    people: false,
    vanish: false,
    sweep: false,
    forge: false,
    foreign: false,
    stale: false,
    crash: false,
    identities: false,
    marks_sources: true,
    deletes_namespaces: true,
};

const FINDING: Finding =
    Finding { events: NOTHING, shows: [1, 2], begin: Begin::Copy, troubles: 1, what: "" };

#[test]
fn a_missing_limit_is_found() {
    Finding {
        events: Events { names: 2, people: true, ..NOTHING },
        begin: Begin::Copies,
        troubles: 2,
        what: "more copies are deleted than the limit",
        ..FINDING
    }
    .shows_need_of(Safeguard::Limit);
}

#[test]
fn a_missing_refusal_of_a_clone_is_found() {
    Finding {
        events: Events { remotes: 2, ..NOTHING },
        shows: [1, 1],
        troubles: 0,
        what: "another remote's copy is deleted",
        ..FINDING
    }
    .shows_need_of(Safeguard::Identity);
}

#[test]
fn a_missing_refusal_of_an_absent_remotes_clone_is_found() {
    Finding {
        events: Events { remotes: 2, identities: true, forge: true, people: true, ..NOTHING },
        begin: Begin::Clone,
        shows: [1, 1],
        troubles: 2,
        what: "another remote's copy is changed",
    }
    .shows_need_of(Safeguard::Identity);
}

#[test]
fn a_missing_proof_of_a_sources_end_is_found() {
    Finding {
        events: Events { stale: true, ..NOTHING },
        what: "a copy is deleted while its source lives",
        ..FINDING
    }
    .shows_need_of(Safeguard::Proof);
}
