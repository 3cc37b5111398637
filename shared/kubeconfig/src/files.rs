//! Files that a kubeconfig names: on the disk, or keys of the same Secret.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileTypeExt,
    path::{Component, Path, PathBuf, absolute},
};

use zeroize::Zeroizing;

use crate::secret::Data;

/// The size limit of a kubeconfig and of each file that it names; usual ones have a few KiB.
const MAX_BYTES: usize = 1 << 20;

/// Where the named files are. Relative paths start at the directory of the kubeconfig (loader.go:606-631).
pub(crate) enum NamedFiles<'a> {
    /// Any file: an administrator wrote the kubeconfig.
    Anywhere(PathBuf),
    /// Files of its own directory, and the public CA of the pod's cluster. The kubeconfig may come from a Secret, whose
    /// writer chooses the server: naming the pod's token would send it there.
    Beside(PathBuf),
    Keys(&'a Data),
}

/// The CA of its own cluster in every pod (kubernetes `plugin/pkg/admission/serviceaccount`,
/// DefaultAPITokenMountPath; `/var/run` is a link to `/run`).
const CLUSTER_AUTHORITIES: [&str; 2] = [
    "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
    "/run/secrets/kubernetes.io/serviceaccount/ca.crt",
];

/// The key of a Secret that a path in its kubeconfig refers to: OCM copies paths from other machines.
pub fn referenced_key(path: &str) -> Option<&str> {
    Path::new(path).file_name()?.to_str()
}

impl NamedFiles<'_> {
    pub(crate) fn read(&self, field: &str, name: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let of_cluster = field == "certificate-authority" && CLUSTER_AUTHORITIES.contains(&name);
        let from_disk = |path: &Path| read_limited(path).map_err(|error| error.to_string());
        match self {
            Self::Keys(data) => match referenced_key(name).and_then(|key| data.get(key)) {
                Some(bytes) => Ok(bytes.clone()),
                None if of_cluster => from_disk(Path::new(name)),
                None => Err("the Secret has no such key".into()),
            },
            Self::Beside(directory) if !of_cluster && !is_beside(name, directory) => {
                Err("it is not in the directory of the kubeconfig".into())
            }
            Self::Beside(directory) | Self::Anywhere(directory) => from_disk(&directory.join(name)),
        }
    }
}

/// Returns whether `name` is in or below `directory`, and not the pod's own identity. Links in the directory are
/// trusted: its owner made them.
fn is_beside(name: &str, directory: &Path) -> bool {
    let (Ok(path), Ok(directory)) = (absolute(directory.join(name)), absolute(directory)) else {
        return false;
    };
    let is_inside = |rest: &Path| rest.components().all(|it| matches!(it, Component::Normal(_)));
    // Everything is below the root.
    directory.parent().is_some()
        && path.strip_prefix(&directory).is_ok_and(is_inside)
        && !is_of_account(&path)
}

/// Returns whether a file belongs to the pod's service account.
fn is_of_account(path: &Path) -> bool {
    let mut folders = CLUSTER_AUTHORITIES.iter().filter_map(|file| Path::new(file).parent());
    path.canonicalize().is_ok_and(|path| folders.any(|folder| path.starts_with(folder)))
}

pub(crate) fn read_limited(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    // Opening a FIFO blocks until there is a writer.
    if fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe"));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
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

    /// Open Cluster Management's self-managed hub has such a path in its bootstrap Secret.
    #[test]
    fn authority_of_the_own_cluster_may_be_named() {
        let (keys, own) = (Data::new(), CLUSTER_AUTHORITIES[0]);
        let error = |from: NamedFiles<'_>, field: &str| from.read(field, own).unwrap_err();
        // In a test the file is not there, if its name is not refused.
        for from in [NamedFiles::Keys(&keys), NamedFiles::Beside("/spoke/hub".into())] {
            assert!(error(from, "certificate-authority").contains("No such file"));
        }
        assert_eq!(error(NamedFiles::Keys(&keys), "tokenFile"), "the Secret has no such key");
    }
}
