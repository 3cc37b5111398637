//! One turn of the process's loop, up to the next request, by the real plan and the real machine.

use std::time::Instant;

use serde_json::{Value, json};

use super::{
    AddOnModel,
    process::{Process, Seen, key_of},
    world::{Content, Places, Request, Spec, Stored, View, World},
};
use crate::{
    addon::{
        cache::{AddOns, KnownAddOns},
        managed_cluster_addon::{AddOn, AddOnNamespace},
        registration::{
            Credential, RegistrationSecret, plan::PlanInputs, store::StoredRegistration,
        },
    },
    certificate::{
        KUBE_API_SERVER_CLIENT, csr_status::CsrFailure, machine::CertificateAction, need::Need,
    },
    identity::AgentNames,
    settings::KubeClientDriver,
};

const ADDON: &str = "addon1";

/// What the real plan says: where a credential is wanted and of which subject, and what is obsolete.
#[derive(Clone, Copy)]
pub(super) struct Planned {
    wanted: Option<(usize, u8)>,
    obsolete: Places<bool>,
}

/// The next thing that the process does.
pub(super) enum Next {
    Send(Request),
    Abandon(CsrFailure),
    ConfirmGone,
    Wait(Instant),
}

impl AddOnModel {
    /// Takes over what is known, up to the actions that are due.
    pub(super) fn prepare(&self, process: &mut Process, world: &World) -> Vec<Next> {
        process.refresh_store(world);
        let Planned { wanted, obsolete } = self.planned(process);
        let mut all: Vec<_> = (0..2)
            .filter(|place| obsolete[*place])
            .map(|at| self.remove(process, world, at))
            .collect();
        (0..2).filter(|place| !obsolete[*place]).for_each(|at| process.deleted[at] = false);
        process.start(wanted, self.rules);
        if process.entry.is_some() {
            all.push(self.reconcile(process, world));
        }
        all
    }

    /// As `secret::delete`, and `RegistrationStore::remove` after it.
    fn remove(&self, process: &Process, world: &World, place: usize) -> Next {
        let is_ours = match world.secrets[place] {
            Some(Content::Ours(_)) => true,
            Some(Content::Others) => !self.rules.checks_owner,
            None => false,
        };
        Next::Send(match is_ours && !process.deleted[place] && self.rules.deletes_first {
            true => Request::Delete(place),
            false => Request::Forget(place),
        })
    }

    /// As `Entry::try_reconcile` and `CertificateRegistration::reconcile`.
    fn reconcile(&self, process: &mut Process, world: &World) -> Next {
        let (place, subject) = process.entry.as_ref().map(|it| (it.place, it.subject)).unwrap();
        let there = process.request(place, subject, self.rules);
        let (now, entry) = (self.base + world.now, process.entry.as_mut().unwrap());
        if process.store[place].is_none() && self.rules.stores_first {
            return Next::Send(Request::Store(place, Stored::default()));
        }
        loop {
            let observed = entry.observe(world);
            entry.machine.saw(&observed, now);
            let request = entry.machine.request().map(key_of);
            match entry.machine.next(&observed, now) {
                CertificateAction::AnnounceNeed => {
                    entry.machine.need_announced(observed.sentence.clone());
                }
                CertificateAction::CloseRequester => entry.close(),
                CertificateAction::WatchCsr => {
                    let known = if entry.fresh { Seen::Absent } else { Seen::Unknown };
                    entry.awaited = request.map(|key| (key, known));
                    entry.machine.watched();
                }
                CertificateAction::CountPending => entry.machine.counted(),
                CertificateAction::GetCsr => {
                    let Some((key, seen)) = &mut entry.awaited else { unreachable!() };
                    *seen = Seen::of(world.csrs.get(key));
                }
                CertificateAction::StoreRequest
                    if self.rules.takes_stored
                        && there.is_some()
                        && there.as_ref() != entry.machine.request() =>
                {
                    entry.machine.stored(there.clone());
                    entry.fresh = false;
                }
                CertificateAction::StoreRequest => {
                    let request = Some(world.new_key(entry.subject));
                    return Next::Send(Request::Store(place, Stored { request }));
                }
                CertificateAction::CreateCsr => {
                    return Next::Send(Request::Post(place, request.unwrap()));
                }
                CertificateAction::SaveCertificate(_) => {
                    return Next::Send(Request::Save(place, request.unwrap()));
                }
                CertificateAction::DeleteRequest => {
                    return Next::Send(Request::Store(place, Stored::default()));
                }
                CertificateAction::ConfirmGone => return Next::ConfirmGone,
                CertificateAction::AbandonCsr(failure) => return Next::Abandon(failure),
                CertificateAction::Wait(until) => {
                    let is_done = matches!(observed.need, Need::Nothing(_)) && request.is_none();
                    let is_stored = process.store[place].is_some_and(|it| it.request.is_some());
                    return match is_done && is_stored && self.rules.tidies {
                        true => Next::Send(Request::Store(place, Stored::default())),
                        false => Next::Wait(until),
                    };
                }
                other => unreachable!("{other:?}"),
            }
        }
    }
}

impl AddOnModel {
    /// The real plan.
    fn planned(&self, process: &Process) -> Planned {
        let key = (process.view, process.store.map(|stored| stored.is_some()));
        *self.plans.borrow_mut().entry(key).or_insert_with(|| self.plan_anew(key.0, key.1))
    }

    fn plan_anew(&self, view: View, stored: Places<bool>) -> Planned {
        let mut addons = AddOns::default();
        if let Some(addon) = view {
            let all = addon.map(|addon| (ADDON.to_owned(), AddOn::of(&addon_object(addon))));
            addons.replace_addons(all.into_iter().collect());
        }
        let before = KnownAddOns::default();
        let secret = |hosted| {
            let namespace = AddOnNamespace { hosted, name: "ns".into() };
            RegistrationSecret { namespace, name: format!("{ADDON}-hub-kubeconfig") }
        };
        let all = [false, true].into_iter().filter(|hosted| stored[usize::from(*hosted)]);
        let stored = all.map(|hosted| {
            (secret(hosted), StoredRegistration { addon: ADDON.into(), request: None })
        });
        let plan = (self.rules.plan)(&PlanInputs {
            addons: &addons.since(&before).unwrap_or_default(),
            stored: &stored.collect::<Vec<_>>(),
            names: &AgentNames { cluster: "cluster1".into(), agent: "agent1".into() },
            driver: KubeClientDriver::Csr,
            apart: true,
        });
        let wanted = plan.wanted.first().map(|one| {
            let Credential::Certificate { template, .. } = &one.credential else { unreachable!() };
            let subject = template.subject.user.parse().unwrap();
            (usize::from(one.secret.namespace.hosted), subject)
        });
        let obsolete = [false, true].map(|hosted| plan.obsolete.contains(&secret(hosted)));
        Planned { wanted, obsolete }
    }
}

fn addon_object(Spec { subject, hosted, registered, deleting }: Spec) -> Value {
    let subject = json!({"user": subject.to_string()});
    let all = [json!({"signerName": KUBE_API_SERVER_CLIENT, "subject": subject})];
    let hosting = hosted.then_some("hosting1");
    let annotations = json!({"addon.open-cluster-management.io/hosting-cluster-name": hosting});
    let deleted = deleting.then_some("2026-11-24T00:00:00Z");
    json!({
        "metadata": {"name": ADDON, "annotations": annotations, "deletionTimestamp": deleted},
        "status": {"namespace": "ns", "registrations": &all[..usize::from(registered)]},
    })
}
