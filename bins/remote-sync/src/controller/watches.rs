//! What is followed of a cluster: a thread for each list, as [`stream`](crate::cache::reflector) has it.

use std::{sync::Arc, time::Duration};

use shared::{
    error::{Error, Result},
    resource::{NAMESPACES, SECRETS},
    runtime,
    stop::Stop,
};

use crate::{
    cache::{
        cluster::{SourceSide, TargetSide},
        reflector::Reflector,
        store::ListScope,
    },
    connection::ClusterSession,
    controller::Controller,
    model::{
        discovery::{self, ApiResource, ResourceArg},
        mapping::NameMapping,
        object::ObjectReader,
    },
    sync::remote::RemoteSync,
};

/// How long a thread sleeps that waits for another.
const POLL: Duration = Duration::from_millis(100);

/// What the threads of one cluster have in common: of a remote with its route, or of the own cluster.
#[derive(Clone)]
struct Of {
    controller: Arc<Controller>,
    remote: Option<Arc<RemoteSync>>,
    names: NameMapping,
}

impl Of {
    fn new(controller: &Arc<Controller>, remote: Option<&Arc<RemoteSync>>) -> Self {
        let common = || controller.context.settings.mapping.common();
        let names = remote.map_or_else(common, |remote| remote.names.clone());
        Self { controller: controller.clone(), remote: remote.cloned(), names }
    }

    /// The routes that news are for: of a remote its own, of the own cluster all.
    fn remotes(&self) -> Arc<Vec<Arc<RemoteSync>>> {
        let own = |remote: &Arc<RemoteSync>| Arc::new(vec![remote.clone()]);
        self.remote.as_ref().map_or_else(|| self.controller.remotes(), own)
    }

    fn reader(&self) -> &ObjectReader {
        &self.controller.context.reader
    }

    fn is_source(&self, namespace: &str, name: &str) -> bool {
        self.names.canonical_of_source(namespace, name).is_some()
    }

    fn is_target(&self, namespace: &str, name: &str) -> bool {
        self.names.canonical_of_target(namespace, name).is_some()
    }

    /// Whether a kind is of the version that the own cluster has, as far as that is known.
    fn agrees(&self, kind: usize, found: &ApiResource) -> bool {
        let own = self.controller.own_kind(kind);
        own.is_none_or(|own| own.resource.version == found.resource.version)
    }

    /// The kind on a cluster. Of two clusters the own one says the version, for both.
    fn find(&self, kind: usize, session: &ClusterSession) -> Result<ApiResource> {
        let wanted = &self.controller.context.settings.resources[kind];
        if self.remote.is_none() {
            return discovery::resolve(&session.client, wanted);
        }
        loop {
            if let Some(own) = self.controller.own_kind(kind) {
                let version = Some(own.resource.version.to_string());
                return discovery::resolve(
                    &session.client,
                    &ResourceArg { version, ..wanted.clone() },
                );
            }
            if session.stop.wait(POLL) {
                return Err(Error::Unreachable("the connection ended".into()));
            }
        }
    }

    /// Starts a thread for one list.
    fn watch(&self, stop: &Stop, follow: impl FnOnce(&Self, &Stop) + Send + 'static) -> Result<()> {
        let (of, stop) = (self.clone(), stop.clone());
        runtime::spawn("watch", move || follow(&of, &stop))
    }
}

/// Follows a cluster that owns specs: of `remote`, or the own one for all.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn source(
    controller: &Arc<Controller>,
    site: &Arc<SourceSide>,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let of = Of::new(controller, remote);
    let settings = &controller.context.settings;
    let scopes: Vec<_> = match settings.source_namespaces.is_empty() {
        true => vec![None],
        false => settings.source_namespaces.iter().cloned().map(Some).collect(),
    };
    for kind in 0..settings.resources.len() {
        for (index, namespace) in scopes.iter().cloned().enumerate() {
            let site = site.clone();
            of.watch(stop, move |of, stop| {
                Reflector {
                    cluster: &site.cluster,
                    store: &site.stores[kind],
                    scope: ListScope { index, namespace: namespace.as_deref() },
                    name: None,
                    labels: &of.controller.context.settings.selector,
                    metadata_only: false,
                    bodies: Some(&|row| !row.seems_done()),
                    find: &|session| of.find(kind, session),
                    agrees: &|found| of.agrees(kind, found),
                    covers: &|namespace, name| of.is_source(namespace, name),
                    read: &|object| of.reader().source(object),
                    handler: &|change| of.controller.on_source(&of.remotes(), kind, &change),
                }
                .follow(stop);
            })?;
        }
    }
    Ok(())
}

/// The same of a cluster that owns statuses, with its namespaces and Secrets.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn target(
    controller: &Arc<Controller>,
    site: &Arc<TargetSide>,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let of = Of::new(controller, remote);
    for kind in 0..controller.context.settings.resources.len() {
        let site = site.clone();
        of.watch(stop, move |of, stop| {
            Reflector {
                cluster: &site.cluster,
                store: &site.stores[kind],
                scope: ALL,
                name: None,
                labels: "",
                metadata_only: false,
                bodies: Some(&|_| false),
                find: &|session| of.find(kind, session),
                agrees: &|found| of.agrees(kind, found),
                covers: &|namespace, name| of.is_target(namespace, name),
                read: &|object| of.reader().target(object),
                handler: &|change| of.controller.on_target(&of.remotes(), kind, &change),
            }
            .follow(stop);
        })?;
    }
    namespaces(&of, site.clone(), stop)?;
    (0..controller.context.settings.secrets.len())
        .try_for_each(|index| secrets(&of, site.clone(), index, stop))
}

fn namespaces(of: &Of, site: Arc<TargetSide>, stop: &Stop) -> Result<()> {
    of.watch(stop, move |of, stop| {
        Reflector {
            cluster: &site.cluster,
            store: &site.namespaces,
            scope: ALL,
            name: None,
            labels: "",
            metadata_only: true,
            bodies: None,
            agrees: &|_| true,
            find: &|_| {
                Ok(ApiResource { resource: NAMESPACES.clone(), namespaced: false, status: true })
            },
            covers: &|_, name| of.names.covers(name),
            read: &|object| of.reader().namespace(object),
            handler: &|change| of.controller.on_namespace(&of.remotes(), &change),
        }
        .follow(stop);
    })
}

/// One name each, so that the right to these Secrets and no others is enough.
fn secrets(of: &Of, site: Arc<TargetSide>, index: usize, stop: &Stop) -> Result<()> {
    of.watch(stop, move |of, stop| {
        Reflector {
            cluster: &site.cluster,
            store: &site.secrets[index],
            scope: ALL,
            name: Some(&of.controller.context.settings.secrets[index]),
            labels: "",
            metadata_only: false,
            bodies: None,
            agrees: &|_| true,
            find: &|_| {
                Ok(ApiResource { resource: SECRETS.clone(), namespaced: true, status: false })
            },
            covers: &|namespace, name| of.is_target(namespace, name),
            read: &|object| of.reader().upload(object),
            handler: &|change| of.controller.on_secret(&of.remotes(), &change),
        }
        .follow(stop);
    })
}

const ALL: ListScope<'static> = ListScope { index: 0, namespace: None };
