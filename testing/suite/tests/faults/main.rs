//! What goes wrong in real life, F1 to F39, each a test named after its number, on the embedded server.
//! README.md of this crate says what the numbers are, which of them are tested elsewhere, and what of
//! them is not tested.

mod answers;
mod certificates;
mod credentials;
mod flags;
mod kubeconfigs;
mod lease;
mod network;
mod process;
mod proxy;
mod refusals;
mod rogue;
mod sigterm;
mod tools;
