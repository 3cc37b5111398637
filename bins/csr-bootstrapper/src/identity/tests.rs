//! Sources of the names. Rows of upstream's tables are named by its test.

use std::{env, path::PathBuf, process};

use super::*;

/// A new directory; it is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("csr-bootstrapper-{name}-{}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn data(cluster: &str, agent: &str) -> Data {
    [(CLUSTER_NAME, cluster), (AGENT_NAME, agent)]
        .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec().into()))
        .into()
}

const NONE: [Option<&str>; 2] = [None; 2];
const NAMES: [&str; 2] = [CLUSTER_NAME, AGENT_NAME];

/// The resolved names with these flags and places; generated ones are `_`.
fn found(flags: [Option<&str>; 2], stored: Vec<Option<Data>>) -> (String, String) {
    let random = random().unwrap();
    let stored: Vec<_> = stored.iter().map(|data| ("x", data.as_ref())).collect();
    let (names, _) = resolve(flags, &stored, &random);
    let mark = |name: String, new: String| if name == new { "_".into() } else { name };
    (mark(names.cluster, uuid(&random)), mark(names.agent, letters(&random)))
}

fn pair(cluster: &str, agent: &str) -> (String, String) {
    (cluster.to_owned(), agent.to_owned())
}

/// ocm `pkg/common/options/options_test.go:27`.
#[test]
fn upstreams_rows_of_complete() {
    // Generate random cluster/agent name.
    assert_eq!(found(NONE, vec![]), pair("_", "_"));
    // Specify cluster name.
    let flags = [Some("cluster1"), None];
    assert_eq!(found(flags, vec![None]), pair("cluster1", "_"));
    // Override cluster name in secret with specified value.
    let secret = Some(data("cluster2", "agent2"));
    assert_eq!(found(flags, vec![secret.clone()]), pair("cluster1", "agent2"));
    // Take cluster/agent name from secret.
    assert_eq!(found(NONE, vec![secret]), pair("cluster2", "agent2"));
}

/// ocm `pkg/common/options/agent_test.go:135`.
#[test]
fn upstreams_rows_of_get_or_generate() {
    let Scratch(path) = &Scratch::new("complete");
    for (file, name) in [(CLUSTER_NAME, "cluster-from-file"), (AGENT_NAME, "agent-from-file")] {
        fs::write(path.join(file), name).unwrap();
    }
    let files = || vec![None, Some(in_directory(path, NAMES))];
    // From options.
    let flags = [Some("cluster-from-options"), Some("agent-from-options")];
    assert_eq!(found(flags, files()), pair("cluster-from-options", "agent-from-options"));
    // From file.
    assert_eq!(found(NONE, files()), pair("cluster-from-file", "agent-from-file"));
    // Generate.
    let none = in_directory(Path::new("/non-exist-dir"), NAMES);
    assert_eq!(found(NONE, vec![Some(none)]), pair("_", "_"));
}

#[test]
fn each_name_is_that_of_the_first_place_that_has_one() {
    let only = |key: &str, value: &str| {
        Some(Data::from([(key.to_owned(), value.as_bytes().to_vec().into())]))
    };
    let (secret, directory) = (only(AGENT_NAME, "a-secret"), only(CLUSTER_NAME, "c-directory"));
    let pending = || Some(data("\tc-pending\r\n", " a-pending\n"));
    let expected = pair("c-directory", "a-secret");
    assert_eq!(found(NONE, vec![secret.clone(), directory, pending()]), expected);
    assert_eq!(found(NONE, vec![secret, None, pending()]), pair("c-pending", "a-secret"));
}

#[test]
fn stored_value_that_cannot_be_a_name_is_ignored() {
    let secret = data("test-cluster-!@#", "a:b");
    let directory = data(" \n", "");
    let stored = [("the Secret", Some(&secret)), ("the directory", Some(&directory)), ("x", None)];
    let (_, ignored) = resolve(NONE, &stored, &RandomBytes::default());
    let starts = [
        "cluster-name of the Secret is \"test-cluster-!@#\", which is not the name of a namespace",
        "cluster-name of the directory is empty",
        "agent-name of the Secret is \"a:b\", which is not an agent's name",
        "agent-name of the directory is empty",
    ];
    assert_eq!(ignored.len(), starts.len(), "{ignored:?}");
    for (ignored, start) in ignored.iter().zip(starts) {
        assert!(ignored.starts_with(start), "{ignored}");
    }
    let mut odd = data("", "a\0b");
    odd.insert(CLUSTER_NAME.into(), vec![0xff].into());
    let places = vec![Some(odd), Some(data("cluster1", "agent1"))];
    assert_eq!(found(NONE, places), pair("cluster1", "agent1"));
}

#[test]
fn only_small_files_are_read() {
    let Scratch(path) = &Scratch::new("small");
    fs::create_dir(path.join(CLUSTER_NAME)).unwrap();
    let agent = path.join(AGENT_NAME);
    fs::write(&agent, vec![b'a'; (1 << 20) + 1]).unwrap();
    assert!(in_directory(path, NAMES).is_empty());
    fs::write(&agent, "agent1").unwrap();
    fs::write(path.join("hub-ca.crt"), "a CA").unwrap();
    assert_eq!(in_directory(path, NAMES).len(), 1);
    assert_eq!(in_directory(path, ["hub-ca.crt"])["hub-ca.crt"][..], *b"a CA");
}

#[test]
fn new_names_look_like_upstreams() {
    let mut ones = RandomBytes::default();
    assert_eq!(uuid(&ones), "00000000-0000-4000-8000-000000000000");
    assert_eq!(letters(&ones), "bbbbb");
    ones.fill(0xff);
    assert_eq!(uuid(&ones), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    let (one, other) = (random().unwrap(), random().unwrap());
    assert_ne!(uuid(&one), uuid(&other));
    for bytes in [one, other, ones] {
        let (cluster, agent) = (uuid(&bytes), letters(&bytes));
        assert_eq!((valid_cluster(&cluster), valid_agent(&agent)), (Ok(()), Ok(())));
        assert!(agent.len() == 5 && agent.bytes().all(|byte| LETTERS.contains(&byte)), "{agent}");
    }
}

#[test]
fn the_user_and_its_groups_are_what_the_hub_recognises() {
    let names = AgentNames { cluster: "zoo".into(), agent: "a1".into() };
    assert_eq!(names.user(), "system:open-cluster-management:zoo:a1");
    let groups = ["managed-clusters", "zoo"].map(|name| format!("{PREFIX}{name}"));
    assert_eq!(names.groups(), groups);
}
