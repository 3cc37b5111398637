//! The annotations that are written and read, all under one prefix. sync-controller's own are those of
//! its `controller/controller.go:76-89`.

/// Their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    prefix: String,
    /// Of either object, by a human: `true` stops everything for it.
    pub(crate) paused: String,
    /// Of a target's Namespace: the name of the object that it was created for.
    pub(crate) owner: String,
    /// There too, in safe mode: the uid of that object's source.
    pub(crate) owner_ref: String,
    /// Of a Secret on both sides: the hash of what was uploaded.
    pub(crate) hash: String,
    /// Of a target's Secret, in safe mode: the uid of the source that it was uploaded for.
    pub(crate) uploaded_to: String,
    /// Of a source: the generation of it that the target has.
    pub(crate) remote_generation: String,
    /// Of a source: the target's own generation with that.
    pub(crate) local_generation: String,
    /// Of a source, in safe mode: the target's uid.
    pub(crate) local_uid: String,
    /// Of a target, in safe mode: which object on which cluster it follows.
    pub(crate) source: String,
    /// There too: the keys of labels and annotations that came from the source.
    pub(crate) managed_keys: String,
    /// There too: since when it has no source.
    pub(crate) orphaned: String,
}

impl Keys {
    /// Those under `prefix`, which is without its slash.
    pub(crate) fn new(prefix: &str) -> Self {
        let key = |name: &str| format!("{prefix}/{name}");
        Self {
            prefix: key(""),
            paused: key("paused"),
            owner: key("sync-owner"),
            owner_ref: key("sync-owner-ref"),
            hash: key("last-uploaded-hash"),
            uploaded_to: key("last-uploaded-to"),
            remote_generation: key("sync-remote-generation"),
            local_generation: key("sync-local-generation"),
            local_uid: key("sync-local-uid"),
            source: key("source"),
            managed_keys: key("managed-keys"),
            orphaned: key("orphaned"),
        }
    }

    /// Whether it is one under the prefix, known or not.
    pub(crate) fn ours(&self, key: &str) -> bool {
        key.starts_with(&*self.prefix)
    }
}
