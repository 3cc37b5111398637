//! One observation and the action that follows, without either cluster.

use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::config::{Auth, Trust};
use serde_json::json;

use super::*;
use crate::{
    certificate::{
        authority::{CertificateTemplate, HOUR, names, now},
        csr_status::CsrStatus,
        machine::{CertificateAction, CsrMachine},
    },
    clocks::tests::at,
};

const MINUTE: Duration = Duration::from_secs(60);

fn hub() -> Hub {
    hub_at("https://hub.example:6443")
}

pub(crate) fn hub_at(server: &str) -> Hub {
    Hub {
        name: "hub".into(),
        server: server.into(),
        proxy: None,
        authority_file: None,
        authority: None,
        server_name: None,
        insecure: false,
    }
}

fn bootstrap() -> BootstrapKubeconfig {
    bootstrap_at(&hub().server, Trust::System)
}

pub(crate) fn bootstrap_at(server: &str, trust: Trust) -> BootstrapKubeconfig {
    let config = ClusterConfig {
        server: server.into(),
        trust,
        server_name: None,
        identity: None,
        auth: Auth::Token("token".to_owned().into()),
        impersonate: Vec::new(),
        proxy: None,
        namespace: None,
    };
    BootstrapKubeconfig { hub: hub_at(server), config }
}

/// A Secret with a certificate for `request`.
fn credential(request: &CertificateRequest) -> CachedObject {
    let names = names();
    let data = [
        ("kubeconfig", hub().kubeconfig()),
        ("cluster-name", names.cluster.clone()),
        ("agent-name", names.agent.clone()),
        ("tls.crt", CertificateTemplate::of(&names, now()).certificate(request)),
        ("tls.key", request.key.to_string()),
    ];
    let data: serde_json::Map<_, _> = data
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(BASE64_STANDARD.encode(value))))
        .collect();
    CachedObject::Object(json!({"data": data}))
}

/// The inputs of a process that has just begun, next to an empty Secret.
fn inputs(names: &AgentNames) -> Inputs<'_> {
    Inputs {
        secret_name: "Secret ns/hub",
        names,
        credential: CachedObject::Absent,
        bootstrap: None,
        no_bootstrap: NoBootstrap::default(),
        session: None,
        hub: None,
        session_announced: false,
        patience: MINUTE,
        hub_move: HubMove::default(),
        obtained: None,
        request: None,
        uid: None,
        issued: None,
        watched: None,
        requester_open: false,
        attempts: Attempts::default(),
        clocks: at(now()),
        requester_clocks: at(now()),
        now: Instant::now(),
    }
}

/// The session after `observed` has been performed.
fn opened(observed: &ObservedCredential) -> SessionInputs {
    let SessionChange::Open(config, _) = &observed.session else { panic!("no session") };
    SessionInputs { config: config.clone(), expires: Some(now() + HOUR), refused: None }
}

#[test]
fn new_certificate_swaps_and_new_hub_opens_the_session() {
    let (names, hub) = (names(), hub());
    let other = Hub { server: "https://other.example".into(), ..hub.clone() };
    let [one, two] = [(); 2].map(|()| CertificateRequest::new(&names.csr_template()).unwrap());
    let known =
        |request| Inputs { credential: credential(request), hub: Some(&hub), ..inputs(&names) };
    let session = opened(&observe(&known(&one)));
    let rotated = observe(&Inputs { session: Some(session), ..known(&two) });
    assert!(matches!(rotated.session, SessionChange::Swap(..)));
    let session = opened(&observe(&known(&one)));
    let moved = observe(&Inputs { session: Some(session), hub: Some(&other), ..known(&one) });
    assert!(matches!(moved.session, SessionChange::Open(..)));
}

#[test]
fn an_expired_session_ends_only_if_there_is_another_identity() {
    let (names, hub) = (names(), hub());
    let request = CertificateRequest::new(&names.csr_template()).unwrap();
    let first = observe(&Inputs { credential: credential(&request), ..inputs(&names) });
    let session = |expires| Some(SessionInputs { expires: Some(expires), ..opened(&first) });
    for (expires, bootstrap, ends) in [
        (now() - MINUTE, Some(bootstrap()), true),
        (now() - MINUTE, None, false),
        (now() + MINUTE, Some(bootstrap()), false),
    ] {
        let emptied =
            Inputs { session: session(expires), bootstrap, hub: Some(&hub), ..inputs(&names) };
        assert_eq!(observe(&emptied).session == SessionChange::Close, ends);
    }
}

/// By the clock of its hub it may be good, and nobody else gives another time.
#[test]
fn expired_credential_without_bootstrap_is_tried() {
    let (names, later) = (names(), now() + HOUR * 2);
    let request = CertificateRequest::new(&names.csr_template()).unwrap();
    let expired = |bootstrap| {
        let inputs =
            Inputs { credential: credential(&request), clocks: at(later), ..inputs(&names) };
        observe(&Inputs { bootstrap, ..inputs })
    };
    let alone = expired(None);
    assert!(matches!(alone.session, SessionChange::Open(..)) && !alone.usable);
    assert!(expired(Some(bootstrap())).session == SessionChange::Nothing);
}

/// 401 for a moment may be a hub that restarts.
#[test]
fn credential_is_refused_once_401_has_lasted() {
    let (names, hub) = (names(), hub());
    let request = CertificateRequest::new(&names.csr_template()).unwrap();
    let first = observe(&Inputs { credential: credential(&request), ..inputs(&names) });
    let start = inputs(&names).now;
    let observed = |lasted: Duration| {
        let refused = Some(Refused { since: start, last: start + lasted });
        observe(&Inputs {
            credential: credential(&request),
            session: Some(SessionInputs { refused, ..opened(&first) }),
            hub: Some(&hub),
            now: start + lasted,
            ..inputs(&names)
        })
    };
    let soon = observed(MINUTE / 2);
    assert!(soon.usable && matches!(soon.need, Need::Nothing(_)));
    assert_eq!(soon.again, Some(start + MINUTE));
    let late = observed(MINUTE);
    assert!(!late.usable && matches!(late.need, Need::Certificate(_)));
    assert!(late.again.is_none_or(|at| at > start + MINUTE));
}

/// A checker would take two states for one.
#[test]
fn observations_that_differ_have_other_hashes() {
    let names = names();
    let hash = |observed: &ObservedCredential| {
        let mut state = std::hash::DefaultHasher::new();
        observed.hash(&mut state);
        std::hash::Hasher::finish(&state)
    };
    let empty = observe(&inputs(&names));
    let open = ObservedCredential { requester_open: true, ..observe(&inputs(&names)) };
    assert_ne!(hash(&empty), hash(&open));
    assert_eq!(hash(&empty), hash(&observe(&inputs(&names))));
}

#[test]
fn a_need_is_announced_before_the_request_is_watched() {
    let names = names();
    let request = CertificateRequest::new(&names.csr_template()).unwrap();
    let mut machine = CsrMachine::new(Some(request.clone()));
    let empty =
        || Inputs { bootstrap: Some(bootstrap()), request: Some(&request), ..inputs(&names) };
    let observed = observe(&empty());
    assert_eq!(observed.requester, Some(Requester::Bootstrap));
    let next = |machine: &CsrMachine, observed| machine.next(observed, Instant::now());
    assert_eq!(next(&machine, &observed), CertificateAction::AnnounceNeed);
    machine.need_announced(observed.sentence.clone());
    assert_eq!(next(&machine, &observed), CertificateAction::WatchCsr);
    let csr = |watch| {
        let attempts = Attempts { watch: Some(watch), ..Attempts::default() };
        observe(&Inputs { attempts, ..empty() }).csr
    };
    assert_eq!(csr(WatchAttempt::Awaited), ObservedCsr::Awaited);
    assert_eq!(csr(WatchAttempt::NoClient), ObservedCsr::Unknown);
}

#[test]
fn watch_counts_for_its_own_requester_and_hub() {
    let names = names();
    let request = CertificateRequest::new(&names.csr_template()).unwrap();
    let watched = |requester, name: &str, config| {
        let seen = Some(CachedObject::Absent);
        let watched = WatchedCsr { name: name.to_owned(), requester, config, seen };
        let empty = Inputs { bootstrap: Some(bootstrap()), ..inputs(&names) };
        observe(&Inputs { request: Some(&request), watched: Some(watched), ..empty }).csr
    };
    let config = bootstrap().config;
    let other = ClusterConfig { server: "https://other.example".into(), ..config.clone() };
    let (name, by) = (&*request.name, Requester::Bootstrap);
    assert_eq!(watched(by, name, config.clone()), ObservedCsr::Absent);
    assert_eq!(watched(by, name, other), ObservedCsr::Unwatched);
    assert_eq!(watched(by, "another", config.clone()), ObservedCsr::Unwatched);
    assert_eq!(watched(Requester::AgentAtNewHub, name, config), ObservedCsr::Unwatched);
}

#[test]
fn pending_csr_is_announced_at_once_and_after_15_minutes() {
    let names = names();
    let request = CertificateRequest::new(&names.csr_template()).unwrap();
    let mut csr = request.object(&names.csr_template(), None);
    csr["metadata"]["uid"] = json!("u-1");
    csr["spec"]["username"] = json!("bootstrap");
    let observed = observe(&Inputs {
        bootstrap: Some(bootstrap()),
        request: Some(&request),
        watched: Some(WatchedCsr {
            name: request.name.clone(),
            requester: Requester::Bootstrap,
            config: bootstrap().config,
            seen: Some(CachedObject::Object(csr)),
        }),
        ..inputs(&names)
    });
    assert_eq!(observed.csr, ObservedCsr::Present(CsrStatus::Pending));
    let (mut machine, start) = (CsrMachine::new(Some(request)), Instant::now());
    machine.need_announced(observed.sentence.clone());
    machine.introduced(start, 0.0);
    let mut announced = Vec::new();
    for minute in 0..40 {
        let now = start + MINUTE * minute;
        machine.saw(&observed, now);
        if let CertificateAction::AnnouncePending { overdue } = machine.next(&observed, now) {
            machine.pending_announced(overdue);
            announced.push((minute, overdue));
        }
    }
    assert_eq!(announced, [(0, false), (15, true)]);
    assert_eq!(machine.uid(), Some("u-1"));
}

#[test]
fn a_need_is_announced_once_a_hub_is_selected_or_none_can_be() {
    let (names, machine, now) = (names(), CsrMachine::new(None), Instant::now());
    let next = |bootstrap, no_bootstrap| {
        let observed = observe(&Inputs { bootstrap, no_bootstrap, ..inputs(&names) });
        (machine.next(&observed, now), observed.sentence.unwrap())
    };
    let (action, sentence) = next(None, NoBootstrap::Selecting);
    assert!(matches!(action, CertificateAction::Wait(_)), "{sentence}");
    let (action, sentence) = next(None, NoBootstrap::Unselected);
    assert_eq!(action, CertificateAction::AnnounceNeed);
    assert!(sentence.ends_with("does not exist, and no hub is selected to request one from"));
    let (action, sentence) = next(Some(bootstrap()), NoBootstrap::Invalid);
    assert_eq!(action, CertificateAction::AnnounceNeed);
    assert!(sentence.ends_with("does not exist"), "{sentence}");
    let (action, sentence) = next(None, NoBootstrap::Invalid);
    assert_eq!(action, CertificateAction::AnnounceNeed);
    assert!(sentence.ends_with("and there is no bootstrap kubeconfig to request one with"));
}

#[test]
fn client_that_serves_nothing_is_closed() {
    let names = names();
    let hub = hub();
    let request = CertificateRequest::new(&names.csr_template()).unwrap();
    let secret = credential(&request);
    let known = || Inputs { credential: secret.clone(), ..inputs(&names) };
    let session = Some(opened(&observe(&known())));
    let used = Inputs { session, hub: Some(&hub), session_announced: true, ..known() };
    let observed = observe(&Inputs { requester_open: true, ..used });
    let machine = CsrMachine::new(Some(request));
    let action = machine.next(&observed, Instant::now());
    assert_eq!(action, CertificateAction::CloseRequester);
    let closed = ObservedCredential { requester_open: false, ..observed };
    let action = machine.next(&closed, Instant::now());
    assert_eq!(action, CertificateAction::DeleteRequest, "its key has served");
}
