//! Nothing leaks, and no input causes a panic.

use super::*;

/// The marker stands in every place where a credential can be, even in values of the wrong type.
#[test]
fn no_credential_in_errors_or_debug() {
    const MARK: &str = "s3cr3tMARKER";
    let dir = Dir::new("leak");
    let mut texts: Vec<String> = [
        "token: M, username: a",
        "token: M, exec: {command: x}",
        "token: [M]",
        "token: {M: M}",
        "token: !M M",
        "token: !!int M",
        "token: \"M",
        "token: *M",
        "username: a, password: M",
        "password: M, token: M",
        "password: [M]",
        "client-certificate: tls.crt, client-key-data: M",
        "client-certificate-data: M, client-key-data: M",
        "client-certificate: tls.crt, client-key-data: [M]",
        "exec: {command: x, args: [M], env: [{name: M, value: M}]}",
        "auth-provider: {name: oidc, config: {refresh-token: M}}",
        "token: M, tokenFile: nowhere",
        "token: M\n  x: - y",
    ]
    .map(|user| with_user(user).replace('M', MARK).replace(&format!("h{MARK}"), "hM"))
    .into();
    texts.push(on_server(&format!("https://a:{MARK}@h")));
    texts.push(with_cluster(&format!("proxy-url: 'ftp://a:{MARK}@h'")));
    texts.push(with_user(&format!(
        "client-certificate: tls.crt, client-key: {}",
        base64(&MARK.repeat(20))
    )));
    texts.push(format!("{{\"users\": [{{\"name\": \"u\", \"user\": {{\"token\": \"{MARK}\"}}}}]"));
    texts.push(format!("{MARK}: {MARK}: {MARK}"));
    texts.push(format!("- {MARK}"));
    texts.push(format!("apiVersion: {MARK}"));
    dir.write("tls.crt", CERT);
    let (mark, coded) = (MARK, base64(&MARK.repeat(20)));
    for text in texts {
        let path = dir.write("config", &text);
        for result in [secret(&text), from_file(&path)] {
            let shown = match &result {
                Ok(access) => format!("{access:?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains(mark) && !shown.contains(&coded[..20]), "{text}\n{shown}");
        }
    }
    let token = dir.write("token", [b"\xff", MARK.as_bytes()].concat());
    let path = dir.write("config", with_user(&format!("tokenFile: {token:?}")));
    assert!(!from_file(&path).unwrap_err().message().contains(MARK));
}

#[test]
fn random_bytes_cause_no_panic() {
    let seed = format!("{}{}", with_cluster(&format!("certificate-authority-data: {}", base64(CA))),
        "users: [{name: u, user: {token: t, as: j, as-groups: [a], client-certificate: tls.crt, client-key: tls.key}}]\n")
        .replacen("users: [{name: u, user: {}}]\n", "", 1);
    let snippets: [&[u8]; 14] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b": ",
        b"\n",
        b"*a",
        b"&a ",
        b"<<: ",
        b"\xff",
        b"\"",
        b"null",
        b"- ",
        b"\xef\xbb\xbf",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    assert!(secret(&seed).is_ok());
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut text = seed.clone().into_bytes();
        for _ in 0..=random(3) {
            let at = random(text.len());
            match random(4) {
                0 => text[at] = u8::try_from(random(256)).unwrap(),
                1 => drop(text.drain(at..(at + random(20)).min(text.len()))),
                2 => text.truncate(at.max(1)),
                _ => drop(text.splice(at..at, snippets[random(snippets.len())].iter().copied())),
            }
        }
        refused += usize::from(secret(&text).is_err());
    }
    assert!((1_000..20_000).contains(&refused), "{refused}");
}
