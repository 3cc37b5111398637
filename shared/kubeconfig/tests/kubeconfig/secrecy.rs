//! No credential leaks into errors or debug output.

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
