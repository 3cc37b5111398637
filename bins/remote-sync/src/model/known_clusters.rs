//! Known clusters, as the known_hosts of ssh: which cluster each remote is, by the uid of its Namespace kube-system.
//! Pure. A uid is no secret and a clone has it honestly, so a remote's name belongs to its identity.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::model::annotations::Uid;

/// Stands for a uid that cannot be read, in records and in marks.
const UNVERIFIED: &str = "unverified";
/// The most clusters before the present one that a record names.
const MOST_FORMER: usize = 8;

/// The cluster that a remote is: `<uid> <former uid>…`, or with `unverified` first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterRecord {
    /// `None` if its kube-system could never be read.
    pub(crate) uid: Option<Uid>,
    /// Clusters that it replaced, as a person said: their copies become its own.
    pub(crate) former: Vec<Uid>,
}

impl ClusterRecord {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let uid = match words.next()? {
            UNVERIFIED => None,
            uid => Some(Uid::parse(uid)?),
        };
        let former = words.take(MOST_FORMER).map(Uid::parse).collect::<Option<_>>()?;
        Some(Self { uid, former })
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

/// How marks name a cluster: `<remote>=<uid>`, or `<remote>=unverified`.
pub(crate) fn cluster_mark(remote: &str, uid: Option<Uid>) -> String {
    match uid {
        Some(uid) => format!("{remote}={uid}"),
        None => format!("{remote}={UNVERIFIED}"),
    }
}

/// The uid in a cluster's mark, if it has one. Earlier versions wrote the uid alone.
pub(crate) fn uid_of_mark(mark: &str) -> Option<Option<Uid>> {
    match mark.split_once('=').map_or(mark, |(_, uid)| uid) {
        UNVERIFIED if mark != UNVERIFIED => Some(None),
        uid => Uid::parse(uid).map(Some),
    }
}

/// `-accept-identity`: the remote is the cluster with the uid `new`, which replaced `old` or the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcceptedIdentity {
    pub(crate) remote: String,
    pub(crate) old: Option<Uid>,
    pub(crate) new: Uid,
}

/// What is known of all remotes.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownClusters {
    /// By remote. A text that is not a record matches no cluster.
    records: BTreeMap<String, Result<ClusterRecord, String>>,
    /// Remotes whose records are in memory alone.
    unsaved: BTreeSet<String>,
    accepted: Vec<AcceptedIdentity>,
    /// The local cluster's uid, unless a remote may be the local cluster.
    reserved: Option<Uid>,
}

/// Whether a cluster that answers is the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It is the recorded one.
    Known(ClusterRecord),
    /// It is, once this is recorded.
    New(ClusterRecord),
    Refused(Refusal),
}

/// Why a cluster is not taken for the remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) why: String,
    /// The remote and its new record (`None`: no record) with which it would be.
    pub(crate) accept: Option<(String, Option<ClusterRecord>)>,
}

impl KnownClusters {
    pub(crate) fn new(accepted: Vec<AcceptedIdentity>) -> Self {
        Self { accepted, ..Self::default() }
    }

    /// Replaces the records by the saved ones. Those that are not saved yet stay.
    pub(crate) fn load<'a>(&mut self, records: impl Iterator<Item = (&'a str, &'a str)>) {
        self.records.retain(|remote, _| self.unsaved.contains(remote));
        let parse = |text: &str| ClusterRecord::parse(text).ok_or_else(|| text.to_owned());
        self.records.extend(records.map(|(remote, text)| (remote.to_owned(), parse(text))));
    }

    /// Adds a record, which is to be saved.
    pub(crate) fn put(&mut self, remote: &str, record: ClusterRecord) {
        self.records.insert(remote.to_owned(), Ok(record));
        self.unsaved.insert(remote.to_owned());
    }

    pub(crate) fn note_saved(&mut self, remote: &str) {
        self.unsaved.remove(remote);
    }

    /// Forgets which cluster a remote was; returns whether there was a record.
    pub(crate) fn forget(&mut self, remote: &str) -> bool {
        self.unsaved.remove(remote);
        self.records.remove(remote).is_some()
    }

    pub(crate) fn record(&self, remote: &str) -> Option<&ClusterRecord> {
        self.records.get(remote)?.as_ref().ok()
    }

    /// No remote is the cluster with this uid.
    pub(crate) fn reserve(&mut self, uid: Option<Uid>) {
        self.reserved = uid;
    }

    /// Judges a cluster that answers as `remote`, by the uid that it shows or the reason why that cannot be read.
    pub(crate) fn judge(&self, remote: &str, shown: &Result<Uid, String>) -> Judgement {
        let record = match self.records.get(remote) {
            Some(Err(text)) => {
                return refused(format!(
                    "its record is {text:?}, and must be the uid of kube-system or {UNVERIFIED}"
                ));
            }
            record => record.and_then(|record| record.as_ref().ok()),
        };
        let mut accepted = self.accepted.iter().filter(|accepted| accepted.remote == remote);
        let recorded = record.and_then(|record| record.uid);
        let expected = recorded.or_else(|| accepted.clone().next().map(|accepted| accepted.new));
        let uid = match (shown, expected) {
            (Ok(uid), _) => *uid,
            (Err(_), None) if record.is_some() => return known(record),
            (Err(_), None) => return Judgement::New(ClusterRecord::default()),
            (Err(why), Some(expected)) => {
                return refused(format!(
                    "the uid of its kube-system was {expected}, and cannot be read: {why}"
                ));
            }
        };
        if self.reserved == Some(uid) {
            return refused(format!(
                "it has the uid {uid} of kube-system as the local cluster has, and without suffixes an object would be its own copy"
            ));
        }
        if let Some(holder) = self.holder(uid, remote) {
            let why = format!("it has the uid {uid} of kube-system as the remote {holder} has");
            let accept = Some((holder.to_owned(), None));
            return Judgement::Refused(Refusal { why, accept });
        }
        let former = |uid: &Uid| record.is_some_and(|record| record.former.contains(uid));
        match (accepted.find(|it| it.new == uid && !former(&uid)), expected) {
            _ if recorded == Some(uid) => known(record),
            (Some(accepted), _) => Judgement::New(replace(record, accepted.old, uid)),
            (None, None) => Judgement::New(replace(record, None, uid)),
            (None, Some(expected)) => {
                let why = format!("the uid of its kube-system is {uid}, and was {expected}");
                let now = replace(record, Some(expected), uid);
                let accept = Some((remote.to_owned(), Some(now)));
                Judgement::Refused(Refusal { why, accept })
            }
        }
    }

    /// The other remote that is known to have this uid.
    fn holder(&self, uid: Uid, remote: &str) -> Option<&str> {
        let recorded = self
            .records
            .iter()
            .filter_map(|(name, record)| Some((&**name, record.as_ref().ok()?.uid?)));
        let accepted = self.accepted.iter().map(|accepted| (&*accepted.remote, accepted.new));
        let accepted = accepted.filter(|(name, _)| !self.records.contains_key(*name));
        let mut all = recorded.chain(accepted);
        all.find(|(name, of)| *name != remote && *of == uid).map(|(name, _)| name)
    }
}

fn refused(why: String) -> Judgement {
    Judgement::Refused(Refusal { why, accept: None })
}

fn known(record: Option<&ClusterRecord>) -> Judgement {
    Judgement::Known(record.cloned().unwrap_or_default())
}

/// The record of a remote that is now the cluster with the uid `now`, and was `old`.
fn replace(record: Option<&ClusterRecord>, old: Option<Uid>, now: Uid) -> ClusterRecord {
    let before = record
        .into_iter()
        .flat_map(|record| record.uid.into_iter().chain(record.former.iter().copied()));
    let mut former = Vec::new();
    for uid in old.into_iter().chain(before) {
        if uid != now && !former.contains(&uid) {
            former.push(uid);
        }
    }
    former.truncate(MOST_FORMER);
    ClusterRecord { uid: Some(now), former }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(digit: char) -> Uid {
        Uid::parse(&format!("00000000-0000-4000-8000-00000000000{digit}")).unwrap()
    }

    /// The records "west" and "east" as digits, the uids first; `-` for an unverified cluster, `?` for no record.
    fn clusters(west: &str, east: &str, accepted: &[(&str, Option<char>, char)]) -> KnownClusters {
        let accepted = accepted.iter().map(|(remote, old, new)| AcceptedIdentity {
            remote: (*remote).to_owned(),
            old: old.map(uid),
            new: uid(*new),
        });
        let mut clusters = KnownClusters::new(accepted.collect());
        for (remote, digits) in [("west", west), ("east", east)] {
            if digits != "?" {
                clusters.put(remote, record(digits));
            }
        }
        clusters
    }

    fn record(digits: &str) -> ClusterRecord {
        let mut digits = digits.chars();
        let uid_of = |digit| if digit == '-' { None } else { Some(uid(digit)) };
        let now = digits.next().and_then(uid_of);
        ClusterRecord { uid: now, former: digits.map(uid).collect() }
    }

    /// As `known 1` or `new 12`; of a refusal the remote and the record that would accept it.
    fn judged(clusters: &KnownClusters, shown: char) -> String {
        let shown = if shown == '-' { Err("403".to_owned()) } else { Ok(uid(shown)) };
        let short = |record: &ClusterRecord| {
            let digits = record.to_string().replace("00000000-0000-4000-8000-00000000000", "");
            digits.replace(UNVERIFIED, "-").replace(' ', "")
        };
        match clusters.judge("west", &shown) {
            Judgement::Known(record) => format!("known {}", short(&record)),
            Judgement::New(record) => format!("new {}", short(&record)),
            Judgement::Refused(Refusal { accept: None, .. }) => "refused".to_owned(),
            Judgement::Refused(Refusal { accept: Some((remote, record)), .. }) => {
                format!("refused, {remote}: {}", record.map_or("none".to_owned(), |it| short(&it)))
            }
        }
    }

    #[test]
    fn judgement_for_each_record_uid_and_acceptance() {
        let none: &[(&str, Option<char>, char)] = &[];
        for (west, east, accepted, shown, expected) in [
            // At the first contact the cluster is believed.
            ("?", "?", none, '1', "new 1"),
            ("?", "?", none, '-', "new -"),
            // Then it is the recorded one alone.
            ("1", "?", none, '1', "known 1"),
            ("12", "?", none, '1', "known 12"),
            ("1", "?", none, '2', "refused, west: 21"),
            ("12", "?", none, '2', "refused, west: 21"),
            ("1", "?", none, '-', "refused"),
            // An unverified one becomes verified by itself.
            ("-", "?", none, '-', "known -"),
            ("-", "?", none, '1', "new 1"),
            ("-2", "?", none, '1', "new 12"),
            // Nobody has the uid of another, whether that is connected or not.
            ("?", "1", none, '1', "refused, east: none"),
            ("2", "1", none, '1', "refused, east: none"),
            ("1", "1", none, '1', "refused, east: none"),
            ("-", "1", none, '1', "refused, east: none"),
            ("?", "21", none, '1', "new 1"),
            // An accepted uid replaces the recorded one, and stands for a record where there is none.
            ("1", "?", &[("west", None, '2')], '2', "new 21"),
            ("1", "?", &[("west", Some('3'), '2')], '2', "new 231"),
            ("1", "?", &[("west", None, '2')], '1', "known 1"),
            ("1", "?", &[("west", None, '2')], '3', "refused, west: 31"),
            ("21", "?", &[("west", None, '1')], '1', "refused, west: 12"),
            ("?", "?", &[("west", Some('1'), '2')], '2', "new 21"),
            ("?", "?", &[("west", None, '2')], '3', "refused, west: 32"),
            ("?", "?", &[("west", None, '2')], '-', "refused"),
            ("-", "?", &[("west", None, '2')], '3', "refused, west: 32"),
            ("?", "?", &[("east", None, '1')], '1', "refused, east: none"),
            ("?", "2", &[("east", None, '1')], '1', "new 1"),
            ("1", "2", &[("west", None, '2')], '2', "refused, east: none"),
        ] {
            let clusters = clusters(west, east, accepted);
            assert_eq!(judged(&clusters, shown), expected, "{west} {east} {accepted:?} {shown}");
        }
    }

    #[test]
    fn reserved_uid_is_no_remotes() {
        let mut clusters = clusters("1", "?", &[("west", None, '1')]);
        clusters.reserve(Some(uid('1')));
        assert_eq!(judged(&clusters, '1'), "refused");
        clusters.reserve(None);
        assert_eq!(judged(&clusters, '1'), "known 1");
    }

    #[test]
    fn record_that_is_none_matches_no_cluster() {
        let mut clusters = KnownClusters::default();
        clusters.load([("west", "yes"), ("east", "unverified")].into_iter());
        assert_eq!(
            (judged(&clusters, '1'), judged(&clusters, '-')),
            ("refused".into(), "refused".into())
        );
        assert_eq!(clusters.record("east"), Some(&ClusterRecord::default()));
        assert!(clusters.forget("west") && !clusters.forget("west"));
        assert_eq!(judged(&clusters, '1'), "new 1");
    }

    #[test]
    fn record_that_is_not_saved_stays_when_the_others_are_loaded() {
        let mut clusters = clusters("?", "1", &[]);
        clusters.load([].into_iter());
        assert_eq!(judged(&clusters, '1'), "refused, east: none");
        clusters.note_saved("east");
        clusters.load([].into_iter());
        assert_eq!(judged(&clusters, '1'), "new 1");
    }

    #[test]
    fn records_and_marks_are_read_as_they_are_written() {
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
        let mut record = None;
        for digit in "123456789a0".chars() {
            record = Some(replace(record.as_ref(), None, uid(digit)));
        }
        assert_eq!(record.unwrap(), self::record("0a9876543"));
    }
}
