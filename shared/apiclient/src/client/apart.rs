//! Work that takes much stack, in a thread that ends with it.

use std::{io, thread};

use ureq::unversioned::transport::{ConnectionDetails, Connector};

/// The result of `work`, which runs in a thread that ends with it: the stack that it takes would stay with every thread
/// that then waits for a watch.
pub(super) fn apart<T: Send>(
    work: impl FnOnce() -> Result<T, ureq::Error> + Send,
) -> Result<T, ureq::Error> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work)?;
        // A panic ends the process.
        thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread has ended").into()))
    })
}

/// A chain of connectors that runs apart: looking a name up and a handshake take 30 KiB of stack.
#[derive(Debug)]
pub(super) struct Apart<C>(pub(super) C);

impl<C: Connector> Connector for Apart<C> {
    type Out = C::Out;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        apart(|| self.0.connect(details, chained))
    }
}
