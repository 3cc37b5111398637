use serde_json::json;

use super::*;
use crate::{certificate::authority::now, clocks::tests::at};

const HUB: &str = r#"{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://hub"}}]}"#;

fn hub(kubeconfig: &str) -> Hub {
    let data = Data::from([("kubeconfig".to_owned(), kubeconfig.as_bytes().to_vec().into())]);
    Hub::of_secret("", &data).unwrap()
}

fn jwt(claims: &Value) -> Vec<u8> {
    format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string())).into_bytes()
}

/// A token for 1,000 s that was issued so many seconds ago.
fn token(age: u64) -> Vec<u8> {
    let issued = 1_800_000_000 - age;
    let account = json!({"serviceaccount": {"uid": "u1"}});
    jwt(&json!({"iat": issued, "exp": issued + 1000, "kubernetes.io": account}))
}

fn secret(token: Vec<u8>) -> Data {
    let kubeconfig = hub(HUB).token_kubeconfig(TOKEN).into_bytes();
    [("token", token), ("kubeconfig", kubeconfig), ("cluster-name", b"c1".to_vec())]
        .map(|(key, value)| (key.to_owned(), value.into()))
        .into()
}

fn needs(data: &Data) -> TokenNeed {
    need(data, None, ("u1", "c1"), &hub(HUB), at(now()))
}

fn another(why: &str) -> TokenNeed {
    TokenNeed::Token(why.to_owned())
}

/// token_test.go
#[test]
fn addon_token_is_refreshed_with_a_fifth_of_its_life_left() {
    for (age, left) in [(0, 800), (799, 1)] {
        let claims = TokenClaims::of(&token(age)).unwrap();
        assert_eq!(
            needs(&secret(token(age))),
            TokenNeed::Nothing(Duration::from_secs(left), claims)
        );
    }
    for age in [800, 999, 5000] {
        assert_eq!(needs(&secret(token(age))), another("has a token that is due for renewal"));
    }
}

#[test]
fn addon_token_that_is_none_is_replaced() {
    assert_eq!(needs(&secret(Vec::new())), another("has no token"));
    for bytes in ["x", "a.b", "a.b.c.d", "a.%.c", "a.eA.c"] {
        let needs = needs(&secret(bytes.into()));
        assert_eq!(needs, another("has a token that cannot be read"), "{bytes}");
    }
    for (claims, what) in [
        (json!({"exp": 1}), "has a token that cannot be read"),
        (json!({"iat": 1, "exp": 0}), "has a token that cannot be read"),
        (json!({"iat": 1, "exp": 253_402_300_800_u64}), "has a token that cannot be read"),
        (json!({"iat": 1, "exp": 2}), "has a token of another ServiceAccount"),
    ] {
        assert_eq!(needs(&secret(jwt(&claims))), another(what), "{claims}");
    }
    let account = json!({"serviceaccount": {"uid": "u1"}});
    let backwards = jwt(&json!({"iat": 9_000_000_000_u64, "exp": 1, "kubernetes.io": account}));
    assert_eq!(needs(&secret(backwards)), another("has a token that is due for renewal"));
    let padded = String::from_utf8(token(0)).unwrap().replace(".c2ln", "==.c2ln");
    assert!(TokenClaims::of(padded.as_bytes()).is_some());
}

/// Upstream writes another hub only with the next token.
#[test]
fn addon_token_is_for_this_hub() {
    let mut data = secret(token(0));
    data.insert("kubeconfig".into(), HUB.replace("//hub", "//old").into_bytes().into());
    assert_eq!(needs(&data), another("is for another hub: the server differs"));
    for (key, value) in [("kubeconfig", HUB), ("kubeconfig", "junk"), ("cluster-name", "c2")] {
        let mut data = secret(token(0));
        data.insert(key.into(), value.as_bytes().to_vec().into());
        assert_eq!(needs(&data), TokenNeed::Repair, "{key}");
        data.remove(key);
        assert_eq!(needs(&data), TokenNeed::Repair, "without {key}");
    }
}

#[test]
fn addon_token_condition_is_upstreams() {
    let condition = TokenClaims::of(&token(0)).unwrap().refreshed();
    assert_eq!(condition.message, "Addon token refreshed, expires at 2027-01-15T08:16:40Z");
}

/// The own clock may be ahead of the hub's, and the hub's condition about the ServiceAccount late.
#[test]
fn token_that_was_just_obtained_is_used_whatever_is_said() {
    for (token, uid) in [(token(900), "u1"), (token(0), "u2")] {
        let (data, claims) = (secret(token.clone()), TokenClaims::of(&token).unwrap());
        let needs = |least| need(&data, Some(least), (uid, "c1"), &hub(HUB), at(now()));
        let left = claims.least_use();
        assert_eq!(left, Duration::from_secs(500));
        assert!(matches!(needs((&claims, left)), TokenNeed::Nothing(due, _) if due >= left));
        let of_another = TokenClaims::of(&self::token(7)).unwrap();
        assert!(matches!(needs((&of_another, left)), TokenNeed::Token(_)));
    }
}

#[test]
fn addon_token_that_is_not_saved_yet_is_kept() {
    let (mut driver, now) = (TokenDriver::default(), Instant::now());
    assert!(driver.last("u1", now).is_none());
    driver.obtained = ObtainedToken::new(&token(0).into(), "u1", now);
    let last = |uid, after| driver.last(uid, now + Duration::from_secs(after));
    assert_eq!(last("u1", 499).unwrap().unsaved, Some(token(0).into()));
    assert!(last("u1", 500).is_none());
    assert!(last("u2", 0).is_none(), "another ServiceAccount");
}

#[test]
fn addon_token_that_cannot_be_read_delays_the_next() {
    let (mut driver, mut now) = (TokenDriver::default(), Instant::now());
    for seconds in [2, 4, 8] {
        assert!(driver.take(&b"opaque".to_vec().into(), "u1", now).is_err());
        let next = driver.pacing.next_write(now).unwrap();
        assert_eq!(next - now, Duration::from_secs(seconds));
        now = next;
    }
    assert_eq!(driver.condition().unwrap().status, "False");
}
