//! Where a world begins.

use super::{
    view::{Published, Source},
    world::{REMOTES, World, new_source},
};

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
    /// The same, and B has the source too, as a cluster that was cloned.
    Clone,
    /// Two of them.
    Copies,
    /// The object that the namespace was made for is gone.
    SecondCopy,
    /// A's source that is new.
    Source,
    /// What sync-controller leaves: a source with its generations, and a target without a mark.
    Takeover,
    /// Somebody's own object under the target's name.
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
