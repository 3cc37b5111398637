//! Clusters that show the identity of another one. Nobody can tell which of two clusters is the one that a uid of
//! kube-system belongs to: the uid is no secret, and a cluster that was cloned from a snapshot has it honestly.
//! So neither is believed, until one of them shows another uid, is removed, or is vouched for by a person.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    cache::cluster::ClusterClient,
    connection::ClusterIdentity,
    controller::Controller,
    model::{annotations::Uid, mode::Mode},
    settings::Settings,
    sync::remote::RemoteSync,
};

/// A remote as it shows itself.
#[derive(Clone, Debug)]
pub(crate) struct ShownIdentity<'a> {
    pub(crate) name: &'a str,
    /// The uid that it shows, unless that is in doubt already.
    pub(crate) uid: Option<String>,
    /// A person said that the uid is that of this remote.
    pub(crate) genuine: bool,
}

/// For each remote, the reason why it has to be held. `own` is the uid of the local cluster if a remote must not
/// be the same cluster.
pub(crate) fn conflicts(own: Option<&str>, remotes: &[ShownIdentity<'_>]) -> Vec<Option<String>> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for remote in remotes {
        if let Some(uid) = &remote.uid {
            names.entry(uid).or_default().push(remote.name);
        }
    }
    let reason = |remote: &ShownIdentity<'_>| {
        let uid = remote.uid.as_deref()?;
        if own == Some(uid) {
            return Some(format!(
                "it has the uid {uid} of kube-system as the local cluster has, and without suffixes an object would be its own copy"
            ));
        }
        let twin = names.get(uid)?.iter().find(|name| **name != remote.name)?;
        (!remote.genuine).then(|| {
            format!("remote {twin} has the same uid {uid} of kube-system, see -accept-identity")
        })
    };
    remotes.iter().map(reason).collect()
}

impl Controller {
    /// Holds the remotes whose identity is in conflict, and releases the others.
    pub(super) fn check_identities(&self) {
        let remotes = self.remotes();
        let shown: Vec<_> = remotes.iter().map(|remote| self.shown(remote)).collect();
        let own = known(self.local.cluster());
        let uids = shown.iter().filter_map(|remote| remote.uid.as_ref()).chain(&own);
        self.context.set_clusters(uids.filter_map(|uid| Uid::parse(uid)).collect());
        let own = own.filter(|_| !is_safe_on_itself(&self.context.settings));
        for (remote, reason) in remotes.iter().zip(conflicts(own.as_deref(), &shown)) {
            if !self.remote_cluster(remote).connection.hold(reason.clone()) {
                continue;
            }
            let name = &*remote.name;
            match reason {
                Some(reason) => {
                    log::error!(remote = name, reason = reason.as_str(); "identity conflict, the remote is held");
                }
                None => log::info!(remote = name; "identity conflict resolved"),
            }
            remote.stop.wake();
        }
    }

    fn shown<'a>(&self, remote: &'a Arc<RemoteSync>) -> ShownIdentity<'a> {
        let cluster = self.remote_cluster(remote);
        let uid = known(cluster);
        let genuine = uid.as_deref().is_some_and(|uid| cluster.connection.is_genuine(uid));
        ShownIdentity { name: &remote.name, uid, genuine }
    }
}

/// The uid of a cluster that is the expected one.
fn known(cluster: &ClusterClient) -> Option<String> {
    match cluster.connection.identity() {
        ClusterIdentity::Known(uid) => Some(uid),
        _ => None,
    }
}

/// Returns whether the local cluster can be its own remote: a source and its target differ, and a target is no
/// source in turn. Safe mode knows a copy by its annotation; in compat mode only a suffix of names is certain.
fn is_safe_on_itself(settings: &Settings) -> bool {
    let mapping = &settings.mapping;
    !mapping.resource_suffix.is_empty()
        || settings.mode == Mode::Safe && !mapping.namespace_suffix.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote<'a>(name: &'a str, uid: &str, genuine: bool) -> ShownIdentity<'a> {
        let uid = Some(uid.to_owned()).filter(|uid| !uid.is_empty());
        ShownIdentity { name, uid, genuine }
    }

    fn held(own: Option<&str>, remotes: &[ShownIdentity<'_>]) -> Vec<bool> {
        conflicts(own, remotes).iter().map(Option::is_some).collect()
    }

    #[test]
    fn clusters_that_show_different_uids_or_none_are_left_alone() {
        let remotes = [remote("a", "1", false), remote("b", "2", false)];
        assert_eq!(held(Some("3"), &remotes), [false, false]);
        let unknown = [remote("a", "", false), remote("b", "", false)];
        assert_eq!(held(None, &unknown), [false, false]);
    }

    #[test]
    fn two_with_one_uid_are_held_until_a_person_vouches() {
        let (a, b, c) = (remote("a", "1", false), remote("b", "1", false), remote("c", "2", false));
        let all = [a.clone(), b.clone(), c];
        assert_eq!(held(None, &all), [true, true, false]);
        let why = conflicts(None, &all)[0].clone().unwrap();
        assert!(why.contains("remote b") && why.contains("uid 1"), "{why}");
        assert_eq!(held(None, &[a, remote("b", "1", true)]), [true, false]);
    }

    #[test]
    fn the_local_clusters_uid_is_nobody_elses() {
        let remotes = [remote("a", "1", true), remote("b", "2", false)];
        assert_eq!(held(Some("1"), &remotes), [true, false]);
        assert_eq!(held(None, &remotes), [false, false], "with suffixes it may be");
    }
}
