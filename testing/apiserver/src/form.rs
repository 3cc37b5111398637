//! The form of objects in an answer: complete, or metadata only.

use serde_json::{Value, json};

use crate::{http::Incoming, status::Status};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// PartialObjectMetadata.
    Metadata,
}

impl Form {
    /// The form that `Accept` requests. Other forms, such as tables, are not supported.
    pub(crate) fn new(request: &Incoming, is_list: bool) -> Result<Self, Status> {
        let mut asked = request.headers("accept").flat_map(|value| value.split(';'));
        let asked = asked.find_map(|part| part.trim().strip_prefix("as=PartialObjectMetadata"));
        match (asked.map(|rest| rest.starts_with("List")), is_list) {
            (None, _) => Ok(Self::Whole),
            (Some(of_list), is_list) if of_list == is_list => Ok(Self::Metadata),
            _ => Err(Status::not_acceptable()),
        }
    }

    pub(crate) fn render(self, object: Value) -> Value {
        match self {
            Self::Whole => object,
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }),
        }
    }
}
