//! Kubeconfig document: its source and its named entries.

use std::{
    collections::BTreeSet,
    io::ErrorKind,
    path::{Path, PathBuf},
    result,
};

use base64::{
    Engine, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    config::{ConfigError, Result},
    files::{NamedFiles, read_limited},
    secret::Data,
    yaml,
};

/// Like Go's decoder, ignores bits beyond the last byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The fields that are used, as in client-go's `tools/clientcmd/api/v1/types.go`. Empty means absent.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Config {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    current_context: String,
    clusters: Vec<NamedEntry>,
    contexts: Vec<NamedEntry>,
    users: Vec<NamedEntry>,
}

/// NamedCluster, NamedContext or NamedAuthInfo. Its fields are checked on use, so that an invalid entry of another
/// context does no harm.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedEntry {
    name: String,
    #[serde(alias = "cluster", alias = "context", alias = "user")]
    fields: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct Cluster {
    pub(crate) server: String,
    pub(crate) tls_server_name: String,
    pub(crate) insecure_skip_tls_verify: bool,
    pub(crate) certificate_authority: String,
    pub(crate) certificate_authority_data: String,
    pub(crate) proxy_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct AuthInfo {
    pub(crate) client_certificate: String,
    pub(crate) client_certificate_data: String,
    pub(crate) client_key: String,
    pub(crate) client_key_data: String,
    pub(crate) token: String,
    #[serde(rename = "tokenFile")]
    pub(crate) token_file: String,
    #[serde(flatten)]
    pub(crate) other: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Context {
    pub(crate) cluster: String,
    pub(crate) user: String,
    pub(crate) namespace: String,
}

pub(crate) struct Kubeconfig<'a> {
    source: String,
    files: NamedFiles<'a>,
    config: Config,
}

impl Kubeconfig<'static> {
    pub(crate) fn empty() -> Self {
        let (source, files) = ("kubeconfig".to_owned(), NamedFiles::Anywhere(PathBuf::new()));
        Self { source, files, config: Config::default() }
    }

    /// Reads a file, which may name others as `files` allows; `None` if it does not exist.
    pub(crate) fn read(
        path: &Path,
        files: fn(PathBuf) -> NamedFiles<'static>,
    ) -> Result<Option<Self>> {
        let source = format!("kubeconfig {}", path.display());
        let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
        match read_limited(path) {
            Ok(bytes) => Self::parse(source, &bytes, files(directory)).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ConfigError::of(&source, &format!("cannot be read: {error}"))),
        }
    }
}

impl<'a> Kubeconfig<'a> {
    pub(crate) fn of_secret(name: &str, data: &'a Data) -> Result<Self> {
        let source = format!("Secret {name}");
        match data.get("kubeconfig") {
            Some(bytes) => Self::parse(source, bytes, NamedFiles::Keys(data)),
            None => Err(ConfigError::of(&source, "has no key \"kubeconfig\"")),
        }
    }

    fn parse(source: String, bytes: &[u8], files: NamedFiles<'a>) -> Result<Self> {
        let config = config(bytes).map_err(|what| ConfigError::of(&source, &what))?;
        Ok(Self { source, files, config })
    }

    /// The current context, or an empty one.
    pub(crate) fn context(&self) -> Result<Context> {
        let name = &self.config.current_context;
        if name.is_empty() {
            return Ok(Context::default());
        }
        let missing = || self.fail(&format!("has no context {name:?}, which is its current one"));
        let context = self.entry("context", &self.config.contexts, name)?.ok_or_else(missing)?;
        Ok(context.value)
    }

    pub(crate) fn cluster(&self, name: &str) -> Result<Option<Entry<'_, Cluster>>> {
        self.entry("cluster", &self.config.clusters, name)
    }

    /// A missing user is anonymous, not an error (client_config.go:510-519).
    pub(crate) fn user(&self, name: &str) -> Result<Entry<'_, AuthInfo>> {
        let user = self.entry("user", &self.config.users, name)?;
        Ok(user.unwrap_or_else(|| self.missing()))
    }

    /// Stands for an entry that does not exist: all fields are empty.
    pub(crate) fn missing<T: Default>(&self) -> Entry<'_, T> {
        Entry { subject: self.source.clone(), files: &self.files, value: T::default() }
    }

    fn entry<T: DeserializeOwned>(
        &self,
        kind: &str,
        entries: &[NamedEntry],
        name: &str,
    ) -> Result<Option<Entry<'_, T>>> {
        let Some(entry) = entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
        let subject = format!("{}: {kind} {name:?}", self.source);
        match typed(&entry.fields) {
            Ok(value) => Ok(Some(Entry { subject, files: &self.files, value })),
            Err(what) => Err(ConfigError::of(&subject, &format!("is unusable: {what}"))),
        }
    }

    fn fail(&self, what: &str) -> ConfigError {
        ConfigError::of(&self.source, what)
    }

    pub(crate) fn nothing(&self) -> ConfigError {
        self.fail("has no configuration: no current-context with a cluster")
    }
}

fn config(bytes: &[u8]) -> result::Result<Config, String> {
    let fields = match yaml::parse(bytes)? {
        Value::Null => Map::new(),
        Value::Object(fields) => fields,
        _ => return Err("is not a map of fields".into()),
    };
    let config: Config = typed(&fields).map_err(|what| format!("is not a kubeconfig: {what}"))?;
    let Config { api_version, kind, clusters, contexts, users, .. } = &config;
    for (field, found, known) in [("apiVersion", api_version, "v1"), ("kind", kind, "Config")] {
        if !found.is_empty() && found != known {
            return Err(format!("is not a kubeconfig: its {field} is not {known}"));
        }
    }
    for (kind, entries) in [("clusters", clusters), ("contexts", contexts), ("users", users)] {
        // client-go refuses duplicate names, used or not (api/v1/conversion.go:39).
        let mut names = BTreeSet::new();
        if let Some(entry) = entries.iter().find(|entry| !names.insert(&entry.name)) {
            return Err(format!("has two {kind} named {:?}", entry.name));
        }
    }
    Ok(config)
}

/// Parses `fields`. The error names the field of the wrong type; serde's own error would quote its value.
fn typed<T: DeserializeOwned>(fields: &Map<String, Value>) -> result::Result<T, String> {
    T::deserialize(fields).map_err(|_| {
        let alone =
            |(key, value): (&String, &Value)| Map::from_iter([(key.clone(), value.clone())]);
        let wrong = fields.iter().find(|field| T::deserialize(&alone(*field)).is_err());
        let field = wrong.map_or("a field", |(field, _)| field);
        let kind = match field {
            "insecure-skip-tls-verify" => "true or false",
            "clusters" | "contexts" | "users" => "a list of names with their fields",
            _ => "text",
        };
        format!("{field} must be {kind}")
    })
}

pub(crate) struct Entry<'a, T> {
    /// The file or Secret, then kind and name of the entry.
    subject: String,
    files: &'a NamedFiles<'a>,
    pub(crate) value: T,
}

impl<T> Entry<'_, T> {
    pub(crate) fn fail(&self, what: &str) -> ConfigError {
        ConfigError::of(&self.subject, what)
    }

    /// The bytes of `data` (the field `field-data`), or of the file `name` (the field `field`), without a BOM: it would
    /// hide the first PEM item.
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

    /// The content of the file or key `name`, which `field` names.
    pub(crate) fn read(&self, field: &str, name: &str) -> Result<Zeroizing<Vec<u8>>> {
        // A value that does not look like a path may be a secret in the wrong field: it stays out of the error.
        let is_path = name.len() <= 100 && name.contains(['/', '.']) && !name.contains(['\n', '~']);
        let shown = if is_path { name } else { "(not shown)" };
        self.files.read(field, name).map_err(|why| {
            self.fail(&format!("has a {field} {shown:?} that cannot be read: {why}"))
        })
    }
}
