//! YAML of peers, and with it JSON, read within a budget of memory and so of time.

use std::{borrow::Cow, collections::BTreeMap};

use granit_parser::{Event, Parser, ScalarStyle, StrInput, Tag};
use serde_json::{Map, Value};

/// Nothing that people write is nested deeper.
const MAX_DEPTH: usize = 64;
/// Lines that begin with `%`: one says the version, others name tags, which are refused.
const MAX_DIRECTIVES: usize = 8;

/// The reason why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum YamlError {
    /// Not YAML, from this line and column on; both count from 1.
    Syntax(usize, usize),
    /// Several documents, tags, or a key that is no text.
    Unusual,
    /// It needs more memory than its limit.
    TooLarge,
}

/// The value in `text`, which may cost at most `limit` bytes of memory: the YAML 1.2 core schema, without tags
/// and merge keys.
pub(crate) fn parse(text: &str, limit: usize) -> Result<Value, YamlError> {
    let directives = text.lines().filter(|line| line.starts_with('%'));
    if directives.count() > MAX_DIRECTIVES {
        return Err(YamlError::Unusual);
    }
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        budget: Budget { left: limit },
        anchors: BTreeMap::new(),
    };
    let mut root = None;
    loop {
        match reader.event()? {
            Event::StreamEnd => return Ok(root.unwrap_or_default()),
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event if root.is_none() => root = Some(reader.value(event, 0)?),
            _ => return Err(YamlError::Unusual),
        }
    }
}

/// What is left of the limit. Memory is charged before it is taken.
struct Budget {
    left: usize,
}

impl Budget {
    /// A value by itself, also as an item of a list, which has room for twice as many.
    const VALUE: usize = 3 * size_of::<Value>();
    /// The room for the first items of a list.
    const LIST: usize = 4 * size_of::<Value>();
    /// Entries of the first node of a `BTreeMap`, and its size.
    const NODE: (usize, usize) = (11, 672);
    /// An entry beyond the first node: nodes are half empty at worst, and one in seven has nodes below.
    const ENTRY: usize = 160;
    /// The least that an allocation takes.
    const ALLOCATION: usize = 16;

    fn charge(&mut self, bytes: usize) -> Result<(), YamlError> {
        self.left = self.left.checked_sub(bytes).ok_or(YamlError::TooLarge)?;
        Ok(())
    }

    fn charge_text(&mut self, text: &str) -> Result<(), YamlError> {
        self.charge(Self::ALLOCATION + text.len() + text.len() / 4)
    }

    /// Charges a place in a map that has so many entries already.
    fn charge_entry(&mut self, entries: usize) -> Result<(), YamlError> {
        self.charge(match entries {
            0 => Self::NODE.1,
            entries if entries < Self::NODE.0 => 0,
            _ => Self::ENTRY,
        })
    }

    /// Charges all parts of a copy of `value`.
    fn charge_copy(&mut self, value: &Value) -> Result<(), YamlError> {
        self.charge(Self::VALUE)?;
        match value {
            Value::String(text) => self.charge_text(text),
            Value::Array(items) => items.iter().try_for_each(|item| self.charge_copy(item)),
            Value::Object(map) => map.iter().enumerate().try_for_each(|(entries, (key, value))| {
                self.charge_entry(entries)?;
                self.charge_text(key)?;
                self.charge_copy(value)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    budget: Budget,
    /// By the number that the parser gives them.
    anchors: BTreeMap<usize, Value>,
}

impl<'a> Reader<'a> {
    fn event(&mut self) -> Result<Event<'a>, YamlError> {
        // Every event takes time, even one without a value.
        self.budget.charge(Budget::VALUE)?;
        match self.parser.next() {
            Some(Ok((event, _))) => Ok(event),
            Some(Err(error)) => {
                Err(YamlError::Syntax(error.marker().line(), error.marker().col() + 1))
            }
            None => Err(YamlError::Unusual),
        }
    }

    /// The value that begins with `event`.
    fn value(&mut self, event: Event<'_>, depth: usize) -> Result<Value, YamlError> {
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.budget.charge_text(&text)?;
                (scalar(&text, style, tag.as_deref())?, anchor)
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).ok_or(YamlError::Unusual)?;
                self.budget.charge_copy(value)?;
                (value.clone(), 0)
            }
            _ if depth >= MAX_DEPTH => return Err(YamlError::Unusual),
            Event::SequenceStart(_, anchor, tag) if is_known(tag.as_deref()) => {
                (self.list(depth)?, anchor)
            }
            Event::MappingStart(_, anchor, tag) if is_known(tag.as_deref()) => {
                (self.map(depth)?, anchor)
            }
            _ => return Err(YamlError::Unusual),
        };
        if anchor != 0 {
            self.budget.charge(Budget::ENTRY)?;
            self.budget.charge_copy(&value)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Value, YamlError> {
        self.budget.charge(Budget::LIST)?;
        let mut list = Vec::new();
        loop {
            match self.event()? {
                Event::SequenceEnd => return Ok(Value::Array(list)),
                event => list.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut map = Map::new();
        loop {
            let key = match self.event()? {
                Event::MappingEnd => return Ok(Value::Object(map)),
                event => text_of(self.value(event, depth + 1)?).ok_or(YamlError::Unusual)?,
            };
            self.budget.charge_entry(map.len())?;
            let event = self.event()?;
            map.insert(key, self.value(event, depth + 1)?);
        }
    }
}

fn is_known(tag: Option<&Tag>) -> bool {
    tag.is_none_or(Tag::is_yaml_core_schema)
}

/// The value of a scalar, if plain one of the core schema (YAML 1.2.2, 10.3.2).
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, YamlError> {
    let is_text = match tag {
        _ if !is_known(tag) => return Err(YamlError::Unusual),
        None => style != ScalarStyle::Plain,
        Some(tag) => tag.is_yaml_core_schema_tag("str"),
    };
    Ok(match text {
        _ if is_text => text.into(),
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        // A number is what JSON calls one: no field that counts is a number.
        text => serde_json::from_str(text).map_or_else(|_| text.into(), Value::Number),
    })
}

/// A key, as texts that are not quoted may look like something else.
fn text_of(key: Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text),
        Value::Null => Some("null".to_owned()),
        Value::Bool(_) | Value::Number(_) => Some(key.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Texts that YAML 1.1, which Go reads, takes for other values (yaml.org/type/bool, null).
const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];

/// A text for YAML: plain if it cannot be taken for another value, else as in JSON. One that begins with a digit
/// might be a number or a time of YAML 1.1.
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
