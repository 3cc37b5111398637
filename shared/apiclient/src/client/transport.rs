//! Transport of one identity: the HTTP agent with its connections, and the headers.

use std::{collections::BTreeSet, env, sync::Mutex, time::Duration};

use ureq::{
    Agent,
    http::{HeaderValue, Request, Uri, header},
    unversioned::transport::{ConnectProxyConnector, Connector, SocksConnector},
};
use zeroize::Zeroizing;

use kubeconfig::config::{Auth, ClusterConfig, Trust};

use crate::{
    client::{
        dial::{self, Dial, LazyResolver},
        request::ApiRequest,
        tls::TlsConnector,
    },
    error::{Error, Result},
    lock::lock,
};

/// The time limit for DNS, TCP, proxy and TLS together; each has 5 s of its own.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// kube-apiserver closes idle connections after 90 s (apiserver `pkg/server/secure_serving.go:171`).
const MAX_IDLE_AGE: Duration = Duration::from_secs(90);
/// remote-sync's default number of workers. ureq's default is 3: other workers would begin with a handshake.
const MAX_IDLE_CONNECTIONS: usize = 8;

pub(crate) struct Transport {
    pub(crate) config: ClusterConfig,
    pub(crate) agent: Agent,
    /// Host and port of the server and its proxy, for errors.
    pub(crate) address: String,
    server: Uri,
    authorization: Option<HeaderValue>,
}

impl Transport {
    /// Messages call the server `name`.
    pub(crate) fn new(name: &str, config: ClusterConfig, timeout: Duration) -> Result<Self> {
        let server: Uri = config
            .server
            .parse()
            .map_err(|_| Error::bad_config(format!("server {:?} is not a URL", config.server)))?;
        let proxy = dial::proxy(config.proxy.as_deref(), &server, &|name| env::var(name).ok())?;
        let tls = TlsConnector::new(&config, proxy.is_some())?;
        warn(name, &config);
        let address = address(&server, proxy.as_ref());
        let connector =
            ().chain(SocksConnector::default())
                .chain(ConnectProxyConnector::default())
                .chain(Dial)
                .chain(tls);
        let agent_config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            // Even `None`: by default, ureq reads the environment by rules other than Go's.
            .proxy(proxy)
            .user_agent(user_agent())
            .accept_encoding("identity")
            // 128 KiB each by default, for each connection.
            .input_buffer_size(16 << 10)
            .output_buffer_size(4 << 10)
            // Less than the buffer: ureq takes a full one for the end of the connection.
            .max_response_header_size((16 << 10) - 1)
            .max_idle_age(MAX_IDLE_AGE)
            .max_idle_connections(MAX_IDLE_CONNECTIONS)
            .max_idle_connections_per_host(MAX_IDLE_CONNECTIONS)
            .timeout_connect(Some(CONNECT_TIMEOUT.min(timeout)))
            .timeout_global(Some(timeout))
            .build();
        let agent = Agent::with_parts(agent_config, connector, LazyResolver);
        let authorization = authorization(&config.auth)?;
        Ok(Self { config, server, address, agent, authorization })
    }

    pub(crate) fn host(&self) -> String {
        self.server.authority().map(ToString::to_string).unwrap_or_default()
    }

    /// The HTTP request, which impersonates the user `impersonated`, if any.
    pub(crate) fn request(
        &self,
        request: &ApiRequest<'_>,
        impersonated: Option<&str>,
    ) -> Result<Request<Vec<u8>>> {
        let mut builder = Request::builder()
            .method(request.method.clone())
            .uri(format!("{}{}", self.config.server, request.path()))
            .header(header::ACCEPT, request.accept);
        if let Some(authorization) = &self.authorization {
            builder = builder.header(header::AUTHORIZATION, authorization);
        }
        if let Some(user) = impersonated {
            builder = builder.header("Impersonate-User", user);
        }
        if let Some((content_type, _)) = &request.body {
            builder = builder.header(header::CONTENT_TYPE, *content_type);
        }
        let body = request.body.as_ref().map(|(_, body)| body.clone()).unwrap_or_default();
        builder.body(body).map_err(|_| {
            Error::bad_config(format!("{}: its path or user is not valid", request.target))
        })
    }
}

/// Host and port only: the URL of a proxy may hold a password.
fn address(server: &Uri, proxy: Option<&ureq::Proxy>) -> String {
    let address = format!("{}:{}", server.host().unwrap_or_default(), dial::port(server));
    match proxy {
        Some(proxy) => format!("{address} by proxy {}:{}", proxy.host(), proxy.port()),
        None => address,
    }
}

/// Warns of an insecure connection.
fn warn(name: &str, config: &ClusterConfig) {
    static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let danger = match config.trust {
        _ if config.server.starts_with("http:") => {
            "plain HTTP: anyone in between can read and change everything"
        }
        Trust::Anything => "insecure-skip-tls-verify: anyone in between can impersonate the server",
        Trust::Bundle(_) | Trust::System => return,
    };
    // Once: programs create a client for each attempt to connect.
    if lock(&WARNED).insert(format!("{name} {danger}")) {
        log::warn!(server = name; "{danger}");
    }
}

fn authorization(auth: &Auth) -> Result<Option<HeaderValue>> {
    let Auth::Token(token) = auth else { return Ok(None) };
    let text = Zeroizing::new(format!("Bearer {}", **token));
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| Error::bad_config("the token holds characters that no header can"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn user_agent() -> String {
    let program = env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    format!(
        "{}/{} (linux/{})",
        name.unwrap_or("sidecar"),
        env!("CARGO_PKG_VERSION"),
        env::consts::ARCH
    )
}
