use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::*;
use crate::{
    certificate::{
        authority::{CertificateTemplate, HOUR, MINUTE, names, now, template},
        csr_status::CsrStatus,
        need::NeedReason,
    },
    clocks::tests::at,
};

fn hub(server: &str) -> Hub {
    let text = format!(
        r#"{{"current-context": "x", "contexts": [{{"name": "x", "context": {{"cluster": "c", "user": "u"}}}}],
        "clusters": [{{"name": "c", "cluster": {{"server": "{server}"}}}}]}}"#
    );
    Hub::of_secret("", &Data::from([("kubeconfig".into(), text.into_bytes().into())])).unwrap()
}

/// A request, and a Secret with its certificate until then.
struct Stage {
    request: CertificateRequest,
    data: Vec<(&'static str, Vec<u8>)>,
    is_kube_client: bool,
    csr: Option<CachedObject>,
}

impl Stage {
    fn new(left: std::time::Duration) -> Self {
        let request = CertificateRequest::new(&template()).unwrap();
        let mut certificate = CertificateTemplate::of(&names(), now());
        certificate.not_after = now() + left;
        let data = vec![
            ("tls.crt", certificate.certificate(&request).into_bytes()),
            ("tls.key", request.key.as_bytes().to_vec()),
            ("kubeconfig", hub("https://hub").kubeconfig().into_bytes()),
            ("cluster-name", names().cluster.into_bytes()),
        ];
        Self { request, data, is_kube_client: true, csr: None }
    }

    fn with(mut self, key: &'static str, value: &str) -> Self {
        self.data.push((key, value.as_bytes().to_vec()));
        self
    }

    fn observe(&self) -> ObservedCredential {
        let encoded = self
            .data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(BASE64_STANDARD.encode(value))));
        let data: serde_json::Map<_, _> = encoded.collect();
        self.observe_secret(&CachedObject::Object(json!({"data": data})))
    }

    fn observe_secret(&self, secret: &CachedObject) -> ObservedCredential {
        observe(&RegistrationInputs {
            secret_name: "Secret ns/x",
            secret,
            template: &template(),
            is_kube_client: self.is_kube_client,
            names: &names(),
            hub: &hub("https://hub"),
            obtained: None,
            request: Some(&self.request),
            uid: None,
            issued: None,
            csr: self.csr.clone(),
            clocks: at(now()),
            now: Instant::now(),
        })
    }
}

fn certificate_for(observed: &ObservedCredential) -> &NeedReason {
    let Need::Certificate(why) = &observed.need else { panic!("{:?}", observed.need) };
    why
}

#[test]
fn addon_certificate_needs_nothing_until_it_is_due() {
    let observed = Stage::new(HOUR).observe();
    assert!(matches!(observed.need, Need::Nothing(_)) && observed.again.is_some());
    assert!(observed.usable && observed.sentence.is_none());
    let due = Stage::new(MINUTE).observe();
    let why = certificate_for(&due);
    assert!(why.regular, "{}", why.sentence);
    assert_eq!(why.sentence, "the certificate in Secret ns/x is due for rotation");
}

#[test]
fn addon_secret_missing_or_foreign_needs_a_certificate() {
    let stage = Stage::new(HOUR);
    let absent = stage.observe_secret(&CachedObject::Absent);
    assert_eq!(certificate_for(&absent).sentence, "Secret ns/x does not exist");
    let odd = CachedObject::Object(json!({"data": {"tls.crt": "%"}}));
    assert_eq!(certificate_for(&stage.observe_secret(&odd)).event, "CertificateValidationFailed");
    let moved = hub("https://old").kubeconfig();
    let moved = Stage::new(HOUR).with("kubeconfig", &moved).observe();
    let sentence = "Secret ns/x is for another hub: the server differs";
    assert_eq!(certificate_for(&moved).sentence, sentence);
    for (key, value) in [("tls.crt", "junk"), ("tls.key", "junk")] {
        certificate_for(&Stage::new(HOUR).with(key, value).observe());
    }
}

#[test]
fn addon_secret_next_to_a_valid_certificate_is_repaired() {
    for (key, value) in [("kubeconfig", "junk"), ("kubeconfig", ""), ("cluster-name", "other")] {
        let mut stage = Stage::new(HOUR).with(key, value);
        assert_eq!(stage.observe().need, Need::Repair, "{key}");
        stage.is_kube_client = false;
        let is_good = matches!(stage.observe().need, Need::Nothing(_));
        assert_eq!(is_good, key == "kubeconfig", "other signers have no kubeconfig");
    }
}

#[test]
fn addon_csr_is_observed_while_a_certificate_is_needed() {
    let mut stage = Stage::new(MINUTE);
    assert_eq!(stage.observe().csr, ObservedCsr::Unwatched);
    let mut csr = stage.request.object(&template(), None);
    csr["spec"]["username"] = json!(names().user());
    let pending = "is not approved yet: kubectl certificate approve";
    for (seen, expected) in [
        (CachedObject::Unknown, ObservedCsr::Unknown),
        (CachedObject::Absent, ObservedCsr::Absent),
        (CachedObject::Object(csr), ObservedCsr::Present(CsrStatus::Pending)),
    ] {
        stage.csr = Some(seen);
        assert_eq!(stage.observe().csr, expected);
    }
    assert!(stage.observe().pending.unwrap().contains(pending));
    let valid = Stage { csr: Some(CachedObject::Absent), ..Stage::new(HOUR) };
    assert_eq!(valid.observe().csr, ObservedCsr::Awaited);
    assert!(valid.observe().requester_open, "it is closed");
}
