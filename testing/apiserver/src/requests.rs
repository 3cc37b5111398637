//! The log of all requests, for tests that count or inspect them.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Instant, SystemTime},
};

use crate::lock::lock;

/// The number of bytes kept of each request body.
const BODY_KEPT: usize = 64 * 1024;

/// One logged request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Sequence number of the request.
    pub id: u64,
    /// When its head and body had arrived.
    pub at: Instant,
    /// The same time by the wall clock.
    pub time: SystemTime,
    /// Number of the connection that carried it, counted from 1.
    pub connection: u64,
    /// The effective user, after impersonation; empty if unauthenticated.
    pub user: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Raw query.
    pub query: String,
    /// RBAC verb: get, list, watch, create, update, patch, delete.
    pub verb: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource; empty for paths such as `/version`.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name of the object, or empty.
    pub name: String,
    /// `User-Agent` header.
    pub user_agent: String,
    /// `Accept` header.
    pub accept: String,
    /// `Content-Type` header.
    pub content_type: String,
    /// The first 64 KiB of the body.
    pub body: Vec<u8>,
    /// Status code sent; 0 if none was sent (yet).
    pub code: u16,
    /// Bytes of the answer, including its head; for a watch, set when it ends.
    pub sent: u64,
}

impl Request {
    pub(crate) fn keep_body(&mut self, body: &[u8]) {
        self.body = body[..body.len().min(BODY_KEPT)].to_vec();
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Numbers of connections and handshakes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted TCP connections.
    pub connections: u64,
    /// Completed TLS handshakes.
    pub handshakes: u64,
}

#[derive(Default)]
pub(crate) struct Log {
    entries: Mutex<Vec<Request>>,
    next: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) handshakes: AtomicU64,
}

impl Log {
    pub(crate) fn begin(&self, mut request: Request) -> u64 {
        request.id = self.next.fetch_add(1, Relaxed) + 1;
        let id = request.id;
        lock(&self.entries).push(request);
        id
    }

    /// Changes an entry unless it was cleared.
    pub(crate) fn amend(&self, id: u64, change: impl FnOnce(&mut Request)) {
        let mut entries = lock(&self.entries);
        // Ids are nearly sorted (two connections may swap neighbors), so search from the end.
        if let Some(entry) = entries.iter_mut().rev().find(|entry| entry.id == id) {
            change(entry);
        }
    }

    pub(crate) fn all(&self) -> Vec<Request> {
        lock(&self.entries).clone()
    }

    pub(crate) fn clear(&self) {
        lock(&self.entries).clear();
    }

    pub(crate) fn take_until(&self, end: Instant) -> Vec<Request> {
        lock(&self.entries).extract_if(.., |request| request.at <= end).collect()
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            connections: self.connections.load(Relaxed),
            handshakes: self.handshakes.load(Relaxed),
        }
    }
}
