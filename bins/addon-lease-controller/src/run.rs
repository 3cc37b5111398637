//! Threads of the program: one per Lease, one per watch, one for the election. All end with the process.

use std::{sync::Arc, time::Instant};

use apiclient::{error::Result, log_object, resource::PODS, stop::Stop};
use log::Level;
use sidecar::{
    diagnostics,
    flags::Flags,
    runtime::{self, End},
};

use crate::{pod, report::Reporter, settings::Settings, state::App};

/// Works until `stop` is raised.
///
/// # Errors
/// Refusals at the start: a kubeconfig that cannot be used, a port that cannot be served.
pub(crate) fn run(settings: &Settings, flags: &Flags, stop: &Stop) -> Result<End> {
    let app = Arc::new(App::new(settings, flags, stop)?);
    diagnostics::serve(flags, None, stop, Reporter(app.clone()))?;
    if stop.wait(settings.startup_delay) {
        return Ok(End::Stopped);
    }
    start(&app)?;
    stop.wait_until_raised();
    app.leadership.wait_for_release(Instant::now());
    Ok(End::Stopped)
}

/// Starts all threads.
fn start(app: &Arc<App>) -> Result<()> {
    let settings = &app.settings;
    for index in 0..app.renewers.len() {
        runtime::spawn_with("renew", app, move |app| {
            app.renewers[index].run(&app.stop, || app.may_renew())
        })?;
    }
    if let Some(hub) = &app.hub {
        let (hub, stop) = (hub.clone(), app.stop.clone());
        runtime::spawn("credentials", move || hub.run(&stop))?;
    }
    if settings.pod.is_some() {
        runtime::spawn_with("pod", app, follow_pod)?;
    }
    if let Some(namespace) = &settings.election {
        let lease = (&**namespace, &*settings.election_name());
        app.leadership.start(lease, |target| {
            log_object!(Level::Warn, target; "lost leader election: renewals stop");
        })?;
    }
    Ok(())
}

fn follow_pod(app: &App) {
    if let (Some((namespace, name)), Some(client)) = (&app.settings.pod, &app.managed) {
        let (target, own) = (PODS.object(namespace, name), app.settings.own_container.as_ref());
        pod::follow(client, &target, &app.pods, own, &app.stop);
    }
}
