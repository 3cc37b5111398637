//! A cluster joins a hub: the stage itself, OCM's own agent on it, and the program, on either server.
//!
//! `o_joining_`, `o_recovery_`, `o_rebootstrap_`, `o_restart_` and a number: file and line of a case of OCM's
//! `test/integration/registration/spokecluster_joining_test.go` and `spokeagent_…_test.go`, which is proven
//! here. Where upstream ends the process, the program goes on; the tests check that it is the same one.

mod corners;
pub(crate) mod election;
mod moved;
mod moving;
mod proxies;
pub(crate) mod rebootstrap;
pub(crate) mod recovery;
mod restart;
pub(crate) mod support;
mod switch_hub;
pub(crate) mod two_hubs;
