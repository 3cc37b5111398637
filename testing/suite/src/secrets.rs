//! What is a secret, and where one is seen: for the search of all that the programs print.
//!
//! A secret is what proves who somebody is: a private key, a token, a password, and each value of a Secret that is none
//! of the public ones. Of a token only the signature counts, of a key in PEM only the private half, of a kubeconfig or
//! another document only keys, tokens and passwords. What is shorter than a [piece](PIECE) does not count: nobody could
//! tell it from a word.

mod needles;
pub mod shapes;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

pub use needles::{Needles, PIECE};

/// The keys of Secrets whose values anybody may know.
const PUBLIC: [&str; 10] = [
    "agent-name",
    "ca.crt",
    "cluster-name",
    "csr-name",
    "hub-server",
    "namespace",
    // The klusterlet operator's, beside a token.
    "serviceaccount_name",
    "serviceaccount_namespace",
    "serviceaccount_uid",
    "tls.crt",
];

/// What is secret of a value of a Secret, or of a file.
pub fn secret_parts(key: &str, value: &str) -> Vec<String> {
    let parts = parts(key, value).into_iter();
    parts.map(|part| signature(&part).map_or(part.clone(), str::to_owned)).collect()
}

/// Of a JSON Web Token (RFC 7519) what follows header and claims; those say what names and certificate requests say too,
/// and without it they prove nothing.
fn signature(text: &str) -> Option<&str> {
    let (claims, signature) = text.strip_prefix("eyJ")?.rsplit_once('.')?;
    claims.contains(".eyJ").then_some(signature)
}

fn parts(key: &str, value: &str) -> Vec<String> {
    if PUBLIC.contains(&key) {
        return Vec::new();
    }
    if value.contains("-----BEGIN ") && !value.starts_with('{') {
        return private_halves(value);
    }
    match serde_yaml::from_str(value) {
        Ok(fields @ Value::Object(_)) => proofs(&fields),
        // Half a file, as scenarios have it: its token was issued by a request of its own.
        Err(_) if key == "kubeconfig" => Vec::new(),
        _ => vec![value.to_owned()],
    }
}

/// What a kubeconfig, or another document of fields, proves somebody by.
fn proofs(document: &Value) -> Vec<String> {
    let of_field = |(key, value): (&String, &Value)| match (key.as_str(), value) {
        ("token" | "password", Value::String(text)) => vec![text.clone()],
        ("client-key-data", Value::String(text)) => {
            let key = BASE64_STANDARD.decode(text).unwrap_or_default();
            private_halves(&String::from_utf8_lossy(&key))
        }
        (_, Value::String(text)) => private_halves(text),
        _ => proofs(value),
    };
    match document {
        Value::Object(fields) => fields.iter().flat_map(of_field).collect(),
        Value::Array(items) => items.iter().flat_map(proofs).collect(),
        _ => Vec::new(),
    }
}

/// The lines of each private key in PEM, less those that hold its public key, which certificates and requests hold too.
fn private_halves(pem: &str) -> Vec<String> {
    let keys = pem.split("-----BEGIN ").skip(1).filter_map(|rest| {
        let (kind, rest) = rest.split_once("PRIVATE KEY-----")?;
        Some((kind, rest.split_once("-----END ")?.0.trim()))
    });
    keys.map(|(kind, body)| {
        // In base64 with ends of lines. RSA, PKCS #8 (RFC 8017) or older: the modulus of 2048 bits comes first, and ends
        // before the 300th byte. EC: 32 bytes, in PKCS #8 (RFC 5958) from the 37th on, in SEC 1 (RFC 5915) from the 8th;
        // before them is what they are, in the words of requests, and behind them the public key.
        let range = match (kind, body.len()) {
            (_, 500..) => 406..body.len(),
            ("EC ", length) => 10..length.min(52),
            (_, length) => 48..length.min(93),
        };
        body.get(range).unwrap_or_default().to_owned()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use rcgen::KeyPair;

    use super::*;

    #[test]
    fn public_values_are_no_secrets() {
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        assert_eq!(secret_parts("ca.crt", certificate), Vec::<String>::new());
        assert_eq!(secret_parts("another.crt", certificate), Vec::<String>::new());
        assert_eq!(secret_parts("cluster-name", "a-cluster-of-a-long-name"), Vec::<String>::new());
        assert_eq!(secret_parts("token", "abc"), ["abc"]);
        assert_eq!(secret_parts("token", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJrIn0.c2ln"), ["c2ln"]);
    }

    #[test]
    fn of_a_kubeconfig_only_the_users_proofs_are_secret() {
        let key = KeyPair::generate().expect("a key").serialize_pem();
        let user = serde_json::json!({"user": {
            "token": "a-token", "password": "a-password", "client-certificate-data": "public",
            "client-key-data": BASE64_STANDARD.encode(&key),
        }});
        let config = serde_json::json!({"clusters": [{"name": "public"}], "users": [user]});
        let parts = secret_parts("kubeconfig", &config.to_string());
        assert!(key.contains(&parts[0]) && parts[0].len() > 40, "{}", parts[0]);
        assert_eq!(parts[1..], ["a-password", "a-token"]);
        // As csr-bootstrapper's store of add-ons has it.
        let request = serde_json::json!({"a": {"tls.key": key, "csr-name": "a-name-of-a-request"}});
        assert_eq!(secret_parts("state", &request.to_string()), parts[..1]);
    }

    #[test]
    fn the_public_half_of_a_key_is_no_secret() {
        let pair = KeyPair::generate().expect("a key");
        let secret: String = secret_parts("tls.key", &pair.serialize_pem()).concat();
        let bytes = BASE64_STANDARD.decode(secret.replace('\n', "")).expect("base64");
        let public = pair.public_key_raw();
        assert!(
            bytes.len() >= 32
                && !bytes.windows(4).any(|it| public.windows(4).any(|other| it == other))
        );
    }
}
