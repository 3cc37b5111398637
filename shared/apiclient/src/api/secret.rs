//! Core Secret, whose values are overwritten when they are no longer used.

use std::collections::BTreeMap;

use kubeconfig::{
    error::ConfigError,
    secret::{Data, decode},
};
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroize;

use super::{ObjectMeta, null_as_default};

#[derive(Deserialize)]
pub struct Secret {
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// In base64.
    #[serde(default, deserialize_with = "null_as_default")]
    data: BTreeMap<String, Value>,
}

impl Secret {
    /// `namespace/name`, for a sentence.
    pub fn name(&self) -> String {
        let ObjectMeta { namespace, name, .. } = &self.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{}/{}", part(namespace), part(name))
    }

    /// The keys and their decoded values. An error names a key whose value is not base64.
    pub fn data(&self) -> Result<Data, ConfigError> {
        let (name, entries) = (self.name(), self.data.iter());
        entries.map(|(key, value)| Ok((key.clone(), decode(&name, key, value)?))).collect()
    }
}

/// Values are overwritten, decoded or not.
impl Drop for Secret {
    fn drop(&mut self) {
        for value in self.data.values_mut() {
            if let Value::String(text) = value {
                text.zeroize();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(data: &Value) -> Secret {
        super::super::parse(json!({"metadata": {"namespace": "ns", "name": "x"}, "data": data}))
            .unwrap()
    }

    #[test]
    fn value_that_is_not_base64_names_its_key_and_nothing_else() {
        let good = secret(&json!({"a": "aGk=", "b": ""})).data().unwrap();
        assert_eq!(*good["a"], b"hi");
        for bad in [json!("hunter2!"), json!(7), json!(null)] {
            let error = secret(&json!({"password": bad})).data().unwrap_err();
            assert_eq!(error.to_string(), "key password of ns/x is not base64");
        }
        assert!(secret(&json!(null)).data().unwrap().is_empty());
    }
}
