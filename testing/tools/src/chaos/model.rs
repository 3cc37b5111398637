//! What both sides of a pair must look like: derived from the servers' answers to operations, not from the program's
//! actions.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use serde_json::Value;

use suite::sync::Place;

/// How long the effect of a decision on current data may take.
pub const UNDER_WAY: Duration = Duration::from_secs(1);
/// How long the program may not know of a new source, if finalizers were removed by force while its connection was
/// silent. By its flags, it gives the connection up after 4.5 s; the list that follows may fail twice and wait for up
/// to 3 s. Otherwise a deleted source waits until its target is gone.
pub const UNAWARE: Duration = Duration::from_secs(8);

/// The Secret that is uploaded from each namespace.
pub const SECRET: &str = "token";

pub type Map = BTreeMap<String, String>;

/// A source, its target, and what is known about both.
pub struct Pair {
    pub remote: usize,
    pub source: Place,
    pub target: Place,
    /// The name of the Secret beside the source.
    pub secret: String,
    /// What the source's owners want; None while it does not exist or is being deleted.
    pub wanted: Option<Wanted>,
    /// When it became wanted and unwanted, alternately; initially unwanted.
    turns: Vec<Instant>,
    /// The uid of the last deleted source, unless it was forced.
    pub left_by: Option<String>,
    /// When finalizers were removed by force.
    forced: Vec<Instant>,
    /// The turns at which it vanished without a deletion request.
    lost: Vec<Instant>,
    /// What the target's owners did to each incarnation, by uid.
    pub copies: HashMap<String, Copy>,
    /// When both sides matched the model: the program knew everything.
    rests: Vec<Instant>,
    /// When the source's kind or namespace was being deleted: start and end.
    pub kept: Vec<(Instant, Option<Instant>)>,
    /// The operations and their outcomes.
    pub history: Vec<String>,
}

/// A source as its owners wrote it.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub number: u64,
    pub labels: Map,
    pub annotations: Map,
    /// KiB of filling.
    pub filling: Option<u64>,
    pub extra: Option<u64>,
}

/// A target as its owners wrote it.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    /// When they made it, if the program could know that there was no source.
    pub made: Option<Instant>,
    /// Whether they made it.
    pub by_hand: bool,
    /// Whether it had the source's content then.
    pub was_equal: bool,
    /// Its content as they last wrote it.
    pub number: u64,
    pub status: Option<u64>,
    pub labels: Map,
    pub annotations: Map,
    /// Whether they deleted it.
    pub deleted: bool,
}

impl Pair {
    pub fn new(remote: usize, source: Place, target: Place, secret: String) -> Self {
        Self {
            remote,
            source,
            target,
            secret,
            wanted: None,
            turns: Vec::new(),
            left_by: None,
            forced: Vec::new(),
            lost: Vec::new(),
            rests: Vec::new(),
            copies: HashMap::new(),
            kept: Vec::new(),
            history: Vec::new(),
        }
    }

    /// Records that the source was created.
    pub fn begin(&mut self, wanted: Wanted) {
        if self.wanted.replace(wanted).is_none() {
            self.turns.push(Instant::now());
        }
    }

    /// Records that the deletion of the source with this uid was requested at `at`.
    pub fn end(&mut self, at: Instant, uid: &str) {
        if self.wanted.take().is_some() {
            self.turns.push(at);
            self.left_by = Some(uid.to_owned());
        }
    }

    pub fn force(&mut self) {
        self.left_by = None;
        self.forced.push(Instant::now());
    }

    /// Records that the source vanished at `at`.
    pub fn lose(&mut self, at: Instant) {
        self.wanted = None;
        self.left_by = None;
        self.turns.push(at);
        self.lost.push(at);
    }

    /// Records that the source was restored to `wanted` at `at`.
    pub fn restore(&mut self, wanted: Option<Wanted>, at: Instant) {
        match (wanted, self.wanted.is_some()) {
            (None, true) => self.lose(at),
            (Some(wanted), false) => self.begin(wanted),
            (wanted, _) => self.wanted = wanted,
        }
    }

    /// Returns the record of the incarnation in this document.
    pub fn copy(&mut self, object: &Value) -> &mut Copy {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.copies.entry(uid).or_default()
    }

    /// Returns when the target's last source before `at` vanished, if the program must have known it and saw no
    /// deletion.
    pub fn lost_before(&self, at: Instant) -> Option<Instant> {
        let turns: Vec<_> = self.turns.iter().take_while(|turn| **turn <= at).collect();
        let last = turns.chunks_exact(2).last()?;
        let (made, gone) = (*last[0], *last[1]);
        let was_known = self.rests.iter().any(|rest| made < *rest && *rest < gone);
        let was_known = was_known || gone - made > self.slack(gone);
        (was_known && self.lost.contains(&gone)).then_some(gone)
    }

    /// Returns whether the source's kind or namespace was being deleted at `at`, for long enough to be noticed.
    pub fn was_kept(&self, at: Instant) -> bool {
        let lasts = |(since, until): &(Instant, Option<Instant>)| {
            *since + UNDER_WAY < at && until.is_none_or(|until| at < until)
        };
        self.kept.iter().any(lasts)
    }

    /// Records that both sides match the model.
    pub fn rest(&mut self) {
        self.rests.push(Instant::now());
    }

    /// Returns whether the source was unwanted, as far as the program could know at `at`.
    pub fn may_lose_target(&self, at: Instant) -> bool {
        let Some(from) = at.checked_sub(self.slack(at)) else { return true };
        let before = self.turns.iter().filter(|turn| **turn <= from).count();
        let after = self.turns.iter().filter(|turn| **turn <= at).count();
        before % 2 == 0 || after > before
    }

    /// Returns for how long the program may act on outdated data.
    fn slack(&self, at: Instant) -> Duration {
        let near = |forced: &Instant| *forced <= at && at <= *forced + UNAWARE;
        if self.forced.iter().any(near) { UNAWARE } else { UNDER_WAY }
    }

    /// Returns whether it was forced or lost so recently that the program may not know.
    pub fn was_forced(&self) -> bool {
        let all = self.forced.iter().chain(&self.lost);
        all.into_iter().any(|forced| forced.elapsed() < UNAWARE)
    }

    /// Returns whether this incarnation of the target is not a copy at `at`: it never had a source.
    pub fn is_kept(&self, copy: &Copy, at: Instant) -> bool {
        let since = |made| self.turns.iter().any(|turn| made <= *turn && *turn <= at);
        copy.made.is_some_and(|made| made < at && !since(made)) && !copy.deleted
    }
}
