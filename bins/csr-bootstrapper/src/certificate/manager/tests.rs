//! Turns of the loop without an answer of either cluster.

use std::{env, fs, process, time::SystemTime};

use apiclient::stop::Stop;
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::config::Trust;
use serde_json::json;
use sidecar::flags::{Invocation, parse};

use super::*;
use crate::{
    cached::CachedObject,
    certificate::{
        authority::{CertificateTemplate, HOUR, names},
        observe::tests::{bootstrap_at, hub_at},
    },
    command::CommandForm,
    settings::{Settings, table},
};

/// Nobody listens here.
const NOWHERE: &str = "https://127.0.0.1:1";

fn agent(case: usize) -> Agent {
    let path = env::temp_dir().join(format!("csr-manager-{}-{case}", process::id()));
    let kubeconfig = json!({
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    });
    fs::write(&path, kubeconfig.to_string()).unwrap();
    let line = ["-namespace=agent".into(), format!("-kubeconfig={}", path.display()).into()];
    let Ok(Invocation::Run(flags)) = parse("x", &table(CommandForm::Own), line) else {
        panic!("no flags")
    };
    let Ok(Invocation::Run(settings)) = Settings::new(&flags) else { panic!("no settings") };
    let agent = Agent::new(&settings, &flags, &Stop::default()).unwrap();
    fs::remove_file(path).unwrap();
    agent
}

/// Without roots no client can be made.
fn bootstrap(server: &str) -> BootstrapKubeconfig {
    bootstrap_at(server, Trust::Anything)
}

fn secret(data: &[(&str, String)]) -> Value {
    let encoded =
        |(key, value): &(&str, String)| ((*key).to_owned(), json!(BASE64_STANDARD.encode(value)));
    let data: serde_json::Map<_, _> = data.iter().map(encoded).collect();
    json!({"metadata": {"namespace": "agent", "name": "hub-kubeconfig-secret"}, "data": data})
}

/// A Secret whose certificate, for the key of `request`, ends at `not_after`.
fn credential(request: &CertificateRequest, not_after: SystemTime) -> Value {
    let insecure = Hub { insecure: true, ..hub_at(NOWHERE) };
    let template = CertificateTemplate::of(&names(), SystemTime::now());
    let template = CertificateTemplate { not_after, ..template };
    secret(&[
        ("kubeconfig", insecure.kubeconfig()),
        ("cluster-name", names().cluster),
        ("agent-name", names().agent),
        ("tls.crt", template.certificate(request)),
        ("tls.key", request.key.to_string()),
    ])
}

/// Every combination of a credential, a bootstrap kubeconfig and a stored request.
fn cases() -> Vec<(CachedObject, Option<BootstrapKubeconfig>, Option<Value>)> {
    let request = CertificateRequest::new(&names().csr_template()).unwrap();
    let now = SystemTime::now();
    let credentials = [
        CachedObject::Absent,
        CachedObject::Object(secret(&[])),
        CachedObject::Object(credential(&request, now + HOUR)),
        CachedObject::Object(credential(&request, now + HOUR / 60)),
        CachedObject::Object(credential(&request, now - HOUR / 60)),
    ];
    let bootstraps = [None, Some(bootstrap(NOWHERE)), Some(bootstrap("https://127.0.0.1:2"))];
    let stored = [None, Some(&request)]
        .map(|request| Some(json!({"metadata": {}, "data": request?.secret_data(&names())})));
    let mut cases = Vec::new();
    for credential in &credentials {
        for bootstrap in &bootstraps {
            for stored in &stored {
                cases.push((credential.clone(), bootstrap.clone(), stored.clone()));
            }
        }
    }
    cases
}

/// The preparations of a turn, without the action after them.
fn prepared(manager: &mut CertificateManager<'_>) -> Vec<CertificateAction> {
    let mut taken = Vec::new();
    manager.performer.begin_turn();
    let bootstrap = manager.see_bootstrap();
    loop {
        let (observed, action) = manager.next_action(bootstrap.clone());
        if !action.is_preparation() {
            return taken;
        }
        manager.performer.prepare(&mut manager.machine, &action, &observed);
        taken.push(action);
        assert!(taken.len() < 8, "{taken:?}");
    }
}

#[test]
fn turn_ends_after_a_few_preparations() {
    for (case, (credential, bootstrap, stored)) in cases().into_iter().enumerate() {
        let agent = agent(case);
        agent.update(|state| {
            state.credential = credential;
            state.set_bootstrap(bootstrap);
        });
        let mut manager = CertificateManager::new(&agent, names(), stored);
        prepared(&mut manager);
        assert_eq!(prepared(&mut manager), [], "the next turn has nothing to prepare: {case}");
        // A deleted credential is a reason for a few more preparations.
        agent.update(|state| state.credential = CachedObject::Absent);
        prepared(&mut manager);
        let (_, action) = manager.decide();
        assert!(!action.is_preparation(), "{case}: {action:?}");
        agent.stop.raise();
    }
}
