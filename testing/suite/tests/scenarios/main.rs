//! What a user relies on, on either server: `make test` runs it on the embedded one, `make e2e` on the
//! real control plane. Most of the time is waiting: more threads than processors are a gain
//! (`-- --test-threads=8`).

mod answers;
mod argv;
mod decision;
mod election;
mod endpoint;
mod incluster;
mod kubeconfigs;
mod kubectl;
mod lease;
mod lifecycle;
mod outage;
mod pod;
mod rights;
mod rotation;
mod secrecy;
mod secret;
mod support;
mod target;
mod upstream;
