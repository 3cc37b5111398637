//! What remote-sync's modules need of its settings, in the targets that are made of them.

pub(crate) use crate::keys::Keys;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Compat,
    Safe,
}
