//! Policies for the pairs of all kinds.

/// The policy for targets that are nobody's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdoptPolicy {
    Never,
    /// Those that have the source's content become its copies.
    Equal,
    Always,
}

/// The bookkeeping: what a source is given beside its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Track {
    /// A finalizer, and annotations that say what of it was copied.
    Source,
    /// Nothing: all that is recorded is on the target.
    Target,
}

impl Track {
    /// Returns whether a source in use carries our finalizer and says which generations belong together.
    pub fn marks_sources(self) -> bool {
        self == Self::Source
    }
}
