//! Certificates that are rotated. What goes wrong with requests and credentials is in `smoke` and in the model of
//! `Certificate::sync`.

pub(crate) mod forge;
pub(crate) mod rotation;
pub(crate) mod support;
