//! ClusterClaims and ClusterProperties of the spoke: facts about the cluster that the hub is told, for Placements to
//! choose by.

mod follow;
mod rules;

use std::collections::BTreeMap;

use apiclient::{reflector::Store, resource::Resource};

pub(crate) use self::{follow::follow, rules::ClaimRules};

/// More claims than this are left alone: each costs memory.
pub(crate) const MAX_CLAIMS: usize = 1000;

/// Values of claims, by name.
pub(crate) type Claims = BTreeMap<String, String>;

/// A kind whose objects are claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimKind {
    /// OCM's own.
    ClusterClaim,
    /// That of Kubernetes' SIG Multicluster (KEP-2149); of two with one name, this is told.
    ClusterProperty,
}

impl ClaimKind {
    fn resource(self) -> &'static Resource {
        static CLUSTER_CLAIMS: Resource = Resource::new(
            "cluster.open-cluster-management.io",
            "v1alpha1",
            "clusterclaims",
            "ClusterClaim",
        );
        static CLUSTER_PROPERTIES: Resource =
            Resource::new("about.k8s.io", "v1alpha1", "clusterproperties", "ClusterProperty");
        match self {
            Self::ClusterClaim => &CLUSTER_CLAIMS,
            Self::ClusterProperty => &CLUSTER_PROPERTIES,
        }
    }
}

/// The claims in `stores` together, those of a later one in place of earlier ones; `None` while those of one are not
/// known, and without stores.
pub(crate) fn together<'a>(stores: impl Iterator<Item = &'a Store<String>>) -> Option<Claims> {
    let mut together = None;
    for store in stores {
        let claims: Claims = store.read(|claims| {
            let valid = claims.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
            valid.map(|(name, value)| (name.clone(), value.clone())).collect()
        })?;
        together.get_or_insert_with(Claims::new).extend(claims);
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(claims: &[(&str, &str)]) -> Store<String> {
        let store = Store::new(MAX_CLAIMS);
        store.clear();
        for (name, value) in claims {
            store.put(store.revision(), name, Some((*value).to_owned()));
        }
        store
    }

    #[test]
    fn claim_of_a_property_is_told_in_place_of_a_claim_of_that_name() {
        let claims = store(&[("a", "claim"), ("b", "claim")]);
        let unknown = Store::new(MAX_CLAIMS);
        assert_eq!(together([&claims, &unknown].into_iter()), None, "there may be properties");
        let properties = store(&[("b", "property"), ("c", "property")]);
        let all = [("a", "claim"), ("b", "property"), ("c", "property")];
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(together([&claims, &properties].into_iter()), Some(Claims::from(all)));
        assert_eq!(together([].into_iter()), None);
    }
}
