//! Identity of a cluster: the uid of its Namespace kube-system, which shows when a different cluster answers at
//! the same address.

use std::time::Duration;

use shared::{
    client::{Client, Load},
    error::{Error, Result},
    resource::{NAMESPACES, PODS},
};

/// Memory that these objects may cost, in bytes. Annotations may have 256 KiB, but nobody puts that much on
/// kube-system, which every watch reads.
const NAMESPACE: usize = 128 << 10;
const POD: usize = 512 << 10;

/// The uid of a cluster's namespace kube-system, which lives as long as the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterIdentity {
    /// The cluster has this uid, and had no other one before.
    Known(String),
    /// It cannot be read and never could be, for this reason.
    Unknown(String),
    /// It was this uid, but cannot be read any more, so another cluster may answer.
    Hidden {
        /// The uid that was read last.
        was: String,
        /// The reason.
        why: String,
    },
    /// A different cluster answers than before, which was not accepted.
    Changed {
        /// The uid that was seen first, or accepted.
        was: String,
        /// The uid now.
        now: String,
    },
}

/// Reads a cluster's uid, or why it cannot be read.
///
/// # Errors
/// The request's, unless a right is missing or the namespace is missing or too large.
pub(super) fn read(
    client: &Client,
    timeout: Duration,
) -> Result<std::result::Result<String, String>> {
    let place = NAMESPACES.cluster_object("kube-system");
    match client.limited_to(NAMESPACE).get_within(&place, timeout) {
        Ok(namespace) => {
            let uid = namespace["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
            let nameless = || format!("namespaces kube-system on {} has no uid", client.whose());
            Ok(uid.map(str::to_owned).ok_or_else(nameless))
        }
        Err(
            e @ (Error::Forbidden(_)
            | Error::NotFound(_)
            | Error::NotServed(_)
            | Error::TooLarge(_)),
        ) => Ok(Err(e.to_string())),
        Err(e) => Err(e),
    }
}

/// Compares a cluster's uid with the one that is `remembered`; one in `accepted` replaces it.
pub(super) fn compare(
    uid: std::result::Result<String, String>,
    remembered: &mut Option<String>,
    accepted: &[String],
) -> ClusterIdentity {
    let now = match (uid, &*remembered) {
        (Ok(now), _) => now,
        (Err(why), Some(was)) => return ClusterIdentity::Hidden { was: was.clone(), why },
        (Err(why), None) => return ClusterIdentity::Unknown(why),
    };
    match remembered {
        Some(was) if *was != now && !accepted.contains(&now) => {
            ClusterIdentity::Changed { was: was.clone(), now }
        }
        _ => ClusterIdentity::Known(remembered.insert(now).clone()),
    }
}

/// The reason why a session that began with the identity `before` has to be replaced, if it has to be: a change
/// of identity is the start of another session, which lists everything anew.
pub(super) fn reason_to_reconnect(
    before: &ClusterIdentity,
    now: &ClusterIdentity,
) -> Option<String> {
    use ClusterIdentity::{Changed, Hidden, Known, Unknown};
    match (before, now) {
        (Known(one), Known(other)) if one == other => None,
        (Unknown(_), Unknown(_)) | (Hidden { .. }, Hidden { .. }) => None,
        (Changed { now: one, .. }, Changed { now: other, .. }) if one == other => None,
        (_, Known(uid)) => Some(format!("the uid of kube-system can be read, and is {uid}")),
        (_, Changed { now, .. }) => {
            Some(format!("another cluster answered, with the uid {now} of kube-system"))
        }
        (_, Hidden { why, .. } | Unknown(why)) => {
            Some(format!("its identity can no longer be read: {why}"))
        }
    }
}

/// The pod that this program runs in: a cluster that has it is the local one, and is better reached from inside
/// than through a load balancer (cluster-api v1.9.0 `cluster_accessor_client.go:137-160`).
pub(crate) struct OwnPod {
    /// POD_NAMESPACE.
    pub(crate) namespace: String,
    /// POD_NAME.
    pub(crate) name: String,
    /// POD_UID.
    pub(crate) uid: String,
    /// The configuration that pods use; only its server and trust are needed.
    pub(crate) in_cluster: Load,
}

impl OwnPod {
    /// The pod of the variables POD_NAMESPACE, POD_NAME and POD_UID, if all of them are set.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<String>, in_cluster: Load) -> Option<Self> {
        let get = |name| variable(name).filter(|value| !value.is_empty());
        let (namespace, name, uid) = (get("POD_NAMESPACE")?, get("POD_NAME")?, get("POD_UID")?);
        Some(Self { namespace, name, uid, in_cluster })
    }

    /// Returns whether the cluster runs this pod; `false` if its pods are not served or may not be read.
    pub(super) fn is_on(&self, client: &Client) -> Result<bool> {
        match client.limited_to(POD).get(&PODS.object(&self.namespace, &self.name)) {
            Ok(pod) => Ok(pod["metadata"]["uid"] == *self.uid),
            Err(Error::NotFound(_) | Error::NotServed(_) | Error::Forbidden(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }
}
