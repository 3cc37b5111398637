//! Parser of a path into its steps, like client-go's (`util/jsonpath/parser.go`).

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PathStep {
    Field(String),
    Wildcard,
    /// `..`: the value and all its descendants, except for leaves.
    Descent,
    Slice(Slice),
    Union(Vec<Vec<Self>>),
    Filter(Filter),
    Literal(Value),
}

/// `[start:end:step]`; a lone index has the end `start + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) is_index: bool,
    pub(super) step: Option<i64>,
}

/// `[?(left operator right)]`, or `[?(left)]`, which tests for existence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Filter {
    pub(super) left: Vec<PathStep>,
    pub(super) comparison: Option<(String, Vec<PathStep>)>,
}

pub(super) fn parse_steps(text: &str) -> Result<Vec<PathStep>, String> {
    let (mut steps, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        rest = if let Some(filter) = rest.strip_prefix("[?(") {
            parse_filter(filter, &mut steps)?
        } else if let Some(below) = rest.strip_prefix("..") {
            if steps.last() == Some(&PathStep::Descent) {
                return Err("invalid multiple recursive descent".to_owned());
            }
            steps.push(PathStep::Descent);
            let is_field = below.starts_with(is_alphanumeric);
            if is_field { parse_field(below, &mut steps) } else { below }
        } else {
            match first {
                // The current object.
                ' ' | '@' | '$' => after,
                '[' => parse_array(after, &mut steps)?,
                '"' | '\'' => parse_quoted(after, first, &mut steps)?,
                '.' => parse_field(after, &mut steps),
                '+' | '-' | '0'..='9' => parse_number(rest, &mut steps)?,
                first if is_alphanumeric(first) => parse_word(rest, &mut steps)?,
                '\r' | '\n' => return Err("unclosed action".to_owned()),
                other => {
                    let code = u32::from(other);
                    return Err(format!(
                        "unrecognized character in action: U+{code:04X} {other:?}"
                    ));
                }
            }
        };
    }
    Ok(steps)
}

/// Reads up to the first `)` outside of quotes; a filter has one pair of quotes.
fn parse_filter<'a>(text: &'a str, steps: &mut Vec<PathStep>) -> Result<&'a str, String> {
    let (mut quote, mut is_closed, mut last, mut end) = (None, false, ' ', None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\n', _) => break,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open && last != '\\' => is_closed = true,
            (')', quote) if quote.is_some() == is_closed => {
                end = Some(at);
                break;
            }
            _ => {}
        }
        last = c;
    }
    let (inner, rest) = text.split_at(end.ok_or("unterminated filter")?);
    let rest = rest.strip_prefix(")]").ok_or("unclosed array expect ]")?;
    steps.push(PathStep::Filter(filter(inner)?));
    Ok(rest)
}

fn filter(text: &str) -> Result<Filter, String> {
    let is_operator = |c: char| "!<>=".contains(c);
    let left = text.find(is_operator).map_or(text, |at| &text[..at]);
    let right = text[left.len()..].trim_start_matches(is_operator);
    if left.is_empty() || right.is_empty() {
        return Ok(Filter { left: parse_steps(text)?, comparison: None });
    }
    let operator = text[left.len()..text.len() - right.len()].to_owned();
    if !["<", ">", "==", "!=", "<=", ">="].contains(&&*operator) {
        return Err(format!("unrecognized filter operator {operator}"));
    }
    Ok(Filter { left: parse_steps(left)?, comparison: Some((operator, parse_steps(right)?)) })
}

/// Reads up to the next `]`: an index, a slice, a key, or several of them.
fn parse_array<'a>(text: &'a str, steps: &mut Vec<PathStep>) -> Result<&'a str, String> {
    let (inner, rest) = text.split_once(']').ok_or("unterminated array")?;
    if inner.contains('\n') {
        return Err("unterminated array".to_owned());
    }
    if inner.contains(',') {
        let parts =
            inner.split(',').map(|part| parse_steps(&format!("[{}]", part.trim_matches(' '))));
        steps.push(PathStep::Union(parts.collect::<Result<_, _>>()?));
        return Ok(rest);
    }
    let key = inner.strip_prefix('\'').and_then(|key| key.strip_suffix('\''));
    match key.filter(|key| !key.contains('\'')) {
        Some(key) => steps.extend(parse_steps(&format!(".{key}"))?),
        None => steps.push(PathStep::Slice(slice(if inner == "*" { ":" } else { inner })?)),
    }
    Ok(rest)
}

fn slice(text: &str) -> Result<Slice, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let is_number = |part: &&str| {
        part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return Err(format!("invalid array index {text}"));
    }
    let number = |at: usize| match parts.get(at).filter(|part| !part.is_empty()) {
        None => Ok(None),
        Some(part) => {
            let number = part.parse::<i32>();
            number
                .map(|number| Some(number.into()))
                .map_err(|_| format!("array index {part} is not a number"))
        }
    };
    let (start, is_index) = (number(0)?, parts.len() == 1);
    let end = if is_index { Some(start.unwrap_or_default() + 1) } else { number(1)? };
    Ok(Slice { start, end, is_index, step: number(2)? })
}

fn parse_quoted<'a>(
    text: &'a str,
    quote: char,
    steps: &mut Vec<PathStep>,
) -> Result<&'a str, String> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => break,
            c if c == quote => {
                steps.push(PathStep::Literal(value.into()));
                return Ok(&text[at + 1..]);
            }
            '\\' => match chars.next() {
                Some((_, c @ ('\\' | '"' | '\''))) => value.push(c),
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                _ => return Err("unquote string: invalid syntax".to_owned()),
            },
            c => value.push(c),
        }
    }
    Err("unterminated quoted string".to_owned())
}

/// Reads a name up to the next terminator; a backslash escapes the next character.
fn parse_field<'a>(text: &'a str, steps: &mut Vec<PathStep>) -> &'a str {
    let (mut name, mut is_escaped, mut end) = (String::new(), false, text.len());
    for (at, c) in text.char_indices() {
        if !is_escaped && is_terminator(c) {
            end = at;
            break;
        }
        is_escaped = !is_escaped && c == '\\';
        if c != '\\' {
            name.push(c);
        }
    }
    let is_wildcard = &text[..end] == "*";
    steps.push(if is_wildcard { PathStep::Wildcard } else { PathStep::Field(name) });
    &text[end..]
}

fn parse_number<'a>(text: &'a str, steps: &mut Vec<PathStep>) -> Result<&'a str, String> {
    let digits = text.trim_start_matches(['+', '-']);
    let rest = digits.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let number = &text[..text.len() - rest.len()];
    let value = match number.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) => {
            number.parse::<f64>().map_err(|_| format!("cannot parse number {number}"))?.into()
        }
    };
    steps.push(PathStep::Literal(value));
    Ok(rest)
}

fn parse_word<'a>(text: &'a str, steps: &mut Vec<PathStep>) -> Result<&'a str, String> {
    let (word, rest) = text.split_at(text.find(is_terminator).unwrap_or(text.len()));
    let value = word.parse::<bool>().map_err(|_| format!("unrecognized identifier {word}"))?;
    steps.push(PathStep::Literal(value.into()));
    Ok(rest)
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn is_terminator(c: char) -> bool {
    " \t\r\n.,[]$@{}".contains(c)
}
