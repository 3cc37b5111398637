//! JSON of others, in bounded memory.

use serde_json::Value;

/// A value costs some 30 bytes and a text of it two, so that an answer of a few MiB could need more memory
/// than a container has. The largest objects in use have some thousand values.
const MOST_VALUES: usize = 100_000;

/// The value in `bytes`.
///
/// # Errors
/// What it is instead, in a word.
pub fn parse(bytes: &[u8]) -> Result<Value, &'static str> {
    if values(bytes) > MOST_VALUES {
        return Err("JSON of too many values");
    }
    serde_json::from_slice(bytes).map_err(|_| "not JSON")
}

/// About as many as there are.
fn values(bytes: &[u8]) -> usize {
    let (mut values, mut text, mut escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = text,
            b'"' => text = !text,
            b',' | b'[' | b'{' if !text => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_would_fill_the_memory_is_refused_and_a_long_text_is_not() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert!(parse(list(MOST_VALUES - 1).as_bytes()).is_ok());
        assert_eq!(parse(list(MOST_VALUES).as_bytes()), Err("JSON of too many values"));
        let text = format!(r#"{{"a": "\"{}"}}"#, ",".repeat(MOST_VALUES * 2));
        assert!(parse(text.as_bytes()).is_ok());
        assert_eq!(parse(b"nil"), Err("not JSON"));
    }
}
