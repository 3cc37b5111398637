//! A cluster joins a hub: the stage itself, OCM's own agent on it, and the program, on either server.
//!
//! `o_joining_`, `o_recovery_`, `o_rebootstrap_`, `o_restart_` and a number: file and line of a case of OCM's
//! `test/integration/registration/spokecluster_joining_test.go` and `spokeagent_…_test.go`, which is proven
//! here. Where upstream ends the process, the program goes on; the tests check that it is the same one.

mod clocks;
mod corners;
mod election;
mod goagent;
mod hub;
mod interrupted;
mod join;
mod moved;
mod moving;
mod names;
mod proxies;
mod rebootstrap;
mod recovery;
mod restart;
mod support;
mod switch_hub;
pub(crate) mod takeover;
pub(crate) mod two_hubs;
