//! Flattens a kubeconfig, like `kubectl config view --flatten`: the content of the files that it names becomes part of
//! it. Readers of a single file never mix two rotations.

use apiclient::error::{Error, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::{referenced_key, secret::Data};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{Content, Files};

const KUBECONFIG: &str = "kubeconfig";

/// The list and the part of an entry, the field for a file, and the field for its content.
const FIELDS: [(&str, &str, &str, &str); 4] = [
    ("clusters", "cluster", "certificate-authority", "certificate-authority-data"),
    ("users", "user", "client-certificate", "client-certificate-data"),
    ("users", "user", "client-key", "client-key-data"),
    ("users", "user", "tokenFile", "token"),
];

/// The files of the Secret `name`, and the flattened kubeconfig under the name `flattened`, if any.
pub fn content(name: &str, data: Data, flattened: Option<&str>) -> Result<Content> {
    let mut content = Content::of(name, data)?;
    if let Some(file) = flattened.filter(|_| content.complete) {
        let fail = |what: &str| Error::bad_config(format!("Secret {name} {what}"));
        if file != KUBECONFIG && content.files.contains_key(file) {
            return Err(fail(&format!("has a key {file}, which -flattened-kubeconfig names")));
        }
        let whole = in_one_piece(&content.files).map_err(|what| fail(&what))?;
        content.files.insert(file.to_owned(), whole);
    }
    Ok(content)
}

/// The key `kubeconfig` of `files` with the content of all keys that it names, as JSON, which is also YAML. Other file
/// names stay.
fn in_one_piece(files: &Files) -> std::result::Result<Zeroizing<Vec<u8>>, String> {
    let text = files.get(KUBECONFIG).map_or(&[][..], |text| text);
    let mut root = kubeconfig::parse(text)?;
    for (list, part, field, data) in FIELDS {
        let entries = root.get_mut(list).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten() {
            if let Some(part) = entry.get_mut(part).and_then(Value::as_object_mut) {
                inline(part, field, data, files)?;
            }
        }
    }
    let mut text = serde_json::to_vec(&root).map_err(|_| "cannot be written as JSON")?;
    text.push(b'\n');
    Ok(text.into())
}

fn inline(
    part: &mut Map<String, Value>,
    field: &str,
    data: &str,
    files: &Files,
) -> std::result::Result<(), String> {
    let name = part.get(field).and_then(Value::as_str).unwrap_or_default();
    let content = referenced_key(name).and_then(|key| files.get(key));
    let Some(content) = content else { return Ok(()) };
    let value = if data == "token" {
        let token = str::from_utf8(content).map_err(|_| "has a tokenFile that is not UTF-8")?;
        token.trim().to_owned()
    } else {
        BASE64_STANDARD.encode(content)
    };
    part.remove(field);
    part.insert(data.to_owned(), value.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::tests::{HUB, pair};

    fn flat(kubeconfig: &str, files: &[(&str, &str)]) -> Value {
        let mut all: Files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec().into()))
            .collect();
        all.insert("kubeconfig".to_owned(), kubeconfig.as_bytes().to_vec().into());
        serde_json::from_slice(&in_one_piece(&all).unwrap()).unwrap()
    }

    #[test]
    fn certificate_key_ca_and_token_are_inline() {
        let with_ca =
            HUB.replace("server:", "certificate-authority: /elsewhere/ca.crt\n    server:");
        let root = flat(&with_ca, &[("tls.crt", "C"), ("tls.key", "K"), ("ca.crt", "A")]);
        let user = &root["users"][0]["user"];
        assert_eq!(user["client-certificate-data"], "Qw==");
        assert_eq!(user["client-key-data"], "Sw==");
        assert!(user["client-certificate"].is_null() && user["client-key"].is_null());
        assert_eq!(root["clusters"][0]["cluster"]["certificate-authority-data"], "QQ==");
        assert_eq!(root["current-context"], "default-context");
        let token = HUB.replace("client-certificate: tls.crt", "tokenFile: token");
        let user = &flat(&token, &[("token", "t1\n")])["users"][0]["user"];
        assert_eq!((&user["token"], &user["tokenFile"]), (&"t1".into(), &Value::Null));
    }

    #[test]
    fn what_is_no_key_stays_named() {
        let root = flat(HUB, &[("tls.crt", "C")]);
        assert_eq!(root["users"][0]["user"]["client-key"], "tls.key");
    }

    #[test]
    fn the_result_is_a_kubeconfig_on_its_own() {
        let (certificate, key) = pair();
        let mut files = Files::new();
        for (name, text) in [("kubeconfig", HUB), ("tls.crt", &certificate), ("tls.key", &key)] {
            files.insert(name.to_owned(), text.as_bytes().to_vec().into());
        }
        let whole = in_one_piece(&files).unwrap();
        let alone = Files::from([("kubeconfig".to_owned(), whole)]);
        let access = kubeconfig::from_secret("ns/x", &alone).unwrap();
        let identity = access.identity.unwrap();
        assert_eq!(
            (&*identity.certificate, &**identity.key),
            (certificate.as_bytes(), key.as_bytes())
        );
    }

    fn judge(data: &[(&str, &str)], flattened: Option<&str>) -> Result<Content> {
        let entry =
            |(key, value): &(&str, &str)| ((*key).to_owned(), value.as_bytes().to_vec().into());
        content("ns/x", data.iter().map(entry).collect(), flattened)
    }

    #[test]
    fn the_flattened_file_takes_no_key_but_the_kubeconfigs() {
        let (certificate, key) = pair();
        let data = [("kubeconfig", HUB), ("tls.crt", &certificate), ("tls.key", &key)];
        assert_eq!(judge(&data, Some("flat")).unwrap().files.len(), 4);
        let replaced = judge(&data, Some("kubeconfig")).unwrap().files;
        assert!(replaced.len() == 3 && *replaced["kubeconfig"] != HUB.as_bytes());
        let error = judge(&data, Some("tls.crt")).unwrap_err().to_string();
        assert_eq!(error, "Secret ns/x has a key tls.crt, which -flattened-kubeconfig names");
    }

    #[test]
    fn nothing_is_flattened_before_the_kubeconfig_comes() {
        let names = [("cluster-name", "c1"), ("agent-name", "a1")];
        assert_eq!(judge(&names, Some("flat")).unwrap().files.len(), 2);
    }
}
