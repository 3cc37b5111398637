use super::*;

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
    let need = |validation: &Validation, due_in, refused| match super::super::need(
        "Secret ns/x",
        validation,
        due_in,
        refused,
    ) {
        Need::Nothing(time) => format!("nothing for {} s", time.as_secs()),
        Need::Repair => "repair".to_owned(),
        Need::Certificate(why) => why.event.to_owned(),
    };
    let (due, later) = (Some(Duration::ZERO), Some(HOUR));
    let usable = |stale| Validation::Usable(good(stale));
    for (validation, due_in, refused, expected) in [
        (&usable(false), later, false, "nothing for 3600 s"),
        (&usable(true), later, false, "repair"),
        (&usable(true), due, false, "CertificateRotationStarted"),
        (&usable(false), later, true, "HubKubeConfigUnauthorized"),
        (&Validation::Moved(good(true), "server"), later, false, OTHER_DATA),
        (&unusable(), None, false, "NoValidCertificateFound"),
    ] {
        let found = need(validation, due_in, refused);
        assert_eq!(found, expected, "{due_in:?} {refused}");
    }
}
