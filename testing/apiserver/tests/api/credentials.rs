//! Authentication.

use std::time::{Duration, SystemTime};

use dev_apiserver::Ca;

use crate::client::*;

#[test]
fn credentials_are_checked() {
    let (server, client) = start();
    assert_eq!(client.get(SECRETS).code, 200);
    assert_eq!(Client::with(&server, None).get(SECRETS).code, 401);
    let stranger = Ca::new("other").client_certificate("u", &[], Duration::from_secs(60));
    assert_eq!(Client::with(&server, Some(stranger)).get("/readyz").code, 401);
    let hour = Duration::from_secs(3600);
    let past = SystemTime::now() - hour;
    let expired = server.ca().client_certificate_between("u", &[], past - hour, past);
    assert_eq!(Client::with(&server, Some(expired)).get(SECRETS).code, 401);
    let token = server.token("t", &["g"]);
    let bearer = Client::with_token(&server, &token);
    assert_eq!(bearer.get(SECRETS).code, 200);
    assert_eq!(server.requests().last().map(|r| r.user.clone()), Some("t".into()));
    server.revoke(&token);
    assert_eq!(bearer.get(SECRETS).code, 401);
}
