//! Kubeconfigs that somebody put into a Secret or a file to cost time and memory, or to read the pod's files.

use std::{fs, time::Duration};

use dev_apiserver::{Options, Server};
use serde_json::json;
use suite::{
    Stopwatch,
    identity::{self, Data},
    pause,
    sidecar::Sidecar,
    spoke::SECRET as CREDENTIAL,
    stays, within,
};

use crate::{
    shapes,
    subjects::{Agent, Dumper, Lease, Remote},
};

fn data(kubeconfig: &str) -> Data {
    [("kubeconfig".to_owned(), kubeconfig.as_bytes().to_vec())].into()
}

/// Puts each kubeconfig where the program reads it; it goes on with what it had, and answers its probe all the
/// while.
#[track_caller]
fn survives(sidecar: &Sidecar, refusal: &str, put: impl Fn(&str)) {
    for (name, text) in shapes::kubeconfigs() {
        let before = sidecar.count(refusal);
        put(&text);
        let watch = Stopwatch::start();
        while sidecar.count(refusal) == before {
            let asked = Stopwatch::start();
            assert_eq!(sidecar.ask("/healthz").0, 200, "{name}: {}", sidecar.log());
            asked.assert_within(2, name);
            let waits = watch.is_within(Duration::from_secs(20));
            assert!(waits, "{name} is not judged: {}", sidecar.log());
            pause(20);
        }
    }
}

#[test]
fn a_hub_kubeconfig_of_any_shape_leaves_the_one_in_use_alone() {
    let subject = Lease::new("kubeconfig-lease");
    let sidecar = subject.start();
    subject.renews(&sidecar);
    survives(&sidecar, "keeping the current credentials", |text| {
        subject.scene.put_secret(&data(text));
    });
    subject.renews(&sidecar);
    subject.container.fits(&sidecar);
}

#[test]
fn the_same_for_the_registration_agents_own_secret_and_its_bootstrap() {
    let subject = Agent::new("kubeconfig-agent");
    let agent = subject.joined(&[]);
    let good = subject.spoke.bootstrap_kubeconfig();
    survives(&agent, "no valid bootstrap kubeconfig", |text| {
        subject.spoke.put_bootstrap(text);
        pause(300);
        subject.spoke.put_bootstrap(&good);
    });
    let credential = subject.spoke.credential().expect("the Secret");
    for (name, text) in shapes::kubeconfigs() {
        let mut data = credential.clone();
        data.insert("kubeconfig".into(), text.into_bytes());
        subject.spoke.put_secret(CREDENTIAL, &data);
        pause(300);
        assert_eq!(agent.ask("/healthz").0, 200, "{name}");
    }
    subject.spoke.put_secret(CREDENTIAL, &credential);
    within(40, "it is ready", || (agent.ask("/readyz").0 == 200).then_some(()));
    subject.gives_signs(&agent);
    subject.container.fits(&agent);
}

#[test]
fn the_same_for_what_is_dumped() {
    let subject = Dumper::new("kubeconfig-dumper");
    let good = |server: &str| {
        identity::kubeconfig(server, &subject.spoke.managed.ca, &json!({"token": "x"})).to_string()
    };
    subject.spoke.put_secret(CREDENTIAL, &data(&good("one.example:443")));
    let sidecar = subject.start();
    within(20, "the first set", || subject.file("kubeconfig"));
    for (name, text) in shapes::kubeconfigs() {
        subject.spoke.put_secret(CREDENTIAL, &data(&text));
        within(20, &format!("{name} is judged"), || {
            let (code, body) = sidecar.ask("/readyz");
            (code == 503 && body.contains("kubeconfig")).then_some(())
        });
        assert_eq!(sidecar.ask("/healthz").0, 200, "{name}");
        assert!(subject.file("kubeconfig").expect("the set").contains("one.example"), "{name}");
        subject.spoke.put_secret(CREDENTIAL, &data(&good("one.example:443")));
        within(20, name, || (sidecar.ask("/readyz").0 == 200).then_some(()));
    }
    subject.spoke.put_secret(CREDENTIAL, &data(&good("two.example:443")));
    within(20, "the next set", || {
        subject.file("kubeconfig").filter(|text| text.contains("two.example"))
    });
    subject.container.fits(&sidecar);
}

#[test]
fn the_same_for_a_remotes() {
    let subject = Remote::new("kubeconfig-remote");
    let sidecar = subject.start();
    subject.copies(&sidecar, "before");
    survives(&sidecar, "keeping the current credentials remote=hub", |text| {
        subject.put_kubeconfig(text);
        pause(300);
        // Another sentence than the one before.
        subject.put_kubeconfig("nothing");
    });
    subject.put_kubeconfig(&subject.kubeconfig());
    subject.copies(&sidecar, "after");
    subject.container.fits(&sidecar);
}

/// A server of somebody who chose it by a Secret: which tokens is it shown?
struct Thief {
    server: Server,
}

impl Thief {
    fn new() -> Self {
        Self { server: Server::start(Options::default()).expect("a server") }
    }

    /// A kubeconfig that leads to it, with this user.
    fn kubeconfig(&self, user: &serde_json::Value) -> String {
        let (address, ca) = (self.server.address().to_string(), &self.server.ca().certificate_pem);
        identity::kubeconfig(&address, ca, user).to_string()
    }
}

/// `-hub-kubeconfig` and `-remote-kubeconfig` are mounted from Secrets.
#[test]
fn a_kubeconfig_file_reads_no_file_of_the_pod_but_its_neighbours() {
    let subject = Lease::new("kubeconfig-files");
    let mount = subject.scene.directory.path().join("mount");
    fs::create_dir(&mount).expect("a directory");
    let token = subject.scene.write("token", "the-pods-own-token");
    let thief = Thief::new();
    let outside = [token.to_str().expect("a path").to_owned(), "../token".to_owned()];
    for path in &outside {
        let kubeconfig = thief.kubeconfig(&json!({"tokenFile": path}));
        fs::write(mount.join("kubeconfig"), kubeconfig).expect("the file is written");
        let file = mount.join("kubeconfig");
        let more = ["-hub-kubeconfig-secret=", "-hub-kubeconfig", file.to_str().expect("a path")];
        let sidecar = subject.start_with(&more);
        sidecar.wait_for("is not in the directory of the kubeconfig");
        assert!(!sidecar.log().contains("the-pods-own-token"), "{}", sidecar.log());
        stays(path, || thief.server.counters().connections == 0);
    }
    // Beside it a file may be named, and anywhere if people say so.
    fs::write(mount.join("token"), "its-own-token").expect("the file is written");
    for (path, more, shown) in
        [("token", &[][..], true), (&*outside[0], &["-kubeconfig-files-anywhere"][..], true)]
    {
        let before = thief.server.counters().connections;
        let kubeconfig = thief.kubeconfig(&json!({"tokenFile": path}));
        fs::write(mount.join("kubeconfig"), kubeconfig).expect("the file is written");
        let file = mount.join("kubeconfig");
        let given = ["-hub-kubeconfig-secret=", "-hub-kubeconfig", file.to_str().expect("a path")];
        let _sidecar = subject.start_with(&[&given[..], more].concat());
        within(20, "the server is asked", || {
            (shown == (thief.server.counters().connections > before)).then_some(())
        });
    }
}

/// Open Cluster Management's self-managed hub has such a path in its bootstrap Secret.
#[test]
fn the_authority_of_the_own_cluster_may_be_named_in_a_secret() {
    let subject = Agent::new("kubeconfig-authority");
    let text = subject.spoke.bootstrap_kubeconfig();
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let cluster = config["clusters"][0]["cluster"].as_object_mut().expect("a cluster");
    cluster.remove("certificate-authority-data");
    let path = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
    cluster.insert("certificate-authority".into(), json!(path));
    subject.spoke.put_bootstrap(&config.to_string());
    let agent = subject.start();
    // The file is not there in a test: it is what is read, and not a key of that name.
    agent.wait_for(path);
    let other = json!("/etc/passwd");
    config["clusters"][0]["cluster"]["certificate-authority"] = other;
    subject.spoke.put_bootstrap(&config.to_string());
    agent.wait_for("the Secret has no such key");
}
