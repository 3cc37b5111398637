//! A Secret and a directory of hub-kubeconfig-dumper: `kubeconfig NUL tls.crt NUL tls.key NUL names`, where
//! the names, one per line, are other keys and entries of the directory; or the Secret in JSON.
//!
//! Every key becomes a valid file name, and the flattened kubeconfig is equivalent to the original. The plan
//! removes only generations that nobody reads and links of ours, links every file, and changes nothing when
//! run again. Anything else is a one-line error without a key.

#![cfg(not(test))]
#![cfg_attr(fuzzing, no_main)]

fuzz::modules! {
    flatten = "../../../../bins/hub-kubeconfig-dumper/src/flatten.rs",
    plan = "../../../../shared/src/files/plan.rs",
}

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use fuzz::{CERTIFICATE, HUGE, KEY, assert_one_line, bounded, expand, kubeconfig_bound, parts};
use serde_json::{Map, Value, json};
// The plan names three of these as its crate does.
use shared::{
    client::USUAL_OBJECT,
    collect,
    files::{Content, valid_key},
    json, kubeconfig,
    secret::{self, Data},
    time,
};

use crate::{
    flatten::content,
    plan::{Files, Found, Generation, Modes, PathEntry, PlanStep, TEMPORARY, is_generation, plan},
};

const FLAT: &str = "flat";
/// Keys and certificates.
const OVERHEAD: usize = 64 << 10;

fuzz::target!(run);

fn run(data: &[u8]) {
    let text = expand(data, HUGE);
    let (secret, names) = match &*text {
        [b'{', ..] => (json::parse(&text, USUAL_OBJECT).unwrap_or_default(), ""),
        _ => secret_from_parts(&text),
    };
    let data = secret::data(&secret).unwrap_or_default();
    let cost = data.get("kubeconfig").map_or(0, |config| kubeconfig_bound(config));
    // The files; the kubeconfig's budget; its text, with the files it names in base64 and room to grow.
    let limit = json::cost(&secret) + cost + 6 * text.len() + OVERHEAD;
    // Work that costs memory also takes time.
    let length = text.len() + cost / 16;
    for flattened in [None, Some(FLAT)] {
        match bounded(length, limit, || content("ns/x", &secret, flattened)) {
            Ok(content) => {
                check_content(&content, flattened);
                check_plan(&content.files, names);
            }
            Err(error) => {
                assert_one_line(error.message(), 2000);
                assert_no_key(error.message(), &secret, &data, flattened);
            }
        }
    }
}

fn secret_from_parts(text: &[u8]) -> (Value, &str) {
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

/// Asserts that a message quotes no line of `tls.key`. libFuzzer copies words from names and messages into its
/// inputs, so a line may be in both by chance; a quoted one leaves the message when the key loses it.
fn assert_no_key(message: &str, secret: &Value, data: &Data, flattened: Option<&str>) {
    let key = data.get("tls.key").map_or(&[][..], |key| key);
    let lines: Vec<_> = key.split(|byte| *byte == b'\n').collect();
    let texts = lines.iter().filter_map(|line| str::from_utf8(line).ok());
    for line in texts.filter(|line| line.len() >= 10 && message.contains(line)) {
        let blank = vec![b'#'; line.len()];
        let without =
            lines.iter().map(|other| if *other == line.as_bytes() { &blank } else { *other });
        let without = without.collect::<Vec<_>>().join(&b'\n');
        let mut secret = secret.clone();
        secret["data"]["tls.key"] = Value::from(BASE64_STANDARD.encode(without));
        let error = content("ns/x", &secret, flattened).err();
        let by_chance = error.is_some_and(|error| error.message().contains(line));
        assert!(by_chance, "quotes a key: {message:?}");
    }
}

fn check_content(content: &Content, flattened: Option<&str>) {
    let files = &content.files;
    assert!(files.keys().all(|name| valid_key(name) && !name.starts_with("..")));
    assert_eq!(content.complete, files.contains_key("kubeconfig"));
    let Some(flat) = flattened.and_then(|name| files.get(name)).filter(|_| content.complete) else {
        return;
    };
    let alone = Data::from([("kubeconfig".to_owned(), flat.clone())]);
    if let Ok(access) = kubeconfig::from_secret("ns/x", files) {
        let same = kubeconfig::from_secret("ns/x", &alone).expect("a kubeconfig");
        assert!(same == access, "the flattened kubeconfig differs");
    }
}

/// Checks the plan for an empty directory, for one with these names, and for the result of each.
fn check_plan(wanted: &Files, names: &str) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    // 200 bytes for an entry of a map.
    let cost: usize = wanted.iter().map(|(name, content)| name.len() + content.len() + 200).sum();
    for found in [Found::default(), directory_with(names, wanted)] {
        // The current set, the part of it that stays visible, and the new set, each copied once more where it
        // is current.
        let limit = 6 * (cost + names.len()) + OVERHEAD;
        let Ok(steps) = bounded(cost, limit, || plan(&found, wanted, Modes::default(), now)) else {
            assert!(found.entries.values().any(|entry| *entry == PathEntry::Directory));
            continue;
        };
        let done = apply_steps(&found, &steps, wanted);
        let again =
            plan(&done, wanted, Modes::default(), now).expect("a directory without obstacles");
        assert!(again.is_empty(), "{again:?} after the plan was carried out");
    }
}

/// A directory with these names, each as what it looks like.
fn directory_with(names: &str, wanted: &Files) -> Found {
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
    // The middle one: later generations were never switched to.
    let current = found.generations.get(found.generations.len() / 2).cloned();
    found.current = current.map(|name| Generation {
        name,
        mode: 0o755,
        files: wanted.keys().take(1).map(|file| (file.clone(), b"old".to_vec().into())).collect(),
        modes: BTreeMap::new(),
    });
    found
}

/// Returns the directory after `steps`.
fn apply_steps(found: &Found, steps: &[PlanStep], wanted: &Files) -> Found {
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
    // Of our entries, only the links of the files are left.
    let links = entries.iter().filter(|name| wanted.contains_key(*name));
    done.entries = links.map(|name| (name.clone(), PathEntry::Ours)).collect();
    generations.sort();
    done.generations = generations;
    done
}
