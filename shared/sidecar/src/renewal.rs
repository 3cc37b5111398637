//! Renewal of a Lease by a client, with its status for the log and the endpoint.

mod attempt;
mod status;

pub use self::{
    attempt::attempt,
    status::{RenewalStatus, log_outcome},
};
