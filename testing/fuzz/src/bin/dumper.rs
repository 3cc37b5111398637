//! What hub-kubeconfig-dumper makes of a Secret and of a directory: `kubeconfig NUL tls.crt NUL tls.key NUL
//! names`, where the names, a line each, are other keys and lie in the directory; or the Secret in JSON.
//!
//! What becomes files are files, and the flattened one is a kubeconfig that means the same. Nothing is
//! removed but generations that nobody reads and links of ours, each of the files is linked, and what is as
//! it should be stays so. Anything else is one line without a key.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

fuzz::modules! {
    content = "../../../../bins/hub-kubeconfig-dumper/src/content.rs",
    flatten = "../../../../bins/hub-kubeconfig-dumper/src/flatten.rs",
    plan = "../../../../bins/hub-kubeconfig-dumper/src/plan.rs",
}

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use fuzz::{CERTIFICATE, HUGE, KEY, bounded, expanded, of_kubeconfig, parts, sentence};
use serde_json::{Map, Value, json};
use shared::{client::USUAL_OBJECT, json, kubeconfig, secret::Data};

use crate::{
    content::{Content, valid_key},
    plan::{Files, Found, Generation, Modes, PathEntry, PlanStep, TEMPORARY, is_generation, plan},
};

const FLAT: &str = "flat";
/// Keys and certificates need it.
const OVERHEAD: usize = 64 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let text = expanded(data, HUGE);
    let (secret, names) = match &*text {
        [b'{', ..] => (json::parse(&text, USUAL_OBJECT).unwrap_or_default(), ""),
        _ => of_parts(&text),
    };
    let data = shared::secret::data(&secret).unwrap_or_default();
    let cost = data.get("kubeconfig").map_or(0, |config| of_kubeconfig(config));
    // The files; the kubeconfig, as it may cost; its text, with what it names in base64 and room to grow.
    let limit = json::cost(&secret) + cost + 6 * text.len() + OVERHEAD;
    // What costs memory takes time too.
    let length = text.len() + cost / 16;
    for flattened in [None, Some(FLAT)] {
        match bounded(length, limit, || Content::of("ns/x", &secret, flattened)) {
            Ok(content) => {
                judged(&content, flattened);
                planned(&content.files, names);
            }
            Err(error) => {
                sentence(error.message(), 2000);
                without_key(error.message(), &data);
            }
        }
    }
}

fn of_parts(text: &[u8]) -> (Value, &str) {
    let [config, certificate, key, names] = parts(text);
    let names = str::from_utf8(names.unwrap_or_default()).unwrap_or_default();
    let files = [
        ("kubeconfig", config.unwrap_or_default()),
        ("tls.crt", certificate.unwrap_or(CERTIFICATE)),
        ("tls.key", key.unwrap_or(KEY)),
    ];
    let others = names.lines().map(|name| (name, &b"x"[..]));
    let encoded = |(name, value): (&str, &[u8])| {
        (name.to_owned(), Value::from(BASE64_STANDARD.encode(value)))
    };
    let data: Map<_, _> =
        others.filter(|(name, _)| valid_key(name)).chain(files).map(encoded).collect();
    (json!({"metadata": {"namespace": "ns", "name": "x"}, "data": data}), names)
}

/// Nothing of `tls.key` is quoted but what stands elsewhere too: libFuzzer copies, and makes a name of it.
fn without_key(text: &str, data: &Data) {
    let key = data.get("tls.key").map_or(&[][..], |key| key);
    let others: Vec<_> = data
        .iter()
        .filter(|(name, _)| *name != "tls.key")
        .flat_map(|(name, content)| [name.into(), String::from_utf8_lossy(content)])
        .collect();
    for line in key.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok()) {
        let elsewhere = others.iter().any(|other| other.contains(line));
        assert!(line.len() < 10 || elsewhere || !text.contains(line), "quotes a key: {text:?}");
    }
}

fn judged(content: &Content, flattened: Option<&str>) {
    let files = &content.files;
    assert!(files.keys().all(|name| valid_key(name) && !name.starts_with("..")));
    assert_eq!(content.complete, files.contains_key("kubeconfig"));
    let Some(flat) = flattened.and_then(|name| files.get(name)).filter(|_| content.complete) else {
        return;
    };
    let alone = Data::from([("kubeconfig".to_owned(), flat.clone())]);
    if let Ok(access) = kubeconfig::from_secret("ns/x", files) {
        let same = kubeconfig::from_secret("ns/x", &alone).expect("a kubeconfig");
        assert!(same == access, "another kubeconfig");
    }
}

/// What is done in an empty directory, in one with these names, and in the one that comes of it.
fn planned(wanted: &Files, names: &str) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    // A place in a map, with what belongs to it.
    let cost: usize = wanted.iter().map(|(name, content)| name.len() + content.len() + 200).sum();
    for found in [Found::default(), with(names, wanted)] {
        // The set that is there, what of it stays visible, and the new one, each once more where it is current.
        let limit = 6 * (cost + names.len()) + OVERHEAD;
        let Ok(steps) = bounded(cost, limit, || plan(&found, wanted, Modes::default(), now)) else {
            assert!(found.entries.values().any(|entry| *entry == PathEntry::Directory));
            continue;
        };
        let done = carried_out(&found, &steps, wanted);
        let again = plan(&done, wanted, Modes::default(), now).expect("nothing is in the way");
        assert!(again.is_empty(), "{again:?} after all was done");
    }
}

/// A directory where these names are what they look like.
fn with(names: &str, wanted: &Files) -> Found {
    let mut found = Found { mode: 0o755, ..Found::default() };
    for (index, name) in names.lines().enumerate() {
        if is_generation(name) {
            found.generations.push(name.to_owned());
        } else if name.starts_with(TEMPORARY) {
            found.temporary.push(name.to_owned());
        } else if valid_key(name) {
            let entry = match index % 5 {
                0 => PathEntry::Ours,
                1 => PathEntry::Plain(None),
                2 => PathEntry::Plain(Some((b"old".to_vec().into(), 0o640))),
                3 => PathEntry::Other,
                _ => PathEntry::Directory,
            };
            found.entries.insert(name.to_owned(), entry);
        }
    }
    found.generations.sort();
    found.generations.dedup();
    // The one in the middle: what comes after it was never switched to.
    let current = found.generations.get(found.generations.len() / 2).cloned();
    found.current = current.map(|name| Generation {
        name,
        mode: 0o755,
        files: wanted.keys().take(1).map(|file| (file.clone(), b"old".to_vec().into())).collect(),
        modes: BTreeMap::new(),
    });
    found
}

/// The directory after `steps`.
fn carried_out(found: &Found, steps: &[PlanStep], wanted: &Files) -> Found {
    let mut written = BTreeMap::new();
    let mut done = Found { mode: found.mode, ..Found::default() };
    let mut generations = found.generations.clone();
    done.current.clone_from(&found.current);
    let mut entries: Vec<_> = found.entries.keys().cloned().collect();
    for step in steps {
        match step {
            PlanStep::SetMode(_) | PlanStep::Repair(..) => {}
            PlanStep::RemoveGeneration(name) => {
                assert!(
                    is_generation(name) && done.current.as_ref().is_none_or(|c| c.name != *name)
                );
                generations.retain(|other| other != name);
            }
            PlanStep::Unlink(name) => {
                assert!(found.temporary.contains(name) || found.entries[name] == PathEntry::Ours);
                entries.retain(|other| other != name);
            }
            PlanStep::Write(generation) => {
                assert!(is_generation(&generation.name) && !generations.contains(&generation.name));
                generations.push(generation.name.clone());
                written.insert(generation.name.clone(), generation.clone());
            }
            PlanStep::Switch(name) => done.current = Some(written[name].clone()),
            PlanStep::Link(name) => {
                assert!(wanted.contains_key(name));
                entries.push(name.clone());
            }
        }
    }
    assert!(done.current.as_ref().is_some_and(|current| current.files == *wanted));
    assert!(wanted.keys().all(|name| entries.contains(name)), "not every file is linked");
    // Beside the files only what is none of ours.
    let links = entries.iter().filter(|name| wanted.contains_key(*name));
    done.entries = links.map(|name| (name.clone(), PathEntry::Ours)).collect();
    generations.sort();
    done.generations = generations;
    done
}
