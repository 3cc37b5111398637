//! Helpers about certificates. What goes wrong with credentials is in `smoke` and in the model of `Certificate::sync`.

pub(crate) mod forge;
pub(crate) mod support;
