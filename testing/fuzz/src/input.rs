//! The encoding of inputs: short byte strings that expand into what a target reads.

use base64::{Engine, prelude::BASE64_STANDARD};

/// More bytes than any single object may have.
pub const HUGE: usize = 2 << 20;

/// Expands `data` to at most `longest` bytes. The bytes F8, n, m repeat the last n bytes for another 16 m bytes; from m
/// = F0 on, for another 2^(m - E8) bytes, up to 2 MiB. No text contains F8, and libFuzzer alone makes no long runs.
pub fn expand(data: &[u8], longest: usize) -> Vec<u8> {
    let (mut text, mut rest) = (Vec::new(), data);
    loop {
        match rest {
            [0xf8, n, m, after @ ..] => {
                let last = text[text.len().saturating_sub((*n).into())..].to_vec();
                let more = match *m {
                    power @ 0xf0.. => HUGE.min(1 << (power - 0xe8)),
                    few => 16 * usize::from(few),
                };
                let room = longest.saturating_sub(text.len());
                text.extend(last.repeat(more.min(room) / last.len().max(1)));
                rest = after;
            }
            [byte, after @ ..] => {
                text.push(*byte);
                rest = after;
            }
            [] => break,
        }
    }
    text.truncate(longest);
    text
}

/// Splits an input at NUL bytes; the last part has the rest.
pub fn parts<const N: usize>(data: &[u8]) -> [Option<&[u8]>; N] {
    let mut parts = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| parts.next())
}

/// Encodes DER as PEM: mutated base64 is hardly ever a useful mutation of the DER.
pub fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let body = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").into_bytes()
}
