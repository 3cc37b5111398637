//! Follows the pod and sets the gate as its readiness says.

use std::ops::ControlFlow;

use shared::{
    resource::PODS,
    watch::{self, Change},
};

use crate::{
    gate::{Gate, judge},
    sidecar::Sidecar,
};

/// Keeps the gate current until the end; what cannot be read changes nothing.
pub(crate) fn follow(sidecar: &Sidecar) {
    let Sidecar { settings, managed: Some(client), world, .. } = sidecar else { return };
    let Some((namespace, name)) = &settings.pod else { return };
    watch::follow(client, &PODS.object(namespace, name), &world.stop, &mut |change| {
        let pod = match change {
            Change::Listed(pods) => pods.into_iter().next(),
            Change::Put(pod) => Some(pod),
            Change::Removed(_) => None,
        };
        let gate = match pod {
            Some(pod) => judge(&pod, settings.own_container.as_deref()),
            None => Gate::Closed("it does not exist".to_owned()),
        };
        if world.set_gate(gate.clone()) {
            match gate {
                Gate::Open => log::info!("pod {namespace}/{name} is ready"),
                Gate::Closed(reason) => {
                    log::info!("pod {namespace}/{name}: {reason}; the Lease is left to age");
                }
            }
        }
        ControlFlow::Continue(())
    });
}
