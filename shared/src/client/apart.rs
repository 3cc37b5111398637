//! Connecting in a thread of its own.

use std::{io, thread};

use ureq::unversioned::transport::{ConnectionDetails, Connector};

/// A chain of connectors that runs in a thread that ends with it: looking a name up and a handshake take 30 KiB of
/// stack, which would stay with every thread that then waits for a watch.
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
            // A panic ends the process.
            thread.join().unwrap_or_else(|_| Err(io::Error::other("connecting has ended").into()))
        })
    }
}
