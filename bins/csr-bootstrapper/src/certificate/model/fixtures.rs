//! Requests, certificates and objects, each created once and cached.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::Hub;
use serde_json::{Value, json};

use super::{
    Registration,
    world::{Credential, Csr, CsrState, LIFE},
};
use crate::{
    certificate::{authority::CertificateTemplate, csr::CertificateRequest},
    identity::AgentNames,
};

pub(crate) fn hub() -> Hub {
    Hub {
        name: "hub".into(),
        server: "https://hub.example:6443".into(),
        proxy: None,
        authority_file: None,
        authority: None,
        server_name: None,
        insecure: false,
    }
}

impl Registration {
    pub(super) fn key_of(&self, request: &CertificateRequest) -> u8 {
        self.key_of_name(&request.name)
    }

    pub(super) fn key_of_name(&self, name: &str) -> u8 {
        let fixtures = self.fixtures.borrow();
        let found = fixtures.requests.iter().find(|(_, known)| known.name == name);
        found.unwrap().0.0
    }

    pub(super) fn issued_at(&self, key: u8, names: u8, pem: &[u8]) -> Option<Duration> {
        let fixtures = self.fixtures.borrow();
        let mut known = fixtures.certificates.iter();
        let found = known.find(|((of, whose, _), it)| (*of, *whose) == (key, names) && *it == pem);
        found.map(|((.., issued), _)| *issued)
    }

    pub(super) fn names(&self, names: u8) -> AgentNames {
        self.fixtures.borrow().names[usize::from(names)].clone()
    }

    pub(super) fn request(&self, key: u8, names: u8) -> CertificateRequest {
        let of = self.names(names);
        let mut fixtures = self.fixtures.borrow_mut();
        let new = || CertificateRequest::new(&of.csr_template()).unwrap();
        fixtures.requests.entry((key, names)).or_insert_with(new).clone()
    }

    fn certificate(&self, Credential { key, names, issued }: Credential) -> Vec<u8> {
        let (request, of) = (self.request(key, names), self.names(names));
        let template = CertificateTemplate {
            not_after: self.time(issued + LIFE),
            ..CertificateTemplate::of(&of, self.time(issued))
        };
        let new = || template.certificate(&request).into_bytes();
        let mut fixtures = self.fixtures.borrow_mut();
        fixtures.certificates.entry((key, names, issued)).or_insert_with(new).clone()
    }

    pub(super) fn secret(&self, credential: Credential) -> Value {
        let (names, request) =
            (self.names(credential.names), self.request(credential.key, credential.names));
        let data = json!({
            "kubeconfig": BASE64_STANDARD.encode(hub().kubeconfig()),
            "cluster-name": BASE64_STANDARD.encode(names.cluster),
            "agent-name": BASE64_STANDARD.encode(names.agent),
            "tls.crt": BASE64_STANDARD.encode(self.certificate(credential)),
            "tls.key": BASE64_STANDARD.encode(request.key.as_bytes()),
        });
        json!({"data": data})
    }

    pub(super) fn csr(&self, key: u8, csr: Csr) -> Value {
        // The object contains neither `need` nor `done`.
        let known = (key, Csr { need: 0, done: false, ..csr });
        if let Some(object) = self.fixtures.borrow().csrs.get(&known) {
            return object.clone();
        }
        let object = self.csr_object(key, csr);
        self.fixtures.borrow_mut().csrs.insert(known, object.clone());
        object
    }

    fn csr_object(&self, key: u8, csr: Csr) -> Value {
        let (names, request) = (self.names(csr.names), self.request(key, csr.names));
        let mut object = request.object(&names.csr_template(), None).unwrap();
        object["spec"]["username"] =
            if csr.by_agent { json!(names.user()) } else { json!("bootstrap") };
        let condition = match csr.state {
            CsrState::Pending => None,
            CsrState::Approved | CsrState::Issued(_) => Some("Approved"),
            CsrState::Denied => Some("Denied"),
            CsrState::Failed => Some("Failed"),
        };
        let conditions: Vec<_> =
            condition.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        object["status"] = json!({"conditions": conditions});
        if let CsrState::Issued(issued) = csr.state {
            let certificate = self.certificate(Credential { key, names: csr.names, issued });
            object["status"]["certificate"] = json!(BASE64_STANDARD.encode(certificate));
        }
        object
    }
}
