//! Secret of a registration as it was last read: kept up to date by what its watch says, saved and removed.

use std::time::{Duration, Instant};

use serde_json::Value;
use shared::{
    client::{Client, Preconditions, Propagation},
    error::{Error, Result},
    secret,
};

use super::{RegistrationSecret, token::TOKEN};
use crate::{
    addon::{cluster_of, secret_cache::SecretVersion},
    agent::Agent,
    cached::CachedObject,
    certificate::store::{SecretValues, save_in},
    identity::{AGENT_NAME, CLUSTER_NAME, said},
};

/// A Secret that is not watched is read this often, as upstream does (ocm
/// `pkg/registration/register/secret_controller.go`, ControllerResyncInterval).
const READ_AGAIN: Duration = Duration::from_secs(300);

/// All keys that an agent writes.
const KEYS: [&str; 6] = ["kubeconfig", "tls.crt", "tls.key", TOKEN, CLUSTER_NAME, AGENT_NAME];

/// The last known state of a Secret.
#[derive(Default)]
pub(super) struct SecretReader {
    seen: CachedObject,
    /// When the Secret was read, and the changes that its watch had told before.
    read: Option<(Instant, u64)>,
}

impl SecretReader {
    pub(super) fn seen(&self) -> &CachedObject {
        &self.seen
    }

    /// Returns whether the Secret may be another than the one that was read.
    pub(super) fn is_stale(
        &self,
        agent: &Agent,
        secret: &RegistrationSecret,
        now: Instant,
    ) -> bool {
        let Some((at, changes)) = self.read else { return true };
        let watched = agent.read(|state| state.addon_secrets.watched(secret));
        match watched.version {
            None => now >= at + READ_AGAIN,
            Some(told) => watched.changes != changes && told != SecretVersion::of(&self.seen),
        }
    }

    /// Reads the Secret, if it may be another one.
    ///
    /// # Errors
    /// As the server says.
    pub(super) fn refresh(&mut self, agent: &Agent, secret: &RegistrationSecret) -> Result<()> {
        let now = Instant::now();
        if self.is_stale(agent, secret, now) {
            let watched = agent.read(|state| state.addon_secrets.watched(secret));
            self.seen = CachedObject::of(client(agent, secret).get(&secret.target()))?;
            self.read = Some((now, watched.changes));
        }
        Ok(())
    }

    /// Saves `values` with a single write; `removed` keys go, others stay.
    ///
    /// # Errors
    /// As the server says.
    pub(super) fn save(
        &mut self,
        agent: &Agent,
        secret: &RegistrationSecret,
        values: &SecretValues,
        removed: &[&str],
    ) -> Result<()> {
        let (client, values) = (client(agent, secret), (values, &SecretValues::new()));
        let saved = save_in(client, &secret.target(), &self.seen, values, removed)?;
        self.seen = CachedObject::Object(saved);
        Ok(())
    }
}

/// Deletes the Secret if it is one of this cluster's for an add-on, or the credential in it if somebody put more there;
/// returns whether it was one, or was gone already.
///
/// # Errors
/// As the server says; `Conflict` if it changed meanwhile.
pub(super) fn delete(agent: &Agent, secret: &RegistrationSecret, cluster: &str) -> Result<bool> {
    let (client, target) = (client(agent, secret), secret.target());
    let CachedObject::Object(object) = CachedObject::of(client.get(&target))? else {
        return Ok(true);
    };
    if !is_credential_of(&object, cluster) {
        return Ok(false);
    }
    if let Some(rest) = without_credential(&object) {
        return client.replace(&target, &rest).map(|_| true);
    }
    let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
    let guard = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
    match client.delete(&target, Propagation::Background, &guard) {
        Ok(()) | Err(Error::NotFound(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns whether this is a credential that an agent of `cluster` wrote.
fn is_credential_of(object: &Value, cluster: &str) -> bool {
    let Ok(data) = secret::data(object) else { return false };
    said(&data, CLUSTER_NAME, cluster)
        && ["tls.crt", TOKEN].iter().any(|key| data.contains_key(*key))
}

/// What somebody else put into the Secret, if there is such a thing.
fn without_credential(object: &Value) -> Option<Value> {
    let mut rest = object.clone();
    let data = rest["data"].as_object_mut()?;
    data.retain(|key, _| !KEYS.contains(&key.as_str()));
    let is_more = !data.is_empty();
    is_more.then_some(rest)
}

/// The cluster that has the Secret.
fn client<'a>(agent: &'a Agent, secret: &RegistrationSecret) -> &'a Client {
    cluster_of(agent, &secret.namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_credential_is_ours_by_the_name_of_the_cluster_in_it() {
        let is_ours = |data: Value| is_credential_of(&json!({"data": data}), "c1");
        let (c1, c2) = ("YzE=", "YzI=");
        assert!(is_ours(json!({"cluster-name": c1, "tls.crt": "", "tls.key": ""})));
        assert!(is_ours(json!({"cluster-name": c1, "token": "eA=="})));
        for other in [
            json!({"cluster-name": c2, "tls.crt": ""}),
            json!({"tls.crt": ""}),
            json!({"cluster-name": c1}),
            json!({"cluster-name": c1, "tls.crt": "%"}),
            json!(null),
        ] {
            assert!(!is_ours(other.clone()), "{other}");
        }
    }

    #[test]
    fn what_somebody_else_put_next_to_a_credential_stays() {
        let more = json!({"metadata": {"name": "x"}, "data": {"tls.crt": "", "theirs": "eA=="}});
        let rest = json!({"metadata": {"name": "x"}, "data": {"theirs": "eA=="}});
        assert_eq!(without_credential(&more), Some(rest));
        assert_eq!(without_credential(&json!({"data": {"token": "", "kubeconfig": ""}})), None);
    }
}
