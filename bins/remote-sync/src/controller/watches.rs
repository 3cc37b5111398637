//! Watches of a cluster: one thread with a reflector for each list.

use std::sync::Arc;

use apiclient::{error::Result, stop::Stop};
use sidecar::runtime;

use crate::{
    cache::{
        cluster::{SourceSide, TargetSide},
        reflector::Reflector,
    },
    controller::{
        Controller,
        dependents::{NamespaceWatch, SecretWatch},
        handlers::{SourceWatch, TargetWatch, WatchedCluster, WatchedKind},
    },
    settings::Operation,
    sync::remote::RemoteSync,
};

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
    for kind in settings.resources.kinds() {
        let (context, side) = (controller.context.clone(), side.clone());
        let watched = SourceWatch(WatchedKind { cluster: watched.clone(), kind });
        spawn(stop, move |stop| {
            Reflector {
                cluster: &side.cluster,
                store: &side.stores[kind],
                namespace: context.settings.mapping.source_namespace.as_deref(),
                name: None,
                metadata_only: false,
                watched,
            }
            .follow(stop);
        })?;
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
                namespace: context.settings.mapping.target_namespace.as_deref(),
                name: None,
                metadata_only: false,
                watched,
            }
            .follow(stop);
        })?;
    }
    if side.follows_namespaces {
        namespaces(&watched, side.clone(), stop)?;
    }
    let mut secrets = settings.secrets.iter().enumerate();
    secrets.try_for_each(|(index, name)| secret(&watched, side.clone(), (index, name), stop))
}

fn namespaces(cluster: &WatchedCluster, side: Arc<TargetSide>, stop: &Stop) -> Result<()> {
    let watched = NamespaceWatch { cluster: cluster.clone() };
    spawn(stop, move |stop| {
        Reflector {
            cluster: &side.cluster,
            store: &side.namespaces,
            namespace: None,
            name: None,
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
            namespace: context.settings.mapping.target_namespace.as_deref(),
            name: Some(&name),
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
