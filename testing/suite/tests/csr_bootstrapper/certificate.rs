//! Obtaining and rotating the certificate, and what goes wrong, also a crash at every write. Tests
//! run on either server where both can do it; the others say why not.

mod clock;
pub(crate) mod crash;
pub(crate) mod forge;
mod requests;
pub(crate) mod rotation;
mod saves;
pub(crate) mod support;
