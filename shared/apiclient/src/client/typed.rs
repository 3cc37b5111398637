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

    /// Creates an object without a resourceVersion, and replaces any other.
    pub fn write_typed<T>(&self, target: &Target<'_>, object: &T) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
    {
        let object = serde_json::to_value(object);
        let mut object =
            object.map_err(|_| Error::Invalid(format!("{target} cannot be written")))?;
        object["apiVersion"] = target.resource.api_version().into();
        object["kind"] = (&*target.resource.kind).into();
        let is_new = object["metadata"]["resourceVersion"].is_null();
        let write = if is_new { Self::create } else { Self::replace };
        self.typed(target, write(self, target, &object)?)
    }

    fn typed<T: DeserializeOwned>(&self, target: &Target<'_>, object: Value) -> Result<T> {
        let wanted = || format!("not a valid {}", target.resource.kind);
        api::parse(object).ok_or_else(|| self.odd(&ApiRequest::get(*target), &wanted()))
    }
}
