//! How it goes with the credential, for the endpoint.

use std::{
    collections::BTreeMap,
    time::{Instant, SystemTime},
};

/// What the endpoint reports of the credential.
#[derive(Clone, Debug)]
pub(crate) struct CertificateStatus {
    /// When the loop last came by, once it runs.
    pub(crate) beat: Option<Instant>,
    /// Why the credential in the Secret cannot be used, if it cannot.
    pub(crate) trouble: Option<String>,
    /// How it goes with what is done about that.
    pub(crate) detail: Option<String>,
    /// Requests that were posted.
    pub(crate) posted: u64,
    /// Requests that ended, by upstream's word for how.
    pub(crate) ended: BTreeMap<&'static str, u64>,
    /// When a certificate was put into the Secret, if this process did.
    pub(crate) saved: Option<SystemTime>,
    /// Since when a request waits for somebody at the hub.
    pub(crate) pending: Option<SystemTime>,
}

impl Default for CertificateStatus {
    fn default() -> Self {
        Self {
            beat: None,
            trouble: Some("nothing was looked at yet".into()),
            detail: None,
            posted: 0,
            ended: BTreeMap::new(),
            saved: None,
            pending: None,
        }
    }
}

impl CertificateStatus {
    /// The loop that keeps the credential comes by.
    pub(crate) fn come_by(&mut self) {
        self.beat = Some(Instant::now());
    }

    /// A request came to an end.
    pub(crate) fn end(&mut self, how: &'static str) {
        *self.ended.entry(how).or_default() += 1;
    }
}
