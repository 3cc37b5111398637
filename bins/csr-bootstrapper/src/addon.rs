//! Add-ons of this cluster on the hub: whether each is available, by the Lease that its agent renews.

mod availability;
mod cache;
mod follow;
mod lease_controller;
mod lease_watch;

use shared::resource::Resource;

pub(crate) use self::{cache::AddOns, follow::follow};

/// `addon.open-cluster-management.io/v1alpha1` ManagedClusterAddOn: newer hubs serve it beside v1beta1.
static MANAGED_CLUSTER_ADDONS: Resource = Resource::new(
    "addon.open-cluster-management.io",
    "v1alpha1",
    "managedclusteraddons",
    "ManagedClusterAddOn",
);
