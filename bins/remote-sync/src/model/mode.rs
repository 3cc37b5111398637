//! Sync modes, and how their rules differ.

/// The rules by which pairs are kept in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Exactly as sync-controller does.
    Compat,
    /// With annotations that record whose copy a target is, and proof before a deletion.
    Safe,
}

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

impl Mode {
    /// Returns whether annotations record, by uids, whose copy an object is and what of it was copied.
    pub fn records_origin(self) -> bool {
        self == Self::Safe
    }

    /// Returns whether every write applies to exactly the object and version that was observed.
    pub fn sets_preconditions(self) -> bool {
        self == Self::Safe
    }

    /// Returns whether a live read has to confirm that the other object is gone before anything is deleted or the
    /// finalizer removed.
    pub fn confirms_absence(self) -> bool {
        self == Self::Safe
    }

    /// Returns whether every object with the target's name is our copy.
    pub fn owns_by_name(self) -> bool {
        self == Self::Compat
    }

    /// Returns whether targets are replaced (PUT) instead of patched.
    pub fn replaces(self) -> bool {
        self == Self::Compat
    }

    /// Returns whether writes that another writer undoes become rare.
    pub fn slows_fights(self) -> bool {
        self == Self::Safe
    }

    /// Returns whether a pass ends after its writes and the next one starts at once, as upstream's do.
    pub fn ends_after_writes(self) -> bool {
        self == Self::Compat
    }
}

impl Track {
    /// Returns whether a source in use carries our finalizer and says which generations belong together.
    pub fn marks_sources(self) -> bool {
        self == Self::Source
    }
}
