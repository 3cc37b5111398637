//! Verbs for typed objects. An answer is read within its budget of memory first, and then as a `T`.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    api,
    client::{Client, request::ApiRequest},
    error::{Error, Result},
    resource::Target,
};

impl Client {
    /// As [`get`](Self::get).
    pub fn get_typed<T: DeserializeOwned>(&self, target: &Target<'_>) -> Result<T> {
        self.typed(target, self.get(target)?)
    }

    /// As [`create`](Self::create).
    pub fn create_typed<T>(&self, target: &Target<'_>, object: &T) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
    {
        self.typed(target, self.create(target, &body(target, object)?)?)
    }

    /// As [`replace`](Self::replace).
    pub fn replace_typed<T>(&self, target: &Target<'_>, object: &T) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
    {
        self.typed(target, self.replace(target, &body(target, object)?)?)
    }

    fn typed<T: DeserializeOwned>(&self, target: &Target<'_>, object: Value) -> Result<T> {
        let wanted = || format!("not a valid {}", target.resource.kind);
        api::parse(object).ok_or_else(|| self.odd(&ApiRequest::get(*target), &wanted()))
    }
}

/// `object` with the apiVersion and kind of `target`.
fn body(target: &Target<'_>, object: &impl Serialize) -> Result<Value> {
    let object = serde_json::to_value(object);
    let mut object = object.map_err(|_| Error::Invalid(format!("{target} cannot be written")))?;
    object["apiVersion"] = target.resource.api_version().into();
    object["kind"] = (&*target.resource.kind).into();
    Ok(object)
}
