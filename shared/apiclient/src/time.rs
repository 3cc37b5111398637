//! Timestamps in Kubernetes' formats.

use std::time::SystemTime;

/// MicroTime: UTC, `Z`, exactly six digits; a server refuses any other number of digits
/// (apimachinery `pkg/apis/meta/v1/micro_time.go:26`).
pub fn micro_time(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time).to_string()
}

/// Time: UTC, `Z`, whole seconds, as in conditions.
pub fn seconds_time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Reads what [`micro_time`] writes; `None` for anything else.
pub fn parse_micro_time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

/// By how many seconds `theirs` is ahead of `ours`; negative if it is behind.
pub(crate) fn skew(theirs: SystemTime, ours: SystemTime) -> i64 {
    seconds(theirs) - seconds(ours)
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn micro_time_has_six_digits_and_round_trips() {
        let mut micros: u64 = 1;
        for _ in 0..10_000 {
            micros = micros
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let time =
                SystemTime::UNIX_EPOCH + Duration::from_micros(micros % 4_102_444_800_000_000);
            let text = micro_time(time);
            assert_eq!(text.len(), "2026-11-21T12:00:00.000000Z".len(), "{text}");
            assert_eq!(parse_micro_time(&text), Some(time), "{text}");
        }
        assert_eq!(micro_time(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000000Z");
        assert_eq!(parse_micro_time("tomorrow"), None);
    }

    #[test]
    fn skew_is_theirs_minus_ours() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let ten = Duration::from_secs(10);
        assert_eq!((skew(now + ten, now), skew(now - ten, now)), (10, -10));
    }
}
