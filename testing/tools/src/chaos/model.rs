//! What both sides of a pair have to look like: kept by what the servers said to the operations, not by
//! what the program does.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use serde_json::Value;

use suite::sync::Place;

/// What was decided on the newest news may still be on its way for so long.
pub const UNDER_WAY: Duration = Duration::from_secs(1);
/// A source that is being deleted leaves only when the target is gone, unless its finalizers are taken by
/// force; whose connection is silent just then learns of the next one when the connection is given up. By the
/// program's flags that takes 4.5 s, and the list that follows may fail twice and wait for up to 3 s.
pub const UNAWARE: Duration = Duration::from_secs(8);

/// The Secret that goes up from each namespace.
pub const SECRET: &str = "token";

pub type Map = BTreeMap<String, String>;

/// A source, its target, and what is known of both.
pub struct Pair {
    pub remote: usize,
    pub source: Place,
    pub target: Place,
    /// The name of the Secret beside the source.
    pub secret: String,
    /// What the source's owners want; none while it is not there, or is being deleted.
    pub wanted: Option<Wanted>,
    /// Since when it was wanted, and not wanted, in turn; at first it is not.
    turns: Vec<Instant>,
    /// The uid of the source that went last, if nobody forced it.
    pub left_by: Option<String>,
    /// When finalizers were taken by force.
    forced: Vec<Instant>,
    /// The turns at which it vanished though nobody had asked it to go.
    lost: Vec<Instant>,
    /// What the target's owners did to each of its incarnations, by uid.
    pub copies: HashMap<String, Copy>,
    /// When both sides were seen to be as they have to be: the program knew all of it.
    rests: Vec<Instant>,
    /// The times in which the source's kind or namespace was going.
    pub kept: Vec<(Instant, Option<Instant>)>,
    /// The operations, with what came of them.
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
    /// When they made it, if there was no source.
    pub made: Option<Instant>,
    /// They made it, whenever that was.
    pub by_hand: bool,
    /// It had the source's content then.
    pub was_equal: bool,
    /// Its content then.
    pub number: u64,
    pub status: Option<u64>,
    pub labels: Map,
    pub annotations: Map,
    /// They deleted it.
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

    /// The source was created.
    pub fn begin(&mut self, wanted: Wanted) {
        if self.wanted.replace(wanted).is_none() {
            self.turns.push(Instant::now());
        }
    }

    /// The one with this uid was asked to go, at `at`.
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

    /// The source vanished, at `at`.
    pub fn lose(&mut self, at: Instant) {
        self.wanted = None;
        self.left_by = None;
        self.turns.push(at);
        self.lost.push(at);
    }

    /// The source is again what it was, since `at`.
    pub fn restore(&mut self, wanted: Option<Wanted>, at: Instant) {
        match (wanted, self.wanted.is_some()) {
            (None, true) => self.lose(at),
            (Some(wanted), false) => self.begin(wanted),
            (wanted, _) => self.wanted = wanted,
        }
    }

    /// The incarnation that this document is of.
    pub fn copy(&mut self, object: &Value) -> &mut Copy {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.copies.entry(uid).or_default()
    }

    /// When the source vanished that the target had at `at`, if the program must have seen it before and
    /// not being deleted.
    pub fn lost_before(&self, at: Instant) -> Option<Instant> {
        let turns: Vec<_> = self.turns.iter().take_while(|turn| **turn <= at).collect();
        let last = turns.chunks_exact(2).last()?;
        let (made, gone) = (*last[0], *last[1]);
        let was_known = self.rests.iter().any(|rest| made < *rest && *rest < gone);
        let was_known = was_known || gone - made > self.slack(gone);
        (was_known && self.lost.contains(&gone)).then_some(gone)
    }

    /// Whether the source's kind or namespace was going at `at`, and had been for long enough to be seen.
    pub fn was_kept(&self, at: Instant) -> bool {
        let lasts = |(since, until): &(Instant, Option<Instant>)| {
            *since + UNDER_WAY < at && until.is_none_or(|until| at < until)
        };
        self.kept.iter().any(lasts)
    }

    /// Both sides are as they have to be.
    pub fn rest(&mut self) {
        self.rests.push(Instant::now());
    }

    /// Whether the source was not wanted, as far as the program could know at `at`.
    pub fn may_lose_target(&self, at: Instant) -> bool {
        let Some(from) = at.checked_sub(self.slack(at)) else { return true };
        let before = self.turns.iter().filter(|turn| **turn <= from).count();
        let after = self.turns.iter().filter(|turn| **turn <= at).count();
        before % 2 == 0 || after > before
    }

    /// For how long the program may go by what was.
    fn slack(&self, at: Instant) -> Duration {
        let near = |forced: &Instant| *forced <= at && at <= *forced + UNAWARE;
        if self.forced.iter().any(near) { UNAWARE } else { UNDER_WAY }
    }

    /// Whether it went by force so lately that the program may not know.
    pub fn was_forced(&self) -> bool {
        let all = self.forced.iter().chain(&self.lost);
        all.into_iter().any(|forced| forced.elapsed() < UNAWARE)
    }

    /// Whether this incarnation of the target is nobody's copy at `at`: there was no source since.
    pub fn is_kept(&self, copy: &Copy, at: Instant) -> bool {
        let since = |made| self.turns.iter().any(|turn| made <= *turn && *turn <= at);
        copy.made.is_some_and(|made| made < at && !since(made)) && !copy.deleted
    }
}
