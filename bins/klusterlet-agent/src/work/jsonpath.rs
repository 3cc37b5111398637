//! JSONPath in the dialect of client-go (`util/jsonpath`), without the braces; missing keys are allowed.
//!
//! Templates are not supported: text, `range` and `end` are refused.

mod parse;

use std::ptr;

use serde_json::Value;

use self::parse::{Filter, PathStep, Slice, parse_steps};

/// Maximum length of a path, in bytes.
const MAX_LENGTH: usize = 4096;
/// How many values the searches in one manifest may visit: unions and descents multiply visits, and paths may be many.
pub(crate) const MAX_VISITS: usize = 200_000;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<PathStep>);

impl JsonPath {
    /// # Errors
    /// Why the path is invalid, in client-go's words.
    pub fn parse(path: &str) -> Result<Self, String> {
        if path.len() > MAX_LENGTH {
            return Err(format!("a path must have at most {MAX_LENGTH} bytes"));
        }
        parse_steps(path).map(Self)
    }

    /// Returns the values at the path, none for missing keys. `visits` counts the visited values of all searches.
    ///
    /// # Errors
    /// Why the path does not fit the object, in client-go's words.
    pub fn find<'a>(
        &'a self,
        object: &'a Value,
        visits: &mut usize,
    ) -> Result<Vec<&'a Value>, String> {
        Search { visits }.walk(vec![object], &self.0)
    }

    /// Removes the fields at the path. Items of lists stay.
    ///
    /// # Errors
    /// Why the path does not fit the object.
    pub fn remove(&self, object: &mut Value, visits: &mut usize) -> Result<(), String> {
        let Some((PathStep::Field(key), parents)) = self.0.split_last() else { return Ok(()) };
        let found = Search { visits }.walk(vec![object], parents)?;
        let mut found: Vec<*const Value> = found.into_iter().map(ptr::from_ref).collect();
        found.sort_unstable();
        found.dedup();
        remove_below(object, &found, key);
        Ok(())
    }
}

/// Removes `key` from the maps in `found`, which is sorted. Children come first: a removal moves its neighbours in the
/// same map.
fn remove_below(value: &mut Value, found: &[*const Value], key: &str) {
    let here = ptr::from_ref(value);
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|child| remove_below(child, found, key));
            if found.binary_search(&here).is_ok() {
                fields.remove(key);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove_below(item, found, key)),
        _ => {}
    }
}

/// One search, which counts the visited values.
struct Search<'v> {
    visits: &'v mut usize,
}

impl Search<'_> {
    fn walk<'a>(
        &mut self,
        input: Vec<&'a Value>,
        steps: &'a [PathStep],
    ) -> Result<Vec<&'a Value>, String> {
        let mut values = input;
        for step in steps {
            if let PathStep::Literal(literal) = step {
                values = vec![literal];
                continue;
            }
            let mut found = Vec::new();
            for value in &values {
                self.take(value, step, &mut found)?;
            }
            values = found;
        }
        Ok(values)
    }

    /// Takes one step from one value.
    fn take<'a>(
        &mut self,
        value: &'a Value,
        step: &'a PathStep,
        found: &mut Vec<&'a Value>,
    ) -> Result<(), String> {
        self.visit(1)?;
        match step {
            PathStep::Field(name) => found.extend(value.get(name)),
            PathStep::Wildcard => {
                found.extend(children(value));
                self.visit(children(value).count())?;
            }
            PathStep::Descent => self.descend(value, found)?,
            PathStep::Slice(slice) => {
                let items = slice.of(value)?;
                self.visit(items.len())?;
                found.extend(items);
            }
            PathStep::Union(parts) => {
                for part in parts {
                    found.extend(self.walk(vec![value], part)?);
                }
            }
            PathStep::Filter(filter) => {
                let Value::Array(items) = value else {
                    let kind = type_name(value);
                    return Err(format!("{kind} is not array or slice and cannot be filtered"));
                };
                for item in items {
                    if self.passes(item, filter)? {
                        found.push(item);
                    }
                }
            }
            PathStep::Literal(literal) => found.push(literal),
        }
        Ok(())
    }

    fn descend<'a>(&mut self, value: &'a Value, found: &mut Vec<&'a Value>) -> Result<(), String> {
        self.visit(1)?;
        if children(value).next().is_some() {
            found.push(value);
        }
        children(value).try_for_each(|child| self.descend(child, found))
    }

    fn passes(&mut self, item: &Value, filter: &Filter) -> Result<bool, String> {
        self.visit(1)?;
        let left = self.walk(vec![item], &filter.left);
        let Some((operator, right)) = &filter.comparison else {
            return Ok(left.is_ok_and(|left| !left.is_empty()));
        };
        let (left, right) = (left?, self.walk(vec![item], right)?);
        match (&*left, &*right) {
            ([], _) | (_, []) => Ok(false),
            ([left], [right]) => compare(left, operator, right),
            _ => Err("can only compare one element at a time".to_owned()),
        }
    }

    fn visit(&mut self, values: usize) -> Result<(), String> {
        *self.visits = self.visits.saturating_add(values);
        match *self.visits > MAX_VISITS {
            true => Err(format!("the search visits more than {MAX_VISITS} values")),
            false => Ok(()),
        }
    }
}

impl Slice {
    fn of(self, value: &Value) -> Result<Vec<&Value>, String> {
        let items = match value {
            Value::Array(items) => items,
            Value::Null => return Ok(Vec::new()),
            other => return Err(format!("{} is not array or slice", type_name(other))),
        };
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let start = self.start.unwrap_or(0);
        let start = if start < 0 { start + length } else { start };
        let end = self.end.unwrap_or(length);
        let end = if end < 0 || (end == 0 && self.is_index) { end + length } else { end };
        if start == end {
            return Ok(Vec::new());
        }
        let outside =
            |index: i64| Err(format!("array index out of bounds: index {index}, length {length}"));
        match (usize::try_from(start), usize::try_from(end), self.step.unwrap_or(1)) {
            (Ok(from), _, _) if from >= items.len() => outside(start),
            (Err(_), ..) => outside(start),
            (_, Ok(to), _) if to > items.len() => outside(end - 1),
            (_, Err(_), _) => outside(end - 1),
            (Ok(from), Ok(to), _) if from > to => {
                Err(format!("starting index {start} is greater than ending index {end}"))
            }
            (Ok(from), Ok(to), step) => match usize::try_from(step) {
                Ok(step @ 1..) => Ok(items[from..to].iter().step_by(step).collect()),
                _ => Err("step must be > 0".to_owned()),
            },
        }
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(items) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Compares like Go templates: both values must have the same basic type.
fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, String> {
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => match operator {
            "==" | "!=" => Some(left.cmp(right)),
            _ => return Err("invalid type for comparison".to_owned()),
        },
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
            _ => return Err("incompatible types for comparison".to_owned()),
        },
        (Value::Null | Value::Array(_) | Value::Object(_), _)
        | (_, Value::Null | Value::Array(_) | Value::Object(_)) => {
            return Err("invalid type for comparison".to_owned());
        }
        _ => return Err("incompatible types for comparison".to_owned()),
    };
    Ok(order.is_some_and(|order| match operator {
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<=" => order.is_le(),
        _ => order.is_ge(),
    }))
}

/// Returns Go's name of the type that client-go decodes a value into.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests;
