//! How an input stands for what a target reads.

use base64::{Engine, prelude::BASE64_STANDARD};

/// What no single object may have.
pub const HUGE: usize = 2 << 20;

/// The bytes that `data` stands for, at most `longest`. The bytes F8, n, m stand for 16 m bytes more of the
/// last n, and from F0 on for two to the power of m less E8, up to 2 MiB: bytes that no text has, and of
/// which libFuzzer makes no long runs.
pub fn expanded(data: &[u8], longest: usize) -> Vec<u8> {
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

/// The parts of an input between NUL bytes; the last one takes the rest.
pub fn parts<const N: usize>(data: &[u8]) -> [Option<&[u8]>; N] {
    let mut parts = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| parts.next())
}

/// DER as PEM: a mutation of base64 hardly ever is a mutation of what it stands for.
pub fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let body = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").into_bytes()
}
