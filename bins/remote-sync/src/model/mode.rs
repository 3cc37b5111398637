//! The two ways to keep pairs in step.

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// As sync-controller does.
    Compat,
    /// With marks on the target, and proof before a deletion.
    Safe,
}

impl Mode {
    /// Whether annotations say which object is whose copy, by uids, and what of it came from there.
    pub(crate) fn marks(self) -> bool {
        self == Self::Safe
    }

    /// Whether each write is for the very object and version that was looked at.
    pub(crate) fn guards(self) -> bool {
        self == Self::Safe
    }

    /// Whether nothing is deleted, and no finalizer removed, before a read says that the other object is gone.
    pub(crate) fn proves(self) -> bool {
        self == Self::Safe
    }

    /// Whether every target with the right name is ours.
    pub(crate) fn owns_by_name(self) -> bool {
        self == Self::Compat
    }

    /// Whether a target is replaced as a whole, and not patched.
    pub(crate) fn replaces(self) -> bool {
        self == Self::Compat
    }

    /// Whether a pass ends with what it wrote, and the next one begins at once, as upstream's.
    pub(crate) fn ends_after_writes(self) -> bool {
        self == Self::Compat
    }
}
