//! kubeconfig and the Kubernetes REST client that the four sidecars share.

pub mod access;
pub mod error;
