//! Content of a Secret: its keys with their decoded values.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::error::{ConfigError, Result};

/// Keys and values; these are overwritten when they are no longer used.
pub type Data = BTreeMap<String, Zeroizing<Vec<u8>>>;

/// The keys of `secret` and their decoded values. An error names the key whose value is not base64.
pub fn data(secret: &Value) -> Result<Data> {
    let mut data = Data::new();
    for (key, value) in secret["data"].as_object().into_iter().flatten() {
        let value = value.as_str().and_then(|value| BASE64_STANDARD.decode(value).ok());
        let unreadable =
            || ConfigError::from(format!("key {key} of {} is not base64", name(secret)));
        data.insert(key.clone(), value.ok_or_else(unreadable)?.into());
    }
    Ok(data)
}

/// `namespace/name`, for a sentence.
pub(crate) fn name(secret: &Value) -> String {
    let metadata = &secret["metadata"];
    let part = |key: &str| metadata[key].as_str().unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_that_is_not_base64_names_its_key_and_nothing_else() {
        let metadata = json!({"namespace": "ns", "name": "x"});
        let good = json!({"metadata": metadata, "data": {"a": "aGk=", "b": ""}});
        assert_eq!(*data(&good).unwrap()["a"], b"hi");
        for bad in [json!("hunter2!"), json!(7), json!(null)] {
            let secret = json!({"metadata": metadata, "data": {"password": bad}});
            let error = data(&secret).unwrap_err().to_string();
            assert_eq!(error, "key password of ns/x is not base64");
        }
        assert!(data(&json!({"data": null})).unwrap().is_empty());
    }
}
