//! Verbs for typed objects. An answer is read within its budget of memory first, and then as a `T`.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use ureq::http::Method;

use crate::{
    api,
    client::{
        Client,
        request::{ApiRequest, JSON},
    },
    error::{Error, Result},
    resource::Target,
};

impl Client {
    /// Reads an object; `NotFound` only if the server names it.
    pub fn get_typed<T: DeserializeOwned>(&self, target: &Target<'_>) -> Result<T> {
        self.typed(&ApiRequest::get(*target))
    }

    /// Creates an object; never repeated, as a first attempt that was cut off may have done it.
    pub fn create_typed<T>(&self, target: &Target<'_>, object: &T) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
    {
        let body = body(target, object)?;
        self.typed(&ApiRequest::write(Method::POST, target.siblings(), JSON, &body, false))
    }

    /// Replaces an object as a whole, if it still has the resourceVersion of `object`.
    pub fn replace_typed<T>(&self, target: &Target<'_>, object: &T) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
    {
        let body = body(target, object)?;
        let guarded = body["metadata"]["resourceVersion"].is_string();
        self.typed(&ApiRequest::write(Method::PUT, *target, JSON, &body, guarded))
    }

    fn typed<T: DeserializeOwned>(&self, request: &ApiRequest<'_>) -> Result<T> {
        let kind = &request.target.resource.kind;
        api::parse(self.object(request)?)
            .ok_or_else(|| self.odd(request, &format!("not a valid {kind}")))
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
