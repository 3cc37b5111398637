//! Content of a Secret: its keys with their decoded values.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::config::{ConfigError, Result};

/// Keys and values, which are zeroed on drop.
pub type Data = BTreeMap<String, Zeroizing<Vec<u8>>>;

pub fn data(secret: &Value) -> Result<Data> {
    let part = |key: &str| secret["metadata"][key].as_str().unwrap_or_default();
    let name = format!("{}/{}", part("namespace"), part("name"));
    let entries = secret["data"].as_object().into_iter().flatten();
    entries.map(|(key, value)| Ok((key.clone(), decode(&name, key, value)?))).collect()
}

/// The decoded value of `key` of the Secret `name`; the error names the key, never the value.
pub fn decode(name: &str, key: &str, value: &Value) -> Result<Zeroizing<Vec<u8>>> {
    let value = value.as_str().and_then(|value| BASE64_STANDARD.decode(value).ok());
    let unreadable = || ConfigError::from(format!("key {key} of {name} is not base64"));
    value.map(Zeroizing::new).ok_or_else(unreadable)
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
