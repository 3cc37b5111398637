//! The names of cluster and agent: given, found, or generated once and for all.

use suite::{
    eventually,
    identity::Data,
    sidecar::Sidecar,
    spoke::{AGENT, Spoke},
};

use crate::joining::support::{roles, settled, start_without};

const NAMES: [&str; 2] = ["-cluster-name", "-agent-id"];

fn start_nameless(spoke: &Spoke, more: &[&str]) -> Sidecar {
    start_without(spoke, &NAMES, more)
}

fn text(data: &Data, key: &str) -> String {
    String::from_utf8(data[key].clone()).expect("UTF-8")
}

fn wait_for_pending(spoke: &Spoke) -> Data {
    eventually("a request is stored", || spoke.pending())
}

fn is_uuid(name: &str) -> bool {
    let parts: Vec<_> = name.split('-').collect();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    lengths == [8, 4, 4, 4, 12]
        && parts.concat().chars().all(hex)
        && parts[2].starts_with('4')
        && parts[3].starts_with(['8', '9', 'a', 'b'])
}

#[test]
fn generated_names_survive_a_crash_before_anybody_approved() {
    let mut spoke = Spoke::new("names-crash");
    let mut sidecar = start_nameless(&spoke, &[]);
    let first = wait_for_pending(&spoke);
    sidecar.kill();
    let (cluster, agent) = (text(&first, "cluster-name"), text(&first, "agent-name"));
    assert!(is_uuid(&cluster), "{cluster}");
    let letters = "bcdfghjklmnpqrstvwxz2456789";
    assert!(agent.len() == 5 && agent.chars().all(|c| letters.contains(c)), "{agent}");

    spoke.cluster = cluster;
    for _ in 0..2 {
        let mut sidecar = start_nameless(&spoke, &[]);
        spoke.hub.next_csr(&spoke.cluster);
        sidecar.kill();
        assert_eq!(wait_for_pending(&spoke), first, "names, key and request are the same");
    }
    let sidecar = start_nameless(&spoke, &[]);
    sidecar.wait_for(&format!("cluster={} agent={agent}", spoke.cluster));
    let csr = spoke.hub.approve_next(&spoke.cluster);
    assert_eq!(csr, text(&first, "csr-name"));
    spoke.hub.accept(&spoke.cluster);
    let saved = eventually("the credential is saved", || spoke.credential());
    assert_eq!(text(&saved, "cluster-name"), spoke.cluster);
    assert_eq!(text(&saved, "agent-name"), agent);
    assert_eq!(saved["tls.key"], first["tls.key"], "the key that was stored first");
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1, "one request in all");
    assert!(spoke.hub.managed_cluster(&spoke.cluster).is_some());
}

#[test]
fn generated_names_are_kept_with_the_credential() {
    let mut spoke = Spoke::new("names-kept");
    let mut sidecar = start_nameless(&spoke, &[]);
    spoke.cluster = text(&wait_for_pending(&spoke), "cluster-name");
    spoke.hub.approve_next(&spoke.cluster);
    spoke.hub.accept(&spoke.cluster);
    let saved = eventually("the credential is saved", || spoke.credential());
    eventually("the stored request is removed", || spoke.pending().is_none().then_some(()));
    sidecar.terminate();
    let sidecar = start_nameless(&spoke, &[]);
    let agent = text(&saved, "agent-name");
    sidecar.wait_for(&format!("cluster={} agent={agent}", spoke.cluster));
    sidecar.wait_for_code("/readyz", 200);
    assert_eq!(spoke.credential(), Some(saved));
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1, "no other request");
}

/// Upstream takes them raw: a line break from `echo` becomes part of the name.
#[test]
fn names_are_trimmed_wherever_they_come_from() {
    let spoke = Spoke::auto("names-trim");
    let names: Data = [
        ("cluster-name".into(), format!(" {}\n", spoke.cluster).into_bytes()),
        ("agent-name".into(), format!("{AGENT}\r\n").into_bytes()),
    ]
    .into();
    spoke.put_secret(&spoke.secret, &names);
    let sidecar = start_nameless(&spoke, &[]);
    settled(&spoke, &sidecar);
    drop(sidecar);
    let saved = spoke.credential().expect("the Secret");
    assert_eq!(
        (text(&saved, "cluster-name"), text(&saved, "agent-name")),
        (spoke.cluster.clone(), AGENT.into())
    );

    let given = format!("\t{}\n", spoke.cluster);
    let sidecar = start_nameless(&spoke, &["-cluster-name", &given, "-agent-id", " agent1 "]);
    settled(&spoke, &sidecar);
    assert_eq!((spoke.credential(), roles(&spoke)), (Some(saved), vec!["bootstrap"]));
}

#[test]
fn names_in_the_dumped_files_count_where_the_secret_has_none() {
    let spoke = Spoke::auto("names-files");
    let directory = spoke.directory.path().join("dumped");
    std::fs::create_dir(&directory).expect("a directory");
    for (file, name) in [("cluster-name", spoke.cluster.as_str()), ("agent-name", AGENT)] {
        std::fs::write(directory.join(file), name).expect("the file is written");
    }
    let directory = directory.to_str().expect("a path").to_owned();
    let sidecar = start_nameless(&spoke, &["-hub-kubeconfig-dir", &directory]);
    spoke.wait_for_certificate();
    // Ready is what has arrived in the files, and nobody dumps them here.
    eventually("it waits for the files", || {
        let (code, why) = sidecar.ask("/readyz");
        (code == 503 && why.contains(&directory)).then_some(())
    });
    for (key, value) in spoke.credential().expect("the Secret") {
        std::fs::write(format!("{directory}/{key}"), value).expect("the file is written");
    }
    sidecar.wait_for_code("/readyz", 200);
}
