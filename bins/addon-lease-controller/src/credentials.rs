//! Keeps the hub client's credentials as the Secret or the file says; what cannot be used changes
//! nothing.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::Value;
use shared::{
    backoff::Backoff,
    client::{Client, Reload, Timeouts},
    config::ClusterConfig,
    error::Result,
    kubeconfig::{self, Reach},
    resource::SECRETS,
    secret, watch,
};

use crate::{
    heartbeat::Heartbeat,
    settings::{HubCredentials, Settings},
    sidecar::Sidecar,
};

/// Keeps the credentials current until the end.
pub(crate) fn follow(sidecar: &Sidecar) {
    let (Some(hub), Some(heartbeat)) = (&sidecar.settings.hub, sidecar.hub()) else { return };
    match (&hub.credentials, &sidecar.managed) {
        (HubCredentials::File(path, reach), _) => wait_for_file(path, *reach, sidecar, heartbeat),
        (HubCredentials::Secret { namespace, name }, Some(client)) => {
            follow_secret(client, (namespace, name), sidecar, heartbeat);
        }
        // Settings ask for the managed cluster whenever there is a Secret.
        (HubCredentials::Secret { .. }, None) => {}
    }
}

fn follow_secret(
    client: &Arc<Client>,
    (namespace, name): (&str, &str),
    sidecar: &Sidecar,
    heartbeat: &Heartbeat,
) {
    let Sidecar { settings, world, .. } = sidecar;
    let reload = || {
        let (client, namespace, name) = (client.clone(), namespace.to_owned(), name.to_owned());
        let read = move || secret::access(&client.get(&SECRETS.object(&namespace, &name))?);
        Reload::WhenRefused(Box::new(read))
    };
    let (mut absent, mut told) = (false, Value::Null);
    let target = SECRETS.object(namespace, name);
    watch::follow(client, &target, &world.stop, &sidecar.secret_trouble, &mut |secret| {
        // One that is being deleted counts as gone, as with the Go sidecar
        // (klusterlet-addon-lease-controller controllers/lease_controller.go:131-136).
        let living = |secret: &Value| secret["metadata"]["deletionTimestamp"].is_null();
        let secret = secret.filter(living);
        let was_absent = std::mem::replace(&mut absent, secret.is_none());
        match secret {
            Some(secret) => {
                // A list brings the same Secret again: that is no news.
                let version = secret["metadata"]["resourceVersion"].clone();
                let access = secret::access(&secret);
                // A large one leaves its room to what is made of it.
                drop(secret);
                let taken = take(access, reload(), settings, heartbeat);
                if let Err(error) = taken
                    && std::mem::replace(&mut told, version.clone()) != version
                {
                    log::warn!("{}: {error}", keeps(heartbeat));
                }
            }
            None if heartbeat.drop_client() => {
                log::warn!(
                    "Secret {namespace}/{name} was deleted: renewing stops until it is back"
                );
            }
            None if !was_absent => log::info!("waiting for Secret {namespace}/{name}"),
            None => {}
        }
        world.stop.wake();
        ControlFlow::Continue(())
    });
}

/// A file that is there at last is noticed after this, whatever the period.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A file may come later than this process; from then on the client itself reads it again.
fn wait_for_file(path: &Path, reach: Reach, sidecar: &Sidecar, heartbeat: &Heartbeat) {
    let Sidecar { settings, world, .. } = sidecar;
    let mut backoff = Backoff::new(settings.period.min(LONGEST_WAIT));
    loop {
        let file = path.to_owned();
        let reload = Reload::FromFiles(Box::new(move || kubeconfig::from_file(&file, reach)));
        let access = kubeconfig::from_file(path, reach);
        let Err(error) = take(access, reload, settings, heartbeat) else {
            break;
        };
        let retry = backoff.failed(&error, Instant::now(), fastrand::f64());
        if retry.tell {
            log::warn!("{}: {error}", keeps(heartbeat));
        }
        if world.stop.wait(retry.wait) {
            return;
        }
    }
    world.stop.wake();
}

/// Uses new credentials from now on.
fn take(
    access: Result<ClusterConfig>,
    reload: Reload,
    settings: &Settings,
    heartbeat: &Heartbeat,
) -> Result<()> {
    let first = heartbeat.client().is_none();
    let timing = Timeouts::with_request(settings.request_timeout());
    let requests = heartbeat.requests.clone();
    let make = |access| Client::counting(heartbeat.target.name(), access, reload, timing, requests);
    let taken = access.and_then(|access| heartbeat.set_access(access, make));
    heartbeat.count_read(taken.is_ok());
    if taken? && first {
        log::info!("the hub's credentials are there");
    }
    Ok(())
}

/// What happens when credentials cannot be used.
fn keeps(heartbeat: &Heartbeat) -> &'static str {
    match heartbeat.client() {
        Some(_) => "the hub's credentials in use stay",
        None => "the hub's credentials cannot be used yet",
    }
}
