use super::*;
use crate::certificate::validate::Usable;
use shared::{config::KeyPair, kubeconfig::Hub};

const HOUR: Duration = Duration::from_secs(3600);

fn unusable() -> Verdict {
    Verdict::Unusable(Unusable { reason: "is empty".into(), event: "NoValidCertificateFound" })
}

fn good(stale: bool) -> Usable {
    let identity = KeyPair { certificate: b"certificate".to_vec(), key: b"key".to_vec().into() };
    let hub = Hub {
        name: "hub".into(),
        server: "https://hub.example".into(),
        proxy: None,
        authority_file: None,
        authority: None,
        server_name: None,
        insecure: false,
    };
    Usable { identity, chain: Vec::new(), hub, access: None, stale }
}

#[test]
fn what_the_credential_needs() {
    let need = |verdict: Verdict, due_in: Option<Duration>, refused| match super::need(
        "Secret ns/x",
        &verdict,
        due_in,
        refused,
    ) {
        Need::Nothing(time) => format!("nothing for {} s", time.as_secs()),
        Need::Repair => "repair".to_owned(),
        Need::Certificate(why) => why.event.to_owned(),
    };
    let (due, later) = (Some(Duration::ZERO), Some(HOUR));
    let usable = |stale| Verdict::Usable(good(stale));
    let moved = || Verdict::Moved(good(false), "server");
    assert_eq!(need(usable(false), later, false), "nothing for 3600 s");
    assert_eq!(need(usable(true), later, false), "repair");
    assert_eq!(need(usable(true), due, false), "CertificateRotationStarted");
    assert_eq!(need(usable(false), later, true), "HubKubeConfigUnauthorized");
    assert_eq!(need(moved(), later, false), "AdditonalSecretDataChanged");
    assert_eq!(need(unusable(), None, false), "NoValidCertificateFound");
}

#[test]
fn the_bootstrap_identity_asks_only_if_no_other_will_do() {
    let all = Identities { agent: true, bootstrap: true, ..Identities::default() };
    let usable = || Verdict::Usable(good(false));
    let moved = || Verdict::Moved(good(false), "server");
    for (verdict, identities, expected) in [
        // The four scenarios of upstream (spokeagent.go:101-111).
        (unusable(), Identities { agent: false, ..all }, Some(Asker::Bootstrap)),
        (usable(), all, Some(Asker::Agent)),
        (usable(), Identities { bootstrap: false, ..all }, Some(Asker::Agent)),
        (unusable(), Identities::default(), None),
        // The Secret was emptied, the certificate in memory is still good.
        (unusable(), all, Some(Asker::Agent)),
        (usable(), Identities { agent_refused: true, ..all }, Some(Asker::Bootstrap)),
        (moved(), all, Some(Asker::Moved)),
    ] {
        let found = asker(&verdict, identities, &Moving::default(), false, Instant::now());
        assert_eq!(found, expected, "{identities:?}");
    }
}

/// A hub that moves, second by second: what was answered to whom, and who asks next.
#[test]
fn a_move_is_asked_for_by_whoever_gets_on() {
    let all = Identities { agent: true, bootstrap: true, ..Identities::default() };
    let verdict = Verdict::Moved(good(false), "server");
    let start = Instant::now();
    let mut moving = Moving::default();
    let refused = || Err(Error::Unauthorized("no".into()));
    let silent = || Err(Error::Unreachable("nobody".into()));
    let steps: [(u64, Asker, Result<()>, bool, Asker); 14] = [
        (0, Asker::Moved, refused(), false, Asker::Moved),
        // A hub that starts: refusals are only counted in a row.
        (3, Asker::Moved, silent(), false, Asker::Moved),
        (4, Asker::Moved, refused(), false, Asker::Moved),
        (8, Asker::Moved, refused(), false, Asker::Moved),
        (9, Asker::Moved, refused(), false, Asker::Bootstrap),
        (10, Asker::Bootstrap, Ok(()), false, Asker::Bootstrap),
        // The bootstrap token is no good either: the agent may be known by now.
        (11, Asker::Bootstrap, refused(), false, Asker::Moved),
        (12, Asker::Moved, refused(), false, Asker::Moved),
        (17, Asker::Moved, refused(), false, Asker::Bootstrap),
        // Nobody approves, and ten minutes later the agent tries again.
        (611, Asker::Bootstrap, Ok(()), false, Asker::Bootstrap),
        (612, Asker::Bootstrap, Ok(()), false, Asker::Moved),
        // Meanwhile the certificate for the old hub grows old.
        (613, Asker::Moved, silent(), true, Asker::Agent),
        (614, Asker::Agent, silent(), true, Asker::Moved),
        (700, Asker::Moved, silent(), true, Asker::Agent),
    ];
    for (second, who, answer, due, next) in steps {
        let now = start + Duration::from_secs(second);
        moving.answered(who, &answer, now);
        assert_eq!(asker(&verdict, all, &moving, due, now), Some(next), "at {second} s");
    }
    assert_eq!(Moving::default().patience(start), None);
}

#[test]
fn a_renewal_that_the_old_hub_leaves_waiting_does_not_hold_up_the_move() {
    let all = Identities { agent: true, bootstrap: true, ..Identities::default() };
    let verdict = Verdict::Moved(good(false), "server");
    let (mut moving, start) = (Moving::default(), Instant::now());
    let mut asked = Vec::new();
    for second in 0..100 {
        let now = start + Duration::from_secs(second);
        let who = asker(&verdict, all, &moving, true, now);
        moving.asks(who, now);
        if asked.last() != Some(&who) {
            asked.push(who);
        }
    }
    let (agent, moved) = (Some(Asker::Agent), Some(Asker::Moved));
    assert_eq!(asked, [agent, moved, agent, moved]);
}
