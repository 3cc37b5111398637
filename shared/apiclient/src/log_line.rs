//! Log lines about objects, and untrusted text in them.

use std::time::Duration;

/// Logs a line about an object or a collection, which begins with kind, namespace and name of the
/// [`Target`](crate::resource::Target).
///
/// ```ignore
/// log_object!(Level::Warn, target, error:% = error; "lease renewal failed");
/// ```
#[macro_export]
macro_rules! log_object {
    ($level:expr, $target:expr $(, $key:ident $(:$display:tt)? = $value:expr)*; $($text:tt)+) => {{
        let target = &$target;
        log::log!(
            $level,
            kind:% = target.resource,
            namespace = target.namespace.unwrap_or_default(),
            name = target.name.unwrap_or_default()
            $(, $key $(:$display)? = $value)*;
            $($text)+
        )
    }};
}

/// A duration for a log line: in seconds, to the millisecond.
pub fn seconds(time: Duration) -> f64 {
    time.as_millis() as f64 / 1000.0
}

/// Untrusted text in one line of at most `limit` characters, without control and hidden characters.
pub fn printable(text: &str, limit: usize) -> String {
    text.chars().take(limit).map(|c| if c.is_control() || is_hidden(c) { ' ' } else { c }).collect()
}

/// Returns whether a character is invisible, breaks a line or reverses text (Unicode 16, general categories Cf, Zl and
/// Zp, in the planes that text uses).
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Untrusted text, truncated and in one line.
pub fn quoted(text: &str) -> String {
    printable(text.trim(), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_wrote_cannot_forge_a_line() {
        assert_eq!(
            printable("gone\nE1121 12:00:00 fake\u{1b}[31m", 100),
            "gone E1121 12:00:00 fake [31m"
        );
        assert_eq!(
            printable("safe\u{202e}cod.exe\u{2028}E1121\u{200b}", 100),
            "safe cod.exe E1121 "
        );
        assert_eq!(printable("naïve 漢字 🙂", 100), "naïve 漢字 🙂");
        assert_eq!(printable("long", 2), "lo");
        assert_eq!(quoted(" a\nb "), "a b");
    }
}
