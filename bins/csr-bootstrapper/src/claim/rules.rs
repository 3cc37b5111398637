//! Choice of the claims that the hub is told: pure.

use serde_json::{Value, json};

use super::Claims;

/// These are always told (its api module, `cluster/v1alpha1/types.go`, ReservedClusterClaimNames).
const RESERVED: [&str; 4] = [
    "id.k8s.io",
    "kubeversion.open-cluster-management.io",
    "platform.open-cluster-management.io",
    "product.open-cluster-management.io",
];

/// The settings of that choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRules {
    /// Claims that are not reserved; the rest is left out.
    pub(crate) most_custom: usize,
    /// Claims whose names end with one of these are reserved, too.
    pub(crate) reserved_suffixes: Vec<String>,
}

impl ClaimRules {
    /// The `clusterClaims` of a ManagedCluster, and how many are left out: the reserved ones first, each kind in
    /// the order of names (ocm `pkg/registration/spoke/managedcluster/claim_reconcile.go`).
    pub(crate) fn exposed(&self, claims: &Claims) -> (Vec<Value>, usize) {
        let (reserved, custom): (Vec<_>, Vec<_>) =
            claims.iter().partition(|(name, _)| self.is_reserved(name));
        let left_out = custom.len().saturating_sub(self.most_custom);
        let told = reserved.into_iter().chain(custom.into_iter().take(self.most_custom));
        let told = told.map(|(name, value)| json!({"name": name, "value": value}));
        (told.collect(), left_out)
    }

    fn is_reserved(&self, name: &str) -> bool {
        RESERVED.contains(&name)
            || self.reserved_suffixes.iter().any(|suffix| name.ends_with(suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exposed(names: &[&str], most_custom: usize, suffixes: &[&str]) -> (Vec<String>, usize) {
        let claims = names.iter().map(|name| ((*name).to_owned(), format!("{name}!"))).collect();
        let reserved_suffixes = suffixes.iter().map(|suffix| (*suffix).to_owned()).collect();
        let (told, left_out) = ClaimRules { most_custom, reserved_suffixes }.exposed(&claims);
        let told = told.iter().map(|claim| {
            let name = claim["name"].as_str().unwrap();
            assert_eq!(claim["value"], format!("{name}!"));
            name.to_owned()
        });
        (told.collect(), left_out)
    }

    #[test]
    fn claim_reserved_ones_come_first_and_each_kind_by_name() {
        let names = ["b", "product.open-cluster-management.io", "a", "id.k8s.io", "x.id.k8s.io"];
        let expected = ["id.k8s.io", "product.open-cluster-management.io", "a", "b", "x.id.k8s.io"];
        assert_eq!(exposed(&names, 20, &[]), (expected.map(str::to_owned).into(), 0));
    }

    #[test]
    fn claim_custom_ones_are_truncated() {
        let names = ["c", "a", "b", "id.k8s.io", "platform.open-cluster-management.io"];
        let reserved = ["id.k8s.io", "platform.open-cluster-management.io"].map(str::to_owned);
        for (most, custom, left_out) in
            [(2, &["a", "b"][..], 1), (0, &[], 3), (3, &["a", "b", "c"], 0)]
        {
            let custom = custom.iter().map(|name| (*name).to_owned());
            let expected: Vec<_> = reserved.iter().cloned().chain(custom).collect();
            assert_eq!(exposed(&names, most, &[]), (expected, left_out));
        }
    }

    #[test]
    fn claim_with_a_reserved_suffix_is_reserved() {
        let names = ["a", "z.mycompany.io", "y.mycompany.io", "mycompany.io.b"];
        let expected = ["y.mycompany.io", "z.mycompany.io", "a"].map(str::to_owned);
        assert_eq!(exposed(&names, 1, &["mycompany.io"]), (expected.into(), 1));
        assert_eq!(exposed(&[], 1, &[]), (vec![], 0));
    }
}
