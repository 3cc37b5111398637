//! Objects of the model, and the rule's view of them. Contents, clusters and names are small numbers.

use super::world::REMOTES;

/// A source on its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) uid: u8,
    pub(super) content: u8,
    pub(super) generation: u8,
    pub(super) finalizer: bool,
    pub(super) terminating: bool,
    pub(super) published: Option<Published>,
    /// For the invariants only: the source terminates because its kind or namespace does.
    pub(super) swept: bool,
}

/// The annotations that record which generations have the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Published {
    pub(super) remote: u8,
    pub(super) local: u8,
    pub(super) uid: Option<u8>,
}

/// An object with the target's kind and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) uid: u8,
    pub(super) content: u8,
    pub(super) generation: u8,
    pub(super) mark: Option<Mark>,
    /// For the invariants only: the remote whose copy it really is; `None` for somebody else's object.
    pub(super) owner: Option<usize>,
}

/// The identity that a cluster shows: its remote, and its uid or 0 if that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shown {
    pub(super) remote: usize,
    pub(super) uid: u8,
}

/// The recorded uid of each remote, if any; 0 for an unverified cluster.
pub(super) type Records = [Option<u8>; REMOTES];

/// The annotation that identifies a target's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mark {
    /// The remote and the uid that it showed.
    pub(super) cluster: Shown,
    pub(super) uid: u8,
    pub(super) name: usize,
}

/// The namespace of all targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Namespace {
    pub(super) uid: u8,
    /// The cluster for which this program created the namespace.
    pub(super) made_for: Option<Shown>,
    pub(super) terminating: bool,
}

/// The observed state of a pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub(super) source: Option<Source>,
    pub(super) target: Option<Target>,
    pub(super) marks_sources: bool,
    pub(super) deletes_namespaces: bool,
    pub(super) name: usize,
    /// The cluster of the source.
    pub(super) cluster: Shown,
}
