//! Client of the Kubernetes REST API: requests, watches, Leases, leader election.

pub mod api;
pub mod backoff;
pub mod certificate;
pub mod client;
pub mod controller;
pub mod discovery;
pub mod election;
pub mod error;
pub mod event;
pub mod json;
pub mod lease;
pub mod lock;
pub mod log_line;
pub mod memory;
pub mod rate_limiter;
pub mod reflector;
pub mod resource;
pub mod stop;
pub mod time;
pub mod watch;
pub mod workqueue;
