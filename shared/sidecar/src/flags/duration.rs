//! Durations in Go's format.

use std::time::Duration;

/// Go's longest duration, 63 bits of nanoseconds or some 292 years, which can be added to any clock.
const MAX_DURATION: Duration = Duration::from_nanos(i64::MAX as u64);

/// Go's time.ParseDuration; a negative duration is zero.
pub fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        seconds += number.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    let time = Duration::try_from_secs_f64(if negative { 0.0 } else { seconds }).ok();
    time.filter(|time| *time <= MAX_DURATION)
}

/// As [`duration`], or a number of seconds.
pub(super) fn seconds(value: &str) -> Option<Duration> {
    let seconds =
        || value.parse().ok().map(Duration::from_secs).filter(|time| *time <= MAX_DURATION);
    duration(value).or_else(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, milliseconds) in [
            ("1m0s", 60_000),
            ("137s", 137_000),
            ("1.5h", 5_400_000),
            ("1h2m3s4ms", 3_723_004),
            ("250ms", 250),
            ("0", 0),
            ("0s", 0),
            ("-1m", 0),
            ("1000us", 1),
            (".5s", 500),
            ("1.s", 1000),
            ("0.1s", 100),
            ("0.2500000000000000000001s", 250),
            ("1000\u{b5}s", 1),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in [
            "",
            "-",
            "1",
            "s",
            "1x",
            "1m1",
            "m1",
            "1..5s",
            ".s",
            "99999999999999999999h",
            "1d",
            "2777777777777777h",
        ] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn longest_duration_fits_the_clocks() {
        use std::time::{Instant, SystemTime};

        let longest = duration("2562047h").unwrap();
        assert_eq!(duration("2562048h"), None, "Go's limit");
        assert!(Instant::now().checked_add(longest.mul_f64(1.1)).is_some());
        assert!(SystemTime::now().checked_add(longest).is_some());
        assert_eq!(seconds("9223372037"), None);
    }

    #[test]
    fn a_number_may_stand_for_seconds() {
        assert_eq!(seconds("90"), Some(Duration::from_secs(90)));
        assert_eq!(seconds("1m30s"), Some(Duration::from_secs(90)));
        for bad in ["", "-1", "1.5", "9 s"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
