//! Credentials in files that rotate.

use std::{
    cell::{OnceCell, RefCell},
    fs,
    time::Duration,
};

use serde_json::json;
use suite::{eventually, faults::code, files::Mount, pause};

use crate::{
    config,
    stage::Stage,
    strike::{each, ends, healthy_throughout},
};

/// The certificate is new, and its key is not there yet.
#[test]
fn half_of_a_rotated_pair_leaves_the_old_pair_in_use() {
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
            let rule = own.add(code(401));
            own.relay.cut();
            // Answers from before may be lost with their connections.
            let before = own.faults().hits(rule);
            eventually("it is refused", || own.faults().hits(rule) > before);
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

/// The token is in a file that kubelet mounts: a link into a directory that is replaced as a whole. After the first 401
/// it is read anew; without one that would be once in 50 s.
#[test]
fn rotated_token_is_read_at_the_first_401() {
    each("token", rotated_token);
}

pub(crate) fn rotated_token(stage: &dyn Stage) {
    let mounted = RefCell::new(None);
    let mut process = stage.start_as(&|command| {
        let mut mount = Mount::new(&config::of(command).with_file_name(""), &["token"]);
        config::change(command, |config| {
            let user = &mut config["users"][0]["user"];
            let old = user["token"].as_str().expect("a token").to_owned();
            mount.publish(&[("token", &old)]);
            *user = json!({"tokenFile": "token"});
            mounted.replace(Some((mount, old)));
        });
    });
    stage.settle(&process);
    let own = stage.own();
    let server = own.cluster.server();
    let (mut mount, old) = mounted.take().expect("the token");
    mount.publish(&[("token", &server.token(&own.user, &[]))]);
    server.revoke(&old);
    own.relay.cut();
    healthy_throughout(&process, || stage.lives_within(25, &process));
    pause(100);
    let refused = server.requests().iter().filter(|request| request.code == 401).count();
    assert!((1..=8).contains(&refused), "{refused} times\n{}", process.log());
    ends(&mut process);
}
