//! `-once`: an init container that waits for the credential.

use suite::{eventually, ocm::JOINED, pause, spoke::Spoke, throughout};

use crate::support::joins;

/// Runs it to its end: the exit code, and the log's last line.
#[track_caller]
fn ends(spoke: &Spoke, more: &[&str], code: i32) -> String {
    let mut agent = spoke.start(&[&["-once"], more].concat());
    assert_eq!(agent.wait().code(), Some(code), "{}", agent.log());
    // At -v=2 a watch that is being ended may still tell of its retry.
    let log = agent.log();
    let mut lines = log.lines().rev().skip_while(|line| line.contains("retry_in="));
    lines.next().unwrap_or_default().to_owned()
}

#[test]
fn once_ends_with_0_when_the_credential_is_there() {
    let spoke = Spoke::auto("once");
    let last = ends(&spoke, &["-wait-timeout", "0"], 1);
    assert!(last.contains("there is no credential: Secret "), "{last}");
    assert!(spoke.hub.csrs_of(&spoke.cluster).is_empty(), "without time, nobody is asked");
    ends(&spoke, &["-wait-timeout", "60"], 0);
    let certificate = spoke.wait_for_certificate();
    let keys: Vec<_> = spoke.credential().expect("the Secret").into_keys().collect();
    assert_eq!(keys, ["agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    eventually("the cluster is accepted", || {
        spoke.hub.condition(&spoke.cluster, "HubAcceptedManagedCluster")
    });
    throughout(1500, "it sent no heartbeat", || {
        spoke.hub.condition(&spoke.cluster, JOINED).is_none()
    });

    // The next run asks for nothing, whoever leads.
    let elect = "-disable-leader-election=false";
    let _leader = joins(&spoke, &[elect]);
    ends(&spoke, &[elect, "-wait-timeout", "10"], 0);
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1);
    assert_eq!(spoke.certificate().expect("a certificate").not_after, certificate.not_after);
}

#[test]
fn once_leaves_its_request_to_the_next_start() {
    let spoke = Spoke::new("late-once");
    let mut agent = spoke.start(&["-once", "-wait-timeout", "3600"]);
    let request = spoke.hub.next_csr(&spoke.cluster);
    assert_eq!(agent.ask("/healthz").0, 0, "nobody listens there");
    pause(200);
    let (code, time) = agent.terminate();
    assert_eq!(code, Some(1), "{}", agent.log());
    // A promise: SIGTERM ends it within a second.
    assert!(time.as_millis() < 1000, "{time:?}");
    assert!(agent.log().contains("stopped before there was a credential: Secret "));

    let last = ends(&spoke, &["-wait-timeout", "2"], 1);
    let why = format!("no credential after 2 s: Secret {}/{}", spoke.namespace, spoke.secret);
    let approve = format!("kubectl certificate approve {request}");
    assert!(last.contains(&why) && last.contains(&approve), "{last}");
    let pending = spoke.pending().expect("the request is stored");
    assert_eq!(pending["csr-name"], request.as_bytes());

    // Approved meanwhile: the next start takes what was asked for.
    spoke.hub.approve_csr(&request);
    ends(&spoke, &["-wait-timeout", "60"], 0);
    assert!(spoke.credential().expect("the Secret")["tls.key"] == pending["tls.key"]);
    assert_eq!(spoke.hub.csrs_of(&spoke.cluster).len(), 1);
}
