//! Known clusters, like ssh's known_hosts: the uid of its Namespace kube-system identifies a remote's cluster. Pure.
//! The remote's name is part of the identity: a uid is public, and a clone has the same one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::model::{
    annotations::{UNVERIFIED, Uid, cluster_mark},
    digest,
};

/// The local cluster's name in messages and labels; no remote may have it.
pub(crate) const OWN: &str = "own";
/// The most former clusters in a record; older ones are dropped.
const MAX_FORMER: usize = 8;

/// The cluster of a remote: `<uid> <former uid>…`; `unverified` may replace the first uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterRecord {
    /// `None` if the uid could never be read.
    pub uid: Option<Uid>,
    /// Clusters that it replaced, as a person confirmed; it takes over their copies.
    pub former: Vec<Uid>,
}

impl ClusterRecord {
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let uid = match words.next()? {
            UNVERIFIED => None,
            uid => Some(Uid::parse(uid)?),
        };
        let former = words.take(MAX_FORMER).map(Uid::parse).collect::<Option<_>>()?;
        Some(Self { uid, former })
    }

    /// The record after the cluster `now` has replaced the recorded ones.
    fn replaced(&self, now: Uid) -> Self {
        let mut former = Vec::new();
        for uid in self.uid.iter().chain(&self.former) {
            if *uid != now && !former.contains(uid) && former.len() < MAX_FORMER {
                former.push(*uid);
            }
        }
        Self { uid: Some(now), former }
    }
}

impl fmt::Display for ClusterRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uid {
            Some(uid) => uid.fmt(f)?,
            None => UNVERIFIED.fmt(f)?,
        }
        self.former.iter().try_for_each(|uid| write!(f, " {uid}"))
    }
}

/// A cluster's record, and digests of its names in marks. Each includes the remote's name: the copies of one remote
/// never belong to another one, even with the same uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClusterIdentity {
    pub(crate) record: ClusterRecord,
    /// The mark of new copies.
    pub(crate) current: u64,
    /// Marks of clusters that this one replaced.
    pub(crate) former: Vec<u64>,
    /// Marks without a uid; and marks without a name, which earlier versions wrote.
    pub(crate) unproven: Vec<u64>,
}

impl ClusterIdentity {
    pub(crate) fn new(remote: &str, record: ClusterRecord) -> Self {
        let mark = |uid| digest::of_text(&cluster_mark(remote, uid));
        let legacy = record.uid.map(|uid| digest::of_text(&uid.to_string()));
        Self {
            current: mark(record.uid),
            former: record.former.iter().map(|uid| mark(Some(*uid))).collect(),
            unproven: [mark(None)].into_iter().chain(legacy).collect(),
            record,
        }
    }

    pub(crate) fn has_mark(&self, mark: u64) -> bool {
        self.current == mark || self.former.contains(&mark) || self.unproven.contains(&mark)
    }
}

/// The known clusters: the remotes', and the local one under the name `OWN`.
#[derive(Clone, Debug, Default)]
pub struct KnownClusters {
    /// Records by name. An invalid text matches no cluster.
    records: BTreeMap<String, Result<ClusterRecord, String>>,
    /// The names whose records are not saved yet.
    unsaved: BTreeSet<String>,
    /// The number of saves and removals so far.
    saves: u64,
    /// Whether a remote may be the local cluster.
    own_is_remote: bool,
}

/// Why a cluster is not accepted as the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCluster {
    pub why: String,
    /// The remote whose record a person must change to accept the cluster, and the new record; `None` removes it.
    pub accept: Option<(String, Option<ClusterRecord>)>,
}

impl From<String> for RefusedCluster {
    fn from(why: String) -> Self {
        Self { why, accept: None }
    }
}

impl KnownClusters {
    pub fn new(own_is_remote: bool) -> Self {
        Self { own_is_remote, ..Self::default() }
    }

    /// Replaces the records with the saved ones, requested after `saves` saves. Unsaved records stay. If a save may
    /// have overtaken the response, it only adds records.
    pub fn load<'a>(&mut self, records: impl Iterator<Item = (&'a str, &'a str)>, saves: u64) {
        let is_latest = saves == self.saves;
        self.records.retain(|name, _| !is_latest || self.unsaved.contains(name));
        for (name, text) in records {
            if is_latest || !self.records.contains_key(name) {
                let record = ClusterRecord::parse(text).ok_or_else(|| text.to_owned());
                self.records.insert(name.to_owned(), record);
            }
        }
    }

    pub fn saves(&self) -> u64 {
        self.saves
    }

    pub fn is_saved(&self, name: &str) -> bool {
        !self.unsaved.contains(name)
    }

    pub fn note_saved(&mut self, name: &str) {
        self.saves += 1;
        self.unsaved.remove(name);
    }

    /// Forgets the cluster of a remote; returns whether it had a record.
    pub fn forget(&mut self, name: &str) -> bool {
        self.unsaved.remove(name);
        self.saves += 1;
        self.records.remove(name).is_some()
    }

    /// Returns the record of the cluster that answers under this name. `shown` is its uid, or why the uid cannot be
    /// read. A new record must be saved.
    pub fn admit(
        &mut self,
        name: &str,
        shown: &Result<Uid, String>,
    ) -> Result<ClusterRecord, RefusedCluster> {
        let record = self.judge(name, shown)?;
        let text = name.to_owned();
        if self.records.insert(text.clone(), Ok(record.clone())) != Some(Ok(record.clone())) {
            self.unsaved.insert(text);
        }
        Ok(record)
    }

    fn judge(
        &self,
        name: &str,
        shown: &Result<Uid, String>,
    ) -> Result<ClusterRecord, RefusedCluster> {
        let record = match self.records.get(name) {
            Some(Ok(record)) => record.clone(),
            Some(Err(text)) => {
                let uid = format!("the uid of kube-system or {UNVERIFIED}");
                return Err(format!("its record must be {uid}, got {text:?}").into());
            }
            None => ClusterRecord::default(),
        };
        let uid = match (shown, record.uid) {
            (Ok(uid), _) => *uid,
            (Err(_), None) => return Ok(record),
            (Err(why), Some(was)) => {
                let why =
                    format!("the uid of its kube-system was {was}, and cannot be read: {why}");
                return Err(why.into());
            }
        };
        if let Some(holder) = self.holder(uid, name) {
            let why = format!("it has the uid {uid} of kube-system as ");
            return Err(match holder {
                OWN => (why
                    + "the local cluster has, and without -source-name-suffix an object would be its own copy")
                    .into(),
                _ => RefusedCluster {
                    why: format!("{why}the remote {holder} has"),
                    accept: Some((holder.to_owned(), None)),
                },
            });
        }
        match record.uid {
            Some(was) if was != uid => Err(RefusedCluster {
                why: format!("the uid of its kube-system is {uid}, and was {was}"),
                accept: Some((name.to_owned(), Some(record.replaced(uid)))),
            }),
            _ => Ok(record.replaced(uid)),
        }
    }

    /// Another cluster whose record has this uid, if any.
    fn holder(&self, uid: Uid, name: &str) -> Option<&str> {
        let is_other = |of: &str| name != OWN && of != name && (of != OWN || !self.own_is_remote);
        let mut recorded = self.records.iter().filter_map(|(of, it)| Some((of, it.as_ref().ok()?)));
        recorded.find(|(of, it)| is_other(of) && it.uid == Some(uid)).map(|(of, _)| &**of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::annotations::uid_of_mark;

    fn uid(digit: char) -> Uid {
        Uid::parse(&format!("00000000-0000-4000-8000-00000000000{digit}")).unwrap()
    }

    /// The records "west" and "east" as digits, the uids first; `-` for an unverified cluster, `?` for no record.
    fn clusters(west: &str, east: &str) -> KnownClusters {
        let mut clusters = KnownClusters::new(false);
        let known = [("west", west), ("east", east)].into_iter().filter(|(_, it)| *it != "?");
        let texts: Vec<_> = known.map(|(name, it)| (name, record(it).to_string())).collect();
        clusters.load(texts.iter().map(|(name, text)| (*name, &**text)), 0);
        clusters
    }

    fn record(digits: &str) -> ClusterRecord {
        let mut digits = digits.chars();
        let uid_of = |digit| if digit == '-' { None } else { Some(uid(digit)) };
        let now = digits.next().and_then(uid_of);
        ClusterRecord { uid: now, former: digits.map(uid).collect() }
    }

    /// `known 1` or `new 12`; after a refusal, the remote and the record to accept it.
    fn judged(clusters: &KnownClusters, shown: char) -> String {
        let shown = if shown == '-' { Err("403".to_owned()) } else { Ok(uid(shown)) };
        let short = |record: &ClusterRecord| {
            let digits = record.to_string().replace("00000000-0000-4000-8000-00000000000", "");
            digits.replace(UNVERIFIED, "-").replace(' ', "")
        };
        let mut clusters = clusters.clone();
        match clusters.admit("west", &shown) {
            Ok(record) if clusters.is_saved("west") => format!("known {}", short(&record)),
            Ok(record) => format!("new {}", short(&record)),
            Err(RefusedCluster { accept: None, .. }) => "refused".to_owned(),
            Err(RefusedCluster { accept: Some((remote, record)), .. }) => {
                format!(
                    "refused, {remote}: {}",
                    record.map_or_else(|| "none".into(), |it| short(&it))
                )
            }
        }
    }

    #[test]
    fn judgement_for_each_record_and_uid() {
        for (west, east, shown, expected) in [
            // The first contact is trusted.
            ("?", "?", '1', "new 1"),
            ("?", "?", '-', "new -"),
            // Later, only the recorded cluster is accepted.
            ("1", "?", '1', "known 1"),
            ("12", "?", '1', "known 12"),
            ("1", "?", '2', "refused, west: 21"),
            ("12", "?", '2', "refused, west: 21"),
            ("1", "?", '-', "refused"),
            // An unverified cluster becomes verified once its uid can be read.
            ("-", "?", '-', "known -"),
            ("-", "?", '1', "new 1"),
            ("-2", "?", '1', "new 12"),
            // Two remotes cannot share a uid, connected or not.
            ("?", "1", '1', "refused, east: none"),
            ("2", "1", '1', "refused, east: none"),
            ("1", "1", '1', "refused, east: none"),
            ("-", "1", '1', "refused, east: none"),
            ("?", "21", '1', "new 1"),
            ("21", "?", '1', "refused, west: 12"),
            ("1", "2", '2', "refused, east: none"),
        ] {
            let clusters = clusters(west, east);
            assert_eq!(judged(&clusters, shown), expected, "{west} {east} {shown}");
        }
    }

    #[test]
    fn local_cluster_is_a_remote_only_if_copies_differ() {
        let mut clusters = clusters("?", "?");
        assert!(clusters.admit(OWN, &Ok(uid('1'))).is_ok());
        assert_eq!(judged(&clusters, '1'), "refused");
        clusters.own_is_remote = true;
        assert_eq!(judged(&clusters, '1'), "new 1");
        assert!(clusters.admit("west", &Ok(uid('1'))).is_ok());
        assert!(clusters.admit(OWN, &Ok(uid('1'))).is_ok(), "whoever else is it");
        assert!(clusters.admit(OWN, &Ok(uid('2'))).is_err());
    }

    #[test]
    fn unreadable_record_matches_no_cluster() {
        let mut clusters = KnownClusters::default();
        clusters.load([("west", "yes"), ("east", "unverified")].into_iter(), 0);
        assert_eq!(
            (judged(&clusters, '1'), judged(&clusters, '-')),
            ("refused".into(), "refused".into())
        );
        assert!(clusters.forget("west") && !clusters.forget("west"));
        assert_eq!(judged(&clusters, '1'), "new 1");
    }

    #[test]
    fn record_that_is_not_saved_stays_when_the_others_are_loaded() {
        let mut clusters = clusters("?", "?");
        assert!(clusters.admit("east", &Ok(uid('1'))).is_ok());
        clusters.load([].into_iter(), 0);
        assert_eq!(judged(&clusters, '1'), "refused, east: none");
        clusters.note_saved("east");
        clusters.load([].into_iter(), clusters.saves());
        assert_eq!(judged(&clusters, '1'), "new 1");
    }

    #[test]
    fn record_stays_when_an_answer_from_before_its_save_is_loaded() {
        let mut clusters = clusters("?", "?");
        let requested = clusters.saves();
        assert!(clusters.admit("west", &Ok(uid('1'))).is_ok());
        clusters.note_saved("west");
        let (west, east) = (record("3").to_string(), record("2").to_string());
        clusters.load([].into_iter(), requested);
        assert_eq!(judged(&clusters, '3'), "refused, west: 31");
        clusters.load([("west", &*west), ("east", &*east)].into_iter(), requested);
        assert_eq!(judged(&clusters, '1'), "known 1");
        assert_eq!(judged(&clusters, '2'), "refused, east: none");
        clusters.load([("west", &*west)].into_iter(), clusters.saves());
        assert_eq!(judged(&clusters, '3'), "known 3");
    }

    #[test]
    fn records_and_marks_are_read_back_as_written() {
        for digits in ["1", "123", "-", "-1"] {
            let record = record(digits);
            assert_eq!(ClusterRecord::parse(&record.to_string()), Some(record));
        }
        for bad in ["", "1", "unverified x", "unverified unverified"] {
            assert_eq!(ClusterRecord::parse(bad), None, "{bad}");
        }
        let of = |uid| uid_of_mark(&cluster_mark("west", uid));
        assert_eq!((of(Some(uid('1'))), of(None)), (Some(Some(uid('1'))), Some(None)));
        assert_eq!(
            uid_of_mark(&uid('1').to_string()),
            Some(Some(uid('1'))),
            "an earlier version's"
        );
        assert_eq!((uid_of_mark("unverified"), uid_of_mark("west=x")), (None, None));
    }

    #[test]
    fn former_clusters_are_limited() {
        let next = |record: ClusterRecord, digit| record.replaced(uid(digit));
        let record = "123456789a0".chars().fold(ClusterRecord::default(), next);
        assert_eq!(record, self::record("0a9876543"));
    }
}
