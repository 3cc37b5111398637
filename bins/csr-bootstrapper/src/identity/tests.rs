//! Sources of the names. Rows of upstream's tables are named by its test.

use super::*;

fn data(cluster: &str, agent: &str) -> Data {
    [(CLUSTER_NAME, cluster), (AGENT_NAME, agent)]
        .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec().into()))
        .into()
}

const NONE: [Option<&str>; 2] = [None; 2];

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
    // From options (ocm `pkg/common/options/agent_test.go:135`).
    let both = [Some("cluster1"), Some("agent1")];
    assert_eq!(found(both, vec![Some(data("x", "y"))]), pair("cluster1", "agent1"));
    // Override cluster name in secret with specified value.
    let secret = Some(data("cluster2", "agent2"));
    assert_eq!(found(flags, vec![secret.clone()]), pair("cluster1", "agent2"));
    // Take cluster/agent name from secret.
    assert_eq!(found(NONE, vec![secret]), pair("cluster2", "agent2"));
}

#[test]
fn each_name_is_that_of_the_first_place_that_has_one() {
    let only = |key: &str, value: &str| {
        Some(Data::from([(key.to_owned(), value.as_bytes().to_vec().into())]))
    };
    let (agent, cluster) = (only(AGENT_NAME, "a-secret"), only(CLUSTER_NAME, "c-secret"));
    let pending = || Some(data("\tc-pending\r\n", " a-pending\n"));
    assert_eq!(found(NONE, vec![agent, pending()]), pair("c-pending", "a-secret"));
    assert_eq!(found(NONE, vec![cluster, pending()]), pair("c-secret", "a-pending"));
    assert_eq!(found(NONE, vec![None, pending()]), pair("c-pending", "a-pending"));
}

#[test]
fn stored_value_that_cannot_be_a_name_is_ignored() {
    let secret = data("test-cluster-!@#", "a:b");
    let pending = data(" \n", "");
    let stored = [("the Secret", Some(&secret)), ("the pending request", Some(&pending))];
    let (_, ignored) = resolve(NONE, &stored, &RandomBytes::default());
    let starts = [
        "cluster-name of the Secret is \"test-cluster-!@#\", which is not the name of a namespace",
        "cluster-name of the pending request is empty",
        "agent-name of the Secret is \"a:b\", which is not an agent's name",
        "agent-name of the pending request is empty",
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
