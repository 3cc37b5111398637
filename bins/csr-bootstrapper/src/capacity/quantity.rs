//! Quantities of resources as Kubernetes reads, adds and prints them (apimachinery `pkg/api/resource/quantity.go`).

use std::fmt;

use serde_json::Value;

/// The finest scale, 10^-9 (apimachinery `pkg/api/resource/scale_int.go` and `quantity.go`, Nano).
const NANO: i32 = -9;
/// Suffixes of 10^-9 to 10^18.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Suffixes of 2^10 to 2^60.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// How a quantity was written, and how a sum that begins with it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Format {
    /// `128Mi`
    BinarySi,
    /// `1500m`
    DecimalSi,
    /// `15e2`
    DecimalExponent,
}

/// A quantity in 16 bytes: `digits` × 10^`exponent`. Its order is not that of the quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity {
    digits: i64,
    exponent: i8,
    format: Format,
}

impl Quantity {
    /// Reads a quantity; `None` if it is none, or too large for any machine.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_digit = |c: char| c.is_ascii_digit();
        let (negative, unsigned) = match text.strip_prefix(['+', '-']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let whole = unsigned.trim_start_matches(is_digit);
        let integer = &unsigned[..unsigned.len() - whole.len()];
        let (fraction, suffix) = match whole.strip_prefix('.') {
            Some(rest) => {
                let suffix = rest.trim_start_matches(is_digit);
                (&rest[..rest.len() - suffix.len()], suffix)
            }
            None => ("", whole),
        };
        if integer.is_empty() && fraction.is_empty() {
            return None;
        }
        let (factor, exponent, format) = unit(suffix)?;
        let digits: i128 = [integer, fraction, "0"].concat().parse().ok()?;
        let digits = digits.checked_mul(factor)?;
        let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()? + 1)?;
        Self::new(if negative { -digits } else { digits }, exponent, format)
    }

    /// Rounds up, away from zero, what is finer than the finest scale; trailing zeros become the exponent's.
    fn new(mut digits: i128, mut exponent: i32, format: Format) -> Option<Self> {
        while digits != 0 && digits % 10 == 0 {
            (digits, exponent) = (digits / 10, exponent + 1);
        }
        while exponent < NANO {
            let up = i128::from(digits % 10 != 0) * digits.signum();
            (digits, exponent) = (digits / 10 + up, exponent + 1);
        }
        let exponent = if digits == 0 { 0 } else { exponent };
        let quantity =
            Self { digits: digits.try_into().ok()?, exponent: exponent.try_into().ok()?, format };
        quantity.nano().map(|_| quantity)
    }

    /// In units of the finest scale.
    fn nano(self) -> Option<i128> {
        let power = u32::try_from(i32::from(self.exponent) - NANO).ok()?;
        i128::from(self.digits).checked_mul(10i128.checked_pow(power)?)
    }
}

/// Factor, exponent of ten and format of a suffix.
fn unit(suffix: &str) -> Option<(i128, i32, Format)> {
    if let Some(index) = BINARY.iter().position(|it| *it == suffix) {
        return Some((1 << (10 * (index + 1)), 0, Format::BinarySi));
    }
    if let Some(index) = DECIMAL.iter().position(|it| *it == suffix) {
        return Some((1, NANO + 3 * i32::try_from(index).ok()?, Format::DecimalSi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    // A sum of it would be beyond any machine.
    let exponent = exponent.parse().ok().filter(|exponent| (-99..=99).contains(exponent))?;
    Some((1, exponent, Format::DecimalExponent))
}

/// A sum of quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    nano: i128,
    format: Format,
}

impl Sum {
    /// Nothing yet.
    pub(super) const ZERO: Self = Self { nano: 0, format: Format::DecimalSi };

    /// The sum with `quantity`, written like the first that is not zero; `None` if it is too large.
    pub(super) fn plus(self, quantity: Quantity) -> Option<Self> {
        let format = if self.nano == 0 { quantity.format } else { self.format };
        Some(Self { nano: self.nano.checked_add(quantity.nano()?)?, format })
    }
}

/// The canonical form (CanonicalizeBytes there).
impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10i128.pow(NANO.unsigned_abs());
        let is_small = self.nano.abs() < 1024 * one;
        if self.nano == 0 {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi && !is_small && self.nano % one == 0 {
            let (digits, times) = without_factors(self.nano / one, 1024, BINARY.len());
            return match times {
                0 => write!(f, "{digits}"),
                times => write!(f, "{digits}{}", BINARY[times - 1]),
            };
        }
        let (digits, times) = without_factors(self.nano, 1000, DECIMAL.len() - 1);
        match (self.format, 3 * times) {
            (Format::DecimalExponent, 9) => write!(f, "{digits}"),
            (Format::DecimalExponent, power) => write!(f, "{digits}e{}", power as i32 + NANO),
            _ => write!(f, "{digits}{}", DECIMAL[times]),
        }
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

/// Returns whether `told` is the quantity `ours`, however it is written.
pub(super) fn same(told: &Value, ours: &str) -> bool {
    let told = match told {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return false,
    };
    let nano = |text: &str| Quantity::parse(text).and_then(Quantity::nano);
    told == ours || nano(&told).is_some_and(|told| nano(ours) == Some(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(texts: &[&str]) -> String {
        let quantities = texts.iter().map(|text| Quantity::parse(text).expect(text));
        quantities.fold(Sum::ZERO, |sum, quantity| sum.plus(quantity).unwrap()).to_string()
    }

    /// What apimachinery v0.34 prints for it.
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
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("1E3", "1e3"),
            ("100e-3", "100e-3"),
            ("100Ki", "100Ki"),
            ("1024Ki", "1Mi"),
            ("32823456Ki", "32823456Ki"),
            ("65536Mi", "64Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.1Ki", "102400m"),
            ("1000Ki", "1000Ki"),
            ("1023", "1023"),
            ("0.5Ki", "512"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1.0000000001", "1000000001n"),
            ("-1.5", "-1500m"),
            ("-2Ki", "-2Ki"),
            ("7Ei", "7Ei"),
            ("47093746742", "47093746742"),
            ("9223372036854775807", "9223372036854775807"),
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
            (&["1e3", "1k"], "2e3"),
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
            "9Ei",
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
        assert_eq!(Quantity::parse(&"0".repeat(10_000)).map(|zero| zero.digits), Some(0));
    }

    #[test]
    fn a_sum_that_is_too_large_is_none() {
        let large = Quantity::parse("9e27").unwrap();
        let sum = |count| (0..count).try_fold(Sum::ZERO, |sum, _| sum.plus(large));
        assert!(sum(10).is_some() && sum(20).is_none());
    }

    #[test]
    fn the_same_quantity_may_be_written_in_many_ways() {
        for (told, ours) in
            [("1Gi", "1073741824"), ("1024Mi", "1Gi"), ("2", "2000m"), ("2e3", "2k")]
        {
            assert!(same(&told.into(), ours), "{told} {ours}");
        }
        assert!(same(&7.into(), "7") && same(&1.5.into(), "1500m"));
        assert!(same(&"odd".into(), "odd"));
        for told in [Value::Null, "8".into(), "odd".into(), 8.into(), serde_json::json!(["7"])] {
            assert!(!same(&told, "7"), "{told}");
        }
    }
}
