//! Follows the pod and sets the gate as its readiness says.

use std::ops::ControlFlow;

use serde_json::Value;
use shared::{resource::PODS, watch};

use crate::{
    gate::{Gate, has_container, judge},
    settings::OwnContainer,
    sidecar::Sidecar,
};

/// Keeps the gate current until the end; what cannot be read changes nothing.
pub(crate) fn follow(sidecar: &Sidecar) {
    let Sidecar { settings, managed: Some(client), world, pod_trouble, .. } = sidecar else {
        return;
    };
    let Some((namespace, name)) = &settings.pod else { return };
    let (target, mut own) = (PODS.object(namespace, name), settings.own_container.as_ref());
    watch::follow(client, &target, &world.stop, pod_trouble, &mut |pod| {
        let gate = match pod {
            Some(pod) => {
                own = own.filter(|own| is_meant(own, &pod));
                judge(&pod, own.map(|own| &*own.name))
            }
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

/// Whether the environment means a container of the pod by CONTAINER_NAME: others use that name too.
fn is_meant(own: &OwnContainer, pod: &Value) -> bool {
    let meant = own.strict || has_container(pod, &own.name);
    if !meant {
        let name = &own.name;
        log::warn!(
            "CONTAINER_NAME is ignored: the pod has no container {name}; its Ready condition counts"
        );
    }
    meant
}
