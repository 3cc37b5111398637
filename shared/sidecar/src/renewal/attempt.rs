//! One request of a renewal: sent, answered and recorded.

use std::{sync::Mutex, time::Instant};

use super::RenewalStatus;
use apiclient::{
    api::Lease,
    client::Client,
    error::Result,
    lock::lock,
    renewal::{Action, Now, Renewal, RenewalOutcome},
    resource::Target,
};

/// Sends the request for `lease` that `action` needs at `now`, and records the answer in `renewal` and
/// `status`: in the steady state the one PUT that renews the Lease. The caller logs the outcome, see
/// [`super::log_outcome`].
pub fn attempt(
    renewal: &mut Renewal,
    status: &Mutex<RenewalStatus>,
    client: &Client,
    lease: &Target<'_>,
    (action, now): (&Action, Now),
) -> (RenewalOutcome, Result<Lease>) {
    let answer = match action {
        Action::Replace(renewed) => client.replace_typed(lease, renewed),
        Action::Create(new) => client.create_typed(lease, new),
        Action::Read | Action::Wait(_) => client.get_typed(lease),
    };
    let outcome = renewal.answered(action, &answer, (now, Instant::now()), fastrand::f64());
    lock(status).record(renewal, &outcome, &answer);
    (outcome, answer)
}
