use super::*;
use crate::{
    certificate::{need::NeedReason, pacing::PACE},
    identity::AgentNames,
};

const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);
const BOOTSTRAP: Option<Requester> = Some(Requester::Bootstrap);

fn names() -> AgentNames {
    AgentNames { cluster: "cluster1".into(), agent: "agent1".into() }
}

fn some_need() -> Need {
    Need::Certificate(NeedReason { event: "x", sentence: "x".into(), regular: false })
}

fn name(action: &CertificateAction) -> &'static str {
    match action {
        CertificateAction::Wait(_) => "wait",
        CertificateAction::CountPending => "count",
        CertificateAction::StoreRequest => "store",
        CertificateAction::CreateManagedCluster => "introduce",
        CertificateAction::GetCsr => "look",
        CertificateAction::CreateCsr => "post",
        CertificateAction::ConfirmGone => "gone",
        CertificateAction::SaveCertificate(_) => "save",
        CertificateAction::RepairSecret => "repair",
        CertificateAction::DeleteRequest => "forget",
        CertificateAction::AbandonCsr(_) => "end",
        _ => "prepare",
    }
}

/// A certificate is saved.
fn succeeded(machine: &mut CsrMachine, regular: bool, now: Instant) {
    machine.saved(b"certificate", now, regular, now);
}

/// A machine whose request is pending on the hub.
fn pending() -> CsrMachine {
    let mut machine = CsrMachine::default();
    machine.stored(Some(CertificateRequest::new(&names().csr_template()).unwrap()));
    machine.introduced(Instant::now(), 0.0);
    machine
}

fn next(machine: &CsrMachine, signing: CsrStatus, now: Instant) -> CertificateAction {
    machine.next_for_request(
        &some_need(),
        Some(Requester::Bootstrap),
        &ObservedCsr::Present(signing),
        None,
        now,
    )
}

#[test]
fn denied_and_failed_rest_for_five_minutes_to_an_hour() {
    for refused in [CsrStatus::Denied("is denied".into()), CsrStatus::Failed("has failed".into())] {
        let (mut machine, start) = (pending(), Instant::now());
        let mut now = start;
        let mut rests = Vec::new();
        for _ in 0..6 {
            machine.introduced(now, 0.0);
            let again = match &refused {
                CsrStatus::Denied(why) => CsrStatus::Denied(why.clone()),
                _ => CsrStatus::Failed("has failed".into()),
            };
            let CertificateAction::AbandonCsr(end) = next(&machine, again, now) else {
                panic!("no end")
            };
            rests.push(machine.ended(&end, BOOTSTRAP, now, 0.0).as_secs());
            now += Duration::from_secs(rests[rests.len() - 1]);
            assert_eq!(next(&machine, CsrStatus::Pending, now - HOUR / 60).name_at(), "wait");
            assert_eq!(next(&machine, CsrStatus::Pending, now).name_at(), "count");
            machine.counted();
            assert_eq!(next(&machine, CsrStatus::Pending, now).name_at(), "store");
            machine.stored(Some(CertificateRequest::new(&names().csr_template()).unwrap()));
        }
        assert_eq!(rests, [300, 600, 1200, 2400, 3600, 3600]);
        succeeded(&mut machine, true, now);
        machine.introduced(now, 0.0);
        let CertificateAction::AbandonCsr(end) = next(&machine, CsrStatus::Denied("x".into()), now)
        else {
            panic!()
        };
        assert_eq!(
            machine.ended(&end, BOOTSTRAP, now, 1.0).as_secs(),
            375,
            "with up to a quarter more"
        );
    }
}

impl CertificateAction {
    fn name_at(&self) -> &'static str {
        name(self)
    }
}

#[test]
fn vanished_request_is_posted_again_at_a_bounded_pace() {
    let (mut machine, mut now) = (pending(), Instant::now());
    assert_eq!(next(&machine, CsrStatus::Pending, now).name_at(), "wait");
    let absent = |machine: &CsrMachine, now| {
        machine
            .next_for_request(
                &some_need(),
                Some(Requester::Bootstrap),
                &ObservedCsr::Absent,
                None,
                now,
            )
            .name_at()
    };
    let mut rests = Vec::new();
    for _ in 0..4 {
        assert_eq!(absent(&machine, now), "post");
        machine.uid = Some("u-1".into());
        assert_eq!(absent(&machine, now), "gone");
        rests.push(machine.gone(Requester::Bootstrap, now, 0.0).as_secs());
        assert_eq!(absent(&machine, now), "wait");
        now += Duration::from_secs(rests[rests.len() - 1]);
    }
    assert_eq!(rests, [2, 4, 8, 16]);
}

#[test]
fn replaced_and_wrong_requests_rest_before_another_key() {
    for wrong in [CsrStatus::Replaced, CsrStatus::Wrong("is for another key".into())] {
        let (mut machine, now) = (pending(), Instant::now());
        let CertificateAction::AbandonCsr(end) = next(&machine, wrong, now) else {
            panic!("no end")
        };
        assert_eq!(machine.ended(&end, BOOTSTRAP, now, 0.0), REST_SHORT);
        assert_eq!(next(&machine, CsrStatus::Pending, now).name_at(), "wait");
        assert_eq!(next(&machine, CsrStatus::Pending, now + REST_SHORT).name_at(), "count");
        let rests = [0; 3].map(|_| machine.ended(&end, BOOTSTRAP, now, 0.0).as_secs());
        assert_eq!(rests, [30, 60, 120]);
    }
}

#[test]
fn another_bootstrap_kubeconfig_ends_a_rest() {
    let (mut machine, now) = (pending(), Instant::now());
    let CertificateAction::AbandonCsr(end) = next(&machine, CsrStatus::Denied("x".into()), now)
    else {
        panic!()
    };
    machine.ended(&end, BOOTSTRAP, now, 0.5);
    assert_eq!(next(&machine, CsrStatus::Pending, now).name_at(), "wait");
    machine.bootstrap_replaced(false);
    assert_eq!(next(&machine, CsrStatus::Pending, now).name_at(), "count");
}

#[test]
fn the_key_of_a_certificate_in_use_asks_for_no_second_one() {
    let (machine, now) = (pending(), Instant::now());
    let key = machine.request.as_ref().unwrap().key.clone();
    let csr = ObservedCsr::Present(CsrStatus::Issued(b"x".to_vec()));
    let next = |need: &Need| {
        machine
            .next_for_request(need, Some(Requester::Agent), &csr, Some(key.as_bytes()), now)
            .name_at()
    };
    assert_eq!(next(&Need::Nothing(HOUR)), "forget");
    assert_eq!(next(&some_need()), "count");
}

#[test]
fn without_a_need_or_anybody_to_ask_it_waits_for_a_known_time() {
    let (machine, now) = (CsrMachine::default(), Instant::now());
    let next = |need: &Need| machine.next_for_request(need, None, &ObservedCsr::Unknown, None, now);
    assert_eq!(next(&some_need()), CertificateAction::Wait(now + LONGEST_REST));
    assert_eq!(next(&Need::Nothing(HOUR / 2)), CertificateAction::Wait(now + HOUR / 2));
}

#[test]
fn every_wait_ends_at_its_time() {
    let now = Instant::now();
    let next = |machine: &CsrMachine, requester, csr, now| {
        machine.next_for_request(&some_need(), requester, &csr, None, now)
    };
    let wait = |time| CertificateAction::Wait(now + time);
    let (mut machine, agent) = (pending(), Some(Requester::Agent));
    assert_eq!(next(&machine, agent, ObservedCsr::Awaited, now), wait(REST_SHORT));
    let present = || ObservedCsr::Present(CsrStatus::Pending);
    assert_eq!(next(&machine, agent, present(), now), wait(LONGEST_REST));
    machine.failed(now, HOUR / 3, agent);
    assert_eq!(next(&machine, agent, present(), now), wait(HOUR / 3));
    assert_ne!(next(&machine, BOOTSTRAP, present(), now), wait(HOUR / 3), "the other may go on");
    machine.failed(now, HOUR / 4, None);
    assert_eq!(next(&machine, BOOTSTRAP, present(), now), wait(HOUR / 4), "nothing is done");
    let mut full = CsrMachine::default();
    full.halted(Requester::Agent, now, HOUR / 2);
    assert_eq!(next(&full, agent, ObservedCsr::Unknown, now), wait(HOUR / 2));
}

#[test]
fn cluster_is_introduced_again_and_a_refusal_is_news_once() {
    let (mut machine, now) = (pending(), Instant::now());
    let next = |machine: &CsrMachine, time| {
        let csr = ObservedCsr::Present(CsrStatus::Pending);
        machine.next_for_request(&some_need(), BOOTSTRAP, &csr, None, now + time).name_at()
    };
    machine.introduced(now, 0.5);
    let again = INTRODUCE_AGAIN.mul_f64(1.5);
    assert_eq!((next(&machine, again - SECOND), next(&machine, again)), ("wait", "introduce"));
    machine.bootstrap_replaced(false);
    assert!(machine.not_introduced(now) && !machine.not_introduced(now));
    assert_eq!(next(&machine, REST_REFUSED - SECOND), "wait");
    assert_eq!(next(&machine, REST_REFUSED), "introduce");
}

#[test]
fn posted_request_is_confirmed_gone_before_another_post() {
    let (mut machine, now) = (pending(), Instant::now());
    let next = |machine: &CsrMachine| {
        let (agent, csr) = (Some(Requester::Agent), ObservedCsr::Absent);
        machine.next_for_request(&some_need(), agent, &csr, None, now)
    };
    machine.posted(&serde_json::json!({"metadata": {"uid": "u"}}));
    assert_eq!((machine.uid(), next(&machine)), (Some("u"), CertificateAction::ConfirmGone));
    machine.watched();
    assert_eq!((machine.uid(), next(&machine)), (None, CertificateAction::CreateCsr));
    assert!(machine.open_request().is_some() && machine.request().is_some());
    machine.ended(&CsrFailure::Denied("x".into()), BOOTSTRAP, now, 0.5);
    assert!(machine.open_request().is_none() && machine.request().is_some());
}

/// A failure of the hub is one of the identity that asked; everything else is the local cluster's.
#[test]
fn the_hub_answers_five_actions_and_eight_only_prepare() {
    let on_the_hub = [
        CertificateAction::CountPending,
        CertificateAction::CreateManagedCluster,
        CertificateAction::GetCsr,
        CertificateAction::CreateCsr,
        CertificateAction::ConfirmGone,
    ];
    let preparations = [
        CertificateAction::OpenSession,
        CertificateAction::SwapSession,
        CertificateAction::CloseSession,
        CertificateAction::AnnounceSession,
        CertificateAction::AnnounceNeed,
        CertificateAction::CloseRequester,
        CertificateAction::WatchCsr,
        CertificateAction::AnnouncePending { overdue: false },
    ];
    let local = [
        CertificateAction::StoreRequest,
        CertificateAction::SaveCertificate(Vec::new()),
        CertificateAction::RepairSecret,
        CertificateAction::DeleteRequest,
    ];
    assert!(on_the_hub.iter().all(|it| it.is_on_the_hub() && !it.is_preparation()));
    assert!(preparations.iter().all(|it| !it.is_on_the_hub() && it.is_preparation()));
    assert!(local.iter().all(|it| !it.is_on_the_hub() && !it.is_preparation()));
}

#[test]
fn a_rest_is_that_of_one_identity() {
    let (mut machine, now) = (pending(), Instant::now());
    let CertificateAction::AbandonCsr(end) = next(&machine, CsrStatus::Denied("x".into()), now)
    else {
        panic!()
    };
    machine.ended(&end, Some(Requester::Agent), now, 0.0);
    let next = |requester| {
        let csr = ObservedCsr::Present(CsrStatus::Pending);
        machine.next_for_request(&some_need(), requester, &csr, None, now).name_at()
    };
    assert_eq!(next(Some(Requester::Agent)), "wait");
    assert_eq!(next(BOOTSTRAP), "count", "the certificate expired meanwhile, say");
    let repair = machine
        .next_for_request(&Need::Repair, Some(Requester::Agent), &ObservedCsr::Awaited, None, now)
        .name_at();
    assert_eq!(repair, "repair");
}

#[test]
fn certificates_that_do_not_last_come_more_and_more_seldom() {
    let (mut machine, mut now) = (CsrMachine::default(), Instant::now());
    let mut waits = Vec::new();
    for _ in 0..15 {
        succeeded(&mut machine, false, now);
        let action =
            machine.next_for_request(&some_need(), BOOTSTRAP, &ObservedCsr::Awaited, None, now);
        let CertificateAction::Wait(until) = action else { panic!("{action:?}") };
        waits.push((until - now).as_secs());
        now = until;
        let action =
            machine.next_for_request(&some_need(), BOOTSTRAP, &ObservedCsr::Awaited, None, now);
        assert_eq!(action, CertificateAction::CountPending);
    }
    assert_eq!(waits[..5], [2, 4, 8, 16, 32]);
    assert_eq!(waits[14], 3600);
    // A certificate that lasted until it was due is another matter, except for the shortest of all.
    let due = Need::Certificate(NeedReason { event: "x", sentence: "x".into(), regular: true });
    let action = machine.next_for_request(&due, BOOTSTRAP, &ObservedCsr::Awaited, None, now + PACE);
    assert_eq!(action, CertificateAction::CountPending);
    succeeded(&mut machine, true, now);
    let action = machine.next_for_request(&due, BOOTSTRAP, &ObservedCsr::Awaited, None, now);
    assert_eq!(action, CertificateAction::Wait(now + PACE));
}

#[test]
fn what_somebody_undoes_is_put_right_more_and_more_seldom() {
    let (mut machine, now) = (CsrMachine::default(), Instant::now());
    let next = |machine: &CsrMachine| {
        machine.next_for_request(&Need::Repair, BOOTSTRAP, &ObservedCsr::Awaited, None, now)
    };
    assert_eq!(next(&machine), CertificateAction::RepairSecret);
    machine.repaired(now);
    assert_eq!(next(&machine), CertificateAction::Wait(now + Duration::from_secs(2)));
    machine.repaired(now);
    assert_eq!(next(&machine), CertificateAction::Wait(now + Duration::from_secs(4)));
}

#[test]
fn rotation_does_not_introduce_the_cluster_again() {
    let mut machine = CsrMachine::default();
    machine.stored(Some(CertificateRequest::new(&names().csr_template()).unwrap()));
    let action = machine.next_for_request(
        &some_need(),
        Some(Requester::Agent),
        &ObservedCsr::Absent,
        None,
        Instant::now(),
    );
    assert_eq!(action, CertificateAction::CreateCsr);
}

#[test]
fn unseen_csr_is_looked_up() {
    let (machine, now) = (pending(), Instant::now());
    let next = |csr| machine.next_for_request(&some_need(), BOOTSTRAP, &csr, None, now).name_at();
    assert_eq!((next(ObservedCsr::Awaited), next(ObservedCsr::Unknown)), ("wait", "look"));
}
