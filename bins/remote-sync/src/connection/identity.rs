//! Identity of the cluster that answers: behind one address there can be another one tomorrow.

use shared::{
    client::{Client, Load},
    error::{Error, Result},
    resource::{NAMESPACES, PODS},
};

/// What these objects may cost in memory, in bytes: the largest annotations have 256 KiB, which nobody puts on
/// kube-system, and which every watch asks for.
const NAMESPACE: usize = 128 << 10;
const POD: usize = 512 << 10;

/// The uid of a cluster's namespace kube-system, which lives as long as the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClusterIdentity {
    /// The cluster has this one, and had it before.
    Known(String),
    /// It could not be found out, and why.
    Unknown(String),
    /// Another cluster answers than before, and nobody accepted that.
    Changed {
        /// The uid that was seen first, or accepted.
        was: String,
        /// The uid now.
        now: String,
    },
}

/// What the cluster behind `client` says of itself: its uid, or why it does not tell.
///
/// # Errors
/// As the server says, but for a right that is missing, and a namespace that is not there or too large.
pub(super) fn read(client: &Client) -> Result<std::result::Result<String, String>> {
    match client.limited_to(NAMESPACE).get(&NAMESPACES.cluster_object("kube-system")) {
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

/// Compares what a cluster says with what is `remembered` of it; a uid in `accepted` is taken for its own.
pub(super) fn compare(
    said: std::result::Result<String, String>,
    remembered: &mut Option<String>,
    accepted: &[String],
) -> ClusterIdentity {
    let now = match said {
        Ok(now) => now,
        Err(why) => return ClusterIdentity::Unknown(why),
    };
    match remembered {
        Some(was) if *was != now && !accepted.contains(&now) => {
            ClusterIdentity::Changed { was: was.clone(), now }
        }
        _ => ClusterIdentity::Known(remembered.insert(now).clone()),
    }
}

/// The pod that this program runs in: a cluster that has it is the program's own, and is better reached
/// from inside than through a balancer (cluster-api v1.9.0 `cluster_accessor_client.go:137-160`).
pub(crate) struct OwnPod {
    /// POD_NAMESPACE.
    pub(crate) namespace: String,
    /// POD_NAME.
    pub(crate) name: String,
    /// POD_UID.
    pub(crate) uid: String,
    /// How pods reach their cluster, of which server and trust are used.
    pub(crate) in_cluster: Load,
}

impl OwnPod {
    /// The pod of the variables POD_NAMESPACE, POD_NAME and POD_UID, if all of them are set.
    pub(crate) fn of(variable: impl Fn(&str) -> Option<String>, in_cluster: Load) -> Option<Self> {
        let get = |name| variable(name).filter(|value| !value.is_empty());
        let (namespace, name, uid) = (get("POD_NAMESPACE")?, get("POD_NAME")?, get("POD_UID")?);
        Some(Self { namespace, name, uid, in_cluster })
    }

    /// Whether the cluster behind `client` runs this pod. Where pods are not served or may not be read,
    /// it is not known to.
    pub(super) fn is_on(&self, client: &Client) -> Result<bool> {
        match client.limited_to(POD).get(&PODS.object(&self.namespace, &self.name)) {
            Ok(pod) => Ok(pod["metadata"]["uid"] == *self.uid),
            Err(Error::NotFound(_) | Error::NotServed(_) | Error::Forbidden(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }
}
