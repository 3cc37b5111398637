//! Identity of the agent: the two names that make up its user on the hub, from the first source that has them.

use apiclient::{
    error::{Error, Result},
    resource::valid_label,
};
use kubeconfig::secret::Data;
use ring::rand::{SecureRandom, SystemRandom};

const PREFIX: &str = "system:open-cluster-management:";
/// The group of all agents (ocm `pkg/registration/register/csr/csr.go:429-482`).
const ALL_CLUSTERS: &str = "system:open-cluster-management:managed-clusters";
/// Keys of the names in Secrets, as in upstream.
pub const CLUSTER_NAME: &str = "cluster-name";
pub const AGENT_NAME: &str = "agent-name";
/// Letters of upstream's agent names (apimachinery `util/rand`).
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentNames {
    pub cluster: String,
    pub agent: String,
}

impl AgentNames {
    pub fn user(&self) -> String {
        format!("{PREFIX}{}:{}", self.cluster, self.agent)
    }

    /// Returns the agent's groups, sorted: the organizations of the certificate.
    pub fn groups(&self) -> [String; 2] {
        let mut groups = [format!("{PREFIX}{}", self.cluster), ALL_CLUSTERS.to_owned()];
        groups.sort_unstable();
        groups
    }
}

pub fn said(data: &Data, key: &str, name: &str) -> bool {
    data.get(key).is_some_and(|value| value.trim_ascii_end() == name.as_bytes())
}

pub type RandomBytes = [u8; 26];

/// Returns new random bytes. Clusters with one name would replace each other on the hub. A cheaper source, such as a
/// clock, may be the same on many machines with one image.
pub fn random() -> Result<RandomBytes> {
    let mut bytes = RandomBytes::default();
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::bad_config("the system has no random numbers"))?;
    Ok(bytes)
}

/// Returns both names: each from its flag, else from the first place in `stored` that has it, else a new one from
/// `random`. Also returns ignored values, with the reasons. As in upstream since v0.15, the certificate is not a
/// source: other names in it are a reason for another certificate.
pub fn resolve(
    [cluster, agent]: [Option<&str>; 2],
    stored: &[(&str, Option<&Data>)],
    random: &RandomBytes,
) -> (AgentNames, Vec<String>) {
    let mut ignored = Vec::new();
    let mut find = |flag: Option<&str>, key: &str, check: Check| {
        if flag.is_some() {
            return flag.map(str::to_owned);
        }
        for (place, data) in stored {
            match data.and_then(|data| data.get(key)).map(|value| usable(value, check)) {
                Some(Ok(name)) => return Some(name),
                Some(Err(what)) => ignored.push(format!("{key} of {place} {what}")),
                None => {}
            }
        }
        None
    };
    let cluster = find(cluster, CLUSTER_NAME, valid_cluster).unwrap_or_else(|| uuid(random));
    let agent = find(agent, AGENT_NAME, valid_agent).unwrap_or_else(|| letters(random));
    (AgentNames { cluster, agent }, ignored)
}

/// Validates the name of a cluster, whose namespace has the same name; the error is a predicate about the name.
pub fn valid_cluster(name: &str) -> std::result::Result<(), &'static str> {
    match valid_label(name) {
        true => Ok(()),
        false => Err("is not the name of a namespace: 1 to 63 of a-z, 0-9 and - (not at the ends)"),
    }
}

/// Validates the name of an agent. Upstream accepts any name, but the hub splits the user at colons.
pub fn valid_agent(name: &str) -> std::result::Result<(), &'static str> {
    let printable = !name.chars().any(|c| c.is_control() || c == ':');
    match printable && (1..=253).contains(&name.len()) && name.trim() == name {
        true => Ok(()),
        false => Err("is not an agent's name: 1 to 253 printable bytes without a colon"),
    }
}

type Check = fn(&str) -> std::result::Result<(), &'static str>;

fn usable(value: &[u8], check: Check) -> std::result::Result<String, String> {
    let name = str::from_utf8(value).map_err(|_| "is not UTF-8")?.trim();
    if name.is_empty() {
        return Err("is empty".into());
    }
    // Shortened, so that it fits in a line of the log.
    let shown: String = name.chars().take(64).collect();
    check(name).map_err(|what| format!("is {shown:?}, which {what}"))?;
    Ok(name.to_owned())
}

/// Returns a UUID of version 4 (RFC 9562).
fn uuid(random: &RandomBytes) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&random[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Returns five letters, each from two bytes, so that all letters are about equally likely.
fn letters(random: &RandomBytes) -> String {
    let letter = |pair: &[u8]| {
        let number = pair.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        char::from(LETTERS[number % LETTERS.len()])
    };
    random[16..].chunks(2).map(letter).collect()
}

#[cfg(test)]
mod tests;
