//! The answers of an API server that the programs rely on. The tests pass on a real kube-apiserver, so the
//! embedded one is like it where they pass there.

use apiclient::{
    client::{Patch, Preconditions, Propagation},
    error::{Error, Result},
    resource::{LEASES, SECRETS, Target},
};
use serde_json::{Value, json};
use suite::cluster::{Cluster, resource};

struct Case {
    cluster: std::sync::Arc<Cluster>,
    namespace: String,
}

impl Case {
    fn new() -> Self {
        let cluster = if suite::real() { Cluster::real("hub") } else { Cluster::embedded("hub") };
        let namespace = cluster.new_namespace("answers");
        Self { cluster, namespace }
    }

    fn lease(&self) -> Target<'_> {
        LEASES.object(&self.namespace, "x")
    }

    fn body(&self) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "x", "namespace": self.namespace},
            "spec": {"leaseDurationSeconds": 60},
        })
    }

    fn create(&self) -> Value {
        self.cluster.create(&self.lease(), &self.body())
    }

    fn put(&self, lease: &Value) -> Result<Value> {
        self.cluster.client.replace(&self.lease(), lease)
    }

    fn patch(&self, kind: Patch, patch: &Value) -> Result<Value> {
        self.cluster.client.patch(&self.lease(), kind, patch)
    }

    /// The answer with what differs from run to run taken out.
    fn said(&self, answer: Result<Value>) -> String {
        match answer {
            Ok(_) => "ok".to_owned(),
            Err(error) => self.told(&error),
        }
    }

    fn told(&self, error: &Error) -> String {
        let variant = format!("{error:?}");
        let variant = variant.split(['(', ' ']).next().unwrap_or_default().to_owned();
        let message = error.message().replace(&self.namespace, "NS");
        let (_, answer) = message.split_once(" on hub: ").unwrap_or(("", &message));
        format!("{variant} {answer}")
    }

    #[track_caller]
    fn says(&self, answer: Result<Value>, expected: &str) {
        let said = self.said(answer);
        assert!(said.starts_with(expected), "\n     said {said:?}\n expected {expected:?}");
    }
}

#[test]
fn a_put_needs_the_version_of_a_lease_that_exists() {
    let case = Case::new();
    let lease = case.create();
    case.says(
        case.put(&case.body()),
        "Invalid 422: leases.coordination.k8s.io \"x\" is invalid: metadata.resourceVersion: Invalid value: ",
    );
    let mut without_uid = lease.clone();
    without_uid["metadata"].as_object_mut().expect("metadata").remove("uid");
    case.says(case.put(&without_uid), "ok");
    case.says(case.patch(Patch::Merge, &json!({"metadata": {"labels": {"a": "b"}}})), "ok");
    case.says(
        case.put(&without_uid),
        "Conflict 409: Operation cannot be fulfilled on leases.coordination.k8s.io \"x\": the object has \
         been modified; please apply your changes to the latest version and try again",
    );
}

#[test]
fn a_put_of_a_deleted_lease_conflicts_by_its_uid_or_creates() {
    let case = Case::new();
    let lease = case.create();
    case.cluster.delete(&case.lease());
    case.says(
        case.put(&lease),
        "Conflict 409: Operation cannot be fulfilled on leases.coordination.k8s.io \"x\": StorageError: \
         invalid object, Code: 4, Key: /",
    );
    let mut without_uid = lease.clone();
    without_uid["metadata"].as_object_mut().expect("metadata").remove("uid");
    case.says(case.put(&without_uid), "ok");
    case.cluster.delete(&case.lease());
    case.says(case.put(&case.body()), "ok");
}

#[test]
fn a_lease_s_fields_are_checked() {
    let case = Case::new();
    let with = |field: &str, value: Value| {
        let mut lease = case.body();
        lease["spec"][field] = value;
        case.cluster.client.create(&case.lease(), &lease)
    };
    for time in ["2026-11-21T12:00:00Z", "2026-11-21T12:00:00.123Z", "yesterday"] {
        case.says(with("renewTime", json!(time)), "Invalid 400: ");
    }
    case.says(
        with("leaseDurationSeconds", json!(0)),
        "Invalid 422: Lease.coordination.k8s.io \"x\" is invalid: spec.leaseDurationSeconds: Invalid value: 0: \
         must be greater than 0",
    );
    case.says(with("renewTime", json!("2026-11-21T12:00:00.123456Z")), "ok");
    case.says(
        case.cluster.client.create(&case.lease(), &case.body()),
        "AlreadyExists 409: leases.coordination.k8s.io \"x\" already exists",
    );
}

#[test]
fn patches_are_refused_in_their_own_ways() {
    let case = Case::new();
    let lease = case.create();
    case.says(case.patch(Patch::Merge, &json!({"metadata": {"labels": {"a": "b"}}})), "ok");
    let stale = json!({"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]}});
    case.says(case.patch(Patch::Merge, &stale), "Conflict 409: ");
    let other = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}});
    case.says(case.patch(Patch::Merge, &other), "Invalid 422: ");
    let failed = json!([{"op": "test", "path": "/metadata/name", "value": "y"}]);
    case.says(case.patch(Patch::Json, &failed), "Conflict 422: ");
    let nowhere = json!([{"op": "remove", "path": "/metadata/annotations/none"}]);
    case.says(case.patch(Patch::Json, &nowhere), "Conflict 422: ");
    let refused = json!([{"op": "replace", "path": "/spec/leaseDurationSeconds", "value": 0}]);
    case.says(case.patch(Patch::Json, &refused), "Invalid 422: ");
    let status = Target { subresource: Some("status"), ..case.lease() };
    let answer = case.cluster.client.patch(&status, Patch::Merge, &json!({}));
    case.says(answer, "NotServed 404: the server could not find the requested resource");
}

#[test]
fn what_is_not_there_is_said_in_three_ways() {
    let case = Case::new();
    case.says(
        case.cluster.client.get(&case.lease()),
        "NotFound 404: leases.coordination.k8s.io \"x\" not found",
    );
    for (group, words) in [
        ("coordination.k8s.io", "NotServed 404: the server could not find the requested resource"),
        ("spoons.example.com", "NotServed 404 without a Kubernetes Status"),
    ] {
        let unknown = resource(group, "spoons", "Spoon");
        let answer = case.cluster.client.get(&unknown.object(&case.namespace, "x"));
        case.says(answer, words);
    }
    let mut elsewhere = case.body();
    elsewhere["metadata"]["namespace"] = json!("answers-nowhere");
    let answer = case.cluster.client.create(&LEASES.object("answers-nowhere", "x"), &elsewhere);
    case.says(answer, "NotServed 404: namespaces \"answers-nowhere\" not found");
}

#[test]
fn a_namespace_that_is_being_deleted_takes_nothing_new() {
    let case = Case::new();
    let mut held = case.body();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    case.cluster.create(&case.lease(), &held);
    let namespaces = resource("", "namespaces", "Namespace");
    let target = Target {
        resource: &namespaces,
        namespace: None,
        name: Some(&case.namespace),
        subresource: None,
    };
    case.cluster.delete(&target);
    let mut other = case.body();
    other["metadata"]["name"] = json!("y");
    let answer = case.cluster.client.create(&LEASES.object(&case.namespace, "y"), &other);
    case.says(
        answer,
        "NamespaceTerminating 403: leases.coordination.k8s.io \"y\" is forbidden: unable to create new content in \
         namespace NS because it is being terminated",
    );
    case.cluster.merge(&case.lease(), &json!({"metadata": {"finalizers": null}}));
}

#[test]
fn a_delete_keeps_its_preconditions() {
    let case = Case::new();
    let lease = case.create();
    let delete = |uid: &str| {
        let uid = Some(uid.to_owned());
        let guard = Preconditions { uid, resource_version: None };
        case.cluster.client.delete(&case.lease(), Propagation::Background, &guard)
    };
    let refused = delete("00000000-0000-0000-0000-000000000000").map(|()| Value::Null);
    case.says(
        refused,
        "Conflict 409: Operation cannot be fulfilled on Lease.coordination.k8s.io \"x\": the UID in the \
         precondition (00000000-0000-0000-0000-000000000000) does not match the UID in record (",
    );
    assert_eq!(delete(lease["metadata"]["uid"].as_str().expect("a uid")), Ok(()));
}

#[test]
fn a_list_from_the_future_has_an_error_of_its_own() {
    let case = Case::new();
    let query = "resourceVersion=99999999999&resourceVersionMatch=NotOlderThan";
    let path = LEASES.collection(&case.namespace).path();
    let answer = case.cluster.client.document(&format!("{path}?{query}"));
    case.says(answer, "TooNew 504: ");
}

#[test]
fn a_list_of_one_name_holds_that_or_nothing() {
    let case = Case::new();
    let list = |name: &str| {
        let query = format!("fieldSelector=metadata.name={name}&resourceVersion=0");
        let path = SECRETS.collection(&case.namespace).path();
        let list = case.cluster.client.document(&format!("{path}?{query}"));
        list.expect("a list")["items"].as_array().map_or(0, Vec::len)
    };
    for name in ["a", "b"] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        case.cluster.create(&SECRETS.object(&case.namespace, name), &secret);
    }
    // A list of "any version" may be a moment behind.
    suite::eventually("the Secret is listed", || list("a") == 1);
    assert_eq!(list("c"), 0);
}
