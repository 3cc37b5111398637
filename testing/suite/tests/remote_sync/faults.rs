//! What only the embedded servers can do: faults on request, three and more servers, a record of all requests.

mod crash;
mod doubt;
mod failures;
pub(crate) mod known_clusters;
mod load;
mod push;
pub(crate) mod registry;
mod secrecy;
mod silence;
