//! Watches of a cluster: one thread with a reflector for each list.

use std::sync::Arc;

use apiclient::{error::Result, stop::Stop};
use sidecar::runtime;

use crate::{
    cache::{
        cluster::{SourceSide, TargetSide},
        reflector::Reflector,
        store::ListScope,
    },
    controller::{
        Controller,
        dependents::{NamespaceWatch, SecretWatch},
        handlers::{SourceWatch, TargetWatch, WatchedCluster, WatchedKind},
    },
    settings::{Operation, Settings},
    sync::remote::RemoteSync,
};

/// The part of a target's cluster that has targets: `-target-namespace`, or all of it.
fn targets(settings: &Settings) -> ListScope<'_> {
    let fixed = settings.mapping.fixed.as_ref();
    ListScope { index: 0, namespace: fixed.map(|fixed| &*fixed.target) }
}

/// Watches a cluster with sources: that of `remote`, or the local one for all remotes.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn source(
    controller: &Arc<Controller>,
    side: &Arc<SourceSide>,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let watched = WatchedCluster::new(controller, remote);
    let settings = &controller.context.settings;
    // It lists for itself.
    if settings.operation == Operation::Cleanup {
        return Ok(());
    }
    let scopes: Vec<_> = match settings.source_namespaces.is_empty() {
        true => vec![None],
        false => settings.source_namespaces.iter().cloned().map(Some).collect(),
    };
    for kind in settings.resources.kinds() {
        for (index, namespace) in scopes.iter().cloned().enumerate() {
            let (context, side) = (controller.context.clone(), side.clone());
            let watched = SourceWatch(WatchedKind { cluster: watched.clone(), kind });
            spawn(stop, move |stop| {
                Reflector {
                    cluster: &side.cluster,
                    store: &side.stores[kind],
                    scope: ListScope { index, namespace: namespace.as_deref() },
                    name: None,
                    labels: &context.settings.selector,
                    metadata_only: false,
                    watched,
                }
                .follow(stop);
            })?;
        }
    }
    Ok(())
}

/// Watches a cluster with targets, and the Namespaces and Secrets there.
///
/// # Errors
/// `BadConfig` if no thread can be started.
pub(crate) fn target(
    controller: &Arc<Controller>,
    side: &Arc<TargetSide>,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let watched = WatchedCluster::new(controller, remote);
    let settings = &controller.context.settings;
    if settings.operation == Operation::Cleanup {
        return Ok(());
    }
    for kind in settings.resources.kinds() {
        let (context, side) = (controller.context.clone(), side.clone());
        let watched = TargetWatch(WatchedKind { cluster: watched.clone(), kind });
        spawn(stop, move |stop| {
            Reflector {
                cluster: &side.cluster,
                store: &side.stores[kind],
                scope: targets(&context.settings),
                name: None,
                labels: "",
                metadata_only: false,
                watched,
            }
            .follow(stop);
        })?;
    }
    if settings.create_namespaces {
        namespaces(&watched, side.clone(), stop)?;
    }
    let mut secrets = settings.secrets.iter().enumerate();
    secrets.try_for_each(|(index, name)| secret(&watched, side.clone(), (index, name), stop))
}

fn namespaces(cluster: &WatchedCluster, side: Arc<TargetSide>, stop: &Stop) -> Result<()> {
    let watched = NamespaceWatch { cluster: cluster.clone() };
    let context = cluster.controller.context.clone();
    spawn(stop, move |stop| {
        let scope = targets(&context.settings);
        Reflector {
            cluster: &side.cluster,
            store: &side.namespaces,
            scope: ListScope { namespace: None, ..scope },
            name: scope.namespace,
            labels: "",
            metadata_only: true,
            watched,
        }
        .follow(stop);
    })
}

/// Watches Secrets by name, so that no right to others is needed.
fn secret(
    cluster: &WatchedCluster,
    side: Arc<TargetSide>,
    (index, name): (usize, &str),
    stop: &Stop,
) -> Result<()> {
    let (watched, name) = (SecretWatch { cluster: cluster.clone() }, name.to_owned());
    let context = cluster.controller.context.clone();
    spawn(stop, move |stop| {
        Reflector {
            cluster: &side.cluster,
            store: &side.secrets[index],
            scope: targets(&context.settings),
            name: Some(&name),
            labels: "",
            metadata_only: false,
            watched,
        }
        .follow(stop);
    })
}

/// Starts the thread of one list.
fn spawn(stop: &Stop, follow: impl FnOnce(&Stop) + Send + 'static) -> Result<()> {
    let stop = stop.clone();
    runtime::spawn("watch", move || follow(&stop))
}
