//! Manifests without the fields that the server sets.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

/// Fields of metadata that the server or the agent sets.
const SERVER_FIELDS: [&str; 6] =
    ["uid", "resourceVersion", "generation", "managedFields", "selfLink", "ownerReferences"];
const RBAC_GROUP: &str = "rbac.authorization.k8s.io/";

/// Returns the manifest in a form that compares with a live object: stringData is in data, where the server puts it.
pub(crate) fn prepared(manifest: Value) -> Value {
    let mut object = without_server_fields(manifest);
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("creationTimestamp");
    }
    if object["apiVersion"] == "v1"
        && object["kind"] == "Secret"
        && let Value::Object(fields) = &mut object
    {
        fold_string_data(fields);
    }
    object
}

pub(crate) fn without_server_fields(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|field, _| !SERVER_FIELDS.contains(&&**field));
    }
    let is_rbac = object["apiVersion"].as_str().is_some_and(|it| it.starts_with(RBAC_GROUP));
    if is_rbac && object["kind"] == "ClusterRole" && object["aggregationRule"].is_object() {
        // A Kubernetes controller sets the rules (library-go `rbac.go:54`).
        object.as_object_mut().map(|fields| fields.remove("rules"));
    }
    object
}

/// Moves stringData into data. Invalid fields stay, for the server to refuse.
fn fold_string_data(secret: &mut Map<String, Value>) {
    let mut data = match secret.get("data") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(data)) => data.clone(),
        Some(_) => return,
    };
    let Some(Value::Object(plain)) = secret.get("stringData") else { return };
    for (key, value) in plain {
        let Some(text) = value.as_str() else { return };
        data.insert(key.clone(), BASE64_STANDARD.encode(text).into());
    }
    secret.remove("stringData");
    secret.insert("data".to_owned(), data.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn string_data_is_compared_as_data() {
        let secret = |data: Value| {
            let mut secret =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"uid": "u"}});
            secret.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
            prepared(secret)
        };
        let folded = secret(json!({"stringData": {"a": "hi"}}));
        assert_eq!((&folded["data"], &folded["metadata"]), (&json!({"a": "aGk="}), &json!({})));
        assert_eq!(folded.get("stringData"), None);
        let odd = secret(json!({"stringData": {"a": 5}}));
        assert_eq!(odd["stringData"], json!({"a": 5}), "the server refuses it");
    }

    #[test]
    fn rules_of_an_aggregated_cluster_role_are_not_the_manifests() {
        let version = "rbac.authorization.k8s.io/v1";
        let role = |aggregation: Value| {
            json!({
                "apiVersion": version, "kind": "ClusterRole", "aggregationRule": aggregation, "rules": [],
            })
        };
        let aggregated = role(json!({"clusterRoleSelectors": []}));
        assert_eq!(prepared(aggregated.clone()).get("rules"), None);
        assert_eq!(without_server_fields(aggregated).get("rules"), None, "of a server-side apply");
        assert_eq!(prepared(role(Value::Null))["rules"], json!([]));
    }
}
