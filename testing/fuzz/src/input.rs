//! The encoding of inputs: short bytes that expand into what a target reads.

use base64::{Engine, prelude::BASE64_STANDARD};

/// More bytes than any single object may have.
pub const HUGE: usize = 2 << 20;

/// Expands `data` to at most `longest` bytes. The bytes F8, n, m repeat the last n bytes for 16 m more bytes;
/// from m = F0 on, for 2^(m - E8) more, up to 2 MiB. No text contains F8, and libFuzzer makes no long runs on
/// its own.
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

/// The parts of an input between NUL bytes; the last part takes the rest.
pub fn parts<const N: usize>(data: &[u8]) -> [Option<&[u8]>; N] {
    let mut parts = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| parts.next())
}

/// Encodes DER as PEM: a mutation of base64 is hardly ever a useful mutation of the DER.
pub fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let body = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").into_bytes()
}
