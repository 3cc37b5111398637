//! Loop for the add-ons whose agents run on one cluster: reads their Leases, keeps their credentials, and reports both
//! to the hub.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use apiclient::{
    controller, lock::lock, reflector::Lookup, status_writer::StatusWriter, stop::Stop,
};

use super::{
    availability::LeaseReader,
    is_accepted,
    managed_cluster_addon::{AVAILABLE, AddOn},
    registration::{
        AddOnContext, Inputs, Keeper, RegistrationSecret, RegistrationStore, desired,
        service_account_user,
    },
    status::{self, AddOnStatus, TypedCondition},
};
use crate::{agent::Agent, settings::KubeClientDriver, state::HubSession};

/// The readable add-ons, by name.
type AddOns = BTreeMap<String, Arc<AddOn>>;

/// Works for the add-ons of one cluster until the end of the process: for `hosted` ones, for others, or for all.
pub(super) fn run(agent: &Agent, store: &Mutex<RegistrationStore>, hosted: Option<bool>) {
    while let Some(session) = agent.next_session() {
        let mut controller =
            AddOnController::new(AddOnContext { agent, session: &session, store }, hosted);
        controller::run(&agent.stop, || (!session.stop.raised()).then(|| controller.reconcile()));
    }
}

/// The state of one session.
struct AddOnController<'a> {
    context: AddOnContext<'a>,
    hosted: Option<bool>,
    /// By the add-on's name.
    leases: BTreeMap<String, LeaseReader>,
    keepers: BTreeMap<RegistrationSecret, Keeper>,
    writer: StatusWriter<String>,
    /// The hub knows the field of the driver: it is OCM 1.2 or newer.
    knows_driver: bool,
}

impl<'a> AddOnController<'a> {
    fn new(context: AddOnContext<'a>, hosted: Option<bool>) -> Self {
        let (leases, keepers) = (BTreeMap::new(), BTreeMap::new());
        let writer = StatusWriter::default();
        Self { context, hosted, leases, keepers, writer, knows_driver: true }
    }

    fn session(&self) -> &'a HubSession {
        self.context.session
    }

    fn is_mine(&self, hosted: bool) -> bool {
        self.hosted.is_none_or(|mine| mine == hosted)
    }

    /// Performs what is due; returns when to come again if nothing changes.
    fn reconcile(&mut self) -> Instant {
        let (session, now) = (self.session(), Instant::now());
        let later = now + Stop::SLICE;
        if !is_accepted(session) {
            return later;
        }
        let Some(addons) = session.addons.read(|all| {
            let known = all.iter().filter_map(|(name, addon)| Some((name, addon.as_ref()?)));
            known.map(|(name, addon)| (name.clone(), addon.at(now))).collect::<AddOns>()
        }) else {
            return later;
        };
        let until = self.keep_credentials(&addons).min(later);
        let moves = addons.values().filter_map(|addon| addon.hosted_until).min();
        self.report(&addons).min(moves.unwrap_or(until)).min(until)
    }

    /// Compares the desired credentials with the kept ones, and does what is due.
    fn keep_credentials(&mut self, addons: &AddOns) -> Instant {
        let (context, session) = (self.context, self.session());
        let registrations = {
            let mut store = lock(context.store);
            if let Err(until) = store.refresh() {
                return until;
            }
            desired(&Inputs {
                addons,
                is_gone: &|name| session.addons.get(name) == Lookup::Absent,
                stored: &store.all(),
                names: &session.names,
                driver: context.agent.settings.addon_driver,
                apart: context.agent.other_spoke().is_some(),
            })
        };
        self.keepers.retain(|secret, keeper| {
            let is_kept = registrations.contains_key(secret);
            if !is_kept {
                keeper.close(session);
            }
            is_kept
        });
        let mut until = Instant::now() + Stop::SLICE;
        for (secret, registration) in registrations {
            if session.stop.raised() {
                break;
            }
            if self.is_mine(secret.namespace.hosted) {
                let keeper = self.keepers.entry(secret.clone()).or_default();
                until = until.min(keeper.reconcile(&secret, registration, context));
            }
        }
        until
    }

    /// Reads the Leases that are due, and reports each add-on; returns when to come again.
    fn report(&mut self, addons: &AddOns) -> Instant {
        self.leases.retain(|name, _| addons.contains_key(name));
        self.writer.retain(|name| addons.contains_key(name));
        let mut credentials: BTreeMap<&str, Vec<TypedCondition>> = BTreeMap::new();
        for (addon, condition) in self.keepers.values().filter_map(Keeper::condition) {
            credentials.entry(addon).or_default().push(condition);
        }
        let mut due = Vec::new();
        let mut until = Instant::now() + Stop::SLICE;
        for (name, addon) in addons {
            if self.session().stop.raised() {
                break;
            }
            let is_apart = self.context.agent.other_spoke().is_some();
            if !self.is_mine(addon.namespace.hosted && is_apart) {
                continue;
            }
            let mut conditions = match addon.terminating {
                true => Vec::new(),
                false => credentials.remove(&**name).unwrap_or_default(),
            };
            if !addon.customized {
                let lease = self.leases.entry(name.clone()).or_default();
                until = until.min(lease.refresh(self.context.agent, name, addon));
                conditions.extend(lease.condition().map(|condition| (AVAILABLE, condition)));
            }
            due.push((name, addon, conditions));
        }
        for (name, addon, conditions) in due {
            until = until.min(self.write(name, addon, conditions));
        }
        until
    }

    /// Writes the status if the hub has another one; returns when to come again.
    fn write(&mut self, name: &String, addon: &AddOn, conditions: Vec<TypedCondition>) -> Instant {
        let now = Instant::now();
        let driver = self.context.agent.settings.addon_driver;
        let user = matches!(driver, KubeClientDriver::Token { .. })
            .then(|| service_account_user(&self.session().names.cluster, name));
        let mut wanted = match addon.terminating {
            true => AddOnStatus { conditions, ..AddOnStatus::default() },
            false => AddOnStatus::of(addon, conditions, driver.name(), user),
        };
        if !self.knows_driver {
            wanted.driver = None;
        }
        match self.writer.due(name, wanted.differs_from(addon)) {
            None => now + Stop::SLICE,
            Some(due) if now < due => due,
            Some(_) => {
                let written = status::write(self.context, (name, addon), &wanted, &mut self.writer);
                let drops = |it: AddOn| wanted.driver.is_some_and(|driver| it.driver != driver);
                self.knows_driver &= !written.is_some_and(drops);
                now
            }
        }
    }
}
