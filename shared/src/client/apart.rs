//! Connecting in a thread of its own.

use std::{panic::resume_unwind, thread};

use ureq::unversioned::transport::{ConnectionDetails, Connector};

/// A chain of connectors that runs in a thread that ends with it: a handshake takes some 20 KiB of stack, which would
/// stay with every thread that then waits for a watch.
#[derive(Debug)]
pub(super) struct Apart<C>(pub(super) C);

impl<C: Connector> Connector for Apart<C> {
    type Out = C::Out;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        thread::scope(|scope| {
            let connect = || self.0.connect(details, chained);
            let thread = thread::Builder::new().spawn_scoped(scope, connect)?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}
