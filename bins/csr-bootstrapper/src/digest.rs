//! Digests as text, for names and keys that must not be longer than this.

use ring::digest::{SHA256, digest};

/// SHA-256 of `bytes`: 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
