//! Obtaining and rotating the certificate, and what goes wrong: F40 to F49 and a crash at every write. Tests
//! run on either server where both can do it; the others say why not.

mod answers;
mod clock;
mod crash;
pub(crate) mod forge;
mod hub;
mod object;
mod rotation;
mod saves;
mod stored;
mod support;
mod wrong;
