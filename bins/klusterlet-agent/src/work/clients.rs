//! Real clients of the hub, and of the managed cluster as field manager `work-agent`.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use apiclient::{
    client::{Client, Patch, Preconditions, Propagation},
    discovery::{self, ApiResource},
    error::{Error, Result},
    event::EventRecord,
    log_object,
    resource::{Resource, Target, valid_label, valid_name},
    time::seconds_time,
};
use log::Level;
use serde_json::Value;

use super::{
    duty::WorkDuty,
    io::{Side, WorkEvent, WorkIo},
    objects::{ManifestWork, ResourceIdentifier, ServerSideApplyConfig, group_resource, uid},
    report::work_target,
};

/// The interval of rediscovery of a version that lacks a kind: its CRD may have been created.
const REDISCOVERY_INTERVAL: Duration = Duration::from_secs(1);
/// A request that fails after this time counts as hanging, as in a webhook; a broken connection fails sooner.
const HANG_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval of retries of requests that hang.
const HANG_INTERVAL: Duration = Duration::from_secs(30);
/// A hang so soon after the last one of its sort is the same: it is no longer logged as a warning.
const SAME_HANG: Duration = Duration::from_secs(600);

/// Both clients, with the results of discovery.
pub(crate) struct Clients {
    pub(crate) hub: Client,
    pub(crate) managed: Client,
    /// Receives counts, and the states of written objects.
    duty: Arc<WorkDuty>,
    /// Results of discovery by `apiVersion`, with the time of the read.
    discovered: BTreeMap<String, (Instant, Result<Vec<ApiResource>>)>,
    /// Sorts of requests that hang or recently hung, with the end of the last one.
    hanging: BTreeMap<String, Instant>,
}

impl Clients {
    pub(crate) fn new(hub: Client, duty: &Arc<WorkDuty>) -> Self {
        let (managed, duty) = (duty.managed.clone(), duty.clone());
        Self { hub, managed, duty, discovered: BTreeMap::new(), hanging: BTreeMap::new() }
    }

    /// Returns the client for a request, and notes that the loop is not stuck: each request ends with its time-out.
    pub(super) fn client(&self, side: Side<'_>) -> Client {
        self.duty.change(|status| status.beat = Some(Instant::now()));
        match side {
            Side::Hub => self.hub.clone(),
            Side::Managed => self.managed.clone(),
            Side::ManagedAs(account) => self.managed.impersonating(&account.user_name()),
        }
    }

    /// Writes an object, and records its state, so that the event of the write is not taken for a change.
    fn write(
        &mut self,
        side: Side<'_>,
        target: &Target<'_>,
        send: impl FnOnce(&Client) -> Result<Value>,
    ) -> Result<Value> {
        let object = self.unless_hanging(side, "writes", target.resource, send)?;
        if side != Side::Hub {
            self.duty.watches.wrote(target.resource, &object);
        }
        Ok(object)
    }

    /// Sends a request, unless one of its sort recently hung, as in a webhook, in an aggregated API or on a silent hub:
    /// all works would wait for each.
    pub(super) fn unless_hanging<T>(
        &mut self,
        side: Side<'_>,
        verb: &str,
        what: impl Display,
        send: impl FnOnce(&Client) -> Result<T>,
    ) -> Result<T> {
        let client = self.client(side);
        let sort = format!("{verb} of {what} on {}", client.name());
        let hang = format!("{sort} hang: tried every {} s", HANG_INTERVAL.as_secs());
        self.hanging.retain(|_, ended| ended.elapsed() < SAME_HANG);
        if self.hanging.get(&sort).is_some_and(|ended| ended.elapsed() < HANG_INTERVAL) {
            return Err(Error::Unreachable(hang));
        }
        let started = Instant::now();
        match send(&client) {
            // A server finally answers 500 if its webhook does not answer.
            Err(error @ (Error::Unreachable(_) | Error::Unavailable { .. }))
                if started.elapsed() >= HANG_TIMEOUT =>
            {
                let known = self.hanging.insert(sort, Instant::now());
                let level = if known.is_some() { Level::Debug } else { Level::Warn };
                log::log!(level, error:% = error; "{hang}");
                // The same error as until the next try, so that conditions do not alternate.
                Err(Error::Unreachable(hang))
            }
            sent => sent,
        }
    }

    /// Returns the first kind of a version that fits; reads the version again if none does.
    fn find(
        &mut self,
        api_version: &str,
        fits: impl Fn(&ApiResource) -> bool,
    ) -> Result<Option<ApiResource>> {
        let found = |kinds: &[ApiResource]| kinds.iter().find(|kind| fits(kind)).cloned();
        if let Some((read, kinds)) = self.discovered.get(api_version) {
            let kind = kinds.as_deref().map(found).map_err(Clone::clone);
            if matches!(kind, Ok(Some(_))) || read.elapsed() < REDISCOVERY_INTERVAL {
                return kind;
            }
        }
        let kinds = self.unless_hanging(Side::Managed, "reads", api_version, |client| {
            read_version(client, api_version)
        });
        let kind = kinds.as_deref().map(found).map_err(Clone::clone);
        // Manifests may name any number of unserved versions.
        self.discovered.retain(|_, (read, kinds)| {
            read.elapsed() < REDISCOVERY_INTERVAL || kinds.as_ref().is_ok_and(|k| !k.is_empty())
        });
        self.discovered.insert(api_version.to_owned(), (Instant::now(), kinds));
        kind
    }
}

impl WorkIo for Clients {
    fn find_kind(&mut self, api_version: &str, kind: &str) -> Result<ApiResource> {
        match self.find(api_version, |served| served.resource.kind == kind) {
            Ok(Some(served)) => Ok(served),
            Ok(None) | Err(Error::NotFound(_) | Error::NotServed(_)) => {
                let sentence = format!("the server doesn't have a resource type {kind:?}");
                Err(Error::NotServed(sentence))
            }
            Err(error) => Err(error),
        }
    }

    fn find_resource(&mut self, group: &str, plural: &str) -> Result<Option<ApiResource>> {
        for version in versions(&self.client(Side::Managed), group)? {
            // The server has just listed the version: a 404 is an error.
            let found = self.find(&version, |served| served.resource.plural == plural)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn get(&mut self, side: Side<'_>, target: &Target<'_>) -> Result<Value> {
        let result =
            self.unless_hanging(side, "reads", target.resource, |client| client.get(target));
        if side != Side::Hub && matches!(result, Err(Error::NotServed(_))) {
            // Its CRD may be gone.
            self.discovered.remove(&target.resource.api_version());
        }
        result
    }

    fn create(&mut self, side: Side<'_>, target: &Target<'_>, object: &Value) -> Result<Value> {
        self.write(side, target, |client| client.create(target, object))
    }

    fn patch(&mut self, side: Side<'_>, target: &Target<'_>, patch: &Value) -> Result<Value> {
        self.write(side, target, |client| client.patch(target, Patch::Merge, patch))
    }

    fn replace(&mut self, side: Side<'_>, target: &Target<'_>, object: &Value) -> Result<Value> {
        self.write(side, target, |client| client.replace(target, object))
    }

    fn apply(
        &mut self,
        side: Side<'_>,
        target: &Target<'_>,
        object: &Value,
        config: &ServerSideApplyConfig,
    ) -> Result<Value> {
        self.write(side, target, |client| {
            client.apply(target, object, config.field_manager(), config.force)
        })
    }

    fn delete(&mut self, target: &Target<'_>, preconditions: &Preconditions) -> Result<()> {
        self.unless_hanging(Side::Managed, "writes", target.resource, |client| {
            client.delete(target, Propagation::Background, preconditions)
        })
    }

    fn tell(&mut self, work: &ManifestWork, event: &WorkEvent<'_>) {
        let (reason, message) = match event {
            WorkEvent::Applied => {
                ("AppliedManifestWorkComplete", "Apply manifest work complete".to_owned())
            }
            WorkEvent::ApplyFailed(error) => ("AppliedManifestWorkFailed", (*error).to_owned()),
            WorkEvent::Evicted => {
                self.duty.change(|status| status.evicted += 1);
                let message = "the work is absent, and what it applied is deleted".to_owned();
                ("AppliedManifestWorkEvicted", message)
            }
        };
        let (target, warning) = (work_target(work), !matches!(event, WorkEvent::Applied));
        let level = if warning { Level::Warn } else { Level::Info };
        log_object!(level, target, event = reason; "{message}");
        let controller = env!("CARGO_PKG_NAME");
        let event = EventRecord { controller, reason, note: message, warning };
        let written = self.unless_hanging(Side::Hub, "writes", "events", |hub| {
            event.write(hub, &target, Some(uid(&work.metadata)))
        });
        if let Err(error) = written {
            log_object!(Level::Debug, target, error:% = error; "the Event is not written");
        }
    }

    fn drift_mended(&mut self, object: &ResourceIdentifier) {
        self.duty.change(|status| status.drift += 1);
        let ResourceIdentifier { group, resource, namespace, name } = object;
        let kind = group_resource(group, resource);
        log::info!(kind = kind, namespace = namespace, name = name; "put right what others changed");
    }

    fn now(&self) -> String {
        seconds_time(SystemTime::now())
    }
}

/// Returns the served versions of a group, each as `apiVersion`.
fn versions(client: &Client, group: &str) -> Result<Vec<String>> {
    if group.is_empty() {
        return Ok(vec!["v1".to_owned()]);
    }
    let document = match discovery::document(client, &format!("/apis/{group}"), "APIGroup") {
        Err(error @ (Error::NotFound(_) | Error::NotServed(_))) => {
            return if lacks_group(client, group)? { Ok(Vec::new()) } else { Err(error) };
        }
        document => document?,
    };
    let versions = discovery::versions(&document).into_iter();
    Ok(versions.map(|version| format!("{group}/{version}")).collect())
}

/// Returns whether discovery succeeds and lacks a resource.
pub(super) fn lacks_resource(client: &Client, resource: &Resource) -> Result<bool> {
    let version = resource.api_version();
    if !versions(client, &resource.group)?.contains(&version) {
        return Ok(true);
    }
    let kinds = read_version(client, &version)?;
    Ok(kinds.iter().all(|served| served.resource.plural != resource.plural))
}

/// Returns whether the list of all groups lacks this group: a 404 alone may come from a gateway.
fn lacks_group(client: &Client, group: &str) -> Result<bool> {
    let document = discovery::document(client, "/apis", "APIGroupList")?;
    match document["groups"].as_array() {
        Some(groups) => Ok(groups.iter().all(|listed| listed["name"] != group)),
        None => Err(Error::BadPeer("the APIGroupList of /apis has no groups".to_owned())),
    }
}

/// Reads the kinds of a version; an invalid version has none.
fn read_version(client: &Client, api_version: &str) -> Result<Vec<ApiResource>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if !valid_label(version) || !(group.is_empty() || valid_name(group)) {
        return Ok(Vec::new());
    }
    discovery::resources(client, group, version, &[])
}
