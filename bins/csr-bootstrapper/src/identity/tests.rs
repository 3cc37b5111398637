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

/// ocm `pkg/common/options/options_test.go:27` and `agent_test.go:135`, and the order of the places.
#[test]
fn each_name_is_that_of_the_first_place_that_has_one() {
    let flags = [Some("cluster1"), None];
    let both = [Some("cluster1"), Some("agent1")];
    let secret = || Some(data("cluster2", "agent2"));
    let pending = || Some(data("\tc-pending\r\n", " a-pending\n"));
    let without = |key: &str| {
        let mut data = secret()?;
        data.remove(key);
        Some(data)
    };
    for (flags, stored, cluster, agent) in [
        (NONE, vec![], "_", "_"),
        (flags, vec![None], "cluster1", "_"),
        (both, vec![Some(data("x", "y"))], "cluster1", "agent1"),
        (flags, vec![secret()], "cluster1", "agent2"),
        (NONE, vec![secret(), pending()], "cluster2", "agent2"),
        (NONE, vec![without(CLUSTER_NAME), pending()], "c-pending", "agent2"),
        (NONE, vec![without(AGENT_NAME), pending()], "cluster2", "a-pending"),
        (NONE, vec![None, pending()], "c-pending", "a-pending"),
    ] {
        assert_eq!(found(flags, stored), pair(cluster, agent));
    }
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
