//! YAML from peers, and with it JSON, parsed within a budget that bounds memory and time.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// Room for 1,000 clusters, contexts and users, or one large authority.
const MAX_MEMORY: usize = 3 << 20;
/// Deeper than any kubeconfig.
const MAX_DEPTH: usize = 64;

/// The charge for each event. A map with one entry has at least three events, which cover the first node of its
/// `BTreeMap` (eleven entries). One event covers a list item and the spare capacity of its `Vec`.
const EVENT: usize = 240;

const UNUSUAL: &str = "is not one YAML document of maps, lists and texts, without tags, anchors, aliases and directives";

/// Parses a kubeconfig: YAML 1.2 without tags, anchors and directives. Null entries are dropped. The error is a
/// predicate with the position only: the parser's own message may quote a credential.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let text = str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\0') {
        return Err("has a NUL byte".into());
    }
    if text.lines().any(|line| line.starts_with('%')) {
        return Err(UNUSUAL.into());
    }
    let mut reader = Reader { parser: Parser::new_from_str(text), left: MAX_MEMORY };
    let mut root = None;
    loop {
        match reader.event()? {
            Event::StreamEnd => return Ok(root.unwrap_or_default()),
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event if root.is_none() => root = Some(reader.value(event, 0)?),
            _ => return Err(UNUSUAL.into()),
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The rest of the budget, charged before memory is allocated.
    left: usize,
}

impl<'a> Reader<'a> {
    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.left.checked_sub(bytes);
        self.left =
            left.ok_or_else(|| format!("needs more than {} KiB of memory", MAX_MEMORY >> 10))?;
        Ok(())
    }

    fn charge_text(&mut self, text: &str) -> Result<(), String> {
        // The allocator rounds it up.
        self.charge(16 + text.len() + text.len() / 4)
    }

    fn event(&mut self) -> Result<Event<'a>, String> {
        self.charge(EVENT)?;
        match self.parser.next().ok_or(UNUSUAL)? {
            Ok((event, _)) => Ok(event),
            Err(error) => {
                let (line, column) = (error.marker().line(), error.marker().col() + 1);
                Err(format!("is not YAML: line {line}, column {column}"))
            }
        }
    }

    /// The value that begins with `event`. An anchor has a number above 0.
    fn value(&mut self, event: Event<'_>, depth: usize) -> Result<Value, String> {
        match event {
            Event::Scalar(text, style, 0, None) => {
                self.charge_text(&text)?;
                Ok(scalar(&text, style))
            }
            Event::SequenceStart(_, 0, None) if depth < MAX_DEPTH => self.list(depth),
            Event::MappingStart(_, 0, None) if depth < MAX_DEPTH => self.map(depth),
            _ => Err(UNUSUAL.into()),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, String> {
        let mut list = Vec::new();
        loop {
            match self.event()? {
                Event::SequenceEnd => return Ok(Value::Array(list)),
                event => list.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, String> {
        let mut map = Map::new();
        loop {
            let key = match self.event()? {
                Event::MappingEnd => return Ok(Value::Object(map)),
                // A key is text, even if it looks like a number.
                Event::Scalar(text, _, 0, None) => {
                    self.charge_text(&text)?;
                    text.into_owned()
                }
                _ => return Err(UNUSUAL.into()),
            };
            let event = self.event()?;
            match self.value(event, depth + 1)? {
                Value::Null => drop(map.remove(&key)),
                value => drop(map.insert(key, value)),
            }
        }
    }
}

/// The value of a scalar; plain scalars follow the core schema (YAML 1.2.2, 10.3.2).
fn scalar(text: &str, style: ScalarStyle) -> Value {
    match text {
        _ if style != ScalarStyle::Plain => text.into(),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        // JSON numbers only: no field that is used is a number.
        text => serde_json::from_str(text).map_or_else(|_| text.into(), Value::Number),
    }
}

/// Plain scalars that YAML 1.1, and so Go, reads as booleans or null (yaml.org/type/bool, null).
const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];

/// Formats a YAML string: plain if it is unambiguous, else quoted as in JSON. Text that begins with a digit is quoted:
/// it may be a number or a time in YAML 1.1.
pub fn quoted(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+@ ".contains(c);
    let is_word = WORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let ends = !text.ends_with([' ', ':']);
    if begins && ends && !is_word && text.chars().all(plain) && !text.contains(": ") {
        return text.into();
    }
    Value::from(text).to_string().into()
}

#[cfg(test)]
mod tests;
