//! Secret uploads: the hash that says whether one is due, the body that is written, and whose Secret is in its
//! place.

use apiclient::resource::{Resource, Target};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::model::{
    annotations::AnnotationKeys,
    object::{controller_of, members},
};

/// The types of Secrets that hold data for their reader alone. No API server or controller acts on one; a new
/// kubernetes.io/service-account-token, say, is filled with the token of any account that it names.
const TYPES: [&str; 5] = [
    "Opaque",
    "kubernetes.io/basic-auth",
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/ssh-auth",
    "kubernetes.io/tls",
];

/// What is uploaded of Secrets.
#[derive(Clone, Debug)]
pub struct UploadRules {
    /// The annotation that records an upload, by its hash.
    record: String,
    /// The labels and annotations that are uploaded.
    metadata: Vec<String>,
}

impl UploadRules {
    pub fn new(keys: &AnnotationKeys, metadata: Vec<String>) -> Self {
        Self { record: keys.hash.clone(), metadata }
    }

    /// Returns whether a Secret is of a type that is uploaded.
    pub fn accepts(&self, secret: &Value) -> bool {
        secret["type"].as_str().is_none_or(|it| TYPES.contains(&it))
    }

    /// The labels or annotations of a Secret that are content.
    fn uploaded(&self, secret: &Value, key: &str) -> Map<String, Value> {
        let all = secret["metadata"][key].as_object();
        members(all, &|key| key != self.record && self.is_uploaded(key))
    }

    /// The hash that a Secret next to a source was uploaded with.
    fn recorded<'a>(&self, secret: &'a Value) -> Option<&'a str> {
        secret["metadata"]["annotations"][&self.record].as_str()
    }

    fn is_uploaded(&self, key: &str) -> bool {
        self.metadata.iter().any(|it| it == key)
    }
}

/// The source that controls an uploaded Secret, and that it is garbage-collected with.
#[derive(Clone, Copy, Debug)]
pub struct SecretOwner<'a> {
    pub resource: &'a Resource,
    pub name: &'a str,
    pub uid: &'a str,
}

/// The hash that sync-controller records (`controller/controller.go:580-592,640-648`): the SHA-256 of the
/// Secret's content as Go encodes it in JSON. Any other hash would upload every Secret again on migration.
pub fn hash(secret: &Value, rules: &UploadRules) -> String {
    let content = format!(
        "[{},{},{},{}]",
        some(&secret["data"]),
        secret["type"],
        Value::Object(rules.uploaded(secret, "annotations")),
        some(&Value::Object(rules.uploaded(secret, "labels")))
    );
    digest(&SHA256, go(content).as_ref())
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// What the Secret that is in an upload's place is to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretStanding {
    /// Uploaded for it as it is.
    Uploaded,
    /// Uploaded for it, for an earlier source of its name, or the same for another one.
    Ours,
    /// Nobody's and without content, as made to be filled: sync-controller never creates one.
    Empty,
    /// Nobody's, with the content that is uploaded.
    Equal,
    Foreign,
}

impl SecretStanding {
    /// The standing of what is `there`, where `secret` is to be uploaded.
    pub fn of(there: &Value, secret: &Value, owner: &SecretOwner<'_>, rules: &UploadRules) -> Self {
        let controller = controller_of(there).unwrap_or(&Value::Null);
        let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
        let is_of_name = controller["kind"] == *owner.resource.kind
            && controller["name"] == owner.name
            && controller["apiVersion"].as_str().map(group)
                == Some(group(&owner.resource.api_version()));
        let (uploaded, hash) = (rules.recorded(there), hash(secret, rules));
        let is_equal = self::hash(there, rules) == hash;
        // The target's Secret may pass from one target to another.
        let is_same = is_equal && uploaded == Some(&*hash);
        let is_of_source = controller["uid"] == owner.uid;
        if is_of_source && is_same {
            return Self::Uploaded;
        }
        if is_of_source || is_same || uploaded.is_some() && is_of_name {
            return Self::Ours;
        }
        let owned =
            there["metadata"]["ownerReferences"].as_array().is_some_and(|it| !it.is_empty());
        if owned {
            Self::Foreign
        } else if some(&there["data"]).is_null() {
            Self::Empty
        } else if is_equal {
            Self::Equal
        } else {
            Self::Foreign
        }
    }
}

/// The body of the Secret next to the source, in place of exactly the one that is `there`. Finalizers are not the
/// upload's to remove, nor are labels and annotations that it does not upload, unless an earlier upload by other rules
/// has left them.
pub fn body(
    secret: &Value,
    place: &Target<'_>,
    owner: &SecretOwner<'_>,
    there: Option<&Value>,
    rules: &UploadRules,
) -> Value {
    let hash = self::hash(secret, rules);
    let there = there.unwrap_or(&Value::Null);
    let recorded = rules.recorded(there);
    let is_kept = recorded.is_none_or(|recorded| recorded == self::hash(there, rules));
    let merged = |key: &str| {
        let theirs = there["metadata"][key].as_object().filter(|_| is_kept);
        let mut all = members(theirs, &|key| *key != rules.record && !rules.is_uploaded(key));
        all.extend(rules.uploaded(secret, key));
        all
    };
    let (labels, mut annotations) = (merged("labels"), merged("annotations"));
    annotations.insert(rules.record.clone(), json!(hash));
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

/// Empty maps count as missing: Go omits them.
fn some(map: &Value) -> &Value {
    if map.as_object().is_some_and(Map::is_empty) { &Value::Null } else { map }
}

/// JSON as Go's `encoding/json` writes it, with HTML characters escaped.
fn go(json: String) -> String {
    let unfit = ['<', '>', '&', '\u{2028}', '\u{2029}'];
    if !json.contains(unfit) {
        return json;
    }
    let mut text = String::with_capacity(json.len() * 2);
    for c in json.chars() {
        match c {
            c if unfit.contains(&c) => text += &format!("\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use apiclient::resource::SECRETS;

    use super::*;

    /// With all labels and annotations of these tests, as sync-controller uploads them.
    fn all() -> UploadRules {
        only(&["a", "app", "c", "c/d", "cloud.teleport.dev/paused", "k", "x", "z"])
    }

    fn only(keys: &[&str]) -> UploadRules {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        UploadRules::new(&AnnotationKeys::new("cloud.teleport.dev"), keys)
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
            (
                json!([null, "kubernetes.io/tls", {"k": "a<b>&c"}, {"z": "1", "a": "2"}]),
                "ed98cd030e2d1f549e7ea0b26bbf03760fae0d7affecdca2824a3705ab99c1a0",
            ),
            (
                json!([{"b": "AAE=", "a": ""}, "Opaque", {"x": "line\nbreak \"q\" \\ tab\t"}, {"app": "w"}]),
                "a1693b8e5bacf8712083b60ddeffd0b86ac332440f91fff5976c7b6c8b86c9db",
            ),
        ] {
            assert_eq!(hash(&secret(&content), &all()), expected, "{content}");
        }
    }

    #[test]
    fn texts_are_escaped_as_in_go() {
        let json = json!("\u{8}\u{c}\r\u{1}\u{1f}\u{7f}/\u{2028}\u{2029}é<").to_string();
        assert_eq!(go(json), "\"\\b\\f\\r\\u0001\\u001f\u{7f}/\\u2028\\u2029é\\u003c\"");
    }

    #[test]
    fn notes_of_an_upload_and_empty_maps_do_not_count() {
        let plain = json!([{"data": "ZGF0YTE="}, "Opaque", null, null]);
        let noted = json!([{"data": "ZGF0YTE="}, "Opaque", {
            "cloud.teleport.dev/last-uploaded-hash": "old",
        }, {}]);
        let expected = hash(&secret(&plain), &all());
        assert_eq!(hash(&secret(&noted), &all()), expected);
        assert_eq!(hash(&secret(&json!([{}, "", {}, {}])), &all()).len(), 64);
        // Any other annotation of ours is content, as upstream.
        let paused = json!([{"data": "ZGF0YTE="}, "Opaque", {"cloud.teleport.dev/paused": ""}, {}]);
        assert_ne!(hash(&secret(&paused), &all()), expected);
    }

    #[test]
    fn whose_secret_it_is() {
        use SecretStanding::{Empty, Equal, Foreign, Ours, Uploaded};
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
        let hash = hash(&upload, &all());
        let exact = json!({"cloud.teleport.dev/last-uploaded-hash": hash});
        let standing = |data: &Value, annotations: &Value, owners: Value| {
            let mut secret = secret(&json!([data, "Opaque", annotations, null]));
            secret["metadata"]["ownerReferences"] = owners;
            SecretStanding::of(&secret, &upload, &owner, &all())
        };
        let (nobody, none) = (Value::Null, json!({}));
        for (data, annotations, owners, expected) in [
            (&content, &exact, controlled("now", "web", "policy/v1"), Uploaded),
            (&content, &nobody, controlled("now", "web", "policy/v1"), Ours),
            (&json!({"k": "djI="}), &exact, controlled("now", "web", "policy/v1"), Ours),
            (&none, &other, controlled("now", "web", "policy/v1"), Ours),
            (&none, &noted, controlled("earlier", "web", "policy/v1beta1"), Ours),
            (&content, &exact, controlled("other", "db", "policy/v1"), Ours),
            (&json!({"k": "djI="}), &exact, controlled("other", "db", "policy/v1"), Foreign),
            (&content, &nobody, controlled("earlier", "web", "policy/v1"), Foreign),
            (&content, &noted, controlled("earlier", "other", "policy/v1"), Foreign),
            (&content, &noted, controlled("earlier", "web", "example.com/v1"), Foreign),
            (&none, &nobody, controlled("other", "db", "v1"), Foreign),
            (&none, &noted, json!([]), Empty),
            (&nobody, &other, nobody.clone(), Empty),
            (&content, &noted, nobody.clone(), Equal),
            (&content, &other, nobody.clone(), Foreign),
            (&json!({"k": "djI="}), &nobody, nobody.clone(), Foreign),
        ] {
            assert_eq!(standing(data, annotations, owners.clone()), expected, "{data} {owners}");
        }
    }

    #[test]
    fn labels_and_annotations_count_as_named() {
        let plain = secret(&json!([{"k": "djE="}, "Opaque", null, null]));
        let labeled = secret(&json!([{"k": "djE="}, "Opaque", {"a": "b", "c/d": "e"}, {"a": "f"}]));
        assert_eq!(hash(&labeled, &only(&[])), hash(&plain, &all()));
        assert_eq!(hash(&labeled, &only(&["a", "c/d"])), hash(&labeled, &all()));
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
            assert_eq!(all().accepts(&secret), accepted);
        }
    }

    /// What is written in place of `there`.
    fn written(secret: &Value, there: &Value, rules: &UploadRules) -> Value {
        let resource = Resource::v1("policy", "poddisruptionbudgets", "PodDisruptionBudget");
        let owner = SecretOwner { resource: &resource, name: "web-rs", uid: "25f5d25c" };
        let there = Some(there).filter(|there| !there.is_null());
        body(secret, &SECRETS.object("team", "token-rs"), &owner, there, rules)
    }

    #[test]
    fn what_is_written_belongs_to_the_source() {
        let mut secret = secret(&json!([{"k": "djE="}, "Opaque", {
            "a": "b", "e": "f"}, {"app": "w"}]));
        secret["immutable"] = json!(true);
        secret["metadata"]["finalizers"] = json!(["example.com/f"]);
        let hash = hash(&secret, &all());
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "token-rs",
                "namespace": "team",
                "labels": {"app": "w"},
                "annotations": {"a": "b", "cloud.teleport.dev/last-uploaded-hash": hash},
                "ownerReferences": [{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                    "name": "web-rs", "uid": "25f5d25c", "controller": true,
                    "blockOwnerDeletion": true}],
            },
            "type": "Opaque",
            "data": {"k": "djE="},
        });
        assert_eq!(written(&secret, &Value::Null, &all()), expected);
        let bare = written(&json!({"type": "Opaque"}), &Value::Null, &all());
        assert_eq!((bare.get("data"), bare["metadata"].get("labels")), (None, None));
    }

    #[test]
    fn replacement_is_of_one_version_and_keeps_what_is_not_uploaded() {
        let there = json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["a/b"],
            "labels": {"c": "d", "app": "old"},
            "annotations": {"e": "f"}}});
        let new = secret(&json!([{}, "Opaque", null, {"app": "new"}]));
        let metadata = written(&new, &there, &only(&["app"]))["metadata"].take();
        let kept = ["uid", "resourceVersion", "finalizers"];
        assert_eq!(kept.map(|key| &metadata[key]), kept.map(|key| &there["metadata"][key]));
        assert_eq!(metadata["labels"], json!({"c": "d", "app": "new"}));
        let keys: Vec<_> = metadata["annotations"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["cloud.teleport.dev/last-uploaded-hash", "e"]);
        for (rules, kept) in [(only(&[]), true), (all(), false)] {
            let mut there = secret(&json!([{"k": "djE="}, "Opaque", null, {"c": "d"}]));
            let hash = json!(hash(&there, &rules));
            there["metadata"]["annotations"] =
                json!({"cloud.teleport.dev/last-uploaded-hash": hash});
            let replacement = written(&json!({}), &there, &only(&[]));
            assert_eq!(replacement["metadata"].get("labels").is_some(), kept, "{rules:?}");
        }
    }
}
