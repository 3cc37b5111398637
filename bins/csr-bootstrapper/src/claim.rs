//! ClusterClaims and ClusterProperties of the spoke: facts by which Placements choose clusters.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use apiclient::{
    api::ClusterClaim,
    client::Client,
    error::Error,
    reflector::Store,
    resource::Resource,
    stop::Stop,
    watch::{self, Selection},
};
use serde_json::{Value, json};

/// Maximum number of claims: each costs memory.
const MAX_CLAIMS: usize = 1000;
/// Selects all claims, except for the ones that stay on the spoke (ocm
/// `pkg/registration/spoke/managedcluster/claim_reconcile.go`, labelCustomizedOnly).
const SELECTOR: &str = "!open-cluster-management.io/spoke-only";
/// The interval of checks whether the spoke serves a kind.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);
/// Maximum length of a value, by the kind's schema.
const MAX_VALUE: usize = 1024;
/// Claims that are always reported (OCM's api module, `cluster/v1alpha1/types.go`, ReservedClusterClaimNames).
const RESERVED: [&str; 4] = [
    "id.k8s.io",
    "kubeversion.open-cluster-management.io",
    "platform.open-cluster-management.io",
    "product.open-cluster-management.io",
];

pub(crate) type Claims = BTreeMap<String, String>;

/// The kinds of claims, which are also the names of their feature gates: OCM's own, and the kind of Kubernetes' SIG
/// Multicluster (KEP-2149), which takes precedence over a claim of the same name.
pub(crate) static CLAIM_KINDS: [Resource; 2] = [
    Resource::new(
        "cluster.open-cluster-management.io",
        "v1alpha1",
        "clusterclaims",
        "ClusterClaim",
    ),
    Resource::new("about.k8s.io", "v1alpha1", "clusterproperties", "ClusterProperty"),
];

pub(crate) fn store() -> Store<String> {
    Store::new(MAX_CLAIMS).warning()
}

/// Returns the claims of all `stores`; later ones win. `None` while a store does not know its claims, or without any.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRules {
    /// Maximum number of claims that are not reserved; the rest is omitted.
    pub(crate) max_custom: usize,
    /// Claims whose names end with one of these are reserved, too.
    pub(crate) reserved_suffixes: Vec<String>,
}

impl ClaimRules {
    /// Returns the `clusterClaims` of a ManagedCluster, and how many are omitted. Reserved claims are first, each
    /// group is sorted by name (ocm `pkg/registration/spoke/managedcluster/claim_reconcile.go`).
    pub(crate) fn exposed(&self, claims: &Claims) -> (Vec<Value>, usize) {
        let (reserved, custom): (Vec<_>, Vec<_>) =
            claims.iter().partition(|(name, _)| self.is_reserved(name));
        let left_out = custom.len().saturating_sub(self.max_custom);
        let exposed = reserved.into_iter().chain(custom.into_iter().take(self.max_custom));
        let exposed = exposed.map(|(name, value)| json!({"name": name, "value": value}));
        (exposed.collect(), left_out)
    }

    fn is_reserved(&self, name: &str) -> bool {
        RESERVED.contains(&name)
            || self.reserved_suffixes.iter().any(|suffix| name.ends_with(suffix))
    }
}

/// Keeps the claims of a `kind` in `store`; while they cannot be read, the hub's copies stay.
pub(crate) fn follow(kind: &Resource, store: &Store<String>, spoke: &Client, stop: &Stop) {
    let all = Selection::all(kind.everywhere());
    let selection = Selection { labels: SELECTOR, ..all };
    let one = Selection { page: 1, ..selection };
    // OCM's operator may install the kind later. The watch reports other failures.
    while let Err(Error::NotServed(_)) =
        watch::list(spoke, &one, stop, &mut |_| ControlFlow::Break(()))
    {
        log::info!(server = spoke.name(); "no {} is served: none are reported to the hub", kind.kind);
        if stop.wait(RETRY_INTERVAL) {
            return;
        }
    }
    let mut parse =
        |claim: ClusterClaim| Some(claim.spec.value).filter(|value| value.len() <= MAX_VALUE);
    store.run(spoke, &selection, stop, &mut parse, &mut || stop.wake());
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

    /// Each kind by name, the reserved ones first.
    #[test]
    fn claim_custom_ones_are_truncated_and_reserved_ones_are_not() {
        let (id, platform) = ("id.k8s.io", "platform.open-cluster-management.io");
        let names = ["c", "a", "b.my.io", platform, id, "x.id.k8s.io", "my.io.d"];
        for (most, suffixes, expected, left_out) in [
            (20, &[][..], &[id, platform, "a", "b.my.io", "c", "my.io.d", "x.id.k8s.io"][..], 0),
            (2, &[], &[id, platform, "a", "b.my.io"], 3),
            (0, &[], &[id, platform], 5),
            (1, &["my.io"], &["b.my.io", id, platform, "a"], 3),
        ] {
            let claims = names.map(|name| (name.to_owned(), format!("{name}!"))).into();
            let reserved_suffixes = suffixes.iter().map(|it: &&str| (*it).to_owned()).collect();
            let rules = ClaimRules { max_custom: most, reserved_suffixes };
            let claim = |name: &&str| json!({"name": name, "value": format!("{name}!")});
            let expected = expected.iter().map(claim).collect();
            assert_eq!(rules.exposed(&claims), (expected, left_out));
        }
    }
}
