//! P-256 keys in PKCS #8.

use apiclient::error::{Error, Result};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use zeroize::Zeroizing;

pub fn new_key() -> Result<Zeroizing<Vec<u8>>> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
    Ok(key.map_err(no_key)?.as_ref().to_vec().into())
}

/// ring hides the cause.
pub fn no_key<E>(_: E) -> Error {
    Error::bad_config("no new key can be made: the system gives no random numbers")
}

pub fn pair_of(pkcs8: &[u8]) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &SystemRandom::new()).ok()
}
