//! What is followed of a cluster: a thread for each list, as [`stream`](crate::stream) has it.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use shared::{
    error::{Error, Result},
    program,
    resource::{NAMESPACES, SECRETS},
    stop::Stop,
};

use crate::{
    connection::Session,
    engine::Engine,
    kind::{self, Kind, Wanted},
    mapping::Names,
    route::Route,
    site::{SourceSite, TargetSite},
    stream::Followed,
    table::Scope,
};

/// How long a thread sleeps that waits for another.
const POLL: Duration = Duration::from_millis(100);

/// The routes that news of a site are for: of a remote its own, of the own cluster all.
fn routes(engine: &Engine, route: Option<&Arc<Route>>) -> Arc<Vec<Arc<Route>>> {
    route.map_or_else(|| engine.routes(), |route| Arc::new(vec![route.clone()]))
}

fn names(engine: &Engine, route: Option<&Arc<Route>>) -> Names {
    route.map_or_else(|| engine.context.settings.mapping.common(), |route| route.names.clone())
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
    let namespaces = &engine.context.settings.source_namespaces;
    let scopes: Vec<_> = match namespaces.is_empty() {
        true => vec![None],
        false => namespaces.iter().cloned().map(Some).collect(),
    };
    for kind in 0..engine.context.settings.resources.len() {
        for (index, namespace) in scopes.iter().cloned().enumerate() {
            let (engine, site, stop) = (engine.clone(), site.clone(), stop.clone());
            let route = route.cloned();
            program::spawn("watch", move || {
                let names = names(&engine, route.as_ref());
                Followed {
                    cluster: &site.cluster,
                    shelf: &site.shelves[kind],
                    scope: Scope { index, namespace: namespace.as_deref() },
                    name: None,
                    labels: &engine.context.settings.selector,
                    metadata_only: false,
                    bodies: Some(&|row| !row.seems_done()),
                    find: &|session| find(&engine, kind, route.is_some(), session),
                    agrees: &|found| agrees(&engine, kind, found),
                    read: &|object| {
                        let (namespace, name) = place(object);
                        names.canonical_of_source(namespace, name)?;
                        engine.context.reader.source(object)
                    },
                    tell: &|news| {
                        engine.source_news(&routes(&engine, route.as_ref()), kind, &news);
                    },
                }
                .follow(&stop);
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
    for kind in 0..engine.context.settings.resources.len() {
        let (engine, site, stop) = (engine.clone(), site.clone(), stop.clone());
        let route = route.cloned();
        program::spawn("watch", move || {
            let names = names(&engine, route.as_ref());
            Followed {
                cluster: &site.cluster,
                shelf: &site.shelves[kind],
                scope: ALL,
                name: None,
                labels: "",
                metadata_only: false,
                bodies: Some(&|_| false),
                find: &|session| find(&engine, kind, route.is_some(), session),
                agrees: &|found| agrees(&engine, kind, found),
                read: &|object| {
                    let (namespace, name) = place(object);
                    names.canonical_of_target(namespace, name)?;
                    engine.context.reader.target(object)
                },
                tell: &|news| engine.target_news(&routes(&engine, route.as_ref()), kind, &news),
            }
            .follow(&stop);
        })?;
    }
    namespaces(engine, site, route, stop)?;
    (0..engine.context.settings.secrets.len())
        .try_for_each(|index| secrets(engine, site, route, index, stop))
}

fn namespaces(
    engine: &Arc<Engine>,
    site: &Arc<TargetSite>,
    route: Option<&Arc<Route>>,
    stop: &Stop,
) -> Result<()> {
    let (engine, site, stop) = (engine.clone(), site.clone(), stop.clone());
    let route = route.cloned();
    program::spawn("watch", move || {
        let names = names(&engine, route.as_ref());
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
            read: &|object| {
                names
                    .covers(place(object).1)
                    .then(|| engine.context.reader.namespace(object))
                    .flatten()
            },
            tell: &|news| engine.namespace_news(&routes(&engine, route.as_ref()), &news),
        }
        .follow(&stop);
    })
}

/// One name each, so that the right to these Secrets and no others is enough.
fn secrets(
    engine: &Arc<Engine>,
    site: &Arc<TargetSite>,
    route: Option<&Arc<Route>>,
    index: usize,
    stop: &Stop,
) -> Result<()> {
    let (engine, site, stop) = (engine.clone(), site.clone(), stop.clone());
    let route = route.cloned();
    program::spawn("watch", move || {
        let names = names(&engine, route.as_ref());
        Followed {
            cluster: &site.cluster,
            shelf: &site.secrets[index],
            scope: ALL,
            name: Some(&engine.context.settings.secrets[index]),
            labels: "",
            metadata_only: false,
            bodies: None,
            agrees: &|_| true,
            find: &|_| Ok(Kind { resource: SECRETS.clone(), namespaced: true, status: false }),
            read: &|object| {
                let (namespace, name) = place(object);
                names.canonical_of_target(namespace, name)?;
                engine.context.reader.upload(object)
            },
            tell: &|news| engine.secret_news(&routes(&engine, route.as_ref()), &news),
        }
        .follow(&stop);
    })
}

const ALL: Scope<'static> = Scope { index: 0, namespace: None };

/// Namespace and name.
pub(crate) fn place(object: &Value) -> (&str, &str) {
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    (part("namespace"), part("name"))
}

/// Whether a kind is of the version that the own cluster has, as far as that is known.
fn agrees(engine: &Engine, kind: usize, found: &Kind) -> bool {
    let own = engine.own_kind(kind);
    own.is_none_or(|own| own.resource.version == found.resource.version)
}

/// The kind on a cluster. Of two clusters the own one says the version, for both.
fn find(engine: &Engine, kind: usize, remote: bool, session: &Session) -> Result<Kind> {
    let wanted = &engine.context.settings.resources[kind];
    if !remote {
        return kind::resolve(&session.client, wanted);
    }
    loop {
        if let Some(own) = engine.own_kind(kind) {
            let version = Some(own.resource.version.to_string());
            return kind::resolve(&session.client, &Wanted { version, ..wanted.clone() });
        }
        if session.stop.wait(POLL) {
            return Err(Error::Unreachable("the connection ended".into()));
        }
    }
}
