//! Pod readiness: Leases are renewed only while the pod is healthy enough for its add-on to be reported
//! available.

use std::ops::ControlFlow;

use apiclient::{
    client::Client,
    log_object,
    resource::{PODS, Target},
    stop::Stop,
    watch::{self, LastError},
};
use log::Level;
use serde_json::Value;

/// The state of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodReadiness {
    /// Leases are renewed.
    Ready,
    /// Leases are going stale; with the reason.
    NotReady(String),
}

/// The sidecar's own container, whose readiness does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnContainer {
    pub(crate) name: String,
    /// Set by the flag, where a wrong name is a mistake; in the environment the name may mean something
    /// else.
    pub(crate) strict: bool,
}

/// Follows the pod `namespace/name` until `stop` is raised. `update` gets its readiness and returns whether
/// that has changed; a pod that cannot be read changes nothing.
pub(crate) fn follow(
    client: &Client,
    (namespace, name): (&str, &str),
    mut own: Option<&OwnContainer>,
    stop: &Stop,
    last_error: &LastError,
    update: impl Fn(PodReadiness) -> bool,
) {
    let target = PODS.object(namespace, name);
    watch::follow(client, &target, stop, last_error, &mut |pod| {
        let state = match pod {
            Some(pod) => {
                own = own.filter(|own| is_meant(own, &pod, &target));
                readiness(&pod, own.map(|own| &*own.name))
            }
            None => PodReadiness::NotReady("it does not exist".to_owned()),
        };
        if update(state.clone()) {
            match state {
                PodReadiness::Ready => log_object!(Level::Info, target; "the pod is ready"),
                PodReadiness::NotReady(reason) => {
                    log_object!(
                        Level::Info, target, reason = reason;
                        "the pod is not ready: the Lease goes stale"
                    );
                }
            }
        }
        ControlFlow::Continue(())
    });
}

/// Returns whether CONTAINER_NAME in the environment means a container of the pod: others use that name
/// too.
fn is_meant(own: &OwnContainer, pod: &Value, target: &Target<'_>) -> bool {
    let meant = own.strict || has_container(pod, &own.name);
    if !meant {
        let name = &own.name;
        log_object!(
            Level::Warn, target;
            "CONTAINER_NAME is ignored: the pod has no container {name}; its Ready condition counts"
        );
    }
    meant
}

/// The readiness of `pod`: its Ready condition or, if `own_container` is named, the readiness of all its
/// other containers, so that the probe of the sidecar cannot delay its own report.
pub(crate) fn readiness(pod: &Value, own_container: Option<&str>) -> PodReadiness {
    let checked = if pod["metadata"]["deletionTimestamp"].is_string() {
        Err("it is being deleted".to_owned())
    } else {
        own_container.map_or_else(|| ready_condition(pod), |own| others_ready(pod, own))
    };
    checked.map_or_else(PodReadiness::NotReady, |()| PodReadiness::Ready)
}

fn ready_condition(pod: &Value) -> Result<(), String> {
    let mut conditions = items(&pod["status"]["conditions"]);
    match conditions.find(|condition| condition["type"] == "Ready") {
        Some(ready) if ready["status"] == "True" => Ok(()),
        Some(ready) => Err(match ready["message"].as_str() {
            Some(message) if !message.is_empty() => format!("it is not Ready: {message}"),
            _ => "it is not Ready".to_owned(),
        }),
        None => Err("it has no Ready condition yet".to_owned()),
    }
}

fn others_ready(pod: &Value, own: &str) -> Result<(), String> {
    let spec = &pod["spec"];
    // An init container that always restarts is a native sidecar; the others have ended by now.
    let sidecars = items(&spec["initContainers"]).filter(|c| c["restartPolicy"] == "Always");
    let others: Vec<&str> = items(&spec["containers"])
        .chain(sidecars)
        .filter_map(|container| container["name"].as_str())
        .filter(|name| *name != own)
        .collect();
    if !has_container(pod, own) {
        return Err(format!("it has no container {own}, which -container-name says this is"));
    }
    if others.is_empty() {
        return Err(format!("it has no container but {own}"));
    }
    let status = &pod["status"];
    let is_ready = |name: &str| {
        items(&status["containerStatuses"])
            .chain(items(&status["initContainerStatuses"]))
            .any(|status| status["name"] == name && status["ready"] == true)
    };
    match others.iter().find(|name| !is_ready(name)) {
        Some(name) => Err(format!("container {name} is not ready")),
        None => Ok(()),
    }
}

/// Returns whether the pod has a running container of this name, native sidecars included.
fn has_container(pod: &Value, name: &str) -> bool {
    let spec = &pod["spec"];
    let sidecars = items(&spec["initContainers"]).filter(|c| c["restartPolicy"] == "Always");
    items(&spec["containers"]).chain(sidecars).any(|c| c["name"] == name)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_condition(status: &str) -> Value {
        json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})
    }

    /// app and metrics next to the sidecar, a native sidecar and a finished init container.
    fn pod(app: bool, mesh: bool, own: bool) -> Value {
        json!({
            "spec": {
                "containers": [{"name": "app"}, {"name": "lease"}],
                "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}],
            },
            "status": {
                "containerStatuses": [{"name": "app", "ready": app}, {"name": "lease", "ready": own}],
                "initContainerStatuses": [{"name": "setup", "ready": false}, {"name": "mesh", "ready": mesh}],
            },
        })
    }

    #[test]
    fn pod_with_a_true_condition_is_ready() {
        assert_eq!(readiness(&with_condition("True"), None), PodReadiness::Ready);
    }

    #[test]
    fn failed_pod_or_missing_condition_is_not_ready() {
        for pod in
            [with_condition("False"), with_condition("Unknown"), json!({"status": {}}), json!(null)]
        {
            assert!(matches!(readiness(&pod, None), PodReadiness::NotReady(_)), "{pod}");
        }
    }

    #[test]
    fn terminating_pod_is_not_ready() {
        let mut pod = with_condition("True");
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        assert!(matches!(readiness(&pod, None), PodReadiness::NotReady(_)));
    }

    #[test]
    fn named_own_container_does_not_count() {
        assert_eq!(readiness(&pod(true, true, false), Some("lease")), PodReadiness::Ready);
        let not_ready = |reason: &str| PodReadiness::NotReady(reason.to_owned());
        assert_eq!(
            readiness(&pod(false, true, true), Some("lease")),
            not_ready("container app is not ready")
        );
        assert_eq!(
            readiness(&pod(true, false, true), Some("lease")),
            not_ready("container mesh is not ready")
        );
    }

    #[test]
    fn a_native_sidecar_may_be_the_own_container() {
        assert_eq!(readiness(&pod(true, false, true), Some("mesh")), PodReadiness::Ready);
    }

    #[test]
    fn a_wrong_name_for_the_own_container_is_told() {
        let PodReadiness::NotReady(reason) = readiness(&pod(true, true, true), Some("leese"))
        else {
            panic!()
        };
        assert_eq!(reason, "it has no container leese, which -container-name says this is");
    }

    #[test]
    fn health_is_never_vacuous() {
        let alone = json!({"spec": {"containers": [{"name": "lease"}]}, "status": {}});
        assert!(matches!(readiness(&alone, Some("lease")), PodReadiness::NotReady(_)));
        let mut starting = pod(true, true, true);
        starting["status"] = json!({});
        assert!(matches!(readiness(&starting, Some("lease")), PodReadiness::NotReady(_)));
    }
}
