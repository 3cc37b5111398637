//! ClusterClaims and ClusterProperties of the spoke: facts about the cluster that the hub is told, for Placements to
//! choose by.

mod follow;
mod rules;

use std::collections::BTreeMap;

use apiclient::resource::Resource;

pub(crate) use self::{follow::follow, rules::ClaimRules};

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

/// The claims of these kinds together, those of a later kind in place of earlier ones; `None` while those of one are not
/// known, and without kinds.
pub(crate) fn together<'a>(
    known: &'a BTreeMap<ClaimKind, Claims>,
    kinds: &[ClaimKind],
) -> Option<BTreeMap<&'a str, &'a str>> {
    let (first, others) = kinds.split_first()?;
    let mut together: BTreeMap<_, _> = by_reference(known.get(first)?).collect();
    for kind in others {
        together.extend(by_reference(known.get(kind)?));
    }
    Some(together)
}

fn by_reference(claims: &Claims) -> impl Iterator<Item = (&str, &str)> {
    claims.iter().map(|(name, value)| (&**name, &**value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_of_a_property_is_told_in_place_of_a_claim_of_that_name() {
        let kinds = [ClaimKind::ClusterClaim, ClaimKind::ClusterProperty];
        let claims = |all: &[(&str, &str)]| -> Claims {
            all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let mut known = BTreeMap::from([(kinds[0], claims(&[("a", "claim"), ("b", "claim")]))]);
        assert_eq!(together(&known, &kinds), None, "there may be properties");
        assert_eq!(
            together(&known, &kinds[..1]),
            Some(BTreeMap::from([("a", "claim"), ("b", "claim")]))
        );
        known.insert(kinds[1], claims(&[("b", "property"), ("c", "property")]));
        let all = BTreeMap::from([("a", "claim"), ("b", "property"), ("c", "property")]);
        assert_eq!(together(&known, &kinds), Some(all));
        assert_eq!(together(&known, &[]), None);
    }
}
