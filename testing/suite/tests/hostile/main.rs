//! The shipped programs, as in the manifests and within their memory limits, among peers that lie, stall and flood:
//! servers, Secrets, users of a hub, probes. None of them may affect more than its own service, or leave anything
//! behind that needs a restart.
//!
//! Only on the embedded server: the real one cannot do this on request.

mod agent;
mod clocks;
mod endpoint;
mod lease;
mod networks;
mod process;
mod shapes;
mod subjects;
mod sync;
mod watches;
mod works;
