//! Keeps the hub client's credentials as the Secret or the file says; what cannot be used changes
//! nothing.

use std::{ops::ControlFlow, path::Path, sync::Arc, time::Instant};

use shared::{
    access::Access,
    client::{Client, Reload},
    error::Result,
    kubeconfig,
    pace::Backoff,
    resource::SECRETS,
    secret,
    watch::{self, Change},
};

use crate::{
    settings::{HubCredentials, Settings},
    world::{Target, World},
};

/// Keeps the credentials current until the end.
pub(crate) fn follow(settings: &Settings, world: &World) {
    let Some(hub) = &settings.hub else { return };
    let Some(target) = world.targets.iter().find(|target| target.name == "hub") else {
        return;
    };
    match (&hub.credentials, &world.managed) {
        (HubCredentials::File(path), _) => wait_for_file(path, settings, world, target),
        (HubCredentials::Secret { namespace, name }, Some(client)) => {
            follow_secret(client, namespace, name, settings, world, target);
        }
        (HubCredentials::Secret { .. }, None) => {}
    }
}

fn follow_secret(
    client: &Arc<Client>,
    namespace: &str,
    name: &str,
    settings: &Settings,
    world: &World,
    target: &Target,
) {
    let reload = || {
        let (client, namespace, name) = (client.clone(), namespace.to_owned(), name.to_owned());
        Reload::WhenRefused(Box::new(move || {
            secret::access(&client.get(&SECRETS.object(&namespace, &name))?)
        }))
    };
    let mut absent = false;
    let object = SECRETS.object(namespace, name);
    watch::follow(client, &object, &world.stop, &mut |change| {
        let secret = match change {
            Change::Listed(secrets) => secrets.into_iter().next(),
            Change::Put(secret) => Some(secret),
            Change::Removed(_) => None,
        };
        // One that is being deleted counts as gone, as with the Go sidecar (lc:131-136).
        match secret.filter(|secret| secret["metadata"]["deletionTimestamp"].is_null()) {
            Some(secret) => {
                absent = false;
                take(secret::access(&secret), reload(), settings, target);
            }
            None => {
                if target.drop_client() {
                    log::warn!(
                        "Secret {namespace}/{name} was deleted: renewing stops until it is back"
                    );
                } else if !absent {
                    log::info!("waiting for Secret {namespace}/{name}");
                }
                absent = true;
            }
        }
        world.stop.wake();
        ControlFlow::Continue(())
    });
}

/// A file may come later than this process; from then on the client itself reads it again.
fn wait_for_file(path: &Path, settings: &Settings, world: &World, target: &Target) {
    let mut backoff = Backoff::new(settings.period);
    while target.client().is_none() {
        let file = path.to_owned();
        let reload = Reload::FromFiles(Box::new(move || kubeconfig::from_file(&file)));
        let access = kubeconfig::from_file(path);
        let failed = access.as_ref().err().cloned();
        take(access, reload, settings, target);
        let Some(error) = failed else { break };
        let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
        if world.stop.wait(retry.wait) {
            return;
        }
    }
    world.stop.wake();
}

/// Uses new credentials, or keeps the old ones and says why.
fn take(access: Result<Access>, reload: Reload, settings: &Settings, target: &Target) {
    let first = target.client().is_none();
    let make = |access| Client::new("the hub", access, reload, settings.request_timeout());
    let taken = access.and_then(|access| target.set_access(access, make));
    target.count_read(taken.is_ok());
    match taken {
        Ok(true) if first => log::info!("the hub's credentials are there"),
        Ok(true) => log::info!("the hub's credentials were rotated"),
        Ok(false) => {}
        Err(error) if first => log::warn!("the hub's credentials cannot be used yet: {error}"),
        Err(error) => log::warn!("the hub's credentials in use stay: {error}"),
    }
}
