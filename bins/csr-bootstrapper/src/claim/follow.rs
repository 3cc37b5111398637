//! Watch of the spoke's claims of one kind.

use std::time::Duration;

use apiclient::{
    api::ClusterClaim,
    client::Client,
    error::{Error, Result},
    log_object,
    resource::Resource,
    stop::Stop,
    watch::Selection,
};
use log::Level;

use super::ClaimKind;
use crate::agent::{Agent, PAGE};

/// All claims but those that are meant to stay on the spoke (ocm
/// `pkg/registration/spoke/managedcluster/claim_reconcile.go`, labelCustomizedOnly).
const SELECTOR: &str = "!open-cluster-management.io/spoke-only";
/// A spoke that has no such kind is asked again this often.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);
/// Longer values are refused by the kind's own schema.
const MAX_VALUE: usize = 1024;

/// Keeps the claims in their store; while they cannot be read, what the hub has of them stays.
pub(crate) fn follow(agent: &Agent, kind: ClaimKind) {
    if !wait_until_served(agent, kind) {
        return;
    }
    let (store, target) = (agent.claims(kind), kind.resource().everywhere());
    let selection = Selection { labels: SELECTOR, page: PAGE, ..Selection::all(target) };
    let mut parse =
        |claim: ClusterClaim| Some(claim.spec.value).filter(|value| value.len() <= MAX_VALUE);
    let mut was_partial = false;
    store.run(agent.spoke(), &selection, &agent.stop, &mut parse, &mut || {
        let is_partial = store.is_partial();
        if !std::mem::replace(&mut was_partial, is_partial) && is_partial {
            log_object!(Level::Warn, target; "too many or too long claims: ignoring some");
        }
        agent.stop.wake();
    });
}

/// Waits until the spoke serves the kind; `false` at the end of the process.
fn wait_until_served(agent: &Agent, kind: ClaimKind) -> bool {
    let store = agent.claims(kind);
    let mut looks = 0;
    loop {
        let wait = match is_served(agent.spoke(), kind.resource()) {
            Ok(true) => return true,
            Ok(false) => {
                store.set_error(None);
                looks += 1;
                not_served(agent, kind, looks);
                if looks == 1 { Stop::SLICE } else { RETRY_INTERVAL }
            }
            Err(error) => {
                store.set_error(Some(&error));
                Stop::SLICE
            }
        };
        if agent.stop.wait(wait) {
            return false;
        }
    }
}

/// ClusterClaims come with OCM's operator; a cluster may never have ClusterProperties. A definition that is made anew is
/// away for a moment, so that the first look proves nothing.
fn not_served(agent: &Agent, kind: ClaimKind, looks: u32) {
    if looks == 1 {
        let (server, name) = (agent.spoke().name(), &kind.resource().kind);
        log::info!(server = server; "no {name} is served: none are reported to the hub");
    } else if kind == ClaimKind::ClusterProperty {
        agent.claims(kind).clear();
        agent.stop.wake();
    }
}

/// Returns whether the server has this kind.
///
/// # Errors
/// As the server says.
fn is_served(client: &Client, resource: &Resource) -> Result<bool> {
    let path = format!("/apis/{}", resource.api_version());
    match client.document(&path) {
        Ok(found) => {
            let mut kinds = found["resources"].as_array().into_iter().flatten();
            Ok(kinds.any(|kind| kind["name"] == *resource.plural))
        }
        Err(Error::NotServed(_) | Error::NotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
