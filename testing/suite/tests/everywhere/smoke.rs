//! A hostile peer or a bad moment for each program; the other modules have all faults for all of them.

use crate::{
    answers::huge_answers,
    network::stalled_answers,
    process::sigterm_mid_answer,
    stage::{AGENT, LEASE, SYNC},
    strike::survives,
    trust::rotated_token,
};

/// Of the servers of a program, its local cluster comes first.
const HUB: usize = 1;

#[test]
fn huge_answers_of_a_hub_take_no_memory_of_remote_sync() {
    survives(SYNC.1("huge"), HUB, huge_answers);
}

#[test]
fn hub_that_stalls_does_not_stop_addon_lease_controller() {
    survives(LEASE.1("stall"), HUB, stalled_answers);
}

#[test]
fn rotated_token_is_read_by_csr_bootstrapper() {
    rotated_token(&*AGENT.1("token"));
}

#[test]
fn sigterm_mid_answer_ends_csr_bootstrapper() {
    sigterm_mid_answer(&*AGENT.1("stalled"), HUB);
}

#[test]
fn sigterm_mid_answer_ends_remote_sync() {
    sigterm_mid_answer(&*SYNC.1("stalled"), HUB);
}
