//! The faults F1 to F39 of the specification that concern this sidecar, each a test named after its
//! number, on the embedded server. Those that need hours or a fleet (F11, F24, F39) run on the pure core
//! in `bins/addon-lease-controller/src/renewal.rs`; addresses of F23 in `shared/src/dial.rs`.

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
