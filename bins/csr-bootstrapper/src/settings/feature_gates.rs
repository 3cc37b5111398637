//! Feature gates of the registration agent, by their names there: each can be set to what this program does.

use sidecar::flags::Flags;

use crate::claim::ClaimKind;

/// The gate of ocm v1.2.0 (its api module, `feature/feature.go`, DefaultSpokeRegistrationFeatureGates; v1.3.0 has the
/// same ones) that changes nothing on any hub of today: it allows for v1beta1 requests where the hub has no v1 (ocm
/// `pkg/registration/register/csr/csr.go`), which each Kubernetes from 1.19 has.
const WITHOUT_EFFECT: &str = "V1beta1CSRAPICompatibility";

/// The gates that can be turned on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FeatureGates {
    /// The availability of add-ons is reported.
    pub(super) addon_management: bool,
    /// ClusterClaims are reported.
    pub(super) cluster_claim: bool,
    /// ClusterProperties are reported.
    pub(super) cluster_property: bool,
    /// One of several hubs is selected.
    pub(super) multiple_hubs: bool,
}

impl FeatureGates {
    /// The gates of the flag, by default as upstream's.
    ///
    /// # Errors
    /// One sentence about a gate that is unknown, has no boolean, or asks for what this program does not do.
    pub(super) fn of(flags: &Flags) -> Result<Self, String> {
        let mut gates = Self {
            addon_management: true,
            cluster_claim: true,
            cluster_property: false,
            multiple_hubs: false,
        };
        for gate in flags.list("feature-gates") {
            gates.set(gate)?;
        }
        Ok(gates)
    }

    fn set(&mut self, gate: &str) -> Result<(), String> {
        let (name, value) = gate.split_once('=').map_or((gate, ""), |(name, value)| (name, value));
        let wanted = match value.trim() {
            "true" => true,
            "false" => false,
            _ => return Err(format!("-feature-gates: {gate:?} is not Name=true or Name=false")),
        };
        match name.trim() {
            "AddonManagement" => self.addon_management = wanted,
            "ClusterClaim" => self.cluster_claim = wanted,
            "ClusterProperty" => self.cluster_property = wanted,
            "MultipleHubs" => self.multiple_hubs = wanted,
            WITHOUT_EFFECT => {}
            name => return Err(format!("-feature-gates: the agent has no feature {name:?}")),
        }
        Ok(())
    }

    /// The kinds of claims that are reported.
    pub(super) fn claim_kinds(&self) -> Vec<ClaimKind> {
        let kinds = [
            (self.cluster_claim, ClaimKind::ClusterClaim),
            (self.cluster_property, ClaimKind::ClusterProperty),
        ];
        kinds.into_iter().filter_map(|(wanted, kind)| wanted.then_some(kind)).collect()
    }
}
