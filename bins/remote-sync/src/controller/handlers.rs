//! What the streams tell: which pairs have to be looked at.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    cache::reflector::News,
    controller::{Engine, Own},
    model::{
        key::{self, Pair},
        mode::Mode,
        object::controller,
    },
    sync::remote::Route,
};

impl Engine {
    /// Something happened to a source.
    pub(crate) fn source_news(
        self: &Arc<Self>,
        routes: &[Arc<Route>],
        kind: usize,
        news: &News<'_>,
    ) {
        let Some((key, urgent)) = news.object() else { return self.stop.wake() };
        let (namespace, name) = key::split(key);
        let mut meant = false;
        for route in routes {
            let source = route.names.canonical_of_source(namespace, name);
            meant |= source.is_some();
            if let (News::Gone { .. }, Some((namespace, name))) = (news, source)
                && self.context.settings.is_selective()
            {
                route.leaves(&Pair { kind, key: key::of(namespace, name).into() }, true);
            }
            self.push(route, kind, source, urgent);
            self.staff(route);
        }
        // The room for documents is for those that somebody takes.
        if let (false, Own::Source(site)) = (meant, &self.own) {
            site.shelves[kind].table.drop_body(key);
        }
    }

    /// Something happened to a target.
    pub(crate) fn target_news(
        self: &Arc<Self>,
        routes: &[Arc<Route>],
        kind: usize,
        news: &News<'_>,
    ) {
        let Some((key, urgent)) = news.object() else { return self.stop.wake() };
        let mut meant = false;
        for route in routes {
            meant |= self.target_changed(route, kind, key, urgent);
            self.staff(route);
        }
        let site = match &self.own {
            Own::Target(site) => Some(site),
            Own::Source(_) => routes.first().map(|route| &route.target),
        };
        if let (false, Some(site)) = (meant, site) {
            site.shelves[kind].table.drop_body(key);
        }
    }

    /// Something happened to a namespace of the target: its owner may have to go on, and whatever waits
    /// for it.
    pub(crate) fn namespace_news(self: &Arc<Self>, routes: &[Arc<Route>], news: &News<'_>) {
        let Some((key, urgent)) = news.object() else { return self.stop.wake() };
        let (_, namespace) = key::split(key);
        let owner = match news {
            News::Put { object, .. } => {
                object["metadata"]["annotations"][&self.context.settings.keys.owner].as_str()
            }
            News::TooLarge { .. } | News::Gone { .. } | News::State => None,
        };
        let owner = owner.unwrap_or_default();
        for route in routes {
            // Upstream follows owned namespaces without the suffix, too; of many remotes each would.
            let owned = match self.context.settings.mode {
                Mode::Compat => route.names.canonical_of_namespace(namespace, owner),
                Mode::Safe => route.names.canonical_of_target(namespace, owner),
            };
            let owned = owned.filter(|_| !owner.is_empty());
            let inside = route.names.canonical_of_target(namespace, "").map(|(inside, _)| inside);
            for kind in 0..self.context.settings.resources.len() {
                self.push(route, kind, owned, urgent);
                for key in
                    inside.map(|ns| route.source.shelves[kind].table.keys_in(ns)).iter().flatten()
                {
                    let (namespace, name) = key::split(key);
                    let source = route.names.canonical_of_source(namespace, name);
                    self.push(route, kind, source, urgent);
                }
            }
            self.staff(route);
        }
    }

    /// Something happened to a Secret of the target: the object that controls it is looked at.
    pub(crate) fn secret_news(self: &Arc<Self>, routes: &[Arc<Route>], news: &News<'_>) {
        let (key, object) = match news {
            News::Put { key, object, .. } => (key, *object),
            News::TooLarge { .. } | News::Gone { .. } => return,
            News::State => return self.stop.wake(),
        };
        let Some(owner) = controller(object) else { return };
        let (namespace, _) = key::split(key);
        for route in routes {
            let is_owner = |kind: &usize| {
                let kind = route.target.shelves[*kind].kind();
                kind.is_some_and(|kind| is_of(owner, &kind.resource.group, &kind.resource.kind))
            };
            for kind in (0..self.context.settings.resources.len()).filter(is_owner) {
                let name = owner["name"].as_str().unwrap_or_default();
                self.push(route, kind, route.names.canonical_of_target(namespace, name), true);
            }
            self.staff(route);
        }
    }
}

/// Whether an ownerReference is about this kind, in whatever version.
fn is_of(owner: &Value, group: &str, kind: &str) -> bool {
    let version = owner["apiVersion"].as_str().unwrap_or_default();
    let of = version.split_once('/').map_or("", |(group, _)| group);
    of == group && owner["kind"] == *kind
}
