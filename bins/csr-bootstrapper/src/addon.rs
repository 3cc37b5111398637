//! Add-ons of this cluster on the hub: whether each is available, by the Lease that its agent renews, and the
//! credentials that the agent needs on the hub.

mod availability;
mod managed_cluster_addon;
mod registration;
mod status;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use apiclient::{
    client::Client,
    controller,
    error::Result,
    lock::lock,
    log_object,
    reflector::{Lookup, Store},
    resource::Resource,
    status_writer::StatusWriter,
    stop::Stop,
    watch::Selection,
};
use serde_json::Value;
use sidecar::runtime;

pub(crate) use self::managed_cluster_addon::AddOn;
use self::{
    availability::LeaseReader,
    managed_cluster_addon::{AVAILABLE, AddOnNamespace},
    registration::{
        AddOnContext, Inputs, Keeper, RegistrationSecret, RegistrationStore, desired,
        service_account_user,
    },
    status::AddOnStatus,
};
use crate::{
    agent::Agent, managedcluster::accepted, settings::KubeClientDriver, state::HubSession,
};

/// `addon.open-cluster-management.io/v1alpha1` ManagedClusterAddOn: newer hubs serve it beside v1beta1.
static MANAGED_CLUSTER_ADDONS: Resource = Resource::new(
    "addon.open-cluster-management.io",
    "v1alpha1",
    "managedclusteraddons",
    "ManagedClusterAddOn",
);
/// The most add-ons that are kept: each costs memory, and a hub may list any number.
const MAX_ADDONS: usize = 500;
/// Nor may the texts of all their registrations be longer: a few add-ons could fill the memory, and the store of pending
/// requests, otherwise.
const MAX_TOTAL_LENGTH: usize = 256 << 10;

/// No add-ons yet, with room for as many as are kept.
pub(crate) fn store() -> Store<Arc<AddOn>> {
    Store::new(MAX_ADDONS).weighing_at_most(MAX_TOTAL_LENGTH, |addon| addon.length())
}

/// Starts the watch of add-ons, and a loop for each cluster that their agents run on; the loops share the store.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn start(agent: &Arc<Agent>) -> Result<()> {
    runtime::spawn_with("addons", agent, follow)?;
    let store = Arc::new(Mutex::new(RegistrationStore::new(agent)));
    let clusters = match agent.other_spoke() {
        Some(_) => &[("addon-agents", Some(false)), ("addon-hosted", Some(true))][..],
        None => &[("addon-agents", None)],
    };
    for &(thread, hosted) in clusters {
        let (agent, store) = (agent.clone(), store.clone());
        runtime::spawn(thread, move || run(&agent, &store, hosted))?;
    }
    Ok(())
}

/// Keeps the add-ons of each session once the hub has accepted the cluster: before, it grants no right to them.
fn follow(agent: &Agent) {
    while let Some(session) = agent.next_session() {
        controller::run(&agent.stop, || {
            let waits = !session.stop.raised() && !is_accepted(&session);
            waits.then(|| Instant::now() + Stop::SLICE)
        });
        let target = MANAGED_CLUSTER_ADDONS.collection(&session.names.cluster);
        let (selection, addons) = (Selection::all(target), &session.addons);
        let parse = |object: Value| {
            let addon = AddOn::of(&object)?;
            let before = match addons.get(object["metadata"]["name"].as_str()?) {
                Lookup::Object(before) => Some(before),
                Lookup::Unknown | Lookup::Absent | Lookup::Invalid => None,
            };
            Some(Arc::new(addon.following(before.as_deref(), Instant::now())))
        };
        agent.reflect(addons, &session.client, &selection, &session.stop, parse);
    }
}

/// The readable add-ons, by name.
type AddOns = BTreeMap<String, Arc<AddOn>>;

/// Works for the add-ons of one cluster until the end of the process: for `hosted` ones, for others, or for all.
fn run(agent: &Agent, store: &Mutex<RegistrationStore>, hosted: Option<bool>) {
    while let Some(session) = agent.next_session() {
        let mut controller = AddOnController {
            context: AddOnContext { agent, session: &session, store },
            hosted,
            leases: BTreeMap::new(),
            keepers: BTreeMap::new(),
            writer: StatusWriter::default(),
            knows_driver: true,
        };
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

impl AddOnController<'_> {
    fn is_mine(&self, hosted: bool) -> bool {
        self.hosted.is_none_or(|mine| mine == hosted)
    }

    /// Performs what is due; returns when to come again if nothing changes.
    fn reconcile(&mut self) -> Instant {
        let (session, now) = (self.context.session, Instant::now());
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
        let moves = addons.values().filter_map(|addon| addon.hosted_until).min();
        let until = moves.unwrap_or(later).min(self.keep_credentials(&addons));
        until.min(self.report(&addons))
    }

    /// Compares the desired credentials with the kept ones, and does what is due.
    fn keep_credentials(&mut self, addons: &AddOns) -> Instant {
        let AddOnContext { agent, session, store } = self.context;
        let registrations = {
            let mut store = lock(store);
            if let Err(until) = store.refresh() {
                return until;
            }
            desired(&Inputs {
                addons,
                is_gone: &|name| session.addons.get(name) == Lookup::Absent,
                stored: &store.all(),
                names: &session.names,
                driver: agent.settings.addon_driver,
                apart: agent.other_spoke().is_some(),
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
                until = until.min(keeper.reconcile(&secret, registration, self.context));
            }
        }
        until
    }

    /// Reads the Leases that are due, and reports each add-on; returns when to come again.
    fn report(&mut self, addons: &AddOns) -> Instant {
        let AddOnContext { agent, session, .. } = self.context;
        self.leases.retain(|name, _| addons.contains_key(name));
        self.writer.retain(|name| addons.contains_key(name));
        let mut statuses: BTreeMap<String, AddOnStatus> = BTreeMap::new();
        for (addon, condition) in self.keepers.values().filter_map(Keeper::condition) {
            statuses.entry(addon.to_owned()).or_default().add(condition);
        }
        let mut until = Instant::now() + Stop::SLICE;
        for (name, addon) in addons {
            if session.stop.raised() {
                break;
            }
            if !self.is_mine(addon.namespace.hosted && agent.other_spoke().is_some()) {
                continue;
            }
            let mut wanted = AddOnStatus::default();
            if !addon.terminating {
                wanted = statuses.remove(name).unwrap_or_default();
                self.set_driver(&mut wanted, name, addon);
            }
            if !addon.customized {
                let lease = self.leases.entry(name.clone()).or_default();
                until = until.min(lease.refresh(agent, name, addon));
                let condition = lease.condition.clone();
                condition.into_iter().for_each(|condition| wanted.add((AVAILABLE, condition)));
            }
            until = until.min(self.write(name, addon, &wanted));
        }
        until
    }

    fn set_driver(&self, status: &mut AddOnStatus, name: &str, addon: &AddOn) {
        let AddOnContext { agent, session, .. } = self.context;
        let driver = agent.settings.addon_driver;
        let user = matches!(driver, KubeClientDriver::Token { .. })
            .then(|| service_account_user(&session.names.cluster, name));
        status.set_driver(addon, driver.name(), user);
        if !self.knows_driver {
            status.driver = None;
        }
    }

    /// Writes the status if the hub has another one; returns when to come again.
    fn write(&mut self, name: &String, addon: &AddOn, wanted: &AddOnStatus) -> Instant {
        let (session, now) = (self.context.session, Instant::now());
        match self.writer.due(name, wanted.differs_from(addon)) {
            None => return now + Stop::SLICE,
            Some(due) if now < due => return due,
            Some(_) => {}
        }
        match wanted.write(session, name, addon) {
            Ok(written) => {
                self.writer.wrote(name);
                let drops = |it: AddOn| wanted.driver.is_some_and(|driver| it.driver != driver);
                self.knows_driver &= !written.is_some_and(drops);
            }
            Err(error) => {
                let target = MANAGED_CLUSTER_ADDONS.object(&session.names.cluster, name);
                let level = self.writer.failed(name, &error);
                log_object!(level, target, error:% = error; "the status of an add-on is not reported");
            }
        }
        now
    }
}

fn is_accepted(session: &HubSession) -> bool {
    session.managed_cluster().is_some_and(|cluster| accepted(&cluster))
}

/// The cluster that an add-on's agent runs on, with its Lease and its Secrets.
fn cluster_of<'a>(agent: &'a Agent, namespace: &AddOnNamespace) -> &'a Client {
    if namespace.hosted { &agent.management } else { agent.spoke() }
}
