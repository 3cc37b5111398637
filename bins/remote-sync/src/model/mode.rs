//! The two ways to keep pairs in step.

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// As sync-controller does.
    Compat,
    /// With marks on the target, and proof before a deletion.
    Safe,
}
