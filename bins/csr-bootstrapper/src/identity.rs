//! The two names that make up the agent's user on the hub, and where they come from.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use ring::rand::{SecureRandom, SystemRandom};
use shared::{
    error::{Error, Result},
    resource::valid_label,
    secret::Data,
};

/// Prefix of every user and group of Open Cluster Management's agents.
const PREFIX: &str = "system:open-cluster-management:";
/// The group of all agents (ocm `pkg/registration/register/csr/csr.go:429-482`).
const ALL_CLUSTERS: &str = "system:open-cluster-management:managed-clusters";
/// The keys of the Secrets and the files, as upstream writes them.
pub(crate) const CLUSTER_NAME: &str = "cluster-name";
pub(crate) const AGENT_NAME: &str = "agent-name";
/// Of upstream's names for agents (apimachinery `util/rand`).
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// What a file may have at most: a Secret has no more.
const LIMIT: u64 = 1 << 20;

/// Who this agent is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentNames {
    pub(crate) cluster: String,
    pub(crate) agent: String,
}

impl AgentNames {
    /// The user on the hub: the common name of the certificate.
    pub(crate) fn user(&self) -> String {
        format!("{PREFIX}{}:{}", self.cluster, self.agent)
    }

    /// Its groups, sorted: the organizations of the certificate.
    pub(crate) fn groups(&self) -> [String; 2] {
        let mut groups = [format!("{PREFIX}{}", self.cluster), ALL_CLUSTERS.to_owned()];
        groups.sort();
        groups
    }
}

/// All that may say a name. Of each name the first that does counts, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NameSources<'a> {
    /// -cluster-name and -agent-id.
    pub(crate) flags: (Option<&'a str>, Option<&'a str>),
    /// The Secret with the credential.
    pub(crate) secret: Option<&'a Data>,
    /// The files of -hub-kubeconfig-dir.
    pub(crate) directory: Option<&'a Data>,
    /// The Secret of a request that is under way.
    pub(crate) pending: Option<&'a Data>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedNames {
    pub(crate) names: AgentNames,
    /// A name was made, because none was known.
    pub(crate) made: bool,
    /// What was passed over and why, for the log.
    pub(crate) ignored: Vec<String>,
}

/// The bytes that new names are made of.
pub(crate) type RandomBytes = [u8; 26];

/// New bytes. A cluster that takes the name of another would take its place on the hub; what is left of a
/// clock in cheaper sources may be the same on many machines of one image.
///
/// # Errors
/// `BadConfig` if the system has none.
pub(crate) fn random() -> Result<RandomBytes> {
    let mut bytes = RandomBytes::default();
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::bad_config("the system has no random numbers"))?;
    Ok(bytes)
}

/// Finds both names, or makes them of `random`. The certificate is not asked, as in upstream since v0.15:
/// what it says of other names is a reason for another one.
pub(crate) fn resolve(known: &NameSources<'_>, random: &RandomBytes) -> ResolvedNames {
    let mut ignored = Vec::new();
    let cluster = find(known, known.flags.0, (CLUSTER_NAME, valid_cluster), &mut ignored);
    let agent = find(known, known.flags.1, (AGENT_NAME, valid_agent), &mut ignored);
    let made = cluster.is_none() || agent.is_none();
    let names = AgentNames {
        cluster: cluster.unwrap_or_else(|| uuid(random)),
        agent: agent.unwrap_or_else(|| letters(random)),
    };
    ResolvedNames { names, made, ignored }
}

/// Whether `name` can be a cluster's: its namespace on the hub has the same.
///
/// # Errors
/// What is wrong, to go on after the name.
pub(crate) fn valid_cluster(name: &str) -> std::result::Result<(), &'static str> {
    match valid_label(name) {
        true => Ok(()),
        false => Err("is not the name of a namespace: 1 to 63 of a-z, 0-9 and - (not at the ends)"),
    }
}

/// Whether `name` can be an agent's. Upstream takes any; with a colon the hub would recognise no request,
/// as it splits the user there.
///
/// # Errors
/// What is wrong, to go on after the name.
pub(crate) fn valid_agent(name: &str) -> std::result::Result<(), &'static str> {
    let printable = !name.chars().any(|c| c.is_control() || c == ':');
    match printable && (1..=253).contains(&name.len()) && name.trim() == name {
        true => Ok(()),
        false => Err("is not an agent's name: 1 to 253 printable bytes without a colon"),
    }
}

type Check = fn(&str) -> std::result::Result<(), &'static str>;

fn find(
    known: &NameSources<'_>,
    flag: Option<&str>,
    (key, check): (&str, Check),
    ignored: &mut Vec<String>,
) -> Option<String> {
    if let Some(name) = flag.map(str::trim).filter(|name| !name.is_empty()) {
        return Some(name.to_owned());
    }
    let places = [
        ("the Secret", known.secret),
        ("the directory", known.directory),
        ("the pending request", known.pending),
    ];
    for (place, data) in places {
        let Some(value) = data.and_then(|data| data.get(key)) else { continue };
        match usable(value, check) {
            Ok(name) => return Some(name),
            Err(what) => ignored.push(format!("{key} of {place} {what}")),
        }
    }
    None
}

fn usable(value: &[u8], check: Check) -> std::result::Result<String, String> {
    let name = str::from_utf8(value).map_err(|_| "is not UTF-8")?.trim();
    if name.is_empty() {
        return Err("is empty".into());
    }
    // Whatever it is, a line of the log is enough for it.
    let shown: String = name.chars().take(64).collect();
    check(name).map_err(|what| format!("is {shown:?}, which {what}"))?;
    Ok(name.to_owned())
}

/// The files of `directory`; what cannot be read is not there.
pub(crate) fn in_directory(directory: &Path) -> Data {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let named =
        |path: PathBuf| Some((path.file_name()?.to_str()?.to_owned(), read(&path).ok()?.into()));
    // Those of two dots are hub-kubeconfig-dumper's own.
    paths.filter_map(named).filter(|(name, _)| !name.starts_with("..")).collect()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // To open a pipe would wait for whoever writes it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LIMIT {
        true => Err(io::Error::other("it is larger than 1 MiB")),
        false => Ok(bytes),
    }
}

/// A UUID of version 4 (RFC 9562).
fn uuid(random: &RandomBytes) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&random[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Five letters; two bytes for each, so that none is much likelier than others.
fn letters(random: &RandomBytes) -> String {
    let letter = |pair: &[u8]| {
        let number = pair.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        char::from(LETTERS[number % LETTERS.len()])
    };
    random[16..].chunks(2).map(letter).collect()
}

#[cfg(test)]
mod tests;
