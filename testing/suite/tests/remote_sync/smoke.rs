//! Scenarios of what users would lose; they run before every commit.

pub(crate) mod clones;
mod copy;
pub(crate) mod crash;
mod deletion;
pub(crate) mod doubt;
pub(crate) mod gate;
mod isolation;
mod outage;
mod rights;
mod rotation;
pub(crate) mod secrecy;
mod takeover;
pub(crate) mod track;
