//! An in-memory Kubernetes API server for tests and demos: the real server's responses over real TLS, and injected
//! faults. The API is synchronous; the server runs in its own threads until it is dropped.
//!
//! ```no_run
//! let server = dev_apiserver::Server::start(dev_apiserver::Options::default())?;
//! std::fs::write("kubeconfig", server.kubeconfig())?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod ca;
mod cluster;
mod connection;
mod controllers;
mod delete;
mod der;
mod discovery;
mod effects;
mod faults;
mod form;
mod gate;
mod http;
mod identity;
mod kinds;
mod listener;
mod lock;
mod managed_fields;
mod metadata;
mod objects;
mod patch;
mod rbac;
mod read;
mod requests;
mod resources;
mod reviews;
mod router;
mod rules;
mod schema;
mod selectors;
mod server;
mod signer;
mod status;
mod store;
mod subjects;
mod target;
mod time;
mod tls;
mod user;
mod watch;
mod write;

pub use ca::Ca;
pub use faults::Faults;
pub use gate::State;
pub use requests::{Counters, Request};
pub use resources::Resource;
pub use rules::{Action, Rule};
pub use server::{Options, Server};
pub use signer::SignerOptions;
pub use store::Backup;
pub use subjects::{Bearer, Issued};
pub use user::User;
