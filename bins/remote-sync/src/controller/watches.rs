//! What is followed of a cluster: a thread for each list, as [`stream`](crate::cache::reflector) has it.

use std::{sync::Arc, time::Duration};

use shared::{
    error::{Error, Result},
    resource::{NAMESPACES, SECRETS},
    runtime,
    stop::Stop,
};

use crate::{
    cache::{
        cluster::{SourceSite, TargetSite},
        reflector::Followed,
        store::Scope,
    },
    connection::Session,
    controller::Engine,
    model::{
        discovery::{self, Kind, Wanted},
        mapping::Names,
        object::Reader,
    },
    sync::remote::Route,
};

/// How long a thread sleeps that waits for another.
const POLL: Duration = Duration::from_millis(100);

/// What the threads of one cluster have in common: of a remote with its route, or of the own cluster.
#[derive(Clone)]
struct Of {
    engine: Arc<Engine>,
    route: Option<Arc<Route>>,
    names: Names,
}

impl Of {
    fn new(engine: &Arc<Engine>, route: Option<&Arc<Route>>) -> Self {
        let common = || engine.context.settings.mapping.common();
        let names = route.map_or_else(common, |route| route.names.clone());
        Self { engine: engine.clone(), route: route.cloned(), names }
    }

    /// The routes that news are for: of a remote its own, of the own cluster all.
    fn routes(&self) -> Arc<Vec<Arc<Route>>> {
        let own = |route: &Arc<Route>| Arc::new(vec![route.clone()]);
        self.route.as_ref().map_or_else(|| self.engine.routes(), own)
    }

    fn reader(&self) -> &Reader {
        &self.engine.context.reader
    }

    fn is_source(&self, namespace: &str, name: &str) -> bool {
        self.names.canonical_of_source(namespace, name).is_some()
    }

    fn is_target(&self, namespace: &str, name: &str) -> bool {
        self.names.canonical_of_target(namespace, name).is_some()
    }

    /// Whether a kind is of the version that the own cluster has, as far as that is known.
    fn agrees(&self, kind: usize, found: &Kind) -> bool {
        let own = self.engine.own_kind(kind);
        own.is_none_or(|own| own.resource.version == found.resource.version)
    }

    /// The kind on a cluster. Of two clusters the own one says the version, for both.
    fn find(&self, kind: usize, session: &Session) -> Result<Kind> {
        let wanted = &self.engine.context.settings.resources[kind];
        if self.route.is_none() {
            return discovery::resolve(&session.client, wanted);
        }
        loop {
            if let Some(own) = self.engine.own_kind(kind) {
                let version = Some(own.resource.version.to_string());
                return discovery::resolve(&session.client, &Wanted { version, ..wanted.clone() });
            }
            if session.stop.wait(POLL) {
                return Err(Error::Unreachable("the connection ended".into()));
            }
        }
    }

    /// Starts a thread for one list.
    fn watch(&self, stop: &Stop, follow: impl FnOnce(&Self, &Stop) + Send + 'static) -> Result<()> {
        let (of, stop) = (self.clone(), stop.clone());
        runtime::spawn("watch", move || follow(&of, &stop))
    }
}

/// Follows a cluster that owns specs: of `route`, or the own one for all.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn source(
    engine: &Arc<Engine>,
    site: &Arc<SourceSite>,
    route: Option<&Arc<Route>>,
    stop: &Stop,
) -> Result<()> {
    let of = Of::new(engine, route);
    let settings = &engine.context.settings;
    let scopes: Vec<_> = match settings.source_namespaces.is_empty() {
        true => vec![None],
        false => settings.source_namespaces.iter().cloned().map(Some).collect(),
    };
    for kind in 0..settings.resources.len() {
        for (index, namespace) in scopes.iter().cloned().enumerate() {
            let site = site.clone();
            of.watch(stop, move |of, stop| {
                Followed {
                    cluster: &site.cluster,
                    shelf: &site.shelves[kind],
                    scope: Scope { index, namespace: namespace.as_deref() },
                    name: None,
                    labels: &of.engine.context.settings.selector,
                    metadata_only: false,
                    bodies: Some(&|row| !row.seems_done()),
                    find: &|session| of.find(kind, session),
                    agrees: &|found| of.agrees(kind, found),
                    covers: &|namespace, name| of.is_source(namespace, name),
                    read: &|object| of.reader().source(object),
                    tell: &|news| of.engine.source_news(&of.routes(), kind, &news),
                }
                .follow(stop);
            })?;
        }
    }
    Ok(())
}

/// The same of a cluster that owns statuses, with its namespaces and Secrets.
///
/// # Errors
/// `BadConfig` when the system gives no thread.
pub(crate) fn target(
    engine: &Arc<Engine>,
    site: &Arc<TargetSite>,
    route: Option<&Arc<Route>>,
    stop: &Stop,
) -> Result<()> {
    let of = Of::new(engine, route);
    for kind in 0..engine.context.settings.resources.len() {
        let site = site.clone();
        of.watch(stop, move |of, stop| {
            Followed {
                cluster: &site.cluster,
                shelf: &site.shelves[kind],
                scope: ALL,
                name: None,
                labels: "",
                metadata_only: false,
                bodies: Some(&|_| false),
                find: &|session| of.find(kind, session),
                agrees: &|found| of.agrees(kind, found),
                covers: &|namespace, name| of.is_target(namespace, name),
                read: &|object| of.reader().target(object),
                tell: &|news| of.engine.target_news(&of.routes(), kind, &news),
            }
            .follow(stop);
        })?;
    }
    namespaces(&of, site.clone(), stop)?;
    (0..engine.context.settings.secrets.len())
        .try_for_each(|index| secrets(&of, site.clone(), index, stop))
}

fn namespaces(of: &Of, site: Arc<TargetSite>, stop: &Stop) -> Result<()> {
    of.watch(stop, move |of, stop| {
        Followed {
            cluster: &site.cluster,
            shelf: &site.namespaces,
            scope: ALL,
            name: None,
            labels: "",
            metadata_only: true,
            bodies: None,
            agrees: &|_| true,
            find: &|_| Ok(Kind { resource: NAMESPACES.clone(), namespaced: false, status: true }),
            covers: &|_, name| of.names.covers(name),
            read: &|object| of.reader().namespace(object),
            tell: &|news| of.engine.namespace_news(&of.routes(), &news),
        }
        .follow(stop);
    })
}

/// One name each, so that the right to these Secrets and no others is enough.
fn secrets(of: &Of, site: Arc<TargetSite>, index: usize, stop: &Stop) -> Result<()> {
    of.watch(stop, move |of, stop| {
        Followed {
            cluster: &site.cluster,
            shelf: &site.secrets[index],
            scope: ALL,
            name: Some(&of.engine.context.settings.secrets[index]),
            labels: "",
            metadata_only: false,
            bodies: None,
            agrees: &|_| true,
            find: &|_| Ok(Kind { resource: SECRETS.clone(), namespaced: true, status: false }),
            covers: &|namespace, name| of.is_target(namespace, name),
            read: &|object| of.reader().upload(object),
            tell: &|news| of.engine.secret_news(&of.routes(), &news),
        }
        .follow(stop);
    })
}

const ALL: Scope<'static> = Scope { index: 0, namespace: None };
