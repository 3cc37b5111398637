//! The tests' HTTP client, based on ureq.

use std::{
    io::BufRead,
    sync::Arc,
    time::{Duration, Instant},
};

use dev_apiserver::{Options, Server};
use serde_json::{Value, json};
use ureq::{
    Agent,
    tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig},
};

pub(crate) struct Client {
    agent: Agent,
    url: String,
    token: Option<String>,
}

/// An answer; `json` is null if the body is not JSON.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) code: u16,
    pub(crate) json: Value,
    pub(crate) text: String,
    pub(crate) headers: ureq::http::HeaderMap,
}

impl Got {
    pub(crate) fn reason(&self) -> &str {
        self.json["reason"].as_str().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.json["message"].as_str().unwrap_or_default()
    }
}

impl Client {
    pub(crate) fn new(server: &Server, user: &str, groups: &[&str]) -> Self {
        let pair = server.client_certificate(user, groups, Duration::from_secs(3600));
        Self::with(server, Some(pair))
    }

    pub(crate) fn with(server: &Server, pair: Option<(String, String)>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root = Certificate::from_pem(server.ca().certificate_pem.as_bytes()).expect("a CA");
        let client = pair.map(|(certificate, key)| {
            let chain = [Certificate::from_pem(certificate.as_bytes()).expect("a certificate")];
            ClientCert::new_with_certs(&chain, PrivateKey::from_pem(key.as_bytes()).expect("a key"))
        });
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(vec![root])))
            .client_cert(client)
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(Duration::from_secs(5)))
            .build()
            .new_agent();
        Self { agent, url: server.url(), token: None }
    }

    pub(crate) fn with_token(server: &Server, token: &str) -> Self {
        Self { token: Some(token.into()), ..Self::with(server, None) }
    }

    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<&str>,
    ) -> Result<Got, ureq::Error> {
        let url = format!("{}{path}", self.url);
        let mut request = match method {
            "POST" => self.agent.post(url),
            "PUT" => self.agent.put(url),
            "PATCH" => self.agent.patch(url),
            "DELETE" => self.agent.delete(url).force_send_body(),
            _ => self.agent.get(url).force_send_body(),
        };
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = match body {
            Some(body) => request.header("content-type", media).send(body)?,
            None => request.send_empty()?,
        };
        let (parts, mut body) = response.into_parts();
        let text = body.read_to_string()?;
        let json = serde_json::from_str(&text).unwrap_or_default();
        Ok(Got { code: parts.status.as_u16(), json, text, headers: parts.headers })
    }

    pub(crate) fn send(&self, method: &str, path: &str, media: &str, body: Value) -> Got {
        let body = (!body.is_null()).then(|| body.to_string());
        self.try_send(method, path, media, body.as_deref()).expect("an answer")
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        self.send("GET", path, "", Value::Null)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Got {
        self.send("POST", path, "application/json", body)
    }

    pub(crate) fn put(&self, path: &str, body: Value) -> Got {
        self.send("PUT", path, "application/json", body)
    }

    pub(crate) fn merge(&self, path: &str, body: Value) -> Got {
        self.send("PATCH", path, "application/merge-patch+json", body)
    }

    pub(crate) fn delete(&self, path: &str, body: Value) -> Got {
        self.send("DELETE", path, "application/json", body)
    }

    /// The events of a watch; the iterator ends with the watch.
    pub(crate) fn watch(&self, path: &str) -> impl Iterator<Item = Value> + use<> {
        let response = self.agent.get(format!("{}{path}", self.url)).call().expect("a watch");
        let lines = std::io::BufReader::new(response.into_body().into_reader()).lines();
        lines.map_while(Result::ok).map(|line| serde_json::from_str(&line).unwrap_or_default())
    }
}

pub(crate) fn start() -> (Server, Client) {
    let options = Options { bookmarks: Duration::from_millis(100), ..Options::default() };
    let server = Server::start(options).expect("a free port");
    server.create_namespace("a");
    let client = Client::new(&server, "tester", &["testers"]);
    (server, client)
}

pub(crate) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases/x";
pub(crate) const SECRETS: &str = "/api/v1/namespaces/a/secrets";

pub(crate) fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "x", "namespace": "a"},
        "spec": {"leaseDurationSeconds": 60, "renewTime": "2026-01-02T03:04:05.000006Z"},
    })
}

pub(crate) fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "a"},
        "data": {"k": "dg=="},
    })
}

/// Waits up to 15 seconds for the condition.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(15), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
