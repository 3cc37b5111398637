//! Data model: objects as they are cached, names, annotations and kinds. Pure, except for discovery, which asks a
//! server.

pub mod annotations;
pub mod digest;
pub(crate) mod discovery;
pub(crate) mod key;
pub mod known_clusters;
pub mod object;
pub mod rules;
pub mod secret;
