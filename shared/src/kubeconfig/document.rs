//! One kubeconfig as text, its named entries, and the files that they name.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Read},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    result,
};

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// A kubeconfig has a few KiB; the limit bounds what a hostile one costs.
const LIMIT: usize = 1 << 20;

/// n aliases make a text less than e^(n/e) times longer, here 19 times. serde_yaml's limit bounds
/// their number but not the size: one long text and many aliases of it would need gigabytes.
const ALIASES: usize = 8;

/// Go's decoder does not mind bits beyond the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// One kubeconfig, parsed: every list is one of named maps.
pub(super) struct Document<'a> {
    source: String,
    files: Files<'a>,
    /// Empty if there is none.
    pub(super) current_context: String,
    entries: BTreeMap<(&'static str, String), Map<String, Value>>,
}

/// What the file names in a kubeconfig mean.
enum Files<'a> {
    /// Paths, relative ones from the directory of the kubeconfig (loader.go:606-631).
    Directory(PathBuf),
    /// Keys of the same Secret.
    Keys(&'a BTreeMap<String, Vec<u8>>),
}

impl Document<'static> {
    /// Reads a file; `None` if there is none.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let source = format!("kubeconfig {}", path.display());
        let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        match read_limited(path) {
            Ok(bytes) => Self::parse(source, &bytes, Files::Directory(directory)).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::BadConfig(format!("{source} cannot be read: {error}"))),
        }
    }
}

impl<'a> Document<'a> {
    /// Reads the key `kubeconfig` of a Secret.
    pub(super) fn of_secret(name: &str, data: &'a BTreeMap<String, Vec<u8>>) -> Result<Self> {
        let source = format!("Secret {name}");
        match data.get("kubeconfig") {
            Some(bytes) => Self::parse(source, bytes, Files::Keys(data)),
            None => Err(Error::BadConfig(format!("{source} has no key \"kubeconfig\""))),
        }
    }

    fn parse(source: String, bytes: &[u8], files: Files<'a>) -> Result<Self> {
        let mut document =
            Self { source, files, current_context: String::new(), entries: BTreeMap::new() };
        match parse_text(bytes).and_then(|root| document.fill(root)) {
            Ok(()) => Ok(document),
            Err(what) => Err(document.fail(&what)),
        }
    }

    fn fill(&mut self, root: Value) -> result::Result<(), String> {
        let mut root = object(root).ok_or("is not a map of fields")?;
        for (field, known) in [("apiVersion", "v1"), ("kind", "Config")] {
            if text(root.get(field)).is_none_or(|found| !["", known].contains(&found)) {
                return Err(format!("is not a kubeconfig: its {field} is not {known}"));
            }
        }
        let current =
            text(root.get("current-context")).ok_or("has a current-context that is not text")?;
        self.current_context = current.to_owned();
        for kind in ["cluster", "context", "user"] {
            let items = match root.remove(&format!("{kind}s")) {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Array(items)) => items,
                Some(_) => return Err(format!("has {kind}s that are not a list")),
            };
            for item in items {
                let (name, fields) = entry(kind, item).ok_or_else(|| {
                    format!(
                        "has a {kind} that is not a name and a map of fields (without merge keys)"
                    )
                })?;
                // client-go refuses a name twice, used or not (api/v1/conversion.go:39).
                if self.entries.insert((kind, name.clone()), fields).is_some() {
                    return Err(format!("has two {kind}s named {name:?}"));
                }
            }
        }
        Ok(())
    }

    /// The entry of that name in the list `clusters`, `contexts` or `users`.
    pub(super) fn entry(&'a self, kind: &'static str, name: &str) -> Option<Entry<'a>> {
        let ((kind, name), fields) = self.entries.get_key_value(&(kind, name.to_owned()))?;
        Some(Entry { of: Some((self, fields)), kind, name })
    }

    pub(super) fn fail(&self, what: &str) -> Error {
        Error::BadConfig(format!("{} {what}", self.source))
    }
}

/// A cluster, context or user; the default is one that is not there and has no fields.
#[derive(Default)]
pub(super) struct Entry<'a> {
    of: Option<(&'a Document<'a>, &'a Map<String, Value>)>,
    kind: &'static str,
    name: &'a str,
}

impl<'a> Entry<'a> {
    /// A sentence about this entry.
    pub(super) fn fail(&self, what: &str) -> Error {
        let source = self.of.map_or("kubeconfig", |(document, _)| &document.source);
        Error::BadConfig(format!("{source}: {} {:?} {what}", self.kind, self.name))
    }

    /// A field as it stands, unless it is null.
    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        self.of?.1.get(field).filter(|value| !value.is_null())
    }

    /// A text; an empty one is as good as none, as in Go.
    pub(super) fn text(&self, field: &str) -> Result<Option<&'a str>> {
        let text = text(self.value(field)).ok_or_else(|| self.wrong(field, "text"))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    pub(super) fn flag(&self, field: &str) -> Result<bool> {
        let flag = self.value(field).map_or(Some(false), Value::as_bool);
        flag.ok_or_else(|| self.wrong(field, "true or false"))
    }

    /// The bytes of `field-data`, or of the file that `field` names. A BOM before PEM would hide its
    /// first item.
    pub(super) fn content(&self, field: &str) -> Result<Option<Vec<u8>>> {
        let data = format!("{field}-data");
        let bytes = match (self.text(field)?, self.text(&data)?) {
            (None, None) => return Ok(None),
            (Some(name), None) => self.read(field, name)?,
            (None, Some(text)) => {
                let decoded = BASE64.decode(text.replace(['\r', '\n'], ""));
                decoded.map_err(|_| self.wrong(&data, "base64"))?
            }
            (Some(_), Some(_)) => return Err(self.fail(&format!("has both {field} and {data}"))),
        };
        let bare = bytes.strip_prefix("\u{feff}".as_bytes());
        Ok(Some(bare.unwrap_or(&bytes).to_vec()))
    }

    /// What the file or key `name` holds, which is the value of `field`.
    pub(super) fn read(&self, field: &str, name: &str) -> Result<Vec<u8>> {
        let bytes = match self.of.map(|(document, _)| &document.files) {
            Some(Files::Keys(data)) => {
                let key = Path::new(name).file_name().and_then(|key| key.to_str());
                let bytes = key.and_then(|key| data.get(key)).cloned();
                bytes.ok_or_else(|| "the Secret has no such key".to_owned())
            }
            Some(Files::Directory(directory)) => {
                read_limited(&directory.join(name)).map_err(|why| why.to_string())
            }
            None => Err("there is no such entry".to_owned()),
        };
        // What does not look like a path may be a key or token in the wrong field.
        let is_path = name.len() <= 100 && name.contains(['/', '.']) && !name.contains(['\n', '~']);
        let shown = if is_path { name } else { "(not shown)" };
        bytes.map_err(|why| {
            self.fail(&format!("has a {field} {shown:?} that cannot be read: {why}"))
        })
    }

    pub(super) fn wrong(&self, field: &str, kind: &str) -> Error {
        self.fail(&format!("is unusable: {field} is not {kind}"))
    }
}

/// Reads a file up to the limit.
pub(super) fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // To open a pipe would wait for whoever writes it.
    if fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe"));
    }
    File::open(path)?.take(LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > LIMIT {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

/// The text of a kubeconfig: JSON if it is (serde_yaml stumbles over surrogate pairs), else YAML. The
/// parser's own words may quote a credential, so only the place is told.
///
/// # Errors
/// What is wrong with it, to go on after its name.
pub fn parse_text(bytes: &[u8]) -> result::Result<Value, String> {
    let text = str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\0') {
        return Err("has a NUL byte".into());
    }
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(value);
    }
    if aliases(bytes) > ALIASES {
        return Err(format!("has more than {ALIASES} YAML aliases"));
    }
    serde_yaml::from_str(text).map_err(|error| match error.location() {
        Some(at) => format!("is not YAML: line {}, column {}", at.line(), at.column()),
        None => "is not one YAML document without tags".into(),
    })
}

/// At least as many as there are: `*` where a value can begin, before what a name can begin with.
fn aliases(text: &[u8]) -> usize {
    let begins = |byte: u8| !byte.is_ascii() || b" \t\r\n,:[{".contains(&byte);
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let alias = |at: &&[u8]| at[1] == b'*' && begins(at[0]) && named(at[2]);
    text.windows(3).filter(alias).count()
}

fn entry(kind: &str, item: Value) -> Option<(String, Map<String, Value>)> {
    let mut item = object(item)?;
    let fields = object(item.remove(kind).unwrap_or_default())?;
    Some((text(item.get("name"))?.to_owned(), fields))
}

/// serde_yaml leaves the merge key `<<` to its caller: to ignore it would lose fields in silence.
fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Null => Some(Map::new()),
        Value::Object(map) if !map.contains_key("<<") => Some(map),
        _ => None,
    }
}

/// A text or nothing, which is the empty text.
fn text(value: Option<&Value>) -> Option<&str> {
    value.filter(|value| !value.is_null()).map_or(Some(""), Value::as_str)
}
