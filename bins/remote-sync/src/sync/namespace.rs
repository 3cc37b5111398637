//! Namespaces of targets. A namespace is created when a write shows that it is missing. `-namespace-policy empty`
//! deletes it once it holds only objects that Kubernetes puts into each namespace.

use std::{
    ops::ControlFlow::{Break, Continue},
    time::Instant,
};

use apiclient::{
    client::{Client, Preconditions, Propagation},
    discovery::ApiResource,
    error::{Error, Result, optional},
    resource::{NAMESPACES, Resource},
};
use log::Level;
use serde_json::Value;

use crate::{
    model::{
        discovery, key,
        object::{Cached, SourceObject, terminating},
    },
    sync::{
        decide::SyncAction,
        observed::Attempt,
        pair::{PairContext, log_pair},
        patch,
        status::{Next, Reason},
    },
};

/// Objects in each namespace (kubernetes `pkg/controller/serviceaccount/serviceaccounts_controller.go`,
/// `pkg/controller/certificates/rootcacertpublisher/publisher.go`).
const IN_EACH: [(&str, &str); 2] =
    [("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")];

/// Returns whether the kind is Kubernetes' Event, which does not count. Other groups may have a kind of this name.
fn is_event(kind: &Resource) -> bool {
    kind.plural == "events" && ["", "events.k8s.io"].contains(&&*kind.group)
}

impl PairContext<'_> {
    pub(super) fn create_namespace(
        &self,
        source: &Cached<SourceObject>,
        attempt: &mut Attempt,
    ) -> Result<Next> {
        let rules = self.rules();
        if !rules.creates_namespaces {
            return Ok(self.wait_for_namespace(Reason::NoNamespace));
        }
        attempt.namespace_created = true;
        self.remote.metrics.wrote("create_namespace");
        let origin = rules.deletes_namespaces.then(|| self.origin(source));
        let (name, keys) = (self.target.namespace(), &self.context.reader.keys);
        let body = patch::namespace(name, origin.as_ref(), keys);
        let place = NAMESPACES.cluster_object(name);
        match self.target.ask(&|client| client.create(&place, &body)) {
            Ok(_) => log_pair!(Level::Info, self, "namespace created", target = name),
            Err(Error::AlreadyExists(_)) => {}
            Err(Error::Forbidden(_)) => {
                return Ok(self.wait_for_namespace(Reason::NoNamespace));
            }
            Err(error) => return Err(error),
        }
        Ok(Continue(()))
    }

    /// Delays all pairs in the namespace, as the server would refuse each write.
    pub(super) fn wait_for_namespace(&self, reason: Reason) -> Next {
        self.remote.note_missing(self.target.namespace(), reason, Instant::now());
        Break(reason)
    }

    /// Deletes the target's namespace if this instance created it for this cluster and it is empty. In doubt, it stays.
    pub(super) fn delete_namespace(&self, attempt: &mut Attempt) -> Result<Next> {
        attempt.namespace_done = true;
        let name = self.target.namespace();
        let place = NAMESPACES.cluster_object(name);
        let keep = |reason: &str| {
            log_pair!(Level::Info, self, "namespace kept", target = name, reason = reason);
            Ok(Continue(()))
        };
        let namespace = match self.target.ask(&|client| client.get(&place)) {
            Err(Error::NotFound(_)) => return Ok(Continue(())),
            Err(error @ Error::Forbidden(_)) => return keep(&error.to_string()),
            found => found?,
        };
        let created_for = self.context.reader.created_for(&namespace);
        let is_ours = created_for.is_some_and(|origin| origin.cluster == self.source_mark);
        // Nothing proves that an unverified cluster is the same one.
        if terminating(&namespace) || !is_ours || self.remote.source.cluster.uid().is_none() {
            return Ok(Continue(()));
        }
        let is_shared = || self.known_in_namespace() || self.remote.shares_namespace(self.id);
        if is_shared() {
            // Saves many lists.
            return keep("another target is in it, or will be");
        }
        match self.target.ask(&|client| self.first_in_namespace(client)) {
            // Another worker may have created a target meanwhile.
            Ok(None) if is_shared() => return keep("another target is in it, or will be"),
            Ok(None) => {}
            Ok(Some(found)) => return keep(&found),
            Err(error @ (Error::Unreachable(_) | Error::Unauthorized(_))) => return Err(error),
            Err(error) => return keep(&error.to_string()),
        }
        if let Break(reason) = self.may_write(SyncAction::DeleteNamespace) {
            return Ok(Break(reason));
        }
        let seen = |field: &str| namespace["metadata"][field].as_str().map(str::to_owned);
        let exactly = Preconditions { uid: seen("uid"), resource_version: seen("resourceVersion") };
        optional(self.target.ask(&|c| c.delete(&place, Propagation::Background, &exactly)))?;
        log_pair!(Level::Info, self, "namespace deleted", target = name);
        Ok(Continue(()))
    }

    /// Returns whether a store has another target in the namespace.
    fn known_in_namespace(&self) -> bool {
        let mut stores = self.remote.target.stores.iter().enumerate();
        stores.any(|(kind, store)| {
            let is_other = |key: &str| {
                let is_own = kind == self.id.kind && *key == *self.target.key;
                key::split(key).0 == self.target.namespace() && !is_own
            };
            store.count_where(is_other) > 0
        })
    }

    fn first_in_namespace(&self, client: &Client) -> Result<Option<String>> {
        for kind in discovery::namespaced(client)? {
            if let Some(name) = self.first_of(client, &kind)? {
                return Ok(Some(format!("{} {name} is in it", kind.resource.plural)));
            }
        }
        Ok(None)
    }

    fn first_of(&self, client: &Client, kind: &ApiResource) -> Result<Option<String>> {
        let plural = &*kind.resource.plural;
        if is_event(&kind.resource) {
            return Ok(None);
        }
        // One more than Kubernetes puts into each namespace.
        let path = format!("{}?limit=2", kind.resource.collection(self.target.namespace()).path());
        let list = client.document(&path)?;
        let items = list["items"].as_array().ok_or_else(|| {
            Error::BadPeer(format!("list {plural} on {}: the answer is not a list", client.name()))
        })?;
        let mut names = items.iter().map(|item: &Value| key::namespaced_name(item).1);
        let usual =
            |name: &str| kind.resource.group.is_empty() && IN_EACH.contains(&(plural, name));
        Ok(names.find(|name| !usual(name)).map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_group_s_events_are_content() {
        let of = |group: &str| {
            is_event(&Resource {
                group: group.to_owned().into(),
                ..Resource::v1("", "events", "Event")
            })
        };
        assert!(of("") && of("events.k8s.io") && !of("calendar.example.com"));
    }
}
