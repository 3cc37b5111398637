//! Rotation deadline: the time at which the next certificate is due. No I/O, no clock.

use std::time::{Duration, Instant, SystemTime};

use apiclient::{
    certificate::{self, X509Certificate},
    time::seconds_time,
};
use ring::digest::{SHA256, digest};

use crate::clocks::Clocks;

/// The Go agent renews when less than 20 to 25 % of the lifetime is left, drawn at each check (ocm
/// `pkg/registration/register/csr/csr.go:484-530`).
const LEAST_LEFT: f64 = 0.20;
const SPREAD: f64 = 0.05;
/// The least part of the remaining lifetime, as of its issue, for which a certificate is used. The signer of
/// kube-controller-manager backdates by five minutes (`pkg/controller/certificates/authority/policies.go`): a
/// certificate for 30 seconds is issued within its last quarter.
const MIN_USED_SHARE: f64 = 0.5;
/// The upper limit of that, because the time that a machine sleeps does not count. It bounds the rate of
/// certificates even if a clock is wrong.
const MIN_USED_CAP: Duration = Duration::from_secs(12 * 3600);

/// The time to request the certificate after the `chain` in `pem`. It is the same at each check and after a restart,
/// but different for each certificate, so that a fleet with certificates of the same time does not come back at once.
fn rotation_deadline(pem: &[u8], chain: &[X509Certificate]) -> SystemTime {
    let Some((begin, end)) = validity(chain) else { return SystemTime::UNIX_EPOCH };
    end - length(begin, end).mul_f64(LEAST_LEFT + SPREAD * drawn(pem))
}

/// The time until the next certificate after the `chain` in `pem`; zero when it is due. This process
/// first uses the last certificate that it `obtained` for a while, even if that is due.
pub(crate) fn due_in(
    pem: &[u8],
    chain: &[X509Certificate],
    obtained: Option<&(Vec<u8>, Instant)>,
    (clocks, now): (Clocks, Instant),
) -> Duration {
    let at = rotation_deadline(pem, chain);
    let used = obtained.filter(|(of, _)| of == pem);
    let used = used.map(|(_, until)| until.saturating_duration_since(now));
    clocks.until_due(at).max(used.unwrap_or_default())
}

/// The least time for which the certificate in `pem`, issued just now, is used.
pub(crate) fn least_use(pem: &[u8], clocks: &Clocks) -> Duration {
    let chain = certificate::chain(pem).unwrap_or_default();
    let Some((begin, end)) = validity(&chain) else { return Duration::ZERO };
    let left = clocks.left_of_new(begin, end);
    left.mul_f64(MIN_USED_SHARE + SPREAD * drawn(pem)).min(MIN_USED_CAP)
}

/// The time span in which all of the chain is valid.
fn validity(chain: &[X509Certificate]) -> Option<(SystemTime, SystemTime)> {
    let begin = chain.iter().map(|certificate| certificate.not_before).max()?;
    let end = chain.iter().map(|certificate| certificate.not_after).min()?;
    Some((begin, end))
}

fn length(begin: SystemTime, end: SystemTime) -> Duration {
    end.duration_since(begin).unwrap_or_default()
}

/// The message of condition ClusterCertificateRotated about the certificate with this `chain`: upstream's words, with
/// times as Go prints them.
pub(crate) fn rotated_message(chain: &[X509Certificate]) -> String {
    let go = |at| seconds_time(at).replace('T', " ").replace('Z', " +0000 UTC");
    match chain.first() {
        Some(leaf) => format!(
            "client certificate rotated starting from {} to {}",
            go(leaf.not_before),
            go(leaf.not_after)
        ),
        None => "client certificate rotated".to_owned(),
    }
}

/// A number in [0, 1) that depends on `bytes` alone.
fn drawn(bytes: &[u8]) -> f64 {
    let hash = digest(&SHA256, bytes);
    let number = hash.as_ref()[..4].iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    f64::from(number) / 2_f64.powi(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        certificate::{
            authority::{CertificateTemplate, HOUR, MINUTE, names, now},
            csr::CertificateRequest,
        },
        clocks::tests::{at, hub},
    };

    const DAY: Duration = Duration::from_secs(86_400);

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

    /// certificate_test.go:158
    #[test]
    fn the_latest_begin_and_the_earliest_end_of_the_chain_count() {
        let leaf = valid(now(), now() + DAY * 30);
        let authority = valid(now() - DAY * 30, now() + DAY * 10);
        let both = rotation_deadline(&pem(1), &[leaf, authority]);
        assert_eq!(both, rotation_deadline(&pem(1), &[valid(now(), now() + DAY * 10)]));
    }

    #[test]
    fn thousand_certificates_are_spread_over_the_last_quarter() {
        for life in [MINUTE * 10, DAY * 365] {
            let chain = [valid(now(), now() + life)];
            let left =
                |n| length(rotation_deadline(&pem(n), &chain), now() + life).div_duration_f64(life);
            let left: Vec<_> = (0..1000).map(left).collect();
            assert!(left.iter().all(|left| (0.1999..0.2501).contains(left)), "{life:?}");
            for tenth in 0..10 {
                let low = 0.2 + f64::from(tenth) * 0.005;
                let count = left.iter().filter(|left| (low..low + 0.005).contains(*left)).count();
                assert!((60..150).contains(&count), "{count} in the tenth from {low}");
            }
        }
    }

    /// A certificate with this validity.
    fn issued(not_before: SystemTime, not_after: SystemTime) -> Vec<u8> {
        let request = CertificateRequest::new(&names().csr_template()).unwrap();
        let paper = CertificateTemplate {
            not_before,
            not_after,
            ..CertificateTemplate::of(&names(), now())
        };
        paper.certificate(&request).into_bytes()
    }

    #[test]
    fn certificate_born_due_is_used_for_half_of_its_rest() {
        let mut used = Vec::new();
        for seconds in [30, 120, 180] {
            let pem = issued(now() - MINUTE * 5, now() + Duration::from_secs(seconds));
            let share = least_use(&pem, &at(now())).as_secs_f64() / seconds as f64;
            assert!((0.4999..0.5501).contains(&share), "{seconds} s: {share}");
            used.push(share);
        }
        used.dedup();
        assert_eq!(used.len(), 3, "a fleet is spread here too");
    }

    #[test]
    fn whatever_a_clock_says_a_certificate_is_used_for_a_while() {
        let pem = issued(now() - MINUTE * 5, now() + DAY * 365);
        for year in [-400, 0, 400] {
            for clocks in [at(now()), hub(year * 86_400)] {
                assert_eq!(least_use(&pem, &clocks), MIN_USED_CAP, "{year}");
            }
        }
        assert_eq!(least_use(b"", &at(now())), Duration::ZERO);
    }

    #[test]
    fn it_is_never_due_after_its_end() {
        for (begin, end) in [(now(), now()), (now() + HOUR, now()), (now() - DAY, now() - HOUR)] {
            assert!(rotation_deadline(&pem(1), &[valid(begin, end)]) <= end);
        }
        assert_eq!(rotation_deadline(b"", &[]), SystemTime::UNIX_EPOCH);
    }
}
