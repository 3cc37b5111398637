//! Quantities of resources as Kubernetes reads, adds and prints them (apimachinery `pkg/api/resource/quantity.go`).

use std::fmt;

use serde_json::Value;

/// Suffixes of 10^-9 to 10^18.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The position of `m` among them.
const MILLI: usize = 2;
/// Suffixes of 2^10 to 2^60.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A quantity. Nodes have no resource that is finer than a thousandth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quantity {
    milli: i128,
    /// It was written like `128Mi`, not like `1500m` or `15e2`.
    is_binary: bool,
}

impl Quantity {
    /// Reads a quantity, rounded up to thousandths, away from zero; `None` if it is none, or too large for any machine.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| c != '.' && !c.is_ascii_digit());
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
        let (factor, exponent, is_binary) = unit(suffix)?;
        let digits: i128 = [integer, fraction].concat().parse().ok()?;
        let power = exponent + 3 - i32::try_from(fraction.len()).ok()?;
        let ten = 10i128.checked_pow(power.unsigned_abs())?;
        let factored = digits.checked_mul(factor)?;
        let milli = match power {
            0.. => factored.checked_mul(ten)?,
            _ => factored / ten + i128::from(factored % ten != 0),
        };
        let milli = if text.starts_with('-') { -milli } else { milli };
        // So that no sum overflows.
        i64::try_from(milli).ok()?;
        Some(Self { milli, is_binary })
    }

    /// The sum with `quantity`, written like the first that is not zero.
    pub(super) fn plus(self, quantity: Self) -> Self {
        let is_binary = if self.milli == 0 { quantity.is_binary } else { self.is_binary };
        Self { milli: self.milli + quantity.milli, is_binary }
    }
}

/// Factor and exponent of ten of a suffix, and whether it is a binary one.
fn unit(suffix: &str) -> Option<(i128, i32, bool)> {
    if let Some(index) = BINARY.iter().position(|it| *it == suffix) {
        return Some((1 << (10 * (index + 1)), 0, true));
    }
    if let Some(index) = DECIMAL.iter().position(|it| *it == suffix) {
        return Some((1, 3 * i32::try_from(index).ok()? - 9, false));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    // A sum of it would be beyond any machine.
    let exponent = exponent.parse().ok().filter(|exponent| (-99..=99).contains(exponent))?;
    Some((1, exponent, false))
}

/// The canonical form (CanonicalizeBytes there), with a suffix in place of an exponent.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.milli == 0 {
            return f.write_str("0");
        }
        let is_small = self.milli.abs() < 1_024_000;
        if self.is_binary && !is_small && self.milli % 1000 == 0 {
            let (digits, times) = without_factors(self.milli / 1000, 1024, BINARY.len());
            let suffix = times.checked_sub(1).map_or("", |index| BINARY[index]);
            return write!(f, "{digits}{suffix}");
        }
        let (digits, times) = without_factors(self.milli, 1000, DECIMAL.len() - 1 - MILLI);
        write!(f, "{digits}{}", DECIMAL[MILLI + times])
    }
}

/// `number` divided by `factor` as often as that goes, at most `most` times; and how often.
fn without_factors(mut number: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number % factor == 0 {
        (number, times) = (number / factor, times + 1);
    }
    (number, times)
}

/// Returns whether `reported` is the quantity `ours`, however it is written.
pub(super) fn same(reported: &Value, ours: &str) -> bool {
    let reported = match reported {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return false,
    };
    let milli = |text: &str| Quantity::parse(text).map(|quantity| quantity.milli);
    reported == ours || milli(&reported).is_some_and(|reported| milli(ours) == Some(reported))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(texts: &[&str]) -> String {
        let quantities = texts.iter().map(|text| Quantity::parse(text).expect(text));
        quantities.reduce(Quantity::plus).expect("one").to_string()
    }

    /// What apimachinery v0.34 prints, except where it keeps an exponent.
    #[test]
    fn a_quantity_is_printed_in_its_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Ki", "0"),
            ("-0", "0"),
            ("8", "8"),
            ("+8", "8"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("3920m", "3920m"),
            ("2000", "2k"),
            ("110", "110"),
            ("1e3", "1k"),
            ("12e6", "12M"),
            ("1P", "1P"),
            ("1E3", "1k"),
            ("100e-3", "100m"),
            ("100Ki", "100Ki"),
            ("1024Ki", "1Mi"),
            ("32823456Ki", "32823456Ki"),
            ("65536Mi", "64Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.1Ki", "102400m"),
            ("1000Ki", "1000Ki"),
            ("1023", "1023"),
            ("0.5Ki", "512"),
            ("1n", "1m"),
            ("-0.1m", "-1m"),
            ("1.0000000001", "1001m"),
            ("-1.5", "-1500m"),
            ("-2Ki", "-2Ki"),
            ("7Pi", "7Pi"),
            ("47093746742", "47093746742"),
            ("9223372036854775", "9223372036854775"),
        ] {
            assert_eq!(sum(&[text]), canonical, "{text}");
        }
    }

    #[test]
    fn a_sum_is_written_like_the_first_that_is_not_zero() {
        for (texts, canonical) in [
            (&["4", "3920m"][..], "7920m"),
            (&["500m", "500m"], "1"),
            (&["64Gi", "64Gi"], "128Gi"),
            (&["32823456Ki", "32823444Ki"], "65646900Ki"),
            (&["1Ki", "1000"], "2024"),
            (&["1000", "1Ki"], "2024"),
            (&["0", "1Mi"], "1Mi"),
            (&["1024Ki", "1k"], "1049576"),
            (&["1M", "1Mi"], "2048576"),
            (&["1Gi", "500m"], "1073741824500m"),
            (&["512", "512Ki"], "524800"),
            (&["512Ki", "512"], "524800"),
            (&["1e3", "1k"], "2k"),
            (&["110", "110", "250"], "470"),
        ] {
            assert_eq!(sum(texts), canonical, "{texts:?}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_not_read() {
        for text in [
            "",
            " ",
            ".",
            "-",
            "Ki",
            "m",
            "1 ",
            " 1",
            "1ki",
            "1KI",
            "1K",
            "1kk",
            "1..2",
            "1e",
            "1e+",
            "1e1000",
            "1e-2147483648",
            "9Pi",
            "9223372036854776",
            "--1",
            "0x1",
            "1_000",
            "١",
            "NaN",
            "inf",
            "1e99",
            "99999999999999999999999999",
            "1Mi2",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
        let long = "9".repeat(10_000);
        assert_eq!(Quantity::parse(&long), None);
        assert_eq!(Quantity::parse(&format!("0.{long}")), None);
        assert_eq!(Quantity::parse(&"0".repeat(10_000)).map(|zero| zero.milli), Some(0));
    }

    #[test]
    fn the_same_quantity_may_be_written_in_many_ways() {
        for (reported, ours) in
            [("1Gi", "1073741824"), ("1024Mi", "1Gi"), ("2", "2000m"), ("2e3", "2k")]
        {
            assert!(same(&reported.into(), ours), "{reported} {ours}");
        }
        assert!(same(&7.into(), "7") && same(&1.5.into(), "1500m"));
        assert!(same(&"odd".into(), "odd"));
        for reported in [Value::Null, "8".into(), "odd".into(), 8.into(), serde_json::json!(["7"])]
        {
            assert!(!same(&reported, "7"), "{reported}");
        }
    }
}
