//! Follows the pod and sets the gate as its readiness says.

use std::ops::ControlFlow;

use shared::{resource::PODS, watch};

use crate::{
    gate::{Gate, judge},
    sidecar::Sidecar,
};

/// Keeps the gate current until the end; what cannot be read changes nothing.
pub(crate) fn follow(sidecar: &Sidecar) {
    let Sidecar { settings, managed: Some(client), world, .. } = sidecar else { return };
    let Some((namespace, name)) = &settings.pod else { return };
    watch::follow(client, &PODS.object(namespace, name), &world.stop, &mut |change| {
        let gate = match change.into_object() {
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
