//! What users would lose: one request per needed certificate, the credential, other people's objects, the
//! heartbeat, the hub they moved to. `make test` and `make e2e-smoke` run these.

mod crash;
mod deletion;
mod election;
mod join;
mod moved;
mod names;
mod operator;
mod outage;
mod refused;
mod rotation;
mod secrecy;
mod stored;
mod takeover;
