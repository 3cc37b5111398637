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
    let (parser, anchors) = (Parser::new_from_str(text), BTreeMap::new());
    let mut reader = Reader { parser, left: limit, anchors };
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

/// Charged for each event, which takes time too. It covers an item of a list with room for twice as many; those of
/// a key and its value cover an entry of a `BTreeMap` whose nodes are half empty.
const EVENT: usize = 96;
/// The first node of a `BTreeMap`, with room for eleven entries.
const MAP: usize = 672;

/// A text as the allocator rounds it up.
fn text_cost(text: &str) -> usize {
    16 + text.len() + text.len() / 4
}

/// What was charged for `value`.
fn cost(value: &Value) -> usize {
    EVENT
        + match value {
            Value::String(text) => text_cost(text),
            Value::Array(items) => EVENT + items.iter().map(cost).sum::<usize>(),
            Value::Object(map) => {
                let entry = |(key, value): (&String, _)| EVENT + text_cost(key) + cost(value);
                EVENT + MAP + map.iter().map(entry).sum::<usize>()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// What is left of the limit. Memory is charged before it is taken.
    left: usize,
    /// By the number that the parser gives them.
    anchors: BTreeMap<usize, Value>,
}

impl<'a> Reader<'a> {
    fn charge(&mut self, bytes: usize) -> Result<(), YamlError> {
        self.left = self.left.checked_sub(bytes).ok_or(YamlError::TooLarge)?;
        Ok(())
    }

    fn event(&mut self) -> Result<Event<'a>, YamlError> {
        self.charge(EVENT)?;
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
                self.charge(text_cost(&text))?;
                (scalar(&text, style, tag.as_deref())?, anchor)
            }
            Event::Alias(anchor) => {
                self.charge(self.anchors.get(&anchor).map_or(0, cost))?;
                (self.anchors.get(&anchor).cloned().ok_or(YamlError::Unusual)?, 0)
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
            self.charge(MAP + cost(&value))?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut list = Vec::new();
        loop {
            match self.event()? {
                Event::SequenceEnd => return Ok(Value::Array(list)),
                event => list.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, YamlError> {
        self.charge(MAP)?;
        let mut map = Map::new();
        loop {
            let key = match self.event()? {
                Event::MappingEnd => return Ok(Value::Object(map)),
                event => text_of(self.value(event, depth + 1)?).ok_or(YamlError::Unusual)?,
            };
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
