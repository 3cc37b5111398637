//! Initial worlds.

use super::{
    view::{Published, Source},
    world::{REMOTES, World, new_source},
};

/// An initial world.
#[derive(Clone, Copy)]
pub(super) enum Begin {
    Empty,
    /// A source of A and its copy.
    Copy,
    /// `Copy` whose source has neither finalizer nor records.
    CopyAlone,
    /// `Copy` with somebody else's object in the namespace.
    CopyAndOther,
    /// `Copy` whose source also exists on B, a clone of A.
    Clone,
    /// Two sources of A and their copies.
    Copies,
    /// `Copies` without the pair for which the namespace was created.
    SecondCopy,
    /// A new source of A.
    Source,
    /// What sync-controller leaves: a source with recorded generations, and an unmarked target.
    Takeover,
    /// Somebody else's object with the target's name.
    Foreign,
}

impl Begin {
    pub(super) fn world(self, shows: [u8; REMOTES], troubles: u8) -> World {
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
            Self::Clone => {
                let mut world = world.with_copy(0, 0);
                world.remotes[1].sources = world.remotes[0].sources;
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
                let mut world = Self::Source.world(shows, troubles).with_foreign(0, 1);
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
