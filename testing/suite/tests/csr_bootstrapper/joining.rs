//! A cluster joins a hub, moves to another one and gets over troubles, on either server; plain joining is in `smoke`.
//!
//! A comment above a test names the case of OCM's `test/integration/registration` that it proves. Where upstream
//! ends the process, the program goes on; the tests check that it is the same one.

pub(crate) mod support;
mod switch_hub;
pub(crate) mod two_hubs;
