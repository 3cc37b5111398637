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
    let need = |validation: &Validation, due_in, refused, new_hub| match super::need(
        "Secret ns/x",
        validation,
        due_in,
        refused,
        new_hub,
    ) {
        Need::Nothing(time) => format!("nothing for {} s", time.as_secs()),
        Need::Repair => "repair".to_owned(),
        Need::Certificate(why) => why.event.to_owned(),
    };
    let (due, later, silent) = (Some(Duration::ZERO), Some(HOUR), NewHub::Silent);
    let usable = |stale| Validation::Usable(good(stale));
    let moved = Validation::Moved(good(false), "server");
    for (validation, due_in, refused, new_hub, expected) in [
        (&usable(false), later, false, silent, "nothing for 3600 s"),
        (&usable(true), later, false, silent, "repair"),
        (&usable(true), due, false, silent, "CertificateRotationStarted"),
        (&usable(false), later, true, silent, "HubKubeConfigUnauthorized"),
        (&unusable(), None, false, silent, "NoValidCertificateFound"),
        // Until the new hub answers, the old one counts.
        (&moved, later, false, silent, "nothing for 3600 s"),
        (&moved, due, false, silent, "CertificateRotationStarted"),
        (&moved, later, true, silent, "HubKubeConfigUnauthorized"),
        (&moved, due, true, NewHub::KnowsAgent, "repair"),
        (&moved, later, false, NewHub::RefusesAgent, "AdditonalSecretDataChanged"),
    ] {
        let found = need(validation, due_in, refused, new_hub);
        assert_eq!(found, expected, "{due_in:?} {refused} {new_hub:?}");
    }
}

/// The four scenarios of upstream (spokeagent.go:101-111), and a new hub that does not know the agent.
#[test]
fn the_bootstrap_identity_asks_only_if_no_other_will_do() {
    let silent = NewHub::Silent;
    assert_eq!(requester(true, true, silent), Some(Requester::Agent));
    assert_eq!(requester(true, false, silent), Some(Requester::Agent));
    assert_eq!(requester(false, true, silent), Some(Requester::Bootstrap));
    assert_eq!(requester(false, false, silent), None);
    assert_eq!(requester(true, true, NewHub::RefusesAgent), Some(Requester::Bootstrap));
}
