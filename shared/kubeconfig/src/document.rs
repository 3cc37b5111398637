//! Kubeconfig document: its text and its named entries.

use std::{collections::BTreeMap, io::ErrorKind, path::Path, result};

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    error::{ConfigError, Result},
    files::{NamedFiles, Reach, read_limited},
    secret::Data,
    yaml,
};

/// Go's decoder does not mind bits beyond the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// One kubeconfig. Its entries get their types when they are used: those of other contexts may be anything.
pub(crate) struct Kubeconfig<'a> {
    source: String,
    files: NamedFiles<'a>,
    pub(crate) current_context: String,
    /// By kind (`cluster`, `context` or `user`) and name.
    entries: BTreeMap<(&'static str, String), Map<String, Value>>,
}

impl Kubeconfig<'static> {
    pub(crate) fn read(path: &Path, reach: Reach) -> Result<Option<Self>> {
        let source = format!("kubeconfig {}", path.display());
        let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        match read_limited(path) {
            Ok(bytes) => {
                Self::parse(source, &bytes, NamedFiles::Directory(directory, reach)).map(Some)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ConfigError::of(&source, format!("cannot be read: {error}"))),
        }
    }
}

impl<'a> Kubeconfig<'a> {
    pub(crate) fn of_secret(name: &str, data: &'a Data) -> Result<Self> {
        let source = format!("Secret {name}");
        match data.get("kubeconfig") {
            Some(bytes) => Self::parse(source, bytes, NamedFiles::Keys(data)),
            None => Err(ConfigError::of(&source, "has no key \"kubeconfig\"".into())),
        }
    }

    fn parse(source: String, bytes: &[u8], files: NamedFiles<'a>) -> Result<Self> {
        let (current_context, entries) = (String::new(), BTreeMap::new());
        let mut document = Self { source, files, current_context, entries };
        match yaml::parse(bytes).and_then(|root| document.fill(root)) {
            Ok(()) => Ok(document),
            Err(what) => Err(document.fail(&what)),
        }
    }

    fn fill(&mut self, root: Value) -> result::Result<(), String> {
        let mut root = map(Some(root)).ok_or("is not a map of fields")?;
        for (field, known) in [("apiVersion", "v1"), ("kind", "Config")] {
            if !text(root.remove(field)).is_some_and(|found| found.is_empty() || found == known) {
                return Err(format!("is not a kubeconfig: its {field} is not {known}"));
            }
        }
        self.current_context =
            text(root.remove("current-context")).ok_or("has a current-context that is not text")?;
        for kind in ["cluster", "context", "user"] {
            let items = match root.remove(&format!("{kind}s")) {
                None => Vec::new(),
                Some(Value::Array(items)) => items,
                Some(_) => return Err(format!("has {kind}s that are not a list")),
            };
            for item in items {
                let (name, fields) = entry(kind, item).ok_or_else(|| {
                    format!("has a {kind} that is not a name and a map of fields")
                })?;
                // client-go refuses a name twice, used or not (api/v1/conversion.go:39).
                if self.entries.insert((kind, name.clone()), fields).is_some() {
                    return Err(format!("has two {kind}s named {name:?}"));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn entry<T: Default + DeserializeOwned>(
        &'a self,
        kind: &'static str,
        name: &str,
    ) -> Option<Result<NamedEntry<'a, T>>> {
        let ((kind, name), fields) = self.entries.get_key_value(&(kind, name.to_owned()))?;
        let mut entry = NamedEntry { document: Some(self), kind, name, value: T::default() };
        match typed(fields) {
            Ok(value) => entry.value = value,
            Err(what) => return Some(Err(entry.fail(&what))),
        }
        Some(Ok(entry))
    }

    pub(crate) fn fail(&self, what: &str) -> ConfigError {
        ConfigError::of(&self.source, what.to_owned())
    }

    pub(crate) fn nothing(&self) -> ConfigError {
        self.fail("has no configuration: no current-context with a cluster")
    }
}

/// A cluster, context or user; the default is a missing one, without fields.
#[derive(Default)]
pub(crate) struct NamedEntry<'a, T> {
    document: Option<&'a Kubeconfig<'a>>,
    kind: &'static str,
    pub(crate) name: &'a str,
    pub(crate) value: T,
}

impl<T> NamedEntry<'_, T> {
    pub(crate) fn fail(&self, what: &str) -> ConfigError {
        let source = self.document.map_or("kubeconfig", |document| &document.source);
        ConfigError::of_entry(source, &format!("{} {:?}", self.kind, self.name), what)
    }

    /// The bytes of `data`, the field `field-data`, or of the file `name`, that of `field`. A BOM before PEM
    /// would hide its first item.
    pub(crate) fn content(
        &self,
        field: &str,
        name: &str,
        data: &str,
    ) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let bytes = match (name, data) {
            ("", "") => return Ok(None),
            (name, "") => self.read(field, name)?,
            ("", data) => {
                let decoded = BASE64.decode(data.replace(['\r', '\n'], ""));
                let not_base64 = |_| self.fail(&format!("is unusable: {field}-data is not base64"));
                Zeroizing::new(decoded.map_err(not_base64)?)
            }
            _ => return Err(self.fail(&format!("has both {field} and {field}-data"))),
        };
        let bare = bytes.strip_prefix("\u{feff}".as_bytes()).map(<[u8]>::to_vec);
        Ok(Some(bare.map_or(bytes, Zeroizing::new)))
    }

    /// The content of the file or key `name`, the value of `field`.
    pub(crate) fn read(&self, field: &str, name: &str) -> Result<Zeroizing<Vec<u8>>> {
        let bytes = match self.document {
            Some(document) => document.files.read(field, name),
            None => Err("there is no such entry".into()),
        };
        // A value that does not look like a path may be a key or token in the wrong field.
        let is_path = name.len() <= 100 && name.contains(['/', '.']) && !name.contains(['\n', '~']);
        let shown = if is_path { name } else { "(not shown)" };
        bytes.map_err(|why| {
            self.fail(&format!("has a {field} {shown:?} that cannot be read: {why}"))
        })
    }
}

/// The typed form of `fields`, or the sentence about a field of another type: serde's would quote the value.
fn typed<T: DeserializeOwned>(fields: &Map<String, Value>) -> result::Result<T, String> {
    T::deserialize(fields).map_err(|_| {
        let alone =
            |(key, value): (&String, &Value)| Map::from_iter([(key.clone(), value.clone())]);
        let wrong = fields.iter().find(|field| T::deserialize(&alone(*field)).is_err());
        let field = wrong.map_or("a field", |(field, _)| field);
        let kind = match field {
            "insecure-skip-tls-verify" => "true or false",
            "as-groups" => "a list of texts",
            "as-user-extra" => "a map of lists of texts",
            _ => "text",
        };
        format!("is unusable: {field} is not {kind}")
    })
}

fn entry(kind: &str, item: Value) -> Option<(String, Map<String, Value>)> {
    let mut item = map(Some(item))?;
    Some((text(item.remove("name"))?, map(item.remove(kind))?))
}

/// A map or nothing, which is the empty map.
fn map(value: Option<Value>) -> Option<Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(map)) => Some(map),
        Some(_) => None,
    }
}

/// A text or nothing, which is the empty text.
fn text(value: Option<Value>) -> Option<String> {
    match value {
        None => Some(String::new()),
        Some(Value::String(text)) => Some(text),
        Some(_) => None,
    }
}
