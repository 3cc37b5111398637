//! The operations shared by the in-process server and the control interface.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    kinds,
    metadata::{count_generation, keep_metadata, stamp, text},
    resources::Resource,
    signer,
    status::Status,
    store::{Key, Outcome},
    user::User,
};

/// A handle on the server, shared with the control interface.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) address: SocketAddr,
}

impl Handle {
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn kubeconfig(&self) -> String {
        let ca = &self.cluster.ca;
        let ten_years = Duration::from_secs(3650 * 24 * 3600);
        let (certificate, key) = ca.client_certificate("admin", &["system:masters"], ten_years);
        let [authority, certificate, key] =
            [&*ca.certificate_pem, &*certificate, &*key].map(|pem| STANDARD.encode(pem));
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: dev\nclusters:\n- name: dev\n  \
             cluster:\n    server: {}\n    certificate-authority-data: {authority}\ncontexts:\n- name: dev\n  context:\n    \
             cluster: dev\n    user: admin\nusers:\n- name: admin\n  user:\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n",
            self.url()
        )
    }

    pub(crate) fn put(&self, mut object: Value) -> Result<Value, Status> {
        let (version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
        let resource = self.cluster.registry.of_kind(version, kind).ok_or_else(|| {
            Status::bad_request(format!("no kind {kind:?} is registered for version {version:?}"))
        })?;
        let version = version.rsplit('/').next().unwrap_or_default().to_string();
        kinds::to_stored(&resource, &mut object);
        kinds::decode(&resource, &mut object)?;
        let name = text(&object, "/metadata/name").to_string();
        if name.is_empty() {
            return Err(Status::bad_request("metadata.name is missing"));
        }
        let namespace = text(&object, "/metadata/namespace");
        if resource.namespaced && namespace.is_empty() {
            return Err(Status::bad_request("metadata.namespace is missing"));
        }
        let key = self.cluster.key(&resource, namespace, &name);
        let stored = self.cluster.transact(&key, |current| {
            Ok::<_, Status>(Outcome::Put(with_server_metadata(&resource, current, object)))
        })?;
        Ok(kinds::present(&resource, &version, stored))
    }

    /// Adds a condition to a CSR, as `kubectl certificate` does.
    pub(crate) fn decide(&self, name: &str, condition: &str) -> bool {
        let key = Key {
            resource: "certificatesigningrequests.certificates.k8s.io".into(),
            namespace: String::new(),
            name: name.into(),
        };
        let decided = self.cluster.transact(&key, |current| {
            let mut next = current.ok_or(())?.clone();
            if signer::has_condition(&next, condition) {
                return Ok::<_, ()>(Outcome::Answer(next));
            }
            signer::add_condition(&mut next, condition, "ByTest", "decided by the test");
            Ok(Outcome::Put(next))
        });
        decided.is_ok()
    }

    /// Creates a namespace unless it exists.
    pub(crate) fn create_namespace(&self, name: &str) {
        if self.cluster.namespace(name).is_none() {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.put(namespace).expect("namespaces are served");
        }
    }
}

/// Returns the object with the metadata that the server sets; keeps a given status.
fn with_server_metadata(resource: &Resource, current: Option<&Value>, mut object: Value) -> Value {
    match current {
        Some(current) => {
            keep_metadata(current, &mut object);
            count_generation(resource, current, &mut object);
        }
        None => {
            let status = object.get("status").cloned();
            let spec = object.get("spec").cloned();
            kinds::prepare(resource, &mut object, &User::default());
            if let (true, Some(spec)) = (resource.is("certificatesigningrequests"), spec) {
                object["spec"] = spec;
            }
            if let Some(status) = status {
                object["status"] = status;
            }
            stamp(resource, &mut object);
        }
    }
    object
}
