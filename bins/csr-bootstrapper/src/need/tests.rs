use super::*;
use crate::validity::Usable;
use shared::access::Identity;

const HOUR: Duration = Duration::from_secs(3600);

fn unusable() -> Verdict {
    Verdict::Unusable(Unusable { reason: "is empty".into(), event: "NoValidCertificateFound" })
}

fn good(stale: bool) -> Usable {
    let identity = Identity { certificate: b"certificate".to_vec(), key: b"key".to_vec() };
    Usable { identity, chain: Vec::new(), access: None, stale }
}

#[test]
fn what_the_credential_needs() {
    let now = SystemTime::UNIX_EPOCH + HOUR;
    let need = |verdict: Verdict, due: Option<SystemTime>, refused| match super::need(
        "Secret ns/x",
        &verdict,
        due,
        refused,
        now,
    ) {
        Need::Nothing(time) => format!("nothing for {} s", time.as_secs()),
        Need::Repair => "repair".to_owned(),
        Need::Certificate(why) => why.event.to_owned(),
    };
    let (due, later) = (Some(now), Some(now + HOUR));
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
        (moved(), Identities { moved_refused: true, ..all }, Some(Asker::Bootstrap)),
        // The new address does not answer, and the certificate for the old one grows old.
        (moved(), Identities { moved_away: true, ..all }, Some(Asker::Agent)),
    ] {
        assert_eq!(asker(&verdict, identities), expected, "{identities:?}");
    }
}
