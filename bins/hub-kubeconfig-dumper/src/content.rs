//! Content of a Secret as a set of files, validated without I/O.

use std::time::SystemTime;

use super::plan::Files;
use apiclient::{
    certificate,
    error::{Error, Result},
};
use kubeconfig::secret::Data;

const KUBECONFIG: &str = "kubeconfig";
const CERTIFICATE: &str = "tls.crt";

/// The files of a Secret: one per key, as in the registration agent.
#[derive(Debug)]
pub struct Content {
    pub files: Files,
    /// Whether there is a kubeconfig. Without one, the files are written only if the directory has none either: the
    /// registration agent may start from cluster-name and agent-name only.
    pub complete: bool,
    pub expires: Option<SystemTime>,
}

impl Content {
    pub fn of(name: &str, files: Data) -> Result<Self> {
        let fail = |what: &str| Error::bad_config(format!("Secret {name} {what}"));
        // Keys become paths. The API server accepts only valid ones.
        if let Some(key) = files.keys().find(|key| !valid_key(key)) {
            return Err(fail(&format!("has a key {key:?} that is not a file name")));
        }
        let complete = files.contains_key(KUBECONFIG);
        if complete {
            kubeconfig::check_secret(name, &files)?;
        }
        if let (Some(certificate), Some(key)) = (files.get(CERTIFICATE), files.get("tls.key")) {
            kubeconfig::check_pair(certificate, key).map_err(fail)?;
        }
        let expires = files.get(CERTIFICATE).and_then(|pem| certificate::expiry(pem));
        Ok(Self { files, complete, expires })
    }
}

/// Returns whether `key` can be a key of a Secret (apimachinery `util/validation/validation.go`, IsConfigMapKey): never
/// a path, never a name with our own prefix.
pub fn valid_key(key: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (1..=253).contains(&key.len()) && key.chars().all(known) && key != "." && !key.starts_with("..")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A certificate and its key.
    pub(crate) fn pair() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// A kubeconfig of OCM.
    pub(crate) const HUB: &str = "apiVersion: v1\nclusters:\n- cluster:\n    server: https://hub:6443\n  name: hub\n\
        contexts:\n- context:\n    cluster: hub\n    namespace: configuration\n    user: default-auth\n  name: default-context\n\
        current-context: default-context\nkind: Config\npreferences: {}\nusers:\n- name: default-auth\n  user:\n    \
        client-certificate: tls.crt\n    client-key: tls.key\n";

    fn judge(data: &[(&str, &str)]) -> Result<Content> {
        let entry =
            |(key, value): &(&str, &str)| ((*key).to_owned(), value.as_bytes().to_vec().into());
        Content::of("ns/x", data.iter().map(entry).collect())
    }

    #[test]
    fn all_keys_become_files() {
        let (certificate, key) = pair();
        let data = [
            ("kubeconfig", HUB),
            ("tls.crt", &certificate),
            ("tls.key", &key),
            ("cluster-name", "c1"),
            ("agent-name", "a1"),
            ("Foreign_key.7", ""),
        ];
        let content = judge(&data).unwrap();
        assert!(content.complete && content.expires.is_some());
        assert_eq!(content.files.len(), 6);
        assert_eq!(*content.files["cluster-name"], b"c1");
    }

    #[test]
    fn names_may_come_before_the_kubeconfig() {
        let content = judge(&[("cluster-name", "c1"), ("agent-name", "a1")]).unwrap();
        assert!(!content.complete);
        assert_eq!(content.files.len(), 2, "the names alone");
        assert!(!judge(&[]).unwrap().complete);
    }

    #[test]
    fn keys_that_do_not_fit_are_refused_with_a_reason() {
        let (certificate, key) = pair();
        let (_, other) = pair();
        let secret = [("kubeconfig", HUB), ("tls.crt", &certificate), ("tls.key", &other)];
        let token = HUB.replace("client-certificate: tls.crt\n    client-key: tls.key", "token: t");
        let no_server = HUB.replace("server: https://hub:6443", "proxy-url: http://p");
        let no_context = HUB.replace("current-context: default-context", "current-context: other");
        let cases: [(&[(&str, &str)], &str); 9] = [
            (&secret, "do not belong together"),
            (
                &[("kubeconfig", &token), secret[1], secret[2]],
                "Secret ns/x has a client-certificate",
            ),
            (&[secret[1], secret[2]], "do not belong together"),
            (&[("kubeconfig", HUB), ("tls.crt", &certificate)], "\"tls.key\" that cannot be read"),
            (&[("kubeconfig", HUB), ("tls.key", &key)], "\"tls.crt\" that cannot be read"),
            (&[("kubeconfig", "a: [")], "is not YAML"),
            (&[("kubeconfig", "")], "has no configuration"),
            (&[("kubeconfig", &no_server)], "has no server"),
            (&[("kubeconfig", &no_context)], "has no context \"other\""),
        ];
        for (data, sentence) in cases {
            let error = judge(data).unwrap_err().to_string();
            assert!(error.contains(sentence) && error.contains("ns/x"), "{error}");
            assert!(!error.contains("PRIVATE"), "{error}");
        }
    }

    #[test]
    fn credentials_of_another_kind_are_for_the_readers_to_judge() {
        let exec = HUB.replace(
            "client-certificate: tls.crt\n    client-key: tls.key",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}",
        );
        assert!(judge(&[("kubeconfig", &exec)]).unwrap().complete);
        let ca = exec.replace("server:", "certificate-authority: /etc/hub/ca.crt\n    server:");
        assert!(judge(&[("kubeconfig", &ca)]).unwrap().complete);
    }

    #[test]
    fn key_is_never_a_path() {
        for bad in ["", ".", "..", "..data", "../x", "a/b", "a b", "a\0", &"k".repeat(254)] {
            assert!(!valid_key(bad), "{bad}");
            let error = judge(&[(bad, "x")]).unwrap_err().to_string();
            assert!(error.contains("that is not a file name"), "{error}");
        }
        for good in ["a", ".a", "tls.crt", "A-b_c.0", &"k".repeat(253)] {
            assert!(valid_key(good), "{good}");
        }
    }
}
