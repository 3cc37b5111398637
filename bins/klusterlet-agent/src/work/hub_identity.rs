//! Identity of the hub: a restored or replaced hub may lack works for a while.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use apiclient::{
    error::{Error, Result},
    resource::Resource,
};

use super::{
    clients::{Clients, lacks_resource},
    duty::WorkDuty,
    io::{Side, WorkIo},
    objects::{MANIFEST_WORKS, ManifestWork},
};

static MANAGED_CLUSTERS: Resource =
    Resource::v1("cluster.open-cluster-management.io", "managedclusters", "ManagedCluster");

/// The interval of retries after a failed check.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// What this process knows about the hub.
#[derive(Default)]
pub(super) struct HubIdentity {
    /// The uid of this cluster's ManagedCluster, once read; `Some(None)` if the hub has no such object or kind.
    uid: Option<Option<String>>,
    /// The newest resourceVersion of any work.
    newest: u64,
    /// The store's count of rewinds at the last check.
    rewinds: u64,
    /// When and why the last comparison failed.
    failure: Option<(Instant, String)>,
    /// Why the hub is in doubt. The doubt lasts until the process ends: any absent work may come back.
    doubt: Option<&'static str>,
}

impl HubIdentity {
    pub(super) fn doubt(&self) -> Option<&'static str> {
        self.doubt
    }

    /// Returns whether the hub was checked, and the last check succeeded.
    pub(super) fn is_certain(&self) -> bool {
        self.uid.is_some() && self.failure.is_none()
    }

    pub(super) fn error(&self) -> Option<&str> {
        self.failure.as_ref().map(|(_, error)| &**error)
    }

    pub(super) fn saw(&mut self, works: &[Arc<ManifestWork>]) {
        let versions = works.iter().filter_map(|work| work.metadata.resource_version.as_deref());
        let newest = versions.filter_map(|version| version.parse().ok()).max();
        self.newest = self.newest.max(newest.unwrap_or_default());
    }

    /// Checks the hub at first, and whenever a list may have gone back. A failed check is retried.
    pub(super) fn follow(&mut self, clients: &mut Clients, duty: &WorkDuty, cluster: &str) {
        let rewinds = duty.works.rewinds();
        let is_early = self.failure.as_ref().is_some_and(|(at, _)| at.elapsed() < CHECK_INTERVAL);
        if is_early || self.is_certain() && self.rewinds == rewinds {
            return;
        }
        let checked = self.check(clients, cluster);
        self.rewinds = rewinds;
        self.failure = checked.err().map(|error| (Instant::now(), error.to_string()));
        if let Some(error) = self.error() {
            log::debug!(error = error; "the hub's identity cannot be read");
        }
    }

    /// Compares the hub with what is known about it; a difference puts it in doubt.
    pub(super) fn check(&mut self, clients: &mut Clients, cluster: &str) -> Result<()> {
        let path = format!(
            "/apis/{}/namespaces/{cluster}/manifestworks?fieldSelector=metadata.name%3D-",
            MANIFEST_WORKS.api_version()
        );
        // Without a resourceVersion, the list has the latest state. No work matches the selector: works may be large.
        let list = clients
            .unless_hanging(Side::Hub, "reads", &MANIFEST_WORKS, |hub| hub.document(&path))?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if version.parse::<u64>().is_ok_and(|version| version < self.newest) {
            self.doubts("the hub's versions went back");
        }
        let uid = match clients.get(Side::Hub, &MANAGED_CLUSTERS.cluster_object(cluster)) {
            Ok(object) => object["metadata"]["uid"].as_str().map(str::to_owned),
            Err(Error::NotFound(_)) => None,
            // A gateway, too, may answer 404 without an object's name.
            Err(Error::NotServed(_)) if lacks_resource(&clients.hub, &MANAGED_CLUSTERS)? => None,
            Err(error) => return Err(error),
        };
        if *self.uid.get_or_insert_with(|| uid.clone()) != uid {
            self.doubts("the hub's ManagedCluster has changed");
        }
        Ok(())
    }

    fn doubts(&mut self, why: &'static str) {
        if self.doubt.replace(why).is_none() {
            log::warn!("{why}: no work is evicted until the next start, see -evict");
        }
    }
}
