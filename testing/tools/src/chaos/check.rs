//! Checks that both sides match the model.

use std::time::Instant;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{
    config::Feature,
    model::{Copy, Map, Pair, SECRET, Wanted},
    scene::{Scene, namespace_of},
    start::marked,
};
use suite::sync::{FINALIZER, HASH, LOCAL_GENERATION, PREFIX, REMOTE_GENERATION, SOURCE, secrets};

/// The number of the pair, if any, and what is wrong.
pub type Difference = (Option<usize>, String);

/// Returns everything that differs from the model at rest.
pub fn differences(scene: &Scene) -> Vec<Difference> {
    if !scene.broken.is_empty() {
        // All other differences may be transient.
        return scene.broken.clone();
    }
    let mut all = Vec::new();
    for (index, pair) in scene.pairs.iter().enumerate() {
        let mut found = Found { all: Vec::new() };
        match &pair.wanted {
            Some(wanted) => found.living(scene, pair, wanted),
            None => found.gone(pair),
        }
        found.secret(scene, pair);
        all.extend(found.all.into_iter().map(|what| (Some(index), what)));
    }
    all.extend(left_namespaces(scene));
    all
}

/// What is wrong with one pair.
struct Found {
    all: Vec<String>,
}

impl Found {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.all.push(what());
        }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, is: T, wanted: T) {
        self.unless(is == wanted, || format!("{what}: {is:?} instead of {wanted:?}"));
    }

    fn living(&mut self, scene: &Scene, pair: &Pair, wanted: &Wanted) {
        if scene.has(Feature::Equal) && self.is_not_taken(pair, wanted) {
            return;
        }
        let (source, target) = (pair.source.stored(), pair.target.stored());
        let (Some(source), Some(target)) = (&source, &target) else {
            let there = (source.is_some(), target.is_some());
            return self.same("source and target are there", there, (true, true));
        };
        let kind = pair.source.kind;
        self.same("the source's content", kind.number(source), Some(wanted.number));
        self.same("the target's content", kind.number(target), Some(wanted.number));
        self.same("the source's labels", map(source, "labels"), wanted.labels.clone());
        let annotations = map(source, "annotations");
        self.same("the source's annotations", annotations, wanted.annotations.clone());
        self.beside(source, target, wanted);
        let nothing = Copy::default();
        let copy = pair.copies.get(uid(target)).unwrap_or(&nothing);
        let with =
            |own: &Map, theirs: &Map| own.clone().into_iter().chain(theirs.clone()).collect();
        let labels = with(&copy.labels, &wanted.labels);
        self.same("the target's labels", map(target, "labels"), labels);
        let annotations = with(&copy.annotations, &wanted.annotations);
        self.same("the target's annotations", map(target, "annotations"), annotations);
        if kind.status {
            // Typed statuses have a 0 where others have no value.
            let health = |object| kind.healthy(object).unwrap_or(0);
            self.same("the target's status", health(target), copy.status.unwrap_or(0));
            self.same("the source's status", health(source), copy.status.unwrap_or(0));
        }
        let bare = scene.has(Feature::Track);
        let recorded = |it| if bare { None } else { it };
        let finalizer = recorded(Some(FINALIZER.to_owned()));
        self.same("the source's finalizers", finalizers(source), Vec::from_iter(finalizer));
        let published = |key: &str| annotation(source, key);
        let (from, to) = (recorded(generation(source)), recorded(generation(target)));
        self.same("its generation", published(REMOTE_GENERATION), from);
        self.same("the target's generation", published(LOCAL_GENERATION), to);
        let mark = annotation(target, SOURCE);
        let cluster = mark.as_deref().and_then(|mark| mark.split('/').next());
        let marked = marked(&scene.stage, pair);
        self.same("the cluster of its mark", cluster, Some(&*marked));
    }

    /// Returns whether an existing target differs and must not be adopted; checks that it is unchanged.
    fn is_not_taken(&mut self, pair: &Pair, wanted: &Wanted) -> bool {
        let Some(target) = pair.target.stored() else { return false };
        let number = pair.target.kind.number(&target);
        let Some(copy) = pair.copies.get(uid(&target)).filter(|copy| copy.by_hand) else {
            return false;
        };
        let marked = annotation(&target, SOURCE).is_some();
        if copy.was_equal && (marked || number == Some(wanted.number)) {
            return false;
        }
        self.same("the target of its own", (number, marked), (Some(copy.number), false));
        true
    }

    /// Checks the fields beside the number. The target's server may have dropped one at the last write, but keep it
    /// since.
    fn beside(&mut self, source: &Value, target: &Value, wanted: &Wanted) {
        let size =
            |object: &Value| object["spec"]["filling"].as_str().map(|text| text.len() as u64 >> 10);
        self.same("the source's filling", size(source), wanted.filling);
        self.same("the target's filling", size(target), wanted.filling);
        let extra = |object: &Value| object["spec"]["extra"].as_u64();
        self.same("the source's other field", extra(source), wanted.extra);
        let copied = extra(target);
        self.unless(copied.is_none() || copied == wanted.extra, || {
            format!("the target's other field: {copied:?}, but {:?} is wanted", wanted.extra)
        });
    }

    fn gone(&mut self, pair: &Pair) {
        self.unless(pair.source.stored().is_none(), || "the source is still there".into());
        let target = pair.target.stored();
        if let Some(target) = &target {
            let marked = annotation(target, SOURCE).is_some();
            self.unless(!marked, || "the target is still there".into());
        }
        for (uid, copy) in &pair.copies {
            if !pair.is_kept(copy, Instant::now()) {
                continue;
            }
            let kept = target.as_ref().filter(|target| self::uid(target) == uid);
            let number = kept.and_then(|target| pair.target.kind.number(target));
            self.same("the target of its own", number, Some(copy.number));
        }
    }

    /// Checks the Secret that the target controls, and its upload.
    fn secret(&mut self, scene: &Scene, pair: &Pair) {
        let target = pair.target.stored().filter(|_| pair.target.namespace.is_some());
        let Some(target) = target else { return };
        let Some(secret) = pair.target.sibling(secrets(), SECRET).stored() else { return };
        let owner = &secret["metadata"]["ownerReferences"][0];
        if owner["uid"] != target["metadata"]["uid"] {
            return;
        }
        let value = scene.secrets.get(uid(&secret)).map(u64::to_string);
        let data = |secret: &Value| {
            let data = BASE64_STANDARD.decode(secret["data"]["data"].as_str()?).ok()?;
            String::from_utf8(data).ok()
        };
        self.same("the target's Secret", data(&secret), value.clone());
        if pair.wanted.is_none() {
            return;
        }
        // A target that is not a copy uploads nothing.
        if annotation(&target, SOURCE).is_none() {
            return;
        }
        let up = pair.source.sibling(secrets(), &pair.secret).stored().unwrap_or_default();
        // Another source's Secret is adopted only if its content is equal.
        let controller = &up["metadata"]["ownerReferences"][0];
        let source = &pair.source;
        let is_anothers = controller.is_object()
            && (controller["kind"] != *source.kind.resource.kind
                || controller["name"] != *source.name);
        if is_anothers && data(&up) != value {
            return;
        }
        self.same("the source's Secret", data(&up), value);
        let hash = annotation(&up, HASH);
        self.unless(hash.is_some(), || "the Secret is not marked as uploaded".into());
        let source = pair.source.stored().unwrap_or_default();
        let of = up["metadata"]["ownerReferences"][0]["uid"].as_str().map(str::to_owned);
        self.same("the Secret's owner", of.as_deref(), Some(uid(&source)));
    }
}

/// Returns the labels or annotations, except the program's own.
fn map(object: &Value, field: &str) -> Map {
    let all = object["metadata"][field].as_object().into_iter().flatten();
    all.filter(|(key, _)| !key.starts_with(PREFIX))
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

fn annotation(object: &Value, key: &str) -> Option<String> {
    object["metadata"]["annotations"][key].as_str().map(str::to_owned)
}

fn generation(object: &Value) -> Option<String> {
    Some(object["metadata"]["generation"].as_u64().unwrap_or(0).to_string())
}

fn finalizers(object: &Value) -> Vec<String> {
    let all = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    all.map(|one| one.as_str().unwrap_or_default().to_owned()).collect()
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Returns namespaces that were created for a single target and should be deleted by now.
fn left_namespaces(scene: &Scene) -> Vec<Difference> {
    let alone = |pair: &Pair| match pair.target.namespace.as_deref() {
        Some(namespace) => scene.pairs_in(namespace).count() == 1,
        None => false,
    };
    let pairs = scene.pairs.iter().enumerate().filter(|(_, pair)| alone(pair));
    pairs
        .filter_map(|(index, pair)| {
            let namespace = namespace_of(&pair.target)?.stored()?;
            // <cluster>/<namespace>/<name>/<uid>/…
            let mark = annotation(&namespace, SOURCE)?;
            let to_go = pair.left_by.as_deref() == mark.split('/').nth(3);
            (to_go && pair.wanted.is_none() && pair.target.stored().is_none())
                .then(|| (Some(index), "the target's namespace is still there".into()))
        })
        .collect()
}
