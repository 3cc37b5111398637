//! What looks like a secret, whoever made it.

use base64::{Engine, prelude::BASE64_STANDARD};

/// What a sort of secret is called, and whether a line looks like one.
type Shape = (&'static str, fn(&str) -> bool);

/// Which sort of secret a line looks like, if any.
pub fn look(line: &str) -> Option<&'static str> {
    let looks: [Shape; 5] = [
        ("a private key", |line| line.contains("PRIVATE KEY-----")),
        ("a private key in base64", holds_key_in_base64),
        ("a JSON Web Token", holds_token),
        ("a password in a URL", holds_password),
        ("an Authorization header", |line| {
            ["Bearer ", "Basic "].iter().any(|scheme| {
                line.split(scheme).skip(1).any(|rest| run(rest, "-_.~+/=").len() >= 8)
            })
        }),
    ];
    looks.iter().find(|(_, looks)| looks(line)).map(|(what, _)| *what)
}

/// The letters, digits and `others` that a text begins with.
fn run<'a>(text: &'a str, others: &str) -> &'a str {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && !others.contains(c);
    &text[..text.find(is_other).unwrap_or(text.len())]
}

/// `-----BEGIN ` in base64, as it stands in `client-key-data`, and what follows.
fn holds_key_in_base64(line: &str) -> bool {
    const BEGIN: &str = "LS0tLS1CRUdJTi";
    line.match_indices(BEGIN).any(|(place, _)| {
        let encoded = run(&line[place..], "+/");
        let bytes = BASE64_STANDARD.decode(&encoded[..encoded.len() / 4 * 4]).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains("PRIVATE KEY")
    })
}

/// Header and claims begin with `{"` in base64.
fn holds_token(line: &str) -> bool {
    line.match_indices("eyJ").any(|(place, _)| {
        let header = run(&line[place..], "-_");
        line[place + header.len()..].starts_with(".eyJ")
    })
}

/// `://user:password@`, but for what stands in its place.
fn holds_password(line: &str) -> bool {
    line.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '"', ' ']).next().unwrap_or_default();
        let password = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
        password.is_some_and(|(_, password)| !["***", "xxxxx"].contains(&password))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_looks() {
        let pem = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49\n";
        let encoded = BASE64_STANDARD.encode(pem);
        for (line, what) in [
            ("error: -----BEGIN EC PRIVATE KEY-----", "a private key"),
            (&*format!("client-key-data: {encoded}"), "a private key in base64"),
            ("token=eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrIn0.c2ln", "a JSON Web Token"),
            ("proxy=http://me:hunter2@10.0.0.1:3128/", "a password in a URL"),
            ("Authorization: Bearer 0123456789abcdef", "an Authorization header"),
            ("Authorization: Basic YWRtaW46aHVudGVyMg==", "an Authorization header"),
        ] {
            assert_eq!(look(line), Some(what), "{line}");
        }
    }

    #[test]
    fn what_only_names_secrets_is_none() {
        let certificate = BASE64_STANDARD.encode("-----BEGIN CERTIFICATE-----\nMIIB");
        for line in [
            "client-key-data is no base64",
            &format!("certificate-authority-data: {certificate}"),
            "master=https://***@127.0.0.1:1/",
            "https://127.0.0.1:6443/api/v1?user=a@b",
            "Bearer token is missing",
        ] {
            assert_eq!(look(line), None, "{line}");
        }
    }
}
