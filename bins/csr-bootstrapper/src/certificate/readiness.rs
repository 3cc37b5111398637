//! Readiness of the credential: in the Secret, and in the files of -hub-kubeconfig-dir.

use super::validate::{Validation, validate};
use crate::{agent::Agent, identity::in_directory};

/// Returns whether the credential is usable.
///
/// # Errors
/// The reason why it is not, and the progress towards a valid one.
pub(crate) fn ready(agent: &Agent) -> Result<(), String> {
    let status = agent.read(|state| state.status.clone());
    // An unreadable Secret is left alone.
    let detail =
        status.detail.or_else(|| agent.selection_error()).or_else(|| agent.credential.last_error());
    match (status.trouble, detail) {
        (Some(trouble), Some(detail)) => Err(format!("{trouble}; {detail}")),
        (Some(trouble), None) => Err(trouble),
        (None, _) => files(agent),
    }
}

fn files(agent: &Agent) -> Result<(), String> {
    let (Some(directory), Some(names)) =
        (&agent.settings.hub_directory, agent.read(|state| state.names.clone()))
    else {
        return Ok(());
    };
    let what = directory.display().to_string();
    let hub = agent.bootstrap().ok().map(|bootstrap| bootstrap.hub.clone());
    // Its kubeconfig may name other files than ours, such as that of a CA.
    let secret = agent.credential_secret();
    let data = secret.as_ref().and_then(|secret| secret["data"].as_object());
    let files = data.into_iter().flatten().map(|(name, _)| name.as_str());
    match validate(&in_directory(directory, files), hub.as_ref(), &names, agent.clocks()) {
        Validation::Usable(_) => Ok(()),
        Validation::Moved(_, word) => Err(format!("{what} is of another hub: the {word} differs")),
        Validation::Unusable(unusable) => Err(format!("{what} {}", unusable.reason)),
    }
}
