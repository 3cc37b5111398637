//! How it goes with the credential, for the endpoint.

use std::{
    collections::BTreeMap,
    time::{Instant, SystemTime},
};

/// What the endpoint reports of the credential.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
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
    pub(crate) saved: Option<SystemTime>,
    /// This replica leads; `None` where there is no election.
    pub(crate) leads: Option<bool>,
    /// Another one is known to lead.
    pub(crate) stands_by: bool,
}

impl Progress {
    pub(crate) fn new(elected: bool) -> Self {
        Self {
            beat: None,
            trouble: Some("nothing was looked at yet".into()),
            detail: None,
            posted: 0,
            ended: BTreeMap::new(),
            saved: None,
            leads: elected.then_some(false),
            stands_by: false,
        }
    }

    /// The loop that keeps the credential comes by.
    pub(crate) fn come_by(&mut self) {
        self.beat = Some(Instant::now());
    }

    /// A request came to an end.
    pub(crate) fn end(&mut self, how: &'static str) {
        *self.ended.entry(how).or_default() += 1;
    }

    /// Whether this replica may work.
    pub(crate) fn leads(&self) -> bool {
        self.leads != Some(false)
    }

    /// Takes note of the election; returns whether this replica led before, if there is one.
    pub(crate) fn set_lead(&mut self, leads: bool, stands_by: bool) -> Option<bool> {
        self.stands_by = stands_by;
        self.leads.replace(leads)
    }
}
