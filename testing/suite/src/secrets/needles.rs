//! Many secrets, sought at once, whole or in part, as they are and in base64.

use std::collections::HashMap;

use base64::{Engine, prelude::BASE64_STANDARD};

/// How many bytes of a secret are enough to know it by. A part of twice this length is found wherever it begins.
pub const PIECE: usize = 16;

/// The pieces of secrets, and what those are called.
pub struct Needles {
    pieces: HashMap<[u8; PIECE], usize>,
    names: Vec<String>,
    /// By a hash of its first four bytes, whether there is such a piece: most places of a text hold none.
    begins: Vec<bool>,
}

impl Default for Needles {
    fn default() -> Self {
        Self { pieces: HashMap::new(), names: Vec::new(), begins: vec![false; 1 << 24] }
    }
}

impl Needles {
    /// How many secrets are sought.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Adds one that is long enough, unless it is known.
    pub fn add(&mut self, name: &str, secret: &str) {
        if secret.len() < PIECE {
            return;
        }
        let mut forms: Vec<_> =
            secret.lines().map(|line| line.trim().as_bytes().to_vec()).collect();
        // What comes before it in a longer text decides which of three forms it has in base64.
        for before in 0..3 {
            let padded = [vec![0; before], secret.as_bytes().to_vec()].concat();
            let whole = &padded[..padded.len() / 3 * 3];
            forms.push(BASE64_STANDARD.encode(whole).into_bytes().split_off(before.min(1) * 4));
        }
        let before = self.pieces.len();
        for piece in forms.iter().flat_map(|form| form.as_chunks::<PIECE>().0) {
            self.pieces.entry(*piece).or_insert(self.names.len());
            self.begins[hash(piece)] = true;
        }
        if self.pieces.len() > before {
            self.names.push(name.to_owned());
        }
    }

    /// The first secret of which a piece is in the text, and the line.
    pub fn find(&self, text: &[u8]) -> Option<(&str, usize)> {
        let mut windows = text.windows(PIECE).enumerate();
        windows.find_map(|(place, window)| {
            if !self.begins[hash(window)] {
                return None;
            }
            let secret = self.pieces.get(window)?;
            let line = text[..place].iter().filter(|byte| **byte == b'\n').count() + 1;
            Some((&*self.names[*secret], line))
        })
    }
}

fn hash(piece: &[u8]) -> usize {
    let word = u32::from_le_bytes([piece[0], piece[1], piece[2], piece[3]]);
    // Knuth's multiplicative hash; the upper bits are the good ones.
    (word.wrapping_mul(2_654_435_761) >> 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "Kq8vT3nYw0ZbX5cR7dLm2Hs9Jf4Gp6Ua1EoViN";

    fn found_in(text: &str) -> bool {
        let mut needles = Needles::default();
        needles.add("it", SECRET);
        assert_eq!(needles.count(), 1);
        needles.find(text.as_bytes()).is_some()
    }

    #[test]
    fn a_secret_is_found_whole_in_part_and_in_base64() {
        assert!(found_in(&format!("a line\nD1103 {SECRET}")));
        assert!(found_in(&format!("a line with {}…", &SECRET[5..36])));
        for before in ["", "x", "xy", "xyz"] {
            let encoded = BASE64_STANDARD.encode(format!("{before}{SECRET} and more"));
            assert!(found_in(&encoded), "{before}");
        }
        assert!(!found_in("a line without"));
        assert!(!found_in(&SECRET[..15]));
    }

    #[test]
    fn each_line_of_a_secret_is_found_and_its_place_is_told() {
        let lines = ["0123456789abcdefghij", "ABCDEFGHIJKLMNOPQRST"];
        let mut needles = Needles::default();
        needles.add("two lines", &lines.join("\n"));
        for line in lines {
            let text = format!("one\ntwo {line} three");
            assert_eq!(needles.find(text.as_bytes()), Some(("two lines", 2)));
        }
    }
}
