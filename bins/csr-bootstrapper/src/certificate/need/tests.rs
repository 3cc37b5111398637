use super::*;
use crate::{certificate::validate::UsableCredential, hub::Hub};
use kubeconfig::config::KeyPair;

const HOUR: Duration = Duration::from_secs(3600);

fn unusable() -> Validation {
    Validation::Unusable(UnusableCredential {
        reason: "is empty".into(),
        event: "NoValidCertificateFound",
    })
}

fn good(stale: bool) -> UsableCredential {
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
    UsableCredential { identity, chain: Vec::new(), hub, config: None, stale }
}

#[test]
fn what_the_credential_needs() {
    let need = |validation: Validation, due_in: Option<Duration>, refused| match super::need(
        "Secret ns/x",
        &validation,
        due_in,
        refused,
    ) {
        Need::Nothing(time) => format!("nothing for {} s", time.as_secs()),
        Need::Repair => "repair".to_owned(),
        Need::Certificate(why) => why.event.to_owned(),
    };
    let (due, later) = (Some(Duration::ZERO), Some(HOUR));
    let usable = |stale| Validation::Usable(good(stale));
    let moved = || Validation::Moved(good(false), "server");
    assert_eq!(need(usable(false), later, false), "nothing for 3600 s");
    assert_eq!(need(usable(true), later, false), "repair");
    assert_eq!(need(usable(true), due, false), "CertificateRotationStarted");
    assert_eq!(need(usable(false), later, true), "HubKubeConfigUnauthorized");
    assert_eq!(need(moved(), later, false), "AdditonalSecretDataChanged");
    assert_eq!(need(unusable(), None, false), "NoValidCertificateFound");
}

#[test]
fn the_bootstrap_identity_asks_only_if_no_other_will_do() {
    let all =
        AvailableIdentities { agent: true, bootstrap: true, ..AvailableIdentities::default() };
    let usable = || Validation::Usable(good(false));
    let moved = || Validation::Moved(good(false), "server");
    for (validation, identities, expected) in [
        // The four scenarios of upstream (spokeagent.go:101-111).
        (unusable(), AvailableIdentities { agent: false, ..all }, Some(Requester::Bootstrap)),
        (usable(), all, Some(Requester::Agent)),
        (usable(), AvailableIdentities { bootstrap: false, ..all }, Some(Requester::Agent)),
        (unusable(), AvailableIdentities::default(), None),
        // The Secret was emptied, the certificate in memory is still good.
        (unusable(), all, Some(Requester::Agent)),
        (usable(), AvailableIdentities { agent_refused: true, ..all }, Some(Requester::Bootstrap)),
        (moved(), all, Some(Requester::AgentAtNewHub)),
    ] {
        let found = requester(&validation, identities, &HubMove::default(), false, Instant::now());
        assert_eq!(found, expected, "{identities:?}");
    }
}

/// A hub that moves, second by second: the answers to each requester, and the next requester.
#[test]
fn a_move_is_asked_for_by_whoever_gets_on() {
    let all =
        AvailableIdentities { agent: true, bootstrap: true, ..AvailableIdentities::default() };
    let validation = Validation::Moved(good(false), "server");
    let start = Instant::now();
    let mut moving = HubMove::default();
    let refused = || Err(Error::Unauthorized("no".into()));
    let silent = || Err(Error::Unreachable("nobody".into()));
    let steps: [(u64, Requester, Result<()>, bool, Requester); 14] = [
        (0, Requester::AgentAtNewHub, refused(), false, Requester::AgentAtNewHub),
        // A hub that starts: refusals count only in a row.
        (3, Requester::AgentAtNewHub, silent(), false, Requester::AgentAtNewHub),
        (4, Requester::AgentAtNewHub, refused(), false, Requester::AgentAtNewHub),
        (8, Requester::AgentAtNewHub, refused(), false, Requester::AgentAtNewHub),
        (9, Requester::AgentAtNewHub, refused(), false, Requester::Bootstrap),
        (10, Requester::Bootstrap, Ok(()), false, Requester::Bootstrap),
        // The bootstrap token is invalid too: the agent may be known by now.
        (11, Requester::Bootstrap, refused(), false, Requester::AgentAtNewHub),
        (12, Requester::AgentAtNewHub, refused(), false, Requester::AgentAtNewHub),
        (17, Requester::AgentAtNewHub, refused(), false, Requester::Bootstrap),
        // Nobody approves, and the agent tries again ten minutes later.
        (611, Requester::Bootstrap, Ok(()), false, Requester::Bootstrap),
        (612, Requester::Bootstrap, Ok(()), false, Requester::AgentAtNewHub),
        // Meanwhile the certificate for the old hub becomes due.
        (613, Requester::AgentAtNewHub, silent(), true, Requester::Agent),
        (614, Requester::Agent, silent(), true, Requester::AgentAtNewHub),
        (700, Requester::AgentAtNewHub, silent(), true, Requester::Agent),
    ];
    for (second, who, answer, due, next) in steps {
        let now = start + Duration::from_secs(second);
        moving.answered(who, &answer, now);
        assert_eq!(requester(&validation, all, &moving, due, now), Some(next), "at {second} s");
    }
    assert_eq!(HubMove::default().patience(start), None);
}

#[test]
fn pending_renewal_at_the_old_hub_does_not_hold_up_the_move() {
    let all =
        AvailableIdentities { agent: true, bootstrap: true, ..AvailableIdentities::default() };
    let validation = Validation::Moved(good(false), "server");
    let (mut moving, start) = (HubMove::default(), Instant::now());
    let mut asked = Vec::new();
    for second in 0..100 {
        let now = start + Duration::from_secs(second);
        let who = requester(&validation, all, &moving, true, now);
        moving.asks(who, now);
        if asked.last() != Some(&who) {
            asked.push(who);
        }
    }
    let (agent, moved) = (Some(Requester::Agent), Some(Requester::AgentAtNewHub));
    assert_eq!(asked, [agent, moved, agent, moved]);
}

#[test]
fn the_hubs_of_a_move_are_given_up_at_known_times() {
    let start = Instant::now();
    let later = |seconds| start + Duration::from_secs(seconds);
    let mut moving = HubMove::default();
    let old = Some(Requester::Agent);
    assert_eq!(
        moving.gives_up_at(Some(Requester::AgentAtNewHub), start),
        None,
        "the new hub has its own patience"
    );
    moving.asks(old, start);
    assert_eq!(moving.gives_up_at(old, later(3)), Some(later(10)));
    moving.asks(old, later(9));
    assert!(!moving.old_is_away(later(9)));
    moving.asks(old, later(10));
    assert!(moving.old_is_away(later(10)) && moving.old_is_away(later(69)));
    assert!(!moving.old_is_away(later(70)));

    let refused: Result<()> = Err(Error::Forbidden("no".into()));
    moving.answered(Requester::AgentAtNewHub, &refused, start);
    assert_eq!(moving.patience(later(2)), Some(Duration::from_secs(3)));
    assert_eq!(moving.patience(later(6)), None);

    let mut fresh = HubMove::default();
    fresh.answered(Requester::Agent, &Ok(()), start);
    assert!(!fresh.old_is_away(start), "an answer is no failure");
}
