//! Copies between clusters: remote-sync with two and more API servers, on either kind of server.
//!

mod content;
mod crash;
mod credentials;
mod deletion;
mod doubt;
mod equality;
mod events;
mod explain;
mod failures;
mod flags;
mod fleet;
mod identity;
mod kinds;
mod known_clusters;
mod late;
mod life;
mod load;
mod namespaces;
mod operation;
mod orphans;
mod pauses;
mod process;
mod push;
mod registry;
mod scope;
mod secrecy;
mod secrets;
mod silence;
mod smoke;
mod support;
mod track;
mod uploads;
mod waiting;
