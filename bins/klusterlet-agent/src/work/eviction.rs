//! Decides without I/O whether to evict AppliedManifestWorks whose ManifestWork is gone. In doubt, none is evicted.

use std::time::{Duration, SystemTime};

/// The value of `-evict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evict {
    /// After the grace period, unless too many works are absent together.
    After,
    Never,
    /// After the grace period, however many works are absent.
    All,
}

/// What is known about an AppliedManifestWork of this agent, and about the hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// Whether the hub's list is complete and up to date, as far as known.
    pub(crate) hub_is_certain: bool,
    /// Why absent works may come back.
    pub(crate) doubt: Option<&'static str>,
    /// Whether the list has the work, and the record belongs to this hub's address.
    pub(crate) is_wanted: bool,
    /// Whether the hub named the work in a 404, or the record of this hub's address has taken over.
    pub(crate) is_confirmed: bool,
    /// How many of this agent's records have no work, and how many it has; zeros for a record that owns nothing.
    pub(crate) counts: (usize, usize),
    pub(crate) since: Option<SystemTime>,
}

/// The next step of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// Nothing to do, also while too many works are absent together.
    Keep,
    /// Retry soon: the hub is in doubt.
    Doubt,
    /// Cancel an eviction that began.
    Clear,
    /// Begin the grace period.
    Start,
    /// Decide again at the end of the grace period.
    Wait(SystemTime),
    /// Confirm with the hub that the work is gone.
    Confirm,
    Delete,
}

/// The grace period that disables eviction, as in ocm `unmanaged_appliedmanifestwork_controller.go`: 100 years.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// At most one in this many known works may be absent together; a single one always may.
const MAX_ABSENT_SHARE: usize = 10;

pub(crate) fn decide(
    evict: Evict,
    grace_period: Duration,
    evidence: &Evidence,
    now: SystemTime,
) -> Eviction {
    // A doubt ends with the process: clear evictions that began before, so that the next process does not resume them.
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

/// Returns why nothing is evicted although works are absent: the hub is in doubt, its identity is unknown, or more than
/// one work and more than a tenth are absent.
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
