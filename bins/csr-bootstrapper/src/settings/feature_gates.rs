//! Feature gates of the registration agent, by their names there: each can be set to what this program does.

use shared::flags::Flags;

/// The gates of ocm v1.2.0 (its api module, `feature/feature.go`, DefaultSpokeRegistrationFeatureGates) that cannot be
/// turned on, and why.
const NEVER: [(&str, &str); 4] = [
    ("ClusterClaim", "claims are not reported"),
    ("ClusterProperty", "properties are not reported"),
    ("MultipleHubs", "there is one hub, that of the bootstrap kubeconfig"),
    ("V1beta1CSRAPICompatibility", "certificates are requested by version v1"),
];
const ADDON_MANAGEMENT: &str = "AddonManagement";

/// Whether the availability of add-ons is reported.
///
/// # Errors
/// One sentence about a gate that is unknown, has no boolean, or asks for what this program does not do.
pub(super) fn addon_management(flags: &Flags) -> Result<bool, String> {
    let mut enabled = true;
    for gate in flags.list("feature-gates") {
        let (name, value) = gate.split_once('=').map_or((gate, ""), |(name, value)| (name, value));
        let wanted = match value.trim() {
            "true" => true,
            "false" => false,
            _ => return Err(format!("-feature-gates: {gate:?} is not Name=true or Name=false")),
        };
        let never = NEVER.iter().find(|(never, _)| *never == name.trim());
        match (name.trim(), never) {
            (ADDON_MANAGEMENT, _) => enabled = wanted,
            (_, Some(_)) if !wanted => {}
            (name, Some((_, why))) => return Err(format!("-feature-gates: no {name}, {why}")),
            (name, None) => {
                return Err(format!("-feature-gates: the agent has no feature {name:?}"));
            }
        }
    }
    Ok(enabled)
}
