//! Reading objects, and when two of them count as equal.

use serde_json::json;

use super::*;
use crate::model::rules::FieldPath;

const UID: &str = "25f5d25c-70fb-4bf8-ba96-530c4ffb0cbb";
const OTHER: &str = "9b60246b-e633-4982-a2eb-f6df262ae45c";
const CLUSTER: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

fn reader() -> ObjectReader {
    ObjectReader {
        keys: AnnotationKeys::new("cloud.teleport.dev"),
        finalizer: "cloud.teleport.dev/sync-local".into(),
        rules: FieldRules::default(),
    }
}

fn uid(text: &str) -> Uid {
    Uid::parse(text).unwrap()
}

/// An object with these fields and the minimum of metadata.
fn object(more: &Value) -> Value {
    let mut object = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "team", "uid": UID, "resourceVersion": "221"}});
    for (key, value) in more.as_object().into_iter().flatten() {
        match (key.as_str(), value.as_object()) {
            ("metadata", Some(members)) => {
                object["metadata"].as_object_mut().unwrap().extend(members.clone());
            }
            _ => object[key] = value.clone(),
        }
    }
    object
}

fn annotated(annotations: &Value) -> Value {
    object(&json!({"metadata": {"annotations": annotations}}))
}

// --- reading ---

#[test]
fn a_source_has_a_finalizer_and_says_what_it_published() {
    let reader = reader();
    let source = reader.source(&object(&json!({"metadata": {
        "generation": 7,
        "deletionTimestamp": "2026-11-21T11:41:35Z",
        "finalizers": ["example.com/a", "cloud.teleport.dev/sync-local", "example.com/b"],
        "annotations": {
            "cloud.teleport.dev/paused": "true",
            "cloud.teleport.dev/sync-remote-generation": "6",
            "cloud.teleport.dev/sync-local-generation": "3",
            "cloud.teleport.dev/sync-local-uid": OTHER,
            "cloud.teleport.dev/source": format!("hub={CLUSTER}/team/web-rs/{OTHER}/2/a/b"),
        },
    }})));
    let source = source.unwrap();
    assert_eq!((source.uid, source.version), (uid(UID), 221));
    let (value, state) = (&source.value, &source.value.state);
    assert_eq!((state.generation, state.terminating, state.paused), (7, true, true));
    assert_eq!(value.finalizers, Finalizers::Ours(1));
    let published = Generations { remote: Some(6), local: Some(3), uid: Some(uid(OTHER)) };
    assert_eq!((&value.generations, value.copied_from), (&published, Some(uid(CLUSTER))));
    let bare = reader.source(&object(&json!({}))).unwrap().value;
    assert_eq!((bare.finalizers, bare.state.generation), (Finalizers::None, 0));
    assert_eq!((bare.generations, bare.copied_from), (Generations::default(), None));
    for (finalizers, expected) in [
        (json!([]), Finalizers::None),
        (json!(["example.com/a"]), Finalizers::Others),
        (json!(["cloud.teleport.dev/sync-local"]), Finalizers::Ours(0)),
        (json!(null), Finalizers::None),
    ] {
        let object = object(&json!({"metadata": {"finalizers": finalizers}}));
        assert_eq!(reader.source(&object).unwrap().value.finalizers, expected);
    }
}

#[test]
fn a_source_says_that_it_is_done_by_claim_and_generation() {
    let reader = reader();
    for (finalizer, published, generation, done) in [
        ("cloud.teleport.dev/sync-local", Some("7"), Some(7), true),
        ("cloud.teleport.dev/sync-local", Some("6"), Some(7), false),
        ("cloud.teleport.dev/sync-local", None, Some(7), false),
        ("cloud.teleport.dev/sync-local", None, None, true),
        ("example.com/a", Some("7"), Some(7), false),
    ] {
        let annotations = json!({"cloud.teleport.dev/sync-remote-generation": published});
        let metadata = json!({"generation": generation, "finalizers": [finalizer], "annotations": annotations});
        let source = reader.source(&object(&json!({"metadata": metadata}))).unwrap();
        assert_eq!(source.value.seems_synced(), done, "{finalizer} {published:?} {generation:?}");
    }
}

#[test]
fn only_the_exact_word_pauses() {
    let reader = reader();
    let paused = |value: Value| {
        let object = annotated(&json!({"cloud.teleport.dev/paused": value}));
        reader.target(&object).unwrap().value.state.paused
    };
    assert!(paused(json!("true")));
    for other in [json!("True"), json!("1"), json!(""), json!("false"), json!(true), json!(null)] {
        assert!(!paused(other.clone()), "{other}");
    }
}

#[test]
fn a_target_says_whose_copy_it_is() {
    let reader = reader();
    let value = |annotations: &Value| reader.target(&annotated(annotations)).unwrap().value;
    let source = "cloud.teleport.dev/source";
    let marked =
        value(&json!({source: format!("hub={CLUSTER}/team/web-rs/{UID}/3/{}", reader.finalizer)}));
    let copy = CopyOf {
        cluster: digest::of_text(&format!("hub={CLUSTER}")),
        uid: uid(UID),
        place: reader.place("team", "web-rs", &reader.finalizer),
    };
    assert_eq!(marked.copy_of, Some(copy));
    for odd in [
        json!("x"),
        json!(7),
        json!(format!("{CLUSTER}/team/web-rs/{UID}")),
        json!(format!("{CLUSTER}/team/web-rs/{UID}/3")),
        json!(format!("{CLUSTER}/team/web-rs/{UID}/{}/a/b", u64::MAX)),
    ] {
        assert_eq!(value(&json!({source: odd})).copy_of, None, "{odd}");
    }
    let mut namespace = annotated(&json!({source: format!("hub={CLUSTER}/team/web-rs/{UID}/3/f")}));
    namespace["metadata"]["namespace"] = Value::Null;
    let copy_of = |namespace: &Value| reader.target(namespace).unwrap().value.copy_of;
    assert_eq!(copy_of(&namespace), None, "it was created for the copy of web-rs");
    namespace["metadata"]["annotations"][source] = format!("hub={CLUSTER}//team/{UID}/3/f").into();
    assert!(copy_of(&namespace).is_some());
    let bare = reader.target(&object(&json!({}))).unwrap().value;
    assert_eq!(bare.copy_of, None);
    assert_ne!(reader.place("a", "b", "f"), reader.place("", "a/b", "f"));
    assert_ne!(reader.place("a", "b", "f"), reader.place("a", "b", "g"), "another instance");
}

#[test]
fn a_namespace_says_whom_it_was_made_for() {
    let reader = reader();
    let cluster = format!("hub={CLUSTER}");
    for (place, finalizer, created) in [
        ("team/web", "cloud.teleport.dev/sync-local", true),
        ("team/web", "example.com/another-instance", false),
        // It is itself a copy.
        ("/team", "cloud.teleport.dev/sync-local", false),
    ] {
        let mark = format!("{cluster}/{place}/{OTHER}/1/{finalizer}");
        let namespace = annotated(&json!({"cloud.teleport.dev/source": mark}));
        let read = reader.created_for(&namespace).map(|origin| origin.cluster);
        assert_eq!(read, created.then_some(&*cluster));
    }
    let bare = annotated(&json!({"cloud.teleport.dev/sync-owner": "web"}));
    assert_eq!(reader.created_for(&bare), None, "sync-controller created it");
}

#[test]
fn a_secret_says_who_controls_it() {
    let reader = reader();
    let controller = |owners: &Value| {
        let secret = object(&json!({"metadata": {"ownerReferences": owners}}));
        reader.secret(&secret).unwrap().value.controller
    };
    let owners = json!([
        {"uid": CLUSTER, "controller": false},
        {"uid": OTHER, "controller": true},
        {"uid": CLUSTER},
    ]);
    assert_eq!(controller(&owners), Some(uid(OTHER)));
    for none in [json!([]), json!(null), json!(["x"]), json!([{"uid": OTHER}])] {
        assert_eq!(controller(&none), None, "{none}");
    }
}

// --- equality ---

fn contents(one: &Value, other: &Value) -> bool {
    let reader = reader();
    let content =
        |object: &Value| reader.source(&self::object(object)).unwrap().value.state.content;
    content(one) == content(other)
}

#[test]
fn content_is_all_that_is_neither_metadata_nor_status() {
    let one = json!({"spec": {"a": 1}, "data": {"k": "v"}, "status": {"x": 1}});
    let mut data = one.clone();
    data["data"]["k"] = json!("w");
    assert!(!contents(&one, &data));
    let mut other = one.clone();
    other["status"] = json!(null);
    other["kind"] = json!("Other");
    other["apiVersion"] = json!("v2");
    other["metadata"] = json!({"labels": {"a": "b"}, "generation": 9});
    assert!(contents(&one, &other));
    other["spec"]["a"] = json!(2);
    assert!(!contents(&one, &other));
}

#[test]
fn no_status_is_an_empty_one() {
    let reader = reader();
    let digest = |more: &Value| reader.target(&object(more)).unwrap().value.state.status;
    let none = digest(&json!({}));
    assert_eq!(
        [none; 2],
        [json!(null), json!({})].map(|status| digest(&json!({"status": status})))
    );
    for status in [json!({"a": null}), json!({"a": {}}), json!([]), json!("")] {
        assert_ne!(digest(&json!({"status": status})), none, "{status}");
    }
}

/// Returns whether labels and annotations of a source and a target count as equal.
fn same_metadata(source: &Value, target: &Value) -> bool {
    let reader = reader();
    let source = reader.source(&object(&json!({"metadata": source}))).unwrap();
    let target = reader.target(&object(&json!({"metadata": target}))).unwrap();
    source.value.state.metadata == target.value.state.metadata
}

#[test]
fn what_does_not_travel_does_not_count() {
    let with = |annotations: &Value| json!({"annotations": annotations});
    let plain = with(&json!({"note": "x"}));
    let generations = with(&json!({"note": "x",
        "cloud.teleport.dev/sync-remote-generation": "1",
        "cloud.teleport.dev/sync-local-generation": "2"}));
    let applied = with(&json!({"note": "x",
        "kubectl.kubernetes.io/last-applied-configuration": "{}"}));
    let ours = with(&json!({"note": "x", "cloud.teleport.dev/any": "1"}));
    for (source, same) in [
        (&plain, true),
        (&generations, true),
        (&applied, true),
        (&ours, true),
        (&with(&json!({"note": "y"})), false),
        (&json!({"labels": {"note": "x"}}), false),
    ] {
        assert_eq!(same_metadata(source, &plain), same, "{source}");
    }
    assert!(same_metadata(&json!({}), &json!({"labels": {}, "annotations": {}})));
    assert!(same_metadata(&json!({"labels": null}), &json!({"annotations": {}})));
}

#[test]
fn a_targets_own_keys_count_until_its_sources_are_recorded() {
    let source = json!({"labels": {"a": "1"}, "annotations": {"note": "x"}});
    let target = |labels: &Value, managed: Option<&str>| {
        let mut target = json!({"labels": labels, "annotations": {"note": "x"}});
        if let Some(managed) = managed {
            target["annotations"]["cloud.teleport.dev/managed-keys"] = json!(managed);
            target["annotations"]["mine"] = json!("1");
        }
        target
    };
    for (labels, managed, same) in [
        (json!({"a": "1"}), None, true),
        (json!({"a": "1", "mine": "1"}), None, false),
        (json!({"a": "1", "mine": "1"}), Some("a|note"), true),
        (json!({"a": "2", "mine": "1"}), Some("a|note"), false),
        (json!({"mine": "1"}), Some("a|note"), false),
        // By chance, it has a key that the source now has, too.
        (json!({"a": "1"}), Some("|note"), false),
        // The source had one more.
        (json!({"a": "1", "b": "2"}), Some("a,b|note"), false),
        (json!({"a": "1"}), Some("a,b|note"), true),
    ] {
        let target = target(&labels, managed);
        assert_eq!(same_metadata(&source, &target), same, "{target}");
    }
}

#[test]
fn ignored_fields_and_argo_cds_tracking_do_not_count() {
    let mut reader = reader();
    reader.rules = FieldRules { ignored: vec![FieldPath::parse("/spec/replicas").unwrap()] };
    let of_source = |object: &Value| reader.source(object).unwrap().value.state;
    let of_target = |object: &Value| reader.target(object).unwrap().value.state;
    let full = object(&json!({"spec": {"replicas": 1, "x": 1}, "metadata": {
        "labels": {"a": "1", "app.kubernetes.io/instance": "i"}, "annotations": {"argocd.argoproj.io/tracking-id": "r"},
    }}));
    let less = |managed: &str| {
        object(&json!({"spec": {"replicas": 7, "x": 1}, "metadata": {"labels": {"a": "1"},
            "annotations": {"cloud.teleport.dev/managed-keys": managed}}}))
    };
    let same = |one: &ObjectState, other: &ObjectState| {
        (one.content == other.content, one.metadata == other.metadata)
    };
    assert_eq!(same(&of_source(&full), &of_target(&less("a|"))), (true, true));
    let mut earlier = less("a,app.kubernetes.io/instance|argocd.argoproj.io/tracking-id");
    assert_eq!(same(&of_source(&full), &of_target(&earlier)), (true, true), "nothing to remove");
    earlier["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("i");
    assert_eq!(same(&of_source(&full), &of_target(&earlier)), (true, false));
    let mut own = less("a|");
    own["metadata"]["labels"]["app.kubernetes.io/instance"] = json!("of the target's own Argo CD");
    assert_eq!(same(&of_source(&full), &of_target(&own)), (true, true));
}

// --- documents that are not objects ---

#[test]
fn an_invalid_object_gives_nothing() {
    let mut bad =
        vec![json!(null), json!([]), json!("x"), json!(7), json!({}), json!({"metadata": 1})];
    for (field, value) in [
        ("uid", json!(null)),
        ("uid", json!("x")),
        ("resourceVersion", json!("x")),
        ("resourceVersion", json!("-1")),
        ("resourceVersion", json!(221)),
    ] {
        bad.push(object(&json!({"metadata": {field: value}})));
    }
    let reader = reader();
    for bad in &bad {
        assert_eq!(reader.source(bad), None, "{bad}");
        assert_eq!(reader.target(bad), None, "{bad}");
        assert_eq!(reader.secret(bad), None, "{bad}");
    }
    for generation in [json!(-1), json!(u64::from(u32::MAX) + 1)] {
        let object = object(&json!({"metadata": {"generation": generation}}));
        assert_eq!((reader.source(&object), reader.target(&object)), (None, None));
    }
}

#[test]
fn whatever_else_is_odd_reads_as_if_it_were_not_there() {
    let odd = [json!(null), json!(7), json!("x"), json!([1, {"a": 2}]), json!({"a": {"b": 1}})];
    let reader = reader();
    for field in ["annotations", "labels", "finalizers", "ownerReferences", "generation"] {
        for value in &odd {
            let object = object(&json!({"metadata": {field: value}, "spec": value,
                "status": value, "data": value, "type": value}));
            let source = reader.source(&object).unwrap().value;
            assert!(!source.has_finalizer());
            assert_eq!((source.generations, source.state.paused), (Generations::default(), false));
            assert_eq!(reader.target(&object).unwrap().value.copy_of, None);
            assert_eq!(reader.created_for(&object), None);
            assert_eq!(reader.secret(&object).unwrap().value.controller, None);
        }
    }
}

/// Numbers must not change between clusters, not even slightly.
#[test]
fn numbers_stay_what_they_are() {
    for text in [
        "0.19844004278856286",
        "0.9868100332987975",
        "-2.638344616030823e-256",
        "9007199254740993",
        "18446744073709551615",
        "1e-7",
    ] {
        assert_eq!(apiclient::json::parse(text.as_bytes(), 1 << 10).unwrap().to_string(), text);
    }
}
