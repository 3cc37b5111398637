//! Enqueues the pairs of a remote, of a kind or of a target, and starts the workers that reconcile them.

use std::sync::Arc;

use sidecar::runtime;

use crate::{
    controller::Controller,
    model::{
        key::{self, KindIndex, Pair},
        object::TargetObject,
    },
    sync::{reconcile, remote::RemoteSync},
};

impl Controller {
    /// Enqueues all pairs of a remote, also pairs without a source.
    pub(super) fn enqueue_all(self: &Arc<Self>, remote: &Arc<RemoteSync>) {
        for kind in self.context.settings.resources.kinds() {
            self.enqueue_kind(remote, kind);
        }
    }

    /// Enqueues all pairs of a kind.
    pub(super) fn enqueue_kind(self: &Arc<Self>, remote: &Arc<RemoteSync>, kind: KindIndex) {
        let names = &remote.names;
        let is_source = |key: &str| names.canonical_of_source_key(key).is_some();
        for key in remote.source.stores[kind].keys_where(|key, _| is_source(key)) {
            self.enqueue(remote, kind, names.canonical_of_source_key(&key), false);
        }
        let ours = |target: &TargetObject| {
            let from = target.copy_of.as_ref().map(|copy| copy.cluster);
            from.is_some_and(|from| remote.is_followed_for(from))
        };
        let copies = remote.target.stores[kind].keys_where(|_, it| it.is_some_and(ours));
        for key in copies {
            let (namespace, name) = key::split(&key);
            let target = remote.names.canonical_of_target(namespace, name);
            self.enqueue(remote, kind, target, false);
        }
    }

    /// Enqueues a target's pair for each of the remotes that has its source, or whose orphan it may be. With many remotes
    /// most targets belong to another one, so this is quick.
    pub(super) fn enqueue_target(
        self: &Arc<Self>,
        remotes: &[Arc<RemoteSync>],
        kind: KindIndex,
        key: &str,
        urgent: bool,
    ) {
        let Some(first) = remotes.first() else { return };
        // All of them have it: the local cluster's, or that of the only remote.
        let store = &first.target.stores[kind];
        let gone = !store.has(key);
        let origin =
            store.get(key).and_then(|target| target.value.copy_of).map(|copy| copy.cluster);
        let (namespace, name) = key::split(key);
        for remote in remotes {
            let Some(canonical) = remote.names.canonical_of_target(namespace, name) else {
                continue;
            };
            let source = remote.names.source(canonical.0, canonical.1);
            let concerned = origin.is_some_and(|origin| remote.is_followed_for(origin))
                || remote.source.stores[kind].has(&key::of(&source.0, &source.1))
                || gone && remote.knows(kind, canonical);
            if concerned {
                self.enqueue(remote, kind, Some(canonical), urgent);
            }
        }
    }

    /// Enqueues the pair of these canonical names, if there are any.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        remote: &Arc<RemoteSync>,
        kind: KindIndex,
        canonical: Option<(&str, &str)>,
        urgent: bool,
    ) {
        let Some((namespace, name)) = canonical else { return };
        let key = key::of(namespace, name).into();
        remote.queue.add(Pair { kind, key }, urgent);
        self.start_workers(remote);
    }

    /// Starts as many workers as the remote's workqueue needs.
    pub(super) fn start_workers(self: &Arc<Self>, remote: &Arc<RemoteSync>) {
        while remote.queue.wants_worker() {
            let (controller, of) = (self.clone(), remote.clone());
            let work = move || {
                reconcile::run_worker(&controller.context, &of, &|| controller.start_workers(&of))
            };
            if let Err(error) = runtime::spawn("worker", work) {
                log::warn!(remote:% = remote.name, error:% = error; "no thread for a worker");
                remote.queue.lacks_worker();
                return;
            }
        }
    }
}
