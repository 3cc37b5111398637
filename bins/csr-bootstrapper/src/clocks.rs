//! Clocks of this machine and of the hub, and when a certificate is due by them. Either clock may be wrong, and the
//! hub's may be its gateway's: an irreversible step needs both. No I/O, no reads of a clock.

use std::time::{Duration, Instant, SystemTime};

use apiclient::{
    certificate::{self, X509Certificate},
    client::ServerClock,
};

use crate::sha256;

/// The share of the lifetime that is left at renewal, and its spread. The Go agent draws 20 to 25 % at each check (ocm
/// `pkg/registration/register/csr/csr.go:484-530`).
const LEAST_LEFT: f64 = 0.20;
const SPREAD: f64 = 0.05;
/// The least share of its remaining lifetime for which a new certificate is used. The signer of
/// kube-controller-manager backdates by five minutes (`pkg/controller/certificates/authority/policies.go`): a
/// certificate for 30 seconds is in its last quarter when it is issued.
const MIN_USED_SHARE: f64 = 0.5;
/// The upper limit of this time, because the sleep of a machine does not count. It bounds the rate of certificates
/// even if a clock is wrong.
const MIN_USED_CAP: Duration = Duration::from_secs(12 * 3600);

#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    own: SystemTime,
    hub: Option<SystemTime>,
}

impl Clocks {
    /// `own` is this machine's time at `now`. The hub's clock advances monotonically, even if ours is set.
    pub fn new(own: SystemTime, now: Instant, hub: Option<ServerClock>) -> Self {
        let hub =
            hub.and_then(|clock| clock.time.checked_add(now.saturating_duration_since(clock.last)));
        Self { own, hub }
    }

    /// Returns whether every clock is past `end`.
    pub fn are_past(&self, end: SystemTime) -> bool {
        self.all().all(|now| now > end)
    }

    /// Returns whether `begin` is more than `tolerance` ahead by every clock.
    pub fn are_before(&self, begin: SystemTime, tolerance: Duration) -> bool {
        self.all().all(|now| now + tolerance < begin)
    }

    /// Returns the time until a credential is due at `at`, by the clock of the hub, which checks it, or else by ours.
    pub fn until_due(&self, at: SystemTime) -> Duration {
        at.duration_since(self.hub.unwrap_or(self.own)).unwrap_or_default()
    }

    /// Returns the remaining lifetime of a new certificate: the longest by any clock for which it is valid, or else its
    /// whole lifetime. The shorter one, if its clock is wrong, would cause endless requests.
    fn left_of_new(&self, begin: SystemTime, end: SystemTime) -> Duration {
        let left = |now| end.duration_since(now).unwrap_or_default();
        let valid = self.all().filter(|now| (begin..=end).contains(now));
        valid.map(left).max().unwrap_or_else(|| left(begin))
    }

    fn all(&self) -> impl Iterator<Item = SystemTime> {
        [Some(self.own), self.hub].into_iter().flatten()
    }
}

/// Returns when to request the certificate after the `chain` in `pem`. It is the same at each check and after a
/// restart. It differs between certificates, so that a fleet does not rotate at once.
fn rotation_deadline(pem: &[u8], chain: &[X509Certificate]) -> SystemTime {
    let Some((begin, end)) = validity(chain) else { return SystemTime::UNIX_EPOCH };
    let life = end.duration_since(begin).unwrap_or_default();
    end - life.mul_f64(LEAST_LEFT + SPREAD * drawn(pem))
}

/// Returns the time until the certificate after the `chain` in `pem` is due; zero if it is. This process uses the last
/// certificate that it `obtained`, known by this hash, for a while, even if that is due.
pub(crate) fn due_in(
    pem: &[u8],
    chain: &[X509Certificate],
    obtained: Option<&(String, Instant)>,
    (clocks, now): (Clocks, Instant),
) -> Duration {
    let at = rotation_deadline(pem, chain);
    let used = obtained.filter(|(hash, _)| *hash == sha256(pem));
    let used = used.map(|(_, until)| until.saturating_duration_since(now));
    clocks.until_due(at).max(used.unwrap_or_default())
}

/// Returns the least time for which the new certificate in `pem` is used.
pub(crate) fn least_use(pem: &[u8], clocks: &Clocks) -> Duration {
    let chain = certificate::chain(pem).unwrap_or_default();
    let Some((begin, end)) = validity(&chain) else { return Duration::ZERO };
    let left = clocks.left_of_new(begin, end);
    left.mul_f64(MIN_USED_SHARE + SPREAD * drawn(pem)).min(MIN_USED_CAP)
}

/// Returns the time span in which the whole chain is valid.
fn validity(chain: &[X509Certificate]) -> Option<(SystemTime, SystemTime)> {
    let begin = chain.iter().map(|certificate| certificate.not_before).max()?;
    let end = chain.iter().map(|certificate| certificate.not_after).min()?;
    Some((begin, end))
}

/// Returns a number in [0, 1) that depends only on `bytes`.
fn drawn(bytes: &[u8]) -> f64 {
    let number = u32::from_str_radix(&sha256(bytes)[..8], 16).unwrap_or_default();
    f64::from(number) / 2_f64.powi(32)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::certificate::{
        authority::{CertificateTemplate, HOUR, MINUTE, names, now, template},
        csr::CertificateRequest,
    };

    const DAY: Duration = Duration::from_secs(86_400);

    /// Both clocks at this time.
    pub(crate) fn at(time: SystemTime) -> Clocks {
        Clocks { own: time, hub: None }
    }

    /// A hub that is `ahead` by so many seconds.
    pub(crate) fn hub(ahead: i64) -> Clocks {
        let (last, apart) = (Instant::now(), Duration::from_secs(ahead.unsigned_abs()));
        let time = if ahead < 0 { now() - apart } else { now() + apart };
        Clocks::new(now(), last, Some(ServerClock { ahead, time, last }))
    }

    #[test]
    fn the_hubs_time_goes_on_whatever_ours_is_set_to() {
        let (last, time) = (Instant::now(), now());
        let clock = ServerClock { ahead: 0, time, last };
        let clocks = Clocks::new(now() + HOUR * 5, last + MINUTE, Some(clock));
        assert!(clocks.are_past(now()) && !clocks.are_past(now() + MINUTE * 2));
        assert_eq!(clocks.until_due(now() + MINUTE * 2), MINUTE);
    }

    #[test]
    fn what_cannot_be_undone_needs_both_clocks() {
        let year = 365 * 86_400;
        for (clocks, past, before) in [
            (at(now()), true, true),
            (hub(0), true, true),
            (hub(year), true, false),
            (hub(-year), false, true),
        ] {
            assert_eq!(clocks.are_past(now() - HOUR), past, "{clocks:?}");
            assert_eq!(clocks.are_before(now() + HOUR, MINUTE), before, "{clocks:?}");
            assert!(!clocks.are_past(now() + DAY * 400) && !clocks.are_before(now(), MINUTE));
        }
    }

    #[test]
    fn certificate_is_due_by_the_hubs_clock() {
        assert_eq!(at(now()).until_due(now() + MINUTE), MINUTE);
        for (ahead, left) in [(7200, Duration::ZERO), (0, HOUR), (-7200, HOUR * 3)] {
            assert_eq!(hub(ahead).until_due(now() + HOUR), left, "{ahead}");
        }
    }

    #[test]
    fn what_was_left_is_by_the_clocks_that_can_be_right() {
        let (begin, end) = (now() - MINUTE * 5, now() + MINUTE);
        for (ahead, left) in [(0, 60), (59, 60), (-59, 119), (3600, 60), (-3600, 60)] {
            let left = Duration::from_secs(left);
            assert_eq!(hub(ahead).left_of_new(begin, end), left, "{ahead}");
        }
        assert_eq!(at(now() + HOUR).left_of_new(begin, end), MINUTE * 6);
        assert_eq!(at(now()).left_of_new(end, begin), Duration::ZERO);
    }

    fn valid(not_before: SystemTime, not_after: SystemTime) -> X509Certificate {
        X509Certificate {
            common_name: String::new(),
            organizations: Vec::new(),
            units: Vec::new(),
            not_before,
            not_after,
        }
    }

    /// A different certificate for each number; only the bytes matter.
    fn pem(number: usize) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    /// certificate_test.go:158. A certificate is never due after its end.
    #[test]
    fn the_latest_begin_and_the_earliest_end_of_the_chain_count() {
        let leaf = valid(now(), now() + DAY * 30);
        let authority = valid(now() - DAY * 30, now() + DAY * 10);
        let both = rotation_deadline(&pem(1), &[leaf, authority]);
        assert_eq!(both, rotation_deadline(&pem(1), &[valid(now(), now() + DAY * 10)]));
        for (begin, end) in [(now(), now()), (now() + HOUR, now()), (now() - DAY, now() - HOUR)] {
            assert!(rotation_deadline(&pem(1), &[valid(begin, end)]) <= end);
        }
        assert_eq!(rotation_deadline(b"", &[]), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn thousand_certificates_are_spread_over_the_last_quarter() {
        for life in [MINUTE * 10, DAY * 365] {
            let chain = [valid(now(), now() + life)];
            let left = |n| (now() + life).duration_since(rotation_deadline(&pem(n), &chain));
            let left = |n| left(n).unwrap().div_duration_f64(life);
            let left: Vec<_> = (0..1000).map(left).collect();
            assert!(left.iter().all(|left| (0.1999..0.2501).contains(left)), "{life:?}");
            for tenth in 0..10 {
                let low = 0.2 + f64::from(tenth) * 0.005;
                let count = left.iter().filter(|left| (low..low + 0.005).contains(*left)).count();
                assert!((60..150).contains(&count), "{count} in the tenth from {low}");
            }
        }
    }

    /// The PEM of a certificate that was issued a moment ago.
    fn issued(not_after: SystemTime) -> Vec<u8> {
        let request = CertificateRequest::new(&template()).unwrap();
        let paper = CertificateTemplate { not_after, ..CertificateTemplate::of(&names(), now()) };
        paper.certificate(&request).into_bytes()
    }

    /// A long one is used for `MIN_USED_CAP`, whatever a clock says.
    #[test]
    fn certificate_born_due_is_used_for_half_of_its_rest() {
        let mut used = Vec::new();
        for seconds in [30, 120, 180] {
            let pem = issued(now() + Duration::from_secs(seconds));
            let share = least_use(&pem, &at(now())).as_secs_f64() / seconds as f64;
            assert!((0.4999..0.5501).contains(&share), "{seconds} s: {share}");
            used.push(share);
        }
        used.dedup();
        assert_eq!(used.len(), 3, "a fleet is spread here too");
        let pem = issued(now() + DAY * 365);
        for year in [-400, 0, 400] {
            for clocks in [at(now()), hub(year * 86_400)] {
                assert_eq!(least_use(&pem, &clocks), MIN_USED_CAP, "{year}");
            }
        }
        assert_eq!(least_use(b"", &at(now())), Duration::ZERO);
    }
}
