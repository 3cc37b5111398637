//! ConfigMap in the program's namespace in which state survives a restart. Where it cannot be used at all, the state
//! lives in memory, and the log says so once.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use apiclient::{
    client::{Client, Patch},
    error::{Error, Result},
    resource::{CONFIGMAPS, Target},
};
use serde_json::{Value, json};

/// Sends a request to the local cluster.
pub(crate) type Ask<'a> = &'a dyn Fn(&dyn Fn(&Client) -> Result<Value>) -> Result<Value>;

/// The ConfigMap.
pub(crate) struct StateMap {
    namespace: String,
    name: String,
    /// The sentence for what is lost with the process if it cannot be used.
    lost: &'static str,
    unusable: AtomicBool,
}

impl StateMap {
    pub(crate) fn new((namespace, name): (String, String), lost: &'static str) -> Self {
        Self { namespace, name, lost, unusable: AtomicBool::default() }
    }

    /// Reads it: `Null` if it does not exist, `None` if it cannot be used.
    ///
    /// # Errors
    /// The request's, unless a right or the namespace is missing.
    pub(crate) fn read(&self, ask: Ask<'_>) -> Result<Option<Value>> {
        self.usable(match ask(&|client| client.get(&self.place())) {
            Err(Error::NotFound(_)) => Ok(Value::Null),
            result => result,
        })
    }

    /// Merges a patch into it, and creates it before if it does not exist; `None` if it cannot be used.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn merge(&self, ask: Ask<'_>, patch: &Value) -> Result<Option<Value>> {
        let merge = || ask(&|client| client.patch(&self.place(), Patch::Merge, patch));
        self.usable(match merge() {
            Err(Error::NotFound(_)) => self.create(ask).and_then(|()| merge()),
            result => result,
        })
    }

    /// The command that sets a key, or removes it.
    pub(crate) fn command(&self, key: &str, value: Option<&str>) -> String {
        let Self { namespace, name, .. } = self;
        let patch = json!({"data": {key: value}});
        format!("kubectl -n {namespace} patch configmap {name} --type merge -p '{patch}'")
    }

    fn create(&self, ask: Ask<'_>) -> Result<()> {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace}});
        match ask(&|client| client.create(&self.place(), &map)) {
            Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn usable(&self, result: Result<Value>) -> Result<Option<Value>> {
        let error = match result {
            Ok(value) => {
                self.unusable.store(false, Relaxed);
                return Ok(Some(value));
            }
            Err(error) => error,
        };
        match error {
            Error::Forbidden(_)
            | Error::NotFound(_)
            | Error::NotServed(_)
            | Error::NamespaceTerminating(_) => {
                if !self.unusable.swap(true, Relaxed) {
                    log::warn!(error:% = error; "{}", self.lost);
                }
                Ok(None)
            }
            error => Err(error),
        }
    }

    fn place(&self) -> Target<'_> {
        CONFIGMAPS.object(&self.namespace, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_is_unusable_only_without_rights_or_namespace() {
        let map = StateMap::new(("home".into(), "known".into()), "nothing is recorded");
        let read = |error: Error| map.read(&|_| Err(error.clone()));
        let why = || "why".to_owned();
        assert_eq!(read(Error::Forbidden(why())), Ok(None));
        assert_eq!(read(Error::NotServed(why())), Ok(None));
        assert_eq!(read(Error::NotFound(why())), Ok(Some(Value::Null)));
        for error in [Error::TooLarge(why()), Error::Invalid(why()), Error::Unreachable(why())] {
            assert_eq!(read(error.clone()), Err(error));
        }
    }
}
