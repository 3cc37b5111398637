//! Eviction of AppliedManifestWorks whose ManifestWork is gone: pure. Nothing is evicted in doubt.

use std::time::{Duration, SystemTime};

/// `-evict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evict {
    /// After the grace period, unless too many works are absent together.
    After,
    Never,
    /// After the grace period, however many works are absent.
    All,
}

/// What is known of an AppliedManifestWork of this agent, and of the hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// The hub's list is complete and up to date, as far as can be told.
    pub(crate) hub_is_certain: bool,
    /// Why works that are absent may come back.
    pub(crate) doubt: Option<&'static str>,
    /// The list has the work, and the record is of this hub.
    pub(crate) is_wanted: bool,
    /// The hub named the work in a 404, or the record of this hub's address has taken over.
    pub(crate) is_confirmed: bool,
    /// How many records of this agent have no work, and how many there are; none for a record that owns nothing.
    pub(crate) counts: (usize, usize),
    pub(crate) since: Option<SystemTime>,
}

/// The next step of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// Nothing to do, also while too many works are absent together.
    Keep,
    /// The hub is in doubt: look again soon.
    Doubt,
    /// An eviction that began is off.
    Clear,
    /// The grace period begins.
    Start,
    /// Look again then.
    Wait(SystemTime),
    /// Read the work itself from the hub.
    Confirm,
    Delete,
}

/// Upstream's way to switch eviction off (ocm `unmanaged_appliedmanifestwork_controller.go`): 100 years.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// The share of the known works that may be absent together, if it is more than one work.
const MAX_ABSENT_SHARE: usize = 10;

pub(crate) fn decide(
    evict: Evict,
    grace_period: Duration,
    evidence: &Evidence,
    now: SystemTime,
) -> Eviction {
    // A doubt ends with the process, and what began before it must not outlast it.
    let is_doubted = evict == Evict::After && evidence.doubt.is_some();
    if evidence.is_wanted || is_doubted || evict == Evict::Never || grace_period >= NEVER {
        return if evidence.since.is_some() { Eviction::Clear } else { Eviction::Keep };
    }
    if !evidence.hub_is_certain {
        return Eviction::Doubt;
    }
    let Some(since) = evidence.since else { return Eviction::Start };
    match since.checked_add(grace_period) {
        Some(end) if end > now => Eviction::Wait(end),
        None => Eviction::Keep,
        _ if refusal(evict, evidence.counts, (evidence.doubt, None)).is_some() => Eviction::Keep,
        _ if !evidence.is_confirmed => Eviction::Confirm,
        _ => Eviction::Delete,
    }
}

/// Why nothing is evicted although works are absent: the hub's identity is not known, a doubt, or more than one and
/// more than a tenth are.
pub(crate) fn refusal(
    evict: Evict,
    (absent, known): (usize, usize),
    (doubt, unread): (Option<&str>, Option<&str>),
) -> Option<String> {
    let is_share = absent > 1 && absent * MAX_ABSENT_SHARE > known;
    let why = match (evict, doubt, unread) {
        (Evict::Never, ..) => return None,
        _ if absent == 0 => return None,
        (Evict::After, Some(doubt), _) => doubt.to_owned(),
        (_, _, Some(error)) => format!("the hub's identity cannot be read ({error})"),
        (Evict::After, ..) if is_share => "so many together".to_owned(),
        _ => return None,
    };
    Some(format!("{absent} of {known} works are absent, {why}: none is evicted, see -evict"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn absent(absent: usize, known: usize) -> Evidence {
        Evidence {
            hub_is_certain: true,
            doubt: None,
            is_wanted: false,
            is_confirmed: true,
            counts: (absent, known),
            since: Some(SystemTime::UNIX_EPOCH),
        }
    }

    fn after(evidence: Evidence) -> Eviction {
        decide(Evict::After, HOUR, &evidence, SystemTime::UNIX_EPOCH + HOUR)
    }

    #[test]
    fn absent_work_goes_after_the_grace_period_and_a_404() {
        let one = absent(1, 1);
        assert_eq!(after(Evidence { since: None, ..one }), Eviction::Start);
        let end = SystemTime::UNIX_EPOCH + HOUR;
        let early = decide(Evict::After, HOUR, &one, SystemTime::UNIX_EPOCH);
        assert_eq!(early, Eviction::Wait(end));
        assert_eq!(after(Evidence { is_confirmed: false, ..one }), Eviction::Confirm);
        assert_eq!(after(one), Eviction::Delete);
    }

    #[test]
    fn more_than_one_and_a_tenth_stay_until_a_flag_says_so() {
        for (gone, known, eviction) in [
            (1, 2, Eviction::Delete),
            (2, 20, Eviction::Delete),
            (2, 19, Eviction::Keep),
            (50, 50, Eviction::Keep),
        ] {
            assert_eq!(after(absent(gone, known)), eviction, "{gone} of {known}");
        }
        assert_eq!(after(absent(0, 0)), Eviction::Delete, "no object goes with it");
        let now = SystemTime::UNIX_EPOCH + HOUR;
        assert_eq!(decide(Evict::All, HOUR, &absent(50, 50), now), Eviction::Delete);
    }

    #[test]
    fn hub_that_cannot_be_read_is_said_to_stop_evictions() {
        let of = |evict| refusal(evict, (1, 9), (None, Some("no right")));
        let why = "1 of 9 works are absent, the hub's identity cannot be read (no right): none is \
            evicted, see -evict";
        assert_eq!(
            (of(Evict::After).as_deref(), of(Evict::All).as_deref()),
            (Some(why), Some(why))
        );
        assert_eq!(of(Evict::Never), None);
    }

    #[test]
    fn nothing_goes_in_doubt_and_a_work_that_is_back_stays() {
        assert_eq!(after(Evidence { hub_is_certain: false, ..absent(1, 9) }), Eviction::Doubt);
        let doubt = Some("the hub's versions went back");
        let doubtful = Evidence { doubt, ..absent(1, 9) };
        assert_eq!(after(doubtful), Eviction::Clear, "a restart grants the whole period anew");
        assert_eq!(after(Evidence { since: None, ..doubtful }), Eviction::Keep);
        assert_eq!(after(Evidence { is_wanted: true, ..absent(1, 9) }), Eviction::Clear);
        let now = SystemTime::UNIX_EPOCH + HOUR;
        assert_eq!(decide(Evict::Never, HOUR, &absent(1, 9), now), Eviction::Clear);
        let never = decide(Evict::After, Duration::MAX, &absent(1, 9), now);
        assert_eq!(never, Eviction::Clear, "upstream's way to switch it off");
    }
}
