//! Findings of reviews: the model finds each under the old rule, on a short way, and none under the present one.

use super::{
    old_rule::OldRule,
    view::{Published, Source, Target},
    world::{DEFAULTED, REMOTES, new_source},
    *,
};

/// Something that went wrong: what may happen, where it begins, and the invariant that it breaks.
pub(super) struct Finding {
    pub(super) events: Events,
    pub(super) shows: [u8; REMOTES],
    pub(super) begin: Begin,
    pub(super) troubles: u8,
    pub(super) what: &'static str,
    /// The most steps of the way.
    pub(super) most: usize,
}

/// Where a world begins.
#[derive(Clone, Copy)]
pub(super) enum Begin {
    Empty,
    /// One source of A, and its copy.
    Copy,
    /// The same, where the source was given nothing.
    CopyAlone,
    /// The same, with somebody else's object in the namespace.
    CopyAndOther,
    /// The same, where the target's server dropped what it did not know, and knows it by now.
    Pruned,
    /// Two of them.
    Copies,
    /// The one that the namespace was made for is gone.
    SecondCopy,
    /// A's source that is new.
    Source,
    /// What sync-controller leaves: a source with its generations, and a target that its server defaulted.
    Takeover,
    /// Somebody's own object under the target's name.
    Foreign,
}

impl Begin {
    pub(super) fn world<G: Clone + std::hash::Hash>(
        self,
        shows: [u8; REMOTES],
        troubles: u8,
    ) -> World<G> {
        let world = World::new(shows, troubles);
        match self {
            Self::Empty => world,
            Self::Copy => world.with_copy(0, 0),
            Self::CopyAlone => {
                let mut world = world.with_copy(0, 0);
                let alone = |source| Source { finalizer: false, published: None, ..source };
                world.remotes[0].sources[0] = world.remotes[0].sources[0].map(alone);
                world
            }
            Self::CopyAndOther => World { foreign: true, used: true, ..world.with_copy(0, 0) },
            Self::Pruned => {
                let mut world = world.with_copy(0, 0);
                world.targets[0] = world.targets[0].map(|target| Target { content: 2, ..target });
                world
            }
            Self::Copies => world.with_copy(0, 0).with_copy(0, 1),
            Self::SecondCopy => {
                let mut world = world.with_copy(0, 1).with_copy(0, 0);
                (world.remotes[0].sources[1], world.targets[1]) = (None, None);
                world
            }
            Self::Source => {
                let mut world = world.with_namespace();
                let uid = world.uid();
                world.remotes[0].sources[0] = Some(new_source(uid, 1));
                world
            }
            Self::Takeover => {
                let mut world = Self::Source.world(shows, troubles).with_foreign(0, DEFAULTED);
                let published = Some(Published { remote: 1, local: 1, uid: None });
                world.remotes[0].sources[0] = world.remotes[0].sources[0].map(|source| Source {
                    finalizer: true,
                    published,
                    ..source
                });
                world
            }
            Self::Foreign => world.with_namespace().with_foreign(0, 2),
        }
    }
}

impl Finding {
    fn explore<R: Rule>(&self, rule: R) -> Explored {
        let starts = vec![self.begin.world(self.shows, self.troubles)];
        explore(&Sync { rule, events: self.events, starts })
    }
}

/// Fails unless the old rule breaks the invariant and the present one does not.
fn mended(finding: &Finding) {
    let old = finding.explore(OldRule).violation.expect("the old rule passes");
    println!("old rule: {old}");
    assert!(old.what.contains(finding.what), "{old}");
    assert!(old.trace.len() <= finding.most, "{old}");
    if let Some(violation) = finding.explore(CurrentRule::new()).violation {
        panic!("present rule: {violation}");
    }
}

/// As [`mended`], but the present rule breaks the invariant still.
fn open(finding: &Finding) {
    let present = finding.explore(CurrentRule::new()).violation.expect("it is mended: say so");
    println!("present rule: {present}");
    assert!(present.what.contains(finding.what), "{present}");
    assert!(present.trace.len() <= finding.most, "{present}");
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
    select: false,
    constant: false,
    crash: false,
    track: Track::Source,
};

const FINDING: Finding =
    Finding { events: NOTHING, shows: [1, 2], begin: Begin::Copy, troubles: 1, what: "", most: 12 };

#[test]
fn h1_a_remote_with_anothers_uid_deletes_its_copies() {
    mended(&Finding {
        events: Events { remotes: 2, ..NOTHING },
        shows: [1, 1],
        troubles: 0,
        what: "another remote's copy is deleted",
        ..FINDING
    });
}

#[test]
fn h1b_a_source_with_the_uid_of_anothers_changes_its_copy() {
    mended(&Finding {
        events: Events { remotes: 2, forge: true, ..NOTHING },
        what: "another remote's copy is changed",
        ..FINDING
    });
}

#[test]
fn h4_a_forged_source_deletes_what_never_was_a_copy() {
    mended(&Finding {
        events: Events { forge: true, ..NOTHING },
        begin: Begin::Foreign,
        what: "nobody's copy is deleted",
        ..FINDING
    });
}

#[test]
fn s18_the_deletion_of_a_kind_takes_the_copies_along() {
    mended(&Finding {
        events: Events { names: 2, sweep: true, ..NOTHING },
        begin: Begin::Copies,
        what: "a copy is deleted with the kind of its source",
        ..FINDING
    });
}

#[test]
fn b01_any_number_of_deletions_passes_the_breaker() {
    mended(&Finding {
        events: Events { names: 2, people: true, ..NOTHING },
        begin: Begin::Copies,
        troubles: 2,
        what: "more copies are deleted than the limit",
        most: 16,
        ..FINDING
    });
}

#[test]
fn b01_a_restart_opens_the_breaker() {
    mended(&Finding {
        events: Events { names: 2, vanish: true, crash: true, ..NOTHING },
        begin: Begin::Copies,
        troubles: 3,
        what: "more copies are deleted than the limit",
        most: 24,
        ..FINDING
    });
}

#[test]
fn s8_a_namespace_goes_with_what_others_put_there() {
    mended(&Finding {
        events: Events { people: true, ..NOTHING },
        begin: Begin::CopyAndOther,
        what: "somebody else's object is deleted with its namespace",
        ..FINDING
    });
}

#[test]
fn s7_an_object_that_was_there_is_overwritten() {
    mended(&Finding {
        events: Events { people: true, ..NOTHING },
        begin: Begin::Foreign,
        what: "nobody's copy is changed",
        ..FINDING
    });
}

#[test]
fn s16_a_namespace_stays_where_its_first_object_went_first() {
    mended(&Finding {
        events: Events { people: true, ..NOTHING },
        begin: Begin::SecondCopy,
        what: "a namespace is left behind",
        most: 16,
        ..FINDING
    });
}

#[test]
fn b11_a_source_that_is_unselected_in_the_absence_keeps_its_finalizer() {
    open(&Finding {
        events: Events { select: true, crash: true, ..NOTHING },
        begin: Begin::Source,
        troubles: 2,
        what: "a finalizer is left behind",
        ..FINDING
    });
}

#[test]
fn s4_what_was_pruned_is_never_filled_in() {
    mended(&Finding {
        begin: Begin::Pruned,
        troubles: 0,
        what: "it rests out of step, as Some(InSync)",
        ..FINDING
    });
}

#[test]
fn s33_an_edit_without_a_new_generation_never_arrives() {
    mended(&Finding {
        events: Events { people: true, constant: true, ..NOTHING },
        what: "it rests out of step, as Some(InSync)",
        ..FINDING
    });
}

/// Both remotes share the store of targets, and what the one reads is no news for the other.
#[test]
fn an_edit_that_another_remote_read_first_is_not_put_right() {
    open(&Finding {
        events: Events { remotes: 2, forge: true, foreign: true, crash: true, ..NOTHING },
        troubles: 3,
        what: "it rests out of step, as Some(InSync)",
        ..FINDING
    });
}
