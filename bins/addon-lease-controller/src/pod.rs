//! Pod readiness: an add-on is available, and its Leases are renewed, only while its pod is ready.

use apiclient::{
    api::{ObjectMeta, null_as_default},
    client::Client,
    log_object,
    reflector::{Lookup, Store},
    resource::Target,
    stop::Stop,
    watch::Selection,
};
use log::Level;
use serde::Deserialize;

/// The fields of a Pod that are used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    metadata: ObjectMeta,
    spec: PodSpec,
    #[serde(deserialize_with = "null_as_default")]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    #[serde(deserialize_with = "null_as_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "null_as_default")]
    init_containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    #[serde(deserialize_with = "null_as_default")]
    conditions: Vec<PodCondition>,
    #[serde(deserialize_with = "null_as_default")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "null_as_default")]
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct PodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    name: String,
    ready: bool,
}

/// Whether Leases are renewed, or why not.
pub(crate) type PodReadiness = Result<(), String>;

/// The sidecar's own container, whose readiness is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnContainer {
    pub(crate) name: String,
    /// Whether the flag set the name: a wrong one is an error then. The environment's may mean something else.
    pub(crate) strict: bool,
}

/// Watches the readiness of the pod `target` until `stop` is raised, and logs its changes.
pub(crate) fn follow(
    client: &Client,
    target: &Target<'_>,
    store: &Store<PodReadiness>,
    mut own: Option<&OwnContainer>,
    stop: &Stop,
) {
    let mut parse = |pod: Pod| {
        own = own.filter(|own| is_meant(own, &pod, target));
        Some(readiness(&pod, own.map(|own| &*own.name)))
    };
    let mut before = None;
    store.run(client, &Selection::all(*target), stop, &mut parse, &mut || {
        stop.wake();
        let readiness = of_store(store, target.name.unwrap_or_default());
        match &readiness {
            // Only the error of the watch has changed.
            now if before.as_ref() == Some(now) => {}
            Ok(()) => log_object!(Level::Info, target; "the pod is ready"),
            Err(reason) => log_object!(
                Level::Info, target, reason = reason;
                "the pod is not ready: the Lease goes stale"
            ),
        }
        before = Some(readiness);
    });
}

/// The last known readiness of the pod `name`.
pub(crate) fn of_store(store: &Store<PodReadiness>, name: &str) -> PodReadiness {
    let reason = match store.get(name) {
        Lookup::Object(readiness) => return readiness,
        Lookup::Absent => "it does not exist",
        Lookup::Invalid | Lookup::Unknown => "it has not been seen yet",
    };
    Err(reason.to_owned())
}

/// Returns whether CONTAINER_NAME in the environment names a container of the pod: others use that variable, too.
fn is_meant(own: &OwnContainer, pod: &Pod, target: &Target<'_>) -> bool {
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

/// The readiness of `pod`: its Ready condition or, with `own_container`, the readiness of all other containers. The
/// sidecar's own probe must not delay its report.
pub(crate) fn readiness(pod: &Pod, own_container: Option<&str>) -> PodReadiness {
    if pod.metadata.deletion_timestamp.is_some() {
        return Err("it is being deleted".to_owned());
    }
    own_container.map_or_else(|| ready_condition(pod), |own| others_ready(pod, own))
}

fn ready_condition(pod: &Pod) -> PodReadiness {
    match pod.status.conditions.iter().find(|condition| condition.kind == "Ready") {
        Some(ready) if ready.status == "True" => Ok(()),
        Some(ready) => Err(match ready.message.as_deref() {
            Some(message) if !message.is_empty() => format!("it is not Ready: {message}"),
            _ => "it is not Ready".to_owned(),
        }),
        None => Err("it has no Ready condition yet".to_owned()),
    }
}

fn others_ready(pod: &Pod, own: &str) -> PodReadiness {
    if !has_container(pod, own) {
        return Err(format!("it has no container {own}, which -container-name says this is"));
    }
    let others = running(pod).map(|container| &*container.name);
    let mut others = others.filter(|name| *name != own).peekable();
    if others.peek().is_none() {
        return Err(format!("it has no container but {own}"));
    }
    let (status, sidecars) = (&pod.status.container_statuses, &pod.status.init_container_statuses);
    let is_ready = |name: &str| status.iter().chain(sidecars).any(|it| it.name == name && it.ready);
    match others.find(|name| !is_ready(name)) {
        Some(name) => Err(format!("container {name} is not ready")),
        None => Ok(()),
    }
}

/// Returns whether the pod has a long-running container of this name, including native sidecars.
fn has_container(pod: &Pod, name: &str) -> bool {
    running(pod).any(|container| container.name == name)
}

/// An init container that always restarts is a native sidecar; other ones have finished by now.
fn running(pod: &Pod) -> impl Iterator<Item = &Container> {
    let is_sidecar = |it: &&Container| it.restart_policy.as_deref() == Some("Always");
    pod.spec.containers.iter().chain(pod.spec.init_containers.iter().filter(is_sidecar))
}

#[cfg(test)]
mod tests {
    use apiclient::api::parse;
    use serde_json::{Value, json};

    use super::*;

    fn typed(pod: Value) -> Pod {
        parse(pod).unwrap()
    }

    fn with_condition(status: &str) -> Pod {
        typed(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}))
    }

    /// app and metrics next to the sidecar, a native sidecar and a finished init container.
    fn pod(app: bool, mesh: bool, own: bool) -> Pod {
        typed(json!({
            "spec": {
                "containers": [{"name": "app"}, {"name": "lease"}],
                "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}],
            },
            "status": {
                "containerStatuses": [{"name": "app", "ready": app}, {"name": "lease", "ready": own}],
                "initContainerStatuses": [{"name": "setup", "ready": false}, {"name": "mesh", "ready": mesh}],
            },
        }))
    }

    #[test]
    fn pod_with_a_true_condition_is_ready() {
        assert_eq!(readiness(&with_condition("True"), None), Ok(()));
    }

    #[test]
    fn failed_pod_or_missing_condition_is_not_ready() {
        for pod in [with_condition("False"), with_condition("Unknown"), Pod::default()] {
            assert!(readiness(&pod, None).is_err(), "{pod:?}");
        }
    }

    #[test]
    fn terminating_pod_is_not_ready() {
        let mut pod = with_condition("True");
        pod.metadata.deletion_timestamp = Some("2026-11-21T12:00:00Z".to_owned());
        assert!(readiness(&pod, None).is_err());
    }

    #[test]
    fn named_own_container_does_not_count() {
        assert_eq!(readiness(&pod(true, true, false), Some("lease")), Ok(()));
        let not_ready = |reason: &str| Err(reason.to_owned());
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
        assert_eq!(readiness(&pod(true, false, true), Some("mesh")), Ok(()));
    }

    #[test]
    fn a_wrong_name_for_the_own_container_is_told() {
        let reason = readiness(&pod(true, true, true), Some("leese")).unwrap_err();
        assert_eq!(reason, "it has no container leese, which -container-name says this is");
    }

    #[test]
    fn health_is_never_vacuous() {
        let alone = typed(json!({"spec": {"containers": [{"name": "lease"}]}, "status": {}}));
        assert!(readiness(&alone, Some("lease")).is_err());
        let mut starting = pod(true, true, true);
        starting.status = Default::default();
        assert!(readiness(&starting, Some("lease")).is_err());
    }
}
