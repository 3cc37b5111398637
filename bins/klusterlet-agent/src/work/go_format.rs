//! Go's `%v` format of an `*unstructured.Unstructured`, which the Go agent hashes.

use serde_json::{Number, Value};

pub(crate) fn go_format(object: &Value) -> String {
    let mut text = String::from("&{");
    write_value(&mut text, object);
    text.push('}');
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number_text(number)),
        Value::String(value) => text.push_str(value),
        Value::Array(items) => {
            text.push('[');
            write_all(text, items, write_value);
            text.push(']');
        }
        // Sorted by key, as Go prints them.
        Value::Object(fields) => {
            text.push_str("map[");
            write_all(text, fields, |text, (key, value)| {
                text.push_str(key);
                text.push(':');
                write_value(text, value);
            });
            text.push(']');
        }
    }
}

fn write_all<T>(
    text: &mut String,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut String, T),
) {
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            text.push(' ');
        }
        write(text, item);
    }
}

/// Formats an int64, or a float64 with the fewest digits: below 1e-4 and from 1e6 with an exponent.
fn number_text(number: &Number) -> String {
    if let Some(integer) = number.as_i64() {
        return integer.to_string();
    }
    let float = number.as_f64().unwrap_or_default();
    let scientific = format!("{float:e}");
    let exponent = scientific.split_once('e').and_then(|(digits, exponent)| {
        let exponent: i32 = exponent.parse().ok()?;
        (float != 0.0 && !(-4..6).contains(&exponent)).then_some((digits, exponent))
    });
    match exponent {
        Some((digits, exponent)) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        None => float.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Printed by Go.
    #[test]
    fn object_is_printed_as_go_prints_it() {
        let object = json!({
            "kind": "K", "b": {"z": null, "a": [1, "x y", {}, []]}, "t": true,
            "n": [1.0, 1.5, -0.0001, 0.00001, 1e5, 1234567.0, 1.25e22, 9223372036854775808_u64, -7],
        });
        let expected = "&{map[b:map[a:[1 x y map[] []] z:<nil>] kind:K n:[1 1.5 -0.0001 1e-05 \
            100000 1.234567e+06 1.25e+22 9.223372036854776e+18 -7] t:true]}";
        assert_eq!(go_format(&object), expected);
    }
}
