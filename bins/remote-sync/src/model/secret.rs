//! Secret uploads: the hash that detects a change, the body to write, and whether it may replace an existing Secret.

use apiclient::resource::{Resource, Target};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::model::{annotations::AnnotationKeys, object::controller_of};

/// The types of Secrets that hold data for their reader only: no API server or controller acts on them. A new
/// kubernetes.io/service-account-token, by contrast, gets the token of any account that it names.
const TYPES: [&str; 5] = [
    "Opaque",
    "kubernetes.io/basic-auth",
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/ssh-auth",
    "kubernetes.io/tls",
];

pub fn is_uploaded(secret: &Value) -> bool {
    secret["type"].as_str().is_none_or(|it| TYPES.contains(&it))
}

/// The source that controls an uploaded Secret, which is garbage-collected with it.
#[derive(Clone, Copy, Debug)]
pub struct SecretOwner<'a> {
    pub resource: &'a Resource,
    pub name: &'a str,
    pub uid: &'a str,
}

/// The hash that sync-controller records (`controller/controller.go:580-592,640-648`) for a Secret without labels and
/// annotations: the SHA-256 of its content in Go's JSON encoding. Another hash would upload every Secret again on
/// migration.
pub fn hash(secret: &Value) -> String {
    let content = format!("[{},{},{{}},null]", some(&secret["data"]), secret["type"]);
    let hash = digest(&SHA256, content.as_ref());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash recorded on a Secret next to a source.
fn recorded<'a>(secret: &'a Value, keys: &AnnotationKeys) -> Option<&'a str> {
    secret["metadata"]["annotations"][&keys.hash].as_str()
}

/// What the existing Secret in an upload's place means to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretStanding {
    /// Uploaded for this source, with the same content.
    Uploaded,
    /// May be replaced: uploaded for this source, or for an earlier one with its name; or for another source, with the
    /// same content. Or without owner: empty, as created to be filled, or already with the content.
    Replaceable,
    Foreign,
}

impl SecretStanding {
    /// The standing of the Secret that is `there`, where `secret` is to be uploaded.
    pub fn of(
        there: &Value,
        secret: &Value,
        owner: &SecretOwner<'_>,
        keys: &AnnotationKeys,
    ) -> Self {
        let controller = controller_of(there).unwrap_or(&Value::Null);
        let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
        let is_of_name = controller["kind"] == *owner.resource.kind
            && controller["name"] == owner.name
            && controller["apiVersion"].as_str().map(group)
                == Some(group(&owner.resource.api_version()));
        let (uploaded, hash) = (recorded(there, keys), hash(secret));
        let is_equal = self::hash(there) == hash;
        // A target's Secret may pass from one target to another.
        let is_same = is_equal && uploaded == Some(&*hash);
        let is_of_source = controller["uid"] == owner.uid;
        if is_of_source && is_same {
            return Self::Uploaded;
        }
        let is_uploaded = is_of_source || is_same || uploaded.is_some() && is_of_name;
        let owners = there["metadata"]["ownerReferences"].as_array();
        let is_free =
            owners.is_none_or(Vec::is_empty) && (is_equal || some(&there["data"]).is_null());
        if is_uploaded || is_free { Self::Replaceable } else { Self::Foreign }
    }
}

/// The Secret to write next to the source. It replaces exactly `there`, whose finalizers stay. Labels and annotations
/// stay, too, unless they come from sync-controller's upload.
pub fn body(
    secret: &Value,
    place: &Target<'_>,
    owner: &SecretOwner<'_>,
    there: Option<&Value>,
    keys: &AnnotationKeys,
) -> Value {
    let hash = hash(secret);
    let there = there.unwrap_or(&Value::Null);
    let is_kept = recorded(there, keys).is_none_or(|recorded| recorded == self::hash(there));
    let theirs = |key: &str| {
        let all = there["metadata"][key].as_object().filter(|_| is_kept);
        all.cloned().unwrap_or_default()
    };
    let (labels, mut annotations) = (theirs("labels"), theirs("annotations"));
    annotations.insert(keys.hash.clone(), json!(hash));
    let mut metadata = json!({
        "name": place.name,
        "namespace": place.namespace,
        "annotations": annotations,
        "ownerReferences": [{
            "apiVersion": owner.resource.api_version(),
            "kind": owner.resource.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    if !labels.is_empty() {
        metadata["labels"] = labels.into();
    }
    for key in ["uid", "resourceVersion", "finalizers"] {
        if let Some(value) = there["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let mut body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
        "type": secret["type"]});
    let data = some(&secret["data"]);
    if !data.is_null() {
        body["data"] = data.clone();
    }
    body
}

/// Treats an empty map as missing: Go omits it.
fn some(map: &Value) -> &Value {
    if map.as_object().is_some_and(Map::is_empty) { &Value::Null } else { map }
}

#[cfg(test)]
mod tests {
    use apiclient::resource::SECRETS;

    use super::*;

    fn keys() -> AnnotationKeys {
        AnnotationKeys::new("cloud.teleport.dev")
    }

    fn secret(content: &Value) -> Value {
        json!({"data": content[0], "type": content[1],
            "metadata": {"name": "x", "annotations": content[2], "labels": content[3]}})
    }

    /// The first two are from sync-controller's `controller/controller_test.go:160,170`.
    #[test]
    fn the_hash_is_that_of_sync_controller() {
        for (content, expected) in [
            (
                json!([{"data": "ZGF0YTE="}, "Opaque", {}, null]),
                "4bc3db4c8600b8a668677befadd94408e27cdcac611dcb4d4f56e0d2dcb3e1c5",
            ),
            (
                json!([{"data": "ZGF0YTI="}, "Opaque", {}, null]),
                "1c67e1d274f4a7bedb1d1ee0f23f3c962e170d20e1f480c419a9c68f5efb3a0f",
            ),
        ] {
            assert_eq!(hash(&secret(&content)), expected, "{content}");
        }
    }

    #[test]
    fn metadata_and_an_empty_map_do_not_count() {
        let plain = secret(&json!([null, "Opaque", null, null]));
        let other = secret(&json!([{}, "Opaque", {"a": "b", "c/d": "e"}, {"a": "f"}]));
        assert_eq!(hash(&other), hash(&plain));
    }

    #[test]
    fn whose_secret_it_is() {
        use SecretStanding::{Foreign, Replaceable, Uploaded};
        let resource = Resource::v1("policy", "poddisruptionbudgets", "PodDisruptionBudget");
        let owner = SecretOwner { resource: &resource, name: "web", uid: "now" };
        let controlled = |uid: &str, name: &str, version: &str| {
            json!([{"apiVersion": version, "kind": "PodDisruptionBudget", "name": name, "uid": uid,
                "controller": true}])
        };
        let (noted, other) =
            (json!({"cloud.teleport.dev/last-uploaded-hash": "x"}), json!({"a": "b"}));
        let content = json!({"k": "djE="});
        let upload = secret(&json!([content, "Opaque", null, null]));
        let hash = hash(&upload);
        let exact = json!({"cloud.teleport.dev/last-uploaded-hash": hash});
        let standing = |data: &Value, annotations: &Value, owners: Value| {
            let mut secret = secret(&json!([data, "Opaque", annotations, null]));
            secret["metadata"]["ownerReferences"] = owners;
            SecretStanding::of(&secret, &upload, &owner, &keys())
        };
        let (nobody, none) = (Value::Null, json!({}));
        for (data, annotations, owners, expected) in [
            (&content, &exact, controlled("now", "web", "policy/v1"), Uploaded),
            (&content, &nobody, controlled("now", "web", "policy/v1"), Replaceable),
            (&json!({"k": "djI="}), &exact, controlled("now", "web", "policy/v1"), Replaceable),
            (&none, &other, controlled("now", "web", "policy/v1"), Replaceable),
            (&none, &noted, controlled("earlier", "web", "policy/v1beta1"), Replaceable),
            (&content, &exact, controlled("other", "db", "policy/v1"), Replaceable),
            (&json!({"k": "djI="}), &exact, controlled("other", "db", "policy/v1"), Foreign),
            (&content, &nobody, controlled("earlier", "web", "policy/v1"), Foreign),
            (&content, &noted, controlled("earlier", "other", "policy/v1"), Foreign),
            (&content, &noted, controlled("earlier", "web", "example.com/v1"), Foreign),
            (&none, &nobody, controlled("other", "db", "v1"), Foreign),
            (&none, &noted, json!([]), Replaceable),
            (&nobody, &other, nobody.clone(), Replaceable),
            (&content, &noted, nobody.clone(), Replaceable),
            (&content, &other, nobody.clone(), Replaceable),
            (&json!({"k": "djI="}), &nobody, nobody.clone(), Foreign),
        ] {
            assert_eq!(standing(data, annotations, owners.clone()), expected, "{data} {owners}");
        }
    }

    #[test]
    fn types_that_servers_act_on_are_not_uploaded() {
        for (kind, accepted) in [
            (json!("Opaque"), true),
            (json!("kubernetes.io/tls"), true),
            (Value::Null, true),
            (json!("kubernetes.io/service-account-token"), false),
            (json!("bootstrap.kubernetes.io/token"), false),
            (json!("example.com/any"), false),
        ] {
            let secret = secret(&json!([{}, kind, null, null]));
            assert_eq!(is_uploaded(&secret), accepted);
        }
    }

    /// The Secret that replaces `there`.
    fn written(secret: &Value, there: &Value) -> Value {
        let resource = Resource::v1("policy", "poddisruptionbudgets", "PodDisruptionBudget");
        let owner = SecretOwner { resource: &resource, name: "web-rs", uid: "25f5d25c" };
        let there = Some(there).filter(|there| !there.is_null());
        body(secret, &SECRETS.object("team", "token-rs"), &owner, there, &keys())
    }

    #[test]
    fn what_is_written_belongs_to_the_source() {
        let mut secret = secret(&json!([{"k": "djE="}, "Opaque", {
            "a": "b", "e": "f"}, {"app": "w"}]));
        secret["immutable"] = json!(true);
        secret["metadata"]["finalizers"] = json!(["example.com/f"]);
        let hash = hash(&secret);
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "token-rs",
                "namespace": "team",
                "annotations": {"cloud.teleport.dev/last-uploaded-hash": hash},
                "ownerReferences": [{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                    "name": "web-rs", "uid": "25f5d25c", "controller": true,
                    "blockOwnerDeletion": true}],
            },
            "type": "Opaque",
            "data": {"k": "djE="},
        });
        assert_eq!(written(&secret, &Value::Null), expected);
        assert_eq!(written(&json!({"type": "Opaque"}), &Value::Null).get("data"), None);
    }

    #[test]
    fn replacement_is_of_one_version_and_keeps_its_metadata() {
        let there = json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["a/b"],
            "labels": {"c": "d"}, "annotations": {"e": "f"}}});
        let new = secret(&json!([{}, "Opaque", {"a": "b"}, {"app": "new"}]));
        let metadata = written(&new, &there)["metadata"].take();
        let kept = ["uid", "resourceVersion", "finalizers", "labels"];
        assert_eq!(kept.map(|key| &metadata[key]), kept.map(|key| &there["metadata"][key]));
        let keys: Vec<_> = metadata["annotations"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["cloud.teleport.dev/last-uploaded-hash", "e"]);
    }

    #[test]
    fn metadata_of_sync_controllers_upload_goes() {
        let mut there = secret(&json!([{"k": "djE="}, "Opaque", null, {"c": "d"}]));
        for (recorded, kept) in [(hash(&there), true), ("with the label".into(), false)] {
            there["metadata"]["annotations"] =
                json!({"cloud.teleport.dev/last-uploaded-hash": recorded});
            let replacement = written(&json!({}), &there);
            assert_eq!(replacement["metadata"].get("labels").is_some(), kept);
        }
    }
}
