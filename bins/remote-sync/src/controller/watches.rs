//! The watches of a cluster: a thread with a reflector for each list.

use std::sync::Arc;

use shared::{error::Result, runtime, stop::Stop};

use crate::{
    cache::{
        cluster::{SourceSide, TargetSide},
        reflector::Reflector,
        store::ListScope,
    },
    controller::{
        Controller,
        handlers::{NamespaceWatch, SecretWatch, SourceWatch, TargetWatch, WatchedCluster},
    },
    sync::remote::RemoteSync,
};

const ALL: ListScope<'static> = ListScope { index: 0, namespace: None };

/// Follows a cluster that owns specs: of `remote`, or the own one for all.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn source(
    controller: &Arc<Controller>,
    side: &Arc<SourceSide>,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let followed = WatchedCluster::new(controller, remote);
    let settings = &controller.context.settings;
    let scopes: Vec<_> = match settings.source_namespaces.is_empty() {
        true => vec![None],
        false => settings.source_namespaces.iter().cloned().map(Some).collect(),
    };
    for kind in 0..settings.resources.len() {
        for (index, namespace) in scopes.iter().cloned().enumerate() {
            let (context, side) = (controller.context.clone(), side.clone());
            let watched = SourceWatch { of: followed.clone(), kind };
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

/// The same of a cluster that owns statuses, with its namespaces and Secrets.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn target(
    controller: &Arc<Controller>,
    side: &Arc<TargetSide>,
    remote: Option<&Arc<RemoteSync>>,
    stop: &Stop,
) -> Result<()> {
    let followed = WatchedCluster::new(controller, remote);
    for kind in 0..controller.context.settings.resources.len() {
        let side = side.clone();
        let watched = TargetWatch { of: followed.clone(), kind };
        spawn(stop, move |stop| {
            Reflector {
                cluster: &side.cluster,
                store: &side.stores[kind],
                scope: ALL,
                name: None,
                labels: "",
                metadata_only: false,
                watched,
            }
            .follow(stop);
        })?;
    }
    namespaces(&followed, side.clone(), stop)?;
    let mut secrets = controller.context.settings.secrets.iter().enumerate();
    secrets.try_for_each(|(index, name)| secret(&followed, side.clone(), (index, name), stop))
}

fn namespaces(followed: &WatchedCluster, side: Arc<TargetSide>, stop: &Stop) -> Result<()> {
    let watched = NamespaceWatch { of: followed.clone() };
    spawn(stop, move |stop| {
        Reflector {
            cluster: &side.cluster,
            store: &side.namespaces,
            scope: ALL,
            name: None,
            labels: "",
            metadata_only: true,
            watched,
        }
        .follow(stop);
    })
}

/// One name each, so that the right to these Secrets and no others is enough.
fn secret(
    followed: &WatchedCluster,
    side: Arc<TargetSide>,
    (index, name): (usize, &str),
    stop: &Stop,
) -> Result<()> {
    let (watched, name) = (SecretWatch { of: followed.clone() }, name.to_owned());
    spawn(stop, move |stop| {
        Reflector {
            cluster: &side.cluster,
            store: &side.secrets[index],
            scope: ALL,
            name: Some(&name),
            labels: "",
            metadata_only: false,
            watched,
        }
        .follow(stop);
    })
}

/// Starts a thread for one list.
fn spawn(stop: &Stop, follow: impl FnOnce(&Stop) + Send + 'static) -> Result<()> {
    let stop = stop.clone();
    runtime::spawn("watch", move || follow(&stop))
}
