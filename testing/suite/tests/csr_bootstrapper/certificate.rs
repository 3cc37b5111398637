//! Certificates that are rotated, and requests. What goes wrong with credentials is in `smoke` and in the model of
//! `Certificate::sync`.

pub(crate) mod forge;
mod requests;
pub(crate) mod rotation;
pub(crate) mod support;
