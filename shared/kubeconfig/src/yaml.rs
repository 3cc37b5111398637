//! YAML of peers, parsed within a budget of memory and with it of time; and YAML for others, as Go writes
//! it.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write};

use granit_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};

use crate::{
    json::push,
    memory::{Budget, VALUE},
};

/// Nothing that people write is nested deeper.
const DEEPEST: usize = 64;
/// Lines that begin with `%`: one says the version, others name tags, which are refused.
const MOST_DIRECTIVES: usize = 8;

/// The reason why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YamlError {
    /// Not YAML, from this line and column on; both count from 1.
    Syntax(usize, usize),
    /// Several documents, tags, or a key that is no text.
    Unusual,
    /// It needs more memory than its limit.
    TooLarge,
}

/// The value in `text`, which may cost at most `limit` bytes of memory: the YAML 1.2 core schema, without
/// tags and merge keys.
///
/// # Errors
/// The reason why it is refused.
pub fn parse(text: &str, limit: usize) -> Result<Value, YamlError> {
    let directives = text.lines().filter(|line| line.starts_with('%'));
    if directives.count() > MOST_DIRECTIVES {
        return Err(YamlError::Unusual);
    }
    let budget = Budget::new(limit);
    let mut builder =
        Builder { budget: &budget, open: Vec::new(), anchors: BTreeMap::new(), root: None };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, _) = event
            .map_err(|error| YamlError::Syntax(error.marker().line(), error.marker().col() + 1))?;
        documents += usize::from(matches!(event, Event::DocumentStart(..)));
        if documents > 1 {
            return Err(YamlError::Unusual);
        }
        builder.add(event)?;
        if budget.is_exceeded() {
            return Err(YamlError::TooLarge);
        }
    }
    Ok(builder.root.unwrap_or_default())
}

/// The document as far as it was read.
struct Builder<'a> {
    budget: &'a Budget,
    /// From the outermost to the innermost.
    open: Vec<Collection>,
    /// By the number that the parser gives them.
    anchors: BTreeMap<usize, Value>,
    root: Option<Value>,
}

/// A list or a map whose end was not read yet.
struct Collection {
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Value>),
    /// With the key whose value comes next.
    Map(Map<String, Value>, Option<String>),
}

impl Builder<'_> {
    fn add(&mut self, event: Event<'_>) -> Result<(), YamlError> {
        // It took time in any case.
        self.budget.charge(VALUE);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref())?;
                self.budget.charge_text(text.len());
                self.put(value, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.begin(Content::List(Vec::new()), anchor, tag.as_ref())
            }
            Event::MappingStart(_, anchor, tag) => {
                self.begin(Content::Map(Map::new(), None), anchor, tag.as_ref())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Collection { anchor, content: Content::List(list) }) => {
                    self.put(Value::Array(list), anchor)
                }
                Some(Collection { anchor, content: Content::Map(map, None) }) => {
                    self.put(Value::Object(map), anchor)
                }
                _ => Err(YamlError::Unusual),
            },
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).ok_or(YamlError::Unusual)?;
                let value = self.copy(value)?;
                self.put(value, 0)
            }
            Event::UnresolvedAlias(_) => Err(YamlError::Unusual),
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        content: Content,
        anchor: usize,
        tag: Option<&Cow<'_, Tag>>,
    ) -> Result<(), YamlError> {
        if tag.is_some_and(|tag| !tag.is_yaml_core_schema()) || self.open.len() >= DEEPEST {
            return Err(YamlError::Unusual);
        }
        self.open.push(Collection { anchor, content });
        Ok(())
    }

    /// A value is whole.
    fn put(&mut self, value: Value, anchor: usize) -> Result<(), YamlError> {
        if anchor != 0 {
            let copy = self.copy(&value)?;
            self.budget.charge(2 * VALUE);
            self.anchors.insert(anchor, copy);
        }
        match self.open.last_mut().map(|collection| &mut collection.content) {
            None => self.root = Some(value),
            Some(Content::List(list)) => push(list, value, self.budget),
            Some(Content::Map(map, key)) => match key.take() {
                None => *key = Some(text_of(value).ok_or(YamlError::Unusual)?),
                Some(key) => {
                    self.budget.charge_entry(map.len());
                    map.insert(key, value);
                }
            },
        }
        Ok(())
    }

    /// A copy of `value`, if there is room for it.
    fn copy(&self, value: &Value) -> Result<Value, YamlError> {
        charge(value, self.budget);
        if self.budget.is_exceeded() { Err(YamlError::TooLarge) } else { Ok(value.clone()) }
    }
}

/// Charges all parts of `value`, as far as there is room.
fn charge(value: &Value, budget: &Budget) {
    if !budget.charge(VALUE) {
        return;
    }
    match value {
        Value::String(text) => drop(budget.charge_text(text.len())),
        Value::Array(items) => items.iter().for_each(|item| charge(item, budget)),
        Value::Object(map) => {
            for (entries, (key, value)) in map.iter().enumerate() {
                budget.charge_entry(entries);
                budget.charge_text(key.len());
                charge(value, budget);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, YamlError> {
    let is_text = match tag {
        None => style != ScalarStyle::Plain,
        Some(tag) if tag.is_yaml_core_schema_tag("str") => true,
        Some(tag) if tag.is_yaml_core_schema() => false,
        Some(_) => return Err(YamlError::Unusual),
    };
    Ok(if is_text { text.into() } else { resolved(text) })
}

/// The value of a plain scalar (YAML 1.2.2, 10.3.2).
fn resolved(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => true.into(),
        "false" | "False" | "FALSE" => false.into(),
        text => number(text).map_or_else(|| text.into(), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            return u64::from_str_radix(digits, radix).ok().map(Number::from);
        }
    }
    // `inf` and `nan`, which Rust parses too, are texts, as is a number with leading zeros.
    let begins = digits.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
    let padded =
        digits.len() > 1 && digits.starts_with('0') && !digits[1..].starts_with(['.', 'e', 'E']);
    if !begins || padded {
        return None;
    }
    let whole =
        text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
    whole.ok().or_else(|| decimal(text.starts_with('-'), digits))
}

/// A number with a point or an exponent, read as JSON, whose reader is there anyway: that of the standard library has
/// 15 KB of tables and code.
fn decimal(negative: bool, digits: &str) -> Option<Number> {
    let (sign, zero) =
        (if negative { "-" } else { "" }, if digits.starts_with('.') { "0" } else { "" });
    // JSON wants digits on both sides of the point.
    let behind = if digits.ends_with('.') { "0" } else { "" };
    let json = format!("{sign}{zero}{digits}{behind}").replace(".e", ".0e").replace(".E", ".0E");
    match serde_json::from_slice(json.as_bytes()) {
        Ok(Value::Number(number)) => Some(number),
        _ => None,
    }
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

/// `value` as YAML in blocks, with keys in order: as Go writes it, to the byte for texts that need no
/// quotes.
pub fn print(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

/// Writes a value that begins in the present line and ends it.
fn write(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    text.extend(std::iter::repeat_n(' ', indent));
                }
                text.push_str(&quoted(key));
                text.push(':');
                match value {
                    Value::Object(map) if !map.is_empty() => below(value, indent + 2, text),
                    Value::Array(list) if !list.is_empty() => below(value, indent, text),
                    _ => {
                        text.push(' ');
                        write(value, indent, text);
                    }
                }
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    text.extend(std::iter::repeat_n(' ', indent));
                }
                text.push_str("- ");
                write(item, indent + 2, text);
            }
        }
        Value::String(value) => {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{}", quoted(value));
        }
        value => drop(writeln!(text, "{value}")),
    }
}

/// Writes a collection below the key that it belongs to.
fn below(value: &Value, indent: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', indent));
    write(value, indent, text);
}

/// Texts that YAML 1.1, which Go reads, takes for other values (yaml.org/type/bool, null).
const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];

/// A text as it is, if it cannot be taken for another value; else as in JSON, which is YAML too. One that
/// begins with a digit might be a number or a time of YAML 1.1.
fn quoted(text: &str) -> Cow<'_, str> {
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
