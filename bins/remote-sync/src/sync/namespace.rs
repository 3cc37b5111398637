//! Contents of a target's namespace: whether anything is left in it that Kubernetes does not put into each.

use apiclient::{
    client::Client,
    discovery::ApiResource,
    error::{Error, Result},
    resource::Resource,
};
use serde_json::Value;

use crate::{
    model::{discovery, key},
    sync::pair::PairContext,
};

/// Objects of every namespace (kubernetes `pkg/controller/serviceaccount/serviceaccounts_controller.go`,
/// `pkg/controller/certificates/rootcacertpublisher/publisher.go`).
const IN_EACH: [(&str, &str); 2] =
    [("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")];

/// Events are about what was there. Others may have a kind of that name.
fn is_event(kind: &Resource) -> bool {
    kind.plural == "events" && ["", "events.k8s.io"].contains(&&*kind.group)
}

impl PairContext<'_> {
    /// Returns whether a store knows of another target in the namespace.
    pub(super) fn known_in_namespace(&self) -> bool {
        let own = |kind, name: &str| kind == self.id.kind && name == self.target.name;
        let mut stores = self.remote.target.stores.iter();
        stores
            .any(|(kind, store)| store.has_others(&self.target.namespace, |name| !own(kind, name)))
    }

    /// The first thing in the namespace.
    pub(super) fn first_in_namespace(&self, client: &Client) -> Result<Option<String>> {
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
        // One more than Kubernetes puts there.
        let path = format!("{}?limit=2", kind.resource.collection(&self.target.namespace).path());
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
