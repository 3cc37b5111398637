//! What only the embedded servers can do: faults on request, a record of all requests, rights of one server alone.

mod addon_crash;
mod recovery;
mod shipped_secrets;
