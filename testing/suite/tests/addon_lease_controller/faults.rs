//! What goes wrong in real life, F1 to F39, each a test named after its number, on the embedded server.
//! testing/README.md says what the numbers are and where else they are tested; what concerns all four programs
//! strikes them in `everywhere` too.

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
mod sigterm;
mod support;
