//! The programs that are shipped, as the manifests run them and within the memory that these allow, among
//! peers that lie, stall and flood: servers, Secrets, users of a hub, probes. None of them may cost more
//! than its own service, and none leaves anything behind that needs a restart.
//!
//! On the embedded server alone: the real one does none of this on request.

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
