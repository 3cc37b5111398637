//! ClusterClaims of the spoke: facts about the cluster that the hub is told, for Placements to choose by.

mod follow;
mod rules;

use std::collections::BTreeMap;

pub(crate) use self::{follow::follow, rules::ClaimRules};

/// Values of claims, by name.
pub(crate) type Claims = BTreeMap<String, String>;
