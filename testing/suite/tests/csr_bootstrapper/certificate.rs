//! Obtaining and rotating the certificate, and what goes wrong, also a crash at every write. Tests
//! run on either server where both can do it; the others say why not.

mod answers;
mod clock;
pub(crate) mod crash;
pub(crate) mod forge;
mod hub;
mod object;
mod rejected;
pub(crate) mod rotation;
mod saves;
pub(crate) mod support;
