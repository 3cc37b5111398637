//! Data model: objects as they are cached, names, annotations and kinds. Pure, except for discovery, which asks a
//! server.

pub(crate) mod annotations;
pub(crate) mod digest;
pub(crate) mod discovery;
pub(crate) mod key;
pub(crate) mod known_clusters;
pub(crate) mod mapping;
pub(crate) mod metadata;
pub(crate) mod mode;
pub(crate) mod object;
pub(crate) mod rules;
pub(crate) mod secret;
