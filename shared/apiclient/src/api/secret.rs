//! Core Secret, whose values are overwritten when they are no longer used.

use std::{collections::BTreeMap, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};
use kubeconfig::{error::ConfigError, secret::Data};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use zeroize::{Zeroize, Zeroizing};

use super::{ObjectMeta, null_as_default};

/// Core Secret.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub struct Secret {
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "null_as_default")]
    pub data: BTreeMap<String, ByteString>,
}

/// Decoded value of a key; `None` if it is not base64.
pub struct ByteString(Option<Zeroizing<Vec<u8>>>);

impl Secret {
    /// `namespace/name`, for a sentence.
    pub fn name(&self) -> String {
        let ObjectMeta { namespace, name, .. } = &self.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{}/{}", part(namespace), part(name))
    }

    /// The keys and their decoded values.
    ///
    /// # Errors
    /// `ConfigError` names the key whose value is not base64.
    pub fn into_data(self) -> Result<Data, ConfigError> {
        let name = self.name();
        let decoded = |(key, ByteString(value)): (String, ByteString)| match value {
            Some(value) => Ok((key, value)),
            None => Err(ConfigError::from(format!("key {key} of {name} is not base64"))),
        };
        self.data.into_iter().map(decoded).collect()
    }
}

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Base64)
    }
}

struct Base64;

impl Visitor<'_> for Base64 {
    type Value = ByteString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64")
    }

    fn visit_string<E: Error>(self, mut text: String) -> Result<ByteString, E> {
        let decoded = self.visit_str(&text);
        text.zeroize();
        decoded
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ByteString, E> {
        Ok(ByteString(BASE64_STANDARD.decode(text).ok().map(Zeroizing::new)))
    }

    fn visit_unit<E: Error>(self) -> Result<ByteString, E> {
        Ok(ByteString(None))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<ByteString, E> {
        Ok(ByteString(None))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn secret(data: &Value) -> Secret {
        super::super::parse(json!({"metadata": {"namespace": "ns", "name": "x"}, "data": data}))
            .unwrap()
    }

    #[test]
    fn value_that_is_not_base64_names_its_key_and_nothing_else() {
        let good = secret(&json!({"a": "aGk=", "b": ""})).into_data().unwrap();
        assert_eq!(*good["a"], b"hi");
        for bad in [json!("hunter2!"), json!(7), json!(null)] {
            let error = secret(&json!({"password": bad})).into_data().unwrap_err();
            assert_eq!(error.to_string(), "key password of ns/x is not base64");
        }
        assert!(secret(&json!(null)).into_data().unwrap().is_empty());
    }
}
