//! Label selectors of flags (apimachinery `pkg/labels/selector.go`, Parse). The server checks them too, but an
//! invalid one should be rejected before anything is done.

use apiclient::resource::{valid_key, valid_value};
use sidecar::flags::Flags;

/// The selector of a flag, if it is set.
///
/// # Errors
/// One sentence: it is empty, or not a selector.
pub(super) fn selector(flags: &Flags, name: &str) -> Result<Option<String>, String> {
    match flags.text(name).trim() {
        "" if flags.is_given(name) => {
            Err(format!("-{name} is empty, which would select everything: omit it or name a label"))
        }
        "" => Ok(None),
        text if requirements(text).all(valid) => Ok(Some(text.to_owned())),
        text => Err(format!("-{name} {text:?} is not a label selector")),
    }
}

/// The parts between commas, except for commas in parentheses.
fn requirements(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |c| {
        match c {
            '(' => inside = true,
            ')' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    })
}

/// `k`, `!k`, `k=v`, `k==v`, `k!=v`, `k in (v, w)`, `k notin (v)`, `k>1` or `k<1`.
fn valid(requirement: &str) -> bool {
    let requirement = requirement.trim();
    if let Some(key) = requirement.strip_prefix('!') {
        return valid_key(key.trim());
    }
    let end = requirement.find(|c: char| c.is_whitespace() || "=!<>(".contains(c));
    let (key, rest) = requirement.split_at(end.unwrap_or(requirement.len()));
    valid_key(key) && valid_condition(rest.trim_start())
}

fn valid_condition(condition: &str) -> bool {
    let after = |operators: &[&str]| operators.iter().find_map(|o| condition.strip_prefix(o));
    let values = |set: &str| set.split(',').all(|value| valid_value(value.trim()));
    if let Some(value) = after(&["==", "=", "!="]) {
        valid_value(value.trim())
    } else if let Some(number) = after(&[">", "<"]) {
        number.trim().parse::<i64>().is_ok()
    } else if let Some(set) = after(&["in", "notin"]) {
        let set = set.trim().strip_prefix('(').and_then(|set| set.strip_suffix(')'));
        set.is_some_and(values)
    } else {
        condition.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_kubernetes_own() {
        for good in [
            "a",
            "!a",
            "example.com/a=b",
            "a==b, c != d",
            "a=",
            "a in (b, c),d notin (e)",
            "a in ()",
            "a>1,b<2",
        ] {
            assert!(requirements(good).all(valid), "{good}");
        }
        for bad in ["a,", ",", "=b", "a b", "a=b=c", "a=b/c", "a in b", "a in (b", "a>x", "a!b"] {
            assert!(!requirements(bad).all(valid), "{bad}");
        }
    }
}
