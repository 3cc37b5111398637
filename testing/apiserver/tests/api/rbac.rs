//! Rights by Roles, on a server that is asked to heed them.

use dev_apiserver::Server;
use serde_json::{Value, json};

use crate::client::*;

const GROUP: &str = "rbac.authorization.k8s.io/v1";

fn role(server: &Server, namespace: &str, rules: Value) {
    let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
    let metadata = json!({"name": "some", "namespace": namespace});
    server.put(json!({"apiVersion": GROUP, "kind": kind, "metadata": metadata, "rules": rules}));
}

fn bind(server: &Server, namespace: &str, role: &str, subject: Value) {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    server.put(json!({
        "apiVersion": GROUP, "kind": kind,
        "metadata": {"name": "some", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "some"},
        "subjects": [subject],
    }));
}

fn secrets(verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs})
}

#[test]
fn role_counts_in_its_namespace() {
    let (server, client) = start();
    server.enforce_rbac();
    server.create_namespace("b");
    role(&server, "a", json!([secrets(&["list", "create"])]));
    bind(&server, "a", "Role", json!({"kind": "Group", "name": "testers"}));
    assert_eq!(client.get(SECRETS).code, 200);
    assert_eq!(client.post(SECRETS, secret("new")).code, 201);
    assert_eq!(client.get(&format!("{SECRETS}/new")).code, 403);
    assert_eq!(client.get("/api/v1/namespaces/b/secrets").code, 403);
    assert_eq!(client.get("/api/v1/secrets").code, 403);
    let review = |verb: &str| {
        let attributes = json!({"verb": verb, "resource": "secrets", "namespace": "a"});
        let body = json!({"spec": {"resourceAttributes": attributes}});
        client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).json
    };
    assert_eq!(review("list")["status"]["allowed"], true);
    assert_eq!(review("get")["status"]["allowed"], false);
}

#[test]
fn names_subresources_and_accounts_are_heeded() {
    let (server, _) = start();
    server.enforce_rbac();
    let user = "system:serviceaccount:a:robot";
    let client = Client::with_token(&server, &server.token(user, &[]));
    server.put(secret("s"));
    server.put(secret("t"));
    let named = json!({
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"], "verbs": ["get", "list"],
    });
    let status = json!({
        "apiGroups": ["policy"], "resources": ["*/status"], "verbs": ["patch"],
    });
    role(&server, "a", json!([named, status]));
    bind(&server, "a", "Role", json!({"kind": "ServiceAccount", "name": "robot"}));
    assert_eq!(client.get(&format!("{SECRETS}/s")).code, 200);
    assert_eq!(client.get(&format!("{SECRETS}/t")).code, 403);
    assert_eq!(client.get(SECRETS).code, 403);
    assert_eq!(client.get(&format!("{SECRETS}?fieldSelector=metadata.name%3Ds")).code, 200);
    let budget = "/apis/policy/v1/namespaces/a/poddisruptionbudgets/x";
    assert_eq!(client.merge(budget, json!({})).code, 403);
    assert_eq!(client.merge(&format!("{budget}/status"), json!({})).code, 404);
}
