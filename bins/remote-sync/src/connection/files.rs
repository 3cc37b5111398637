//! Credentials from kubeconfig files.

use std::{path::PathBuf, sync::Arc, time::Duration};

use shared::{
    kubeconfig::{self, Reach},
    stop::Stop,
};

use super::Connection;

/// A rotated token or certificate may be beside the kubeconfig, whose own time says nothing then; to read
/// it all takes less than a millisecond.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Keeps what the files hold offered until the end. One that is missing or cannot be used changes nothing
/// for a connection that has credentials.
pub(crate) fn follow(files: &[(PathBuf, Arc<Connection>)], reach: Reach, stop: &Stop) {
    loop {
        for (path, connection) in files {
            connection.offer(kubeconfig::from_file(path, reach));
        }
        if stop.wait(LOOK_AGAIN) {
            return;
        }
    }
}
