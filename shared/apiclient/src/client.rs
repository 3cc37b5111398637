//! REST client for one API server: every request is bounded in time and size, and credentials can rotate.

mod counts;
pub(crate) mod dial;
mod exchange;
pub(crate) mod request;
pub(crate) mod status;
pub(crate) mod tls;
pub(crate) mod transport;

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use ureq::http::Method;

use kubeconfig::config::ClusterConfig;

use crate::{
    api, certificate,
    client::{
        request::{ApiRequest, JSON, encoded},
        transport::Transport,
    },
    error::{Error, Result},
    lock::lock,
    memory::Budget,
    resource::Target,
};

pub use self::{
    counts::{Histogram, RequestCounts, RequestMetrics},
    exchange::{LIST_TIMEOUT, Timeouts},
};
pub use crate::client::request::{Patch, Preconditions, Propagation};

pub type Load = Box<dyn Fn() -> Result<ClusterConfig> + Send + Sync>;

/// When credentials are reloaded.
pub enum Reload {
    /// Never: the owner of the client calls [`Client::swap`].
    Never,
    /// Once after the server's 401.
    WhenRefused(Load),
    /// After a 401, and before a request if the last read was long ago.
    FromFiles(Load),
}

/// A client for one API server. It is cheap to clone: clones share all except their limits. No lock is held during a
/// request.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    largest: usize,
    timeout: Option<Duration>,
    field_manager: &'static str,
    impersonated: Option<Arc<str>>,
}

/// The default memory limit for an object, in bytes: a Secret of 1 MiB is 1.34 MiB in base64, and the maps
/// around it cost less than 64 KiB.
pub const USUAL_OBJECT: usize = 2 << 20;

struct Inner {
    name: String,
    timeouts: Timeouts,
    state: Mutex<State>,
    reload: Reload,
    requests: RequestMetrics,
}

/// A server's clock, from the Date headers of its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerClock {
    /// In seconds.
    pub ahead: i64,
    /// The time in the last answer.
    pub time: SystemTime,
    /// When that answer arrived.
    pub last: Instant,
}

/// A series of 401 answers of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub since: Instant,
    pub last: Instant,
}

static GENERATIONS: AtomicU64 = AtomicU64::new(0);

struct State {
    transport: Transport,
    /// The number of the identity, unique in the process: a request detects that the identity changed meanwhile.
    generation: u64,
    next_reload: Instant,
    clock: Option<ServerClock>,
    refused: Option<Refused>,
    /// The last byte of a successful answer or of a watch event.
    heard: Option<Instant>,
}

impl Client {
    /// A client for `config`; messages call the server `name` ("the hub").
    pub fn new(
        name: &str,
        config: ClusterConfig,
        reload: Reload,
        timeouts: Timeouts,
    ) -> Result<Self> {
        Self::counting(name, config, reload, timeouts, RequestMetrics::default())
    }

    /// Like [`Client::new`], and continues the request counts of an earlier client.
    pub fn counting(
        name: &str,
        config: ClusterConfig,
        reload: Reload,
        timeouts: Timeouts,
        requests: RequestMetrics,
    ) -> Result<Self> {
        let state = State {
            transport: Transport::new(name, config, timeouts.request)?,
            generation: GENERATIONS.fetch_add(1, Relaxed),
            next_reload: Instant::now() + timeouts.files,
            clock: None,
            refused: None,
            heard: None,
        };
        requests.count_for(&state.transport.host());
        let (name, state) = (name.to_owned(), Mutex::new(state));
        let inner = Arc::new(Inner { name, timeouts, state, reload, requests });
        let (timeout, field_manager, impersonated) = (None, "", None);
        Ok(Self { inner, largest: USUAL_OBJECT, timeout, field_manager, impersonated })
    }

    /// A handle with its own memory limit for each object, in bytes.
    #[must_use]
    pub fn limited_to(&self, largest: usize) -> Self {
        Self { largest, ..self.clone() }
    }

    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self.clone() }
    }

    /// A handle whose writes name this field manager, and whose reads keep `managedFields`. By default, the server
    /// derives the manager from the program's name.
    #[must_use]
    pub fn managing_as(&self, field_manager: &'static str) -> Self {
        Self { field_manager, ..self.clone() }
    }

    #[must_use]
    pub fn impersonating(&self, user: &str) -> Self {
        Self { impersonated: Some(user.into()), ..self.clone() }
    }

    /// Reads an object; `NotFound` only if the server names it.
    pub fn get(&self, target: &Target<'_>) -> Result<Value> {
        self.object(&ApiRequest::get(*target))
    }

    /// Never repeated: an attempt that was cut off may have created the object.
    pub fn create(&self, target: &Target<'_>, object: &Value) -> Result<Value> {
        let target = if target.subresource.is_some() { *target } else { target.siblings() };
        self.write(ApiRequest::write(Method::POST, target, JSON, object, false))
    }

    /// Replaces an object as a whole, if it still has the resourceVersion in `object`.
    pub fn replace(&self, target: &Target<'_>, object: &Value) -> Result<Value> {
        let guarded = object["metadata"]["resourceVersion"].is_string();
        self.write(ApiRequest::write(Method::PUT, *target, JSON, object, guarded))
    }

    pub fn get_typed<T: DeserializeOwned>(&self, target: &Target<'_>) -> Result<T> {
        self.typed(target, self.get(target)?)
    }

    /// Creates an object without a resourceVersion; replaces one with a resourceVersion.
    pub fn write_typed<T>(&self, target: &Target<'_>, object: &T) -> Result<T>
    where
        T: Serialize + DeserializeOwned,
    {
        let object = serde_json::to_value(object);
        let mut object =
            object.map_err(|_| Error::Invalid(format!("{target} cannot be written")))?;
        object["apiVersion"] = target.resource.api_version().into();
        object["kind"] = (&*target.resource.kind).into();
        let is_new = object["metadata"]["resourceVersion"].is_null();
        let write = if is_new { Self::create } else { Self::replace };
        self.typed(target, write(self, target, &object)?)
    }

    pub fn patch(&self, target: &Target<'_>, kind: Patch, patch: &Value) -> Result<Value> {
        self.write(ApiRequest::patch(*target, kind, patch))
    }

    /// Server-side apply as `field_manager`; a field of another manager is a conflict unless `force` takes it over.
    pub fn apply(
        &self,
        target: &Target<'_>,
        object: &Value,
        field_manager: &str,
        force: bool,
    ) -> Result<Value> {
        let query = format!("fieldManager={}&force={force}", encoded(field_manager));
        // Apply is idempotent.
        let repeatable = true;
        let request = ApiRequest::patch(*target, Patch::Apply, object);
        self.object(&ApiRequest { query, repeatable, ..request })
    }

    /// Deletes an object if `preconditions` hold. It may stay until finalizers and dependents are gone.
    pub fn delete(
        &self,
        target: &Target<'_>,
        propagation: Propagation,
        preconditions: &Preconditions,
    ) -> Result<()> {
        self.json(&ApiRequest::delete(*target, propagation, preconditions)).map(drop)
    }

    /// Reads JSON from a path that is not a resource, such as a discovery document.
    pub fn document(&self, path: &str) -> Result<Value> {
        self.json(&ApiRequest::text(path))
    }

    /// Reads text from a path such as `/livez`; returns any status code with the body.
    pub fn text(&self, path: &str) -> Result<(u16, String)> {
        self.read_text(&ApiRequest::text(path))
    }

    /// Switches to another identity or server. Old connections are closed, so that running watches resume with the new
    /// identity. Returns `false` if `config` is already in use; after an error the old identity stays.
    pub fn swap(&self, config: ClusterConfig) -> Result<bool> {
        let mut state = self.state();
        if state.transport.config == config {
            return Ok(false);
        }
        let fresh = Transport::new(self.name(), config, self.inner.timeouts.request)?;
        let old = std::mem::replace(&mut state.transport, fresh);
        state.generation = GENERATIONS.fetch_add(1, Relaxed);
        state.refused = None;
        self.inner.requests.count_for(&state.transport.host());
        drop(state);
        old.agent.shutdown();
        log::info!(server = self.name(); "credentials rotated");
        Ok(true)
    }

    /// The number of the identity, unique in the process.
    pub fn generation(&self) -> u64 {
        self.state().generation
    }

    /// The current series of 401 answers to this identity. Only answers with a Status count: a gateway's refusal says
    /// nothing about the credential.
    pub fn refused(&self) -> Option<Refused> {
        self.state().refused
    }

    /// When the last byte of a successful answer or watch event arrived.
    pub fn heard(&self) -> Option<Instant> {
        self.state().heard
    }

    /// Ends all requests of this client, including watches. A later request would reconnect.
    pub fn close(&self) {
        let agent = self.state().transport.agent.clone();
        agent.shutdown();
    }

    pub fn config(&self) -> ClusterConfig {
        self.state().transport.config.clone()
    }

    /// The server's clock, once an answer has a Date. Only JSON answers count: others may come from a gateway.
    pub fn clock(&self) -> Option<ServerClock> {
        self.state().clock
    }

    pub fn requests(&self) -> &RequestMetrics {
        &self.inner.requests
    }

    pub fn certificate_expiry(&self) -> Option<SystemTime> {
        certificate::expiry(&self.state().transport.config.identity.as_ref()?.certificate)
    }

    pub fn host(&self) -> String {
        self.state().transport.host()
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn budget(&self, request: &ApiRequest<'_>) -> Budget {
        Budget::new(request.budget(self.largest))
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.inner.timeouts
    }

    /// Sends a write in the name of the handle's field manager.
    fn write(&self, request: ApiRequest<'_>) -> Result<Value> {
        let query = match self.field_manager {
            "" => String::new(),
            name => format!("fieldManager={name}"),
        };
        self.object(&ApiRequest { query, ..request })
    }

    pub(crate) fn typed<T: DeserializeOwned>(
        &self,
        target: &Target<'_>,
        object: Value,
    ) -> Result<T> {
        let wanted = || format!("not a valid {}", target.resource.kind);
        api::parse(object).ok_or_else(|| self.odd(&ApiRequest::get(*target), &wanted()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use kubeconfig::config::{Auth, Trust};

    use super::*;

    /// A client of a server that is not there.
    pub(crate) fn client() -> Client {
        let config = ClusterConfig {
            server: "http://127.0.0.1:1".into(),
            trust: Trust::System,
            server_name: None,
            identity: None,
            auth: Auth::None,
            proxy: None,
            namespace: None,
        };
        let timeouts = Timeouts::with_request(Duration::from_secs(1));
        Client::new("the hub", config, Reload::Never, timeouts).unwrap()
    }
}
