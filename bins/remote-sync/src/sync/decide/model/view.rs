//! Objects of the model, and what the rule sees of them. Contents, clusters and names are small numbers.

use super::world::REMOTES;

/// A source, as its cluster has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) uid: u8,
    pub(super) content: u8,
    pub(super) generation: u8,
    pub(super) finalizer: bool,
    pub(super) terminating: bool,
    pub(super) published: Option<Published>,
    /// For the invariants alone: it is terminating because its kind or namespace is.
    pub(super) swept: bool,
}

/// The annotations that say which generations belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Published {
    pub(super) remote: u8,
    pub(super) local: u8,
    pub(super) uid: Option<u8>,
}

/// An object of the target's kind and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) uid: u8,
    pub(super) content: u8,
    pub(super) generation: u8,
    pub(super) mark: Option<Mark>,
    /// For the invariants alone: the remote whose copy it really is; without one it is somebody's own.
    pub(super) owner: Option<usize>,
}

/// A cluster as it shows itself: the remote that it is taken for, and a uid, or 0 if that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shown {
    pub(super) remote: usize,
    pub(super) uid: u8,
}

/// For each remote, the uid that is recorded, if one is; 0 for an unverified cluster.
pub(super) type Records = [Option<u8>; REMOTES];

/// The annotation that says whose copy a target is.
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
    /// The cluster that this program created it for.
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
    /// The source's cluster.
    pub(super) cluster: Shown,
}
