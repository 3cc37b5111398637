//! Kubeconfig document: its text, its named entries, and the files that they name.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Read},
    os::unix::fs::FileTypeExt,
    path::{Component, Path, PathBuf},
    result,
};

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    error::{ConfigError, Result},
    secret::Data,
    yaml::{self, YamlError},
};

/// The size limit of a kubeconfig: it has a few KiB, and a hostile one costs no more.
const LIMIT: usize = 1 << 20;

/// Its memory limit, in bytes: some 1,500 clusters, contexts and users, or one large authority.
const BUDGET: usize = 3 << 20;

/// Go's decoder does not mind bits beyond the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// One kubeconfig, parsed: every list is one of named maps.
pub(super) struct Kubeconfig<'a> {
    source: String,
    files: Files<'a>,
    /// Empty if there is none.
    pub(super) current_context: String,
    entries: BTreeMap<(&'static str, String), Map<String, Value>>,
}

/// The meaning of the file names in a kubeconfig.
enum Files<'a> {
    /// Paths, relative ones from the directory of the kubeconfig (loader.go:606-631).
    Directory(PathBuf, Reach),
    /// Keys of the same Secret.
    Keys(&'a Data),
}

/// The files that a kubeconfig may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any file: the kubeconfig is the administrator's own.
    Anywhere,
    /// Files of its own directory. The kubeconfig may come from a Secret, whose writer chooses the server
    /// and must not get the pod's own token, for example. Only the authority of the pod's own cluster,
    /// which is no secret, may be named elsewhere.
    Beside,
}

/// The authority of its cluster in every pod (kubernetes `plugin/pkg/admission/serviceaccount`,
/// DefaultAPITokenMountPath; `/var/run` is a link to `/run`).
const CLUSTER_AUTHORITIES: [&str; 2] = [
    "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
    "/run/secrets/kubernetes.io/serviceaccount/ca.crt",
];

impl Kubeconfig<'static> {
    /// Reads a file; `None` if there is none.
    pub(super) fn read(path: &Path, reach: Reach) -> Result<Option<Self>> {
        let source = format!("kubeconfig {}", path.display());
        let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        match read_limited(path) {
            Ok(bytes) => Self::parse(source, &bytes, Files::Directory(directory, reach)).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ConfigError::of(&source, format!("cannot be read: {error}"))),
        }
    }
}

impl<'a> Kubeconfig<'a> {
    /// Reads the key `kubeconfig` of a Secret.
    pub(super) fn of_secret(name: &str, data: &'a Data) -> Result<Self> {
        let source = format!("Secret {name}");
        match data.get("kubeconfig") {
            Some(bytes) => Self::parse(source, bytes, Files::Keys(data)),
            None => Err(ConfigError::of(&source, "has no key \"kubeconfig\"".into())),
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
    pub(super) fn entry(&'a self, kind: &'static str, name: &str) -> Option<NamedEntry<'a>> {
        let ((kind, name), fields) = self.entries.get_key_value(&(kind, name.to_owned()))?;
        Some(NamedEntry { of: Some((self, fields)), kind, name })
    }

    pub(super) fn fail(&self, what: &str) -> ConfigError {
        ConfigError::of(&self.source, what.to_owned())
    }
}

/// A cluster, context or user; the default is a missing one, without fields.
#[derive(Default)]
pub(super) struct NamedEntry<'a> {
    of: Option<(&'a Kubeconfig<'a>, &'a Map<String, Value>)>,
    kind: &'static str,
    name: &'a str,
}

impl<'a> NamedEntry<'a> {
    /// An error about this entry.
    pub(super) fn fail(&self, what: &str) -> ConfigError {
        let source = self.of.map_or("kubeconfig", |(document, _)| &document.source);
        let entry = format!("{} {:?}", self.kind, self.name);
        ConfigError::of_entry(source, &entry, what)
    }

    /// The value of a field, unless it is null.
    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        self.of?.1.get(field).filter(|value| !value.is_null())
    }

    /// The text of a field; an empty one counts as none, as in Go.
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
    pub(super) fn content(&self, field: &str) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let data = format!("{field}-data");
        let bytes = match (self.text(field)?, self.text(&data)?) {
            (None, None) => return Ok(None),
            (Some(name), None) => self.read(field, name)?,
            (None, Some(text)) => {
                let decoded = BASE64.decode(text.replace(['\r', '\n'], ""));
                decoded.map(Zeroizing::new).map_err(|_| self.wrong(&data, "base64"))?
            }
            (Some(_), Some(_)) => return Err(self.fail(&format!("has both {field} and {data}"))),
        };
        let bare = bytes.strip_prefix("\u{feff}".as_bytes()).map(<[u8]>::to_vec);
        Ok(Some(bare.map_or(bytes, Zeroizing::new)))
    }

    /// The content of the file or key `name`, the value of `field`.
    pub(super) fn read(&self, field: &str, name: &str) -> Result<Zeroizing<Vec<u8>>> {
        let files = self.of.map(|(document, _)| &document.files);
        let of_cluster = field == "certificate-authority" && CLUSTER_AUTHORITIES.contains(&name);
        let bytes = match files {
            Some(Files::Keys(data)) => {
                let key = Path::new(name).file_name().and_then(|key| key.to_str());
                match key.and_then(|key| data.get(key)) {
                    Some(bytes) => Ok(bytes.clone()),
                    None if of_cluster => read_limited(Path::new(name)).map_err(|e| e.to_string()),
                    None => Err("the Secret has no such key".to_owned()),
                }
            }
            Some(Files::Directory(directory, reach)) => {
                let path = directory.join(name);
                let own = || is_beside(name, directory) && !is_of_account(&path);
                match of_cluster || *reach == Reach::Anywhere || own() {
                    true => read_limited(&path).map_err(|why| why.to_string()),
                    false => Err("it is not in the directory of the kubeconfig, see \
                        -kubeconfig-files-anywhere"
                        .to_owned()),
                }
            }
            None => Err("there is no such entry".to_owned()),
        };
        // A value that does not look like a path may be a key or token in the wrong field.
        let is_path = name.len() <= 100 && name.contains(['/', '.']) && !name.contains(['\n', '~']);
        let shown = if is_path { name } else { "(not shown)" };
        bytes.map_err(|why| {
            self.fail(&format!("has a {field} {shown:?} that cannot be read: {why}"))
        })
    }

    pub(super) fn wrong(&self, field: &str, kind: &str) -> ConfigError {
        self.fail(&format!("is unusable: {field} is not {kind}"))
    }
}

/// Returns whether `name` leads to a file in `directory` or below, by its components alone: links there are
/// the directory owner's.
fn is_beside(name: &str, directory: &Path) -> bool {
    let inside = |path: &Path| {
        path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    };
    match Path::new(name) {
        // Everything is below the root.
        _ if std::path::absolute(directory).is_ok_and(|path| path.parent().is_none()) => false,
        path if path.is_absolute() => std::path::absolute(directory)
            .is_ok_and(|directory| path.strip_prefix(directory).is_ok_and(inside)),
        path => inside(path),
    }
}

/// Returns whether a file belongs to the pod's own identity, wherever the kubeconfig is.
fn is_of_account(path: &Path) -> bool {
    let path = path.canonicalize();
    let folders = CLUSTER_AUTHORITIES.iter().filter_map(|file| Path::new(file).parent());
    path.is_ok_and(|path| folders.into_iter().any(|folder| path.starts_with(folder)))
}

/// Reads a file up to the limit.
pub(super) fn read_limited(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    // Opening a pipe would wait for a writer.
    if fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe"));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    File::open(path)?.take(LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > LIMIT {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

/// Parses the text of a kubeconfig, YAML or JSON. A parser's own words may quote a credential, so the
/// error has only the place.
///
/// # Errors
/// The problem, as the predicate of a sentence about it.
pub fn parse_text(bytes: &[u8]) -> result::Result<Value, String> {
    let text = str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\0') {
        return Err("has a NUL byte".into());
    }
    match yaml::parse(text, BUDGET) {
        Ok(value) => Ok(value),
        Err(YamlError::Syntax(line, column)) => {
            Err(format!("is not YAML: line {line}, column {column}"))
        }
        Err(YamlError::Unusual) => {
            Err("is not one YAML document of maps, lists and texts, without tags".into())
        }
        Err(YamlError::TooLarge) => Err(format!("needs more than {} KiB of memory", BUDGET >> 10)),
    }
}

fn entry(kind: &str, item: Value) -> Option<(String, Map<String, Value>)> {
    let mut item = object(item)?;
    let fields = object(item.remove(kind).unwrap_or_default())?;
    Some((text(item.get("name"))?.to_owned(), fields))
}

/// The merge key `<<` is not resolved: ignoring it would silently lose fields.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_beside_the_kubeconfig_cannot_lead_elsewhere() {
        let directory = Path::new("/spoke/hub");
        for good in
            ["tls.crt", "./tls.crt", "certs/tls.crt", "/spoke/hub/tls.crt", "/spoke/hub/a/b"]
        {
            assert!(is_beside(good, directory), "{good}");
        }
        for bad in [
            "../tls.crt",
            "a/../../b",
            "/etc/passwd",
            "/spoke/hub2/tls.crt",
            "/spoke/hub/../x",
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
        ] {
            assert!(!is_beside(bad, directory), "{bad}");
        }
        for name in ["tls.crt", "/tls.crt", "var/run/secrets/x"] {
            assert!(!is_beside(name, Path::new("/")), "{name}");
        }
        let here = std::env::current_dir().unwrap();
        assert!(is_beside(here.join("x/a").to_str().unwrap(), Path::new("x")));
    }
}
