use serde_json::json;

use super::*;
use crate::{certificate::authority::now, clocks::tests::at};

fn jwt(claims: &Value) -> Vec<u8> {
    format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string())).into_bytes()
}

/// A token for 1,000 s that was issued so many seconds ago.
fn token(age: u64) -> Vec<u8> {
    let issued = 1_800_000_000 - age;
    let account = json!({"serviceaccount": {"uid": "u1"}});
    jwt(&json!({"iat": issued, "exp": issued + 1000, "kubernetes.io": account}))
}

/// The time until this token is due, or else why another one is needed.
fn due_in(token: Vec<u8>, uid: &str) -> std::result::Result<u64, &'static str> {
    let data = Data::from([(TOKEN.to_owned(), token.into())]);
    usable(&data, uid, at(now())).map(|(_, due_in)| due_in.as_secs())
}

/// token_test.go
#[test]
fn addon_token_is_refreshed_with_a_fifth_of_its_life_left() {
    for (age, left) in [(0, 800), (799, 1)] {
        assert_eq!(due_in(token(age), "u1"), Ok(left));
    }
    for age in [800, 999, 5000] {
        assert_eq!(due_in(token(age), "u1"), Err(DUE));
    }
    assert_eq!(due_in(token(0), "u2"), Err("has a token of another ServiceAccount"));
    assert_eq!(usable(&Data::new(), "u1", at(now())), Err("has no token"));
    assert_eq!(due_in(Vec::new(), "u1"), Err("has no token"));
    let condition = TokenClaims::of(&token(0)).unwrap().refreshed();
    assert_eq!(condition.message, "Addon token refreshed, expires at 2027-01-15T08:16:40Z");
}

#[test]
fn addon_token_that_cannot_be_read_is_replaced() {
    for bytes in ["x", "a.b", "a.b.c.d", "a.%.c", "a.eA.c"] {
        assert_eq!(due_in(bytes.into(), ""), Err("has a token that cannot be read"), "{bytes}");
    }
    for claims in [
        json!({"exp": 1}),
        json!({"iat": 1, "exp": 0}),
        json!({"iat": 1, "exp": 253_402_300_800_u64}),
    ] {
        assert_eq!(due_in(jwt(&claims), ""), Err("has a token that cannot be read"), "{claims}");
    }
    let backwards = jwt(&json!({"iat": 9_000_000_000_u64, "exp": 1}));
    assert_eq!(due_in(backwards, ""), Err(DUE));
    let padded = String::from_utf8(token(0)).unwrap().replace(".c2ln", "==.c2ln");
    assert!(TokenClaims::of(padded.as_bytes()).is_some());
}

#[test]
fn only_answers_that_may_have_been_lost_delay_the_next_request() {
    let (mut driver, now) = (TokenDriver::default(), Instant::now());
    driver.not_created(&Error::Forbidden("no".into()), now);
    assert_eq!(driver.pace.resting(now), None);
    (0..20).for_each(|_| driver.not_created(&Error::Unreachable("gone".into()), now));
    let rest = driver.pace.resting(now).unwrap() - now;
    assert!((REST_LOST.1..=REST_LOST.1.mul_f64(1.25)).contains(&rest), "{rest:?}");
    assert_eq!(driver.pace.next_write(now), None, "nothing was written that somebody undid");
}
