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

/// The resolved names; generated ones are `_`.
fn found(known: &NameSources<'_>) -> (String, String) {
    let random = random().unwrap();
    let ResolvedNames { names, .. } = resolve(known, &random);
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
    assert_eq!(found(&NameSources::default()), pair("_", "_"));
    // Specify cluster name.
    let flags = (Some("cluster1"), None);
    assert_eq!(found(&NameSources { flags, ..NameSources::default() }), pair("cluster1", "_"));
    // Override cluster name in secret with specified value.
    let secret = data("cluster2", "agent2");
    let known = NameSources { flags, secret: Some(&secret), ..NameSources::default() };
    assert_eq!(found(&known), pair("cluster1", "agent2"));
    // Take cluster/agent name from secret.
    let secret = data("cluster1", "agent1");
    let known = NameSources { secret: Some(&secret), ..NameSources::default() };
    assert_eq!(found(&known), pair("cluster1", "agent1"));
}

/// ocm `pkg/common/options/agent_test.go:135`.
#[test]
fn upstreams_rows_of_get_or_generate() {
    let Scratch(path) = &Scratch::new("complete");
    for (file, name) in [(CLUSTER_NAME, "cluster-from-file"), (AGENT_NAME, "agent-from-file")] {
        fs::write(path.join(file), name).unwrap();
    }
    let files = in_directory(path);
    let known = NameSources { directory: Some(&files), ..NameSources::default() };
    // From options.
    let flags = (Some("cluster-from-options"), Some("agent-from-options"));
    let expected = pair("cluster-from-options", "agent-from-options");
    assert_eq!(found(&NameSources { flags, ..known }), expected);
    // From file.
    assert_eq!(found(&known), pair("cluster-from-file", "agent-from-file"));
    // Generate.
    let none = in_directory(Path::new("/non-exist-dir"));
    assert_eq!(found(&NameSources { directory: Some(&none), ..known }), pair("_", "_"));
}

#[test]
fn each_name_is_that_of_the_first_place_that_has_one() {
    let only =
        |key: &str, value: &str| Data::from([(key.to_owned(), value.as_bytes().to_vec().into())]);
    let (secret, directory) = (only(AGENT_NAME, "a-secret"), only(CLUSTER_NAME, "c-directory"));
    let pending = data("c-pending", "a-pending");
    let mut known = NameSources {
        directory: Some(&directory),
        pending: Some(&pending),
        ..NameSources::default()
    };
    assert_eq!(found(&known), pair("c-directory", "a-pending"));
    known.secret = Some(&secret);
    assert_eq!(found(&known), pair("c-directory", "a-secret"));
    known.directory = None;
    assert_eq!(found(&known), pair("c-pending", "a-secret"));
    known.pending = None;
    assert_eq!(found(&known), pair("_", "a-secret"));
}

#[test]
fn white_space_around_a_name_is_no_part_of_it() {
    let secret = data("\tcluster1\r\n", " agent1\n");
    let known = NameSources { secret: Some(&secret), ..NameSources::default() };
    assert_eq!(found(&known), pair("cluster1", "agent1"));
    let known = NameSources { flags: (Some(" c "), Some(" ")), ..known };
    assert_eq!(found(&known), pair("c", "agent1"));
}

#[test]
fn what_cannot_be_a_name_is_passed_over_and_told() {
    let mut secret = data("test-cluster-!@#", "a:b");
    let directory = data(" \n", "");
    let pending = data("cluster1", "agent1");
    let known = NameSources {
        secret: Some(&secret),
        directory: Some(&directory),
        pending: Some(&pending),
        ..NameSources::default()
    };
    assert_eq!(found(&known), pair("cluster1", "agent1"));
    let ignored = resolve(&known, &RandomBytes::default()).ignored;
    let starts = [
        "cluster-name of the Secret is \"test-cluster-!@#\", which is not the name of a namespace",
        "cluster-name of the directory is empty",
        "agent-name of the Secret is \"a:b\", which is not an agent's name",
        "agent-name of the directory is empty",
    ];
    assert_eq!(ignored.len(), starts.len(), "{ignored:?}");
    for (told, start) in ignored.iter().zip(starts) {
        assert!(told.starts_with(start), "{told}");
    }
    secret.insert(CLUSTER_NAME.into(), vec![0xff].into());
    secret.insert(AGENT_NAME.into(), b"a\0b".to_vec().into());
    let known = NameSources { secret: Some(&secret), ..NameSources::default() };
    assert_eq!(found(&known), pair("_", "_"));
    assert_eq!(
        resolve(&known, &RandomBytes::default()).ignored[0],
        "cluster-name of the Secret is not UTF-8"
    );
}

#[test]
fn only_small_files_are_read() {
    let Scratch(path) = &Scratch::new("small");
    fs::create_dir(path.join(CLUSTER_NAME)).unwrap();
    let agent = path.join(AGENT_NAME);
    fs::write(&agent, vec![b'a'; (1 << 20) + 1]).unwrap();
    assert!(in_directory(path).is_empty());
    fs::write(&agent, "agent1").unwrap();
    assert_eq!(in_directory(path).len(), 1);
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
