//! Trust and identity: F17, F18, F20, F21, F10.

use std::{
    cell::OnceCell, fs, os::unix::fs::symlink, path::Path, process::Command, time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::Action;
use rcgen::{CertificateParams, date_time_ymd};
use serde_json::json;
use suite::{
    eventually, pause,
    rogue::{Authority, Rogue},
};

use crate::{
    config,
    stage::Stage,
    strike::{each, ends, healthy_throughout},
};

/// Trusts these authorities.
fn trust(command: &Command, bundle: &str) {
    let bundle = BASE64_STANDARD.encode(bundle);
    config::change(command, |config| {
        config["clusters"][0]["cluster"]["certificate-authority-data"] = json!(bundle);
    });
}

#[test]
fn f17_servers_that_are_not_the_right_one() {
    each("impostor", |stage| {
        let (ours, other) = (Authority::new("ours"), Authority::new("other"));
        let bundle = format!("{}{}", ours.pem, stage.own().cluster.ca);
        let mut process = stage.start_as(&|command| trust(command, &bundle));
        stage.settle(&process);
        let expired = |params: &mut CertificateParams| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        };
        let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(2090, 1, 1);
        for (words, pair) in [
            ("certificate expired", ours.sign(&["127.0.0.1"], expired)),
            ("certificate not valid yet", ours.sign(&["127.0.0.1"], future)),
            ("not valid for name \"127.0.0.1\"", ours.sign(&["10.0.0.1", "hub.example"], |_| {})),
            ("UnknownIssuer", other.sign(&["127.0.0.1"], |_| {})),
        ] {
            let rogue = Rogue::start(&pair, b"HTTP/1.1 200 OK\r\n\r\n");
            stage.own().relay.redirect(&rogue.address.to_string());
            process.wait_for(words);
            assert_eq!(rogue.requests(), 0, "{words}: no credential was sent");
        }
        stage.own().relay.redirect(&stage.own().cluster.address);
        healthy_throughout(&process, || stage.lives(&process));
        ends(&mut process);
    });
}

#[test]
fn f18_a_bundle_of_two_authorities_serves_and_one_of_none_is_a_sentence() {
    each("bundles", |stage| {
        let (ca, other) = (stage.own().cluster.ca.clone(), Authority::new("other").pem);
        for bundle in ["\n", "not PEM", &ca[..ca.len() / 2], &ca.replace("MII", "AAA")] {
            let mut process = stage.start_as(&|command| trust(command, bundle));
            assert_eq!(process.wait().code(), Some(1), "{}", process.log());
            let words = "certificate-authority that holds no certificate";
            eventually(words, || (process.count(words) > 0).then_some(()));
        }
        for bundle in [format!("{ca}{other}"), format!("{other}{ca}")] {
            let mut process = stage.start_as(&|command| trust(command, &bundle));
            stage.settle(&process);
            stage.lives(&process);
            ends(&mut process);
        }
    });
}

/// The certificate is new, and its key is not there yet.
#[test]
fn f20_half_of_a_rotated_pair_leaves_the_old_pair_in_use() {
    each("torn", |stage| {
        let own = stage.own();
        let authority = own.cluster.server().ca();
        let pair = || authority.client_certificate(&own.user, &[], Duration::from_secs(3600));
        let (old, new, files) = (pair(), pair(), OnceCell::new());
        let mut process = stage.start_as(&|command| {
            let user = json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
            config::change(command, |config| config["users"][0]["user"] = user);
            let write = |name, content| config::write(command, name, content);
            let _ = files.set((write("tls.crt", &old.0), write("tls.key", &old.1)));
        });
        stage.settle(&process);
        let (certificate, key) = files.get().expect("the files");
        let reads_again = || {
            // The first answer to each kind of request makes it look at the files.
            let unknown = Action::Answer { code: 401, body: None, retry_after: None };
            let rule = own.add(unknown);
            own.relay.cut();
            // Answers from before may be lost with their connections.
            let before = own.faults().hits(rule);
            eventually("it is refused", || (own.faults().hits(rule) > before).then_some(()));
            own.faults().remove(rule);
        };
        fs::write(certificate, &new.0).expect("the certificate is written");
        reads_again();
        if stage.keeps_old_credentials() {
            healthy_throughout(&process, || stage.lives(&process));
        } else {
            process.wait_for("do not belong together");
        }
        fs::write(key, &new.1).expect("the key is written");
        reads_again();
        healthy_throughout(&process, || stage.lives(&process));
        ends(&mut process);
    });
}

/// Starts it with a token in a file, which `rotate` then replaces; the old one is worth nothing any more.
fn rotated(stage: &dyn Stage, prepare: impl Fn(&Path), rotate: impl Fn(&Path, &str)) {
    let token = OnceCell::new();
    let mut process = stage.start_as(&|command| {
        config::change(command, |config| {
            let user = &mut config["users"][0]["user"];
            let old = user["token"].as_str().expect("a token");
            let _ = token.set((config::write(command, "token", old), old.to_owned()));
            *user = json!({"tokenFile": "token"});
        });
        prepare(&token.get().expect("the token").0);
    });
    stage.settle(&process);
    let own = stage.own();
    let server = own.cluster.server();
    let (path, old) = token.get().expect("the token");
    rotate(path, &server.token(&own.user, &[]));
    server.revoke(old);
    own.relay.cut();
    // Without a 401 it would look at its files once in 50 s.
    healthy_throughout(&process, || stage.lives_within(25, &process));
    pause(100);
    let refused = server.requests().iter().filter(|request| request.code == 401).count();
    assert!((1..=8).contains(&refused), "{refused} times\n{}", process.log());
    ends(&mut process);
}

#[test]
fn f10_a_rotated_token_is_read_at_the_first_401() {
    each("token", |stage| {
        rotated(stage, |_| {}, |path, token| fs::write(path, token).expect("it is written"));
    });
}

/// As kubelet does it: the file is a link into a directory that is replaced as a whole.
#[test]
fn f21_a_mounted_token_is_swapped_with_its_directory() {
    let publish = |root: &Path, version: &str, token: &str| {
        fs::create_dir(root.join(version)).expect("a directory");
        fs::write(root.join(version).join("token"), token).expect("the token is written");
        symlink(version, root.join("..tmp")).expect("a link");
        fs::rename(root.join("..tmp"), root.join("..data")).expect("the swap");
    };
    each("mounted", |stage| {
        let prepare = |path: &Path| {
            let (root, token) = (path.parent().expect("a directory"), fs::read_to_string(path));
            publish(root, "..v1", &token.expect("the token"));
            fs::remove_file(path).and_then(|()| symlink("..data/token", path)).expect("a link");
        };
        rotated(stage, prepare, |path, token| {
            let root = path.parent().expect("a directory");
            publish(root, "..v2", token);
            fs::remove_dir_all(root.join("..v1")).expect("the old version goes");
        });
    });
}
