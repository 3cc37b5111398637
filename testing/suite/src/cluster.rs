//! One API server, embedded or real, with its administrator's access.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use apiclient::{
    client::{Client, Patch, Preconditions, Propagation, Reload, Timeouts},
    error::Error,
    resource::{LEASES, Resource, SECRETS, Target},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use dev_apiserver::{Faults, Options, Request, Server};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// The data of a Secret.
pub type Data = BTreeMap<String, Vec<u8>>;

/// A server, and the access to change anything on it.
pub struct Cluster {
    /// "hub" or "managed".
    pub name: String,
    pub client: Client,
    /// The embedded server, which can inject faults, if it is one.
    pub embedded: Option<Server>,
    pub address: String,
    pub ca: String,
    pub kubeconfig: PathBuf,
    _directory: Option<TempDir>,
}

/// Returns a kind that only the harness uses.
pub fn resource(group: &'static str, plural: &'static str, kind: &'static str) -> Resource {
    Resource { group: group.into(), version: "v1".into(), plural: plural.into(), kind: kind.into() }
}

impl Cluster {
    /// Starts an embedded server.
    pub fn embedded(name: &str) -> Arc<Self> {
        Self::embedded_with(name, Options::default())
    }

    pub fn embedded_with(name: &str, options: Options) -> Arc<Self> {
        let server = Server::start(options).expect("the embedded server starts");
        let directory = TempDir::new().expect("a temporary directory");
        let kubeconfig = directory.path().join("kubeconfig");
        fs::write(&kubeconfig, server.kubeconfig()).expect("the kubeconfig is written");
        let ca = server.ca().certificate_pem.clone();
        Arc::new(Self::new(name, kubeconfig, ca, Some(server), Some(directory)))
    }

    /// Returns one of the two servers of the real control plane.
    pub fn real(name: &'static str) -> Arc<Self> {
        static HUB: OnceLock<Arc<Cluster>> = OnceLock::new();
        static MANAGED: OnceLock<Arc<Cluster>> = OnceLock::new();
        let cell = if name == "hub" { &HUB } else { &MANAGED };
        let cluster = cell.get_or_init(|| {
            let directory =
                std::env::var("E2E_DIR").expect("testing/controlplane/run.sh sets E2E_DIR");
            let directory = PathBuf::from(directory).join(name);
            let ca = fs::read_to_string(directory.join("ca.crt")).expect("ca.crt");
            Arc::new(Self::new(name, directory.join("admin.kubeconfig"), ca, None, None))
        });
        cluster.clone()
    }

    fn new(
        name: &str,
        kubeconfig: PathBuf,
        ca: String,
        embedded: Option<Server>,
        directory: Option<TempDir>,
    ) -> Self {
        let access = kubeconfig::from_file(&kubeconfig).expect("the administrator's kubeconfig");
        let address = access.server.trim_start_matches("https://").to_owned();
        let timeout = Duration::from_secs(30);
        let client = Client::new(name, access, Reload::Never, Timeouts::with_request(timeout))
            .expect("a client");
        let name = name.to_owned();
        Self { name, client, embedded, address, ca, kubeconfig, _directory: directory }
    }

    /// Returns the embedded server, for tests that run only there.
    pub fn server(&self) -> &Server {
        self.embedded.as_ref().expect("an embedded server")
    }

    /// Returns the faults of the embedded server.
    pub fn faults(&self) -> &Faults {
        self.server().faults()
    }

    /// Returns this user's requests so far, on an embedded server.
    pub fn requests_of(&self, user: &str) -> Vec<Request> {
        let mut requests = self.server().requests();
        requests.retain(|request| request.user == user);
        requests
    }

    /// Returns the minor version of its Kubernetes.
    pub fn minor(&self) -> u32 {
        let version = self.client.document("/version").expect("the version");
        // Some versions end with a plus.
        let minor = version["minor"].as_str().map(|minor| minor.trim_end_matches('+').parse());
        minor.expect("a version").expect("a number")
    }

    pub fn get(&self, target: &Target<'_>) -> Option<Value> {
        match self.client.get(target) {
            Ok(object) => Some(object),
            Err(Error::NotFound(_) | Error::NotServed(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    #[track_caller]
    pub fn create(&self, target: &Target<'_>, object: &Value) -> Value {
        self.client.create(target, object).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    pub fn merge(&self, target: &Target<'_>, patch: &Value) -> Value {
        self.client.patch(target, Patch::Merge, patch).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn delete(&self, target: &Target<'_>) {
        match self.client.delete(target, Propagation::Background, &Preconditions::default()) {
            Ok(()) | Err(Error::NotFound(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds another owner's finalizer, so that the object stays when it is deleted.
    pub fn hold(&self, target: &Target<'_>) {
        self.merge(target, &json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    }

    /// Removes all finalizers.
    pub fn release(&self, target: &Target<'_>) {
        self.merge(target, &json!({"metadata": {"finalizers": null}}));
    }

    /// Creates a Secret with this data, or replaces the data of an existing one.
    pub fn put_secret(&self, namespace: &str, name: &str, data: &Data) {
        let encode =
            |(key, value): (&String, &Vec<u8>)| (key.clone(), json!(BASE64_STANDARD.encode(value)));
        let data: Map<String, Value> = data.iter().map(encode).collect();
        let target = SECRETS.object(namespace, name);
        while let Some(mut secret) = self.get(&target) {
            secret["data"] = Value::Object(data.clone());
            match self.client.replace(&target, &secret) {
                // A program wrote it meanwhile.
                Err(Error::Conflict(_)) => {}
                result => return drop(result.expect("the Secret is replaced")),
            }
        }
        let metadata = json!({"name": name, "namespace": namespace});
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
        self.create(&target.siblings(), &secret);
    }

    /// The data of a Secret, decoded; None where there is no such Secret.
    pub fn read_secret(&self, namespace: &str, name: &str) -> Option<Data> {
        let secret = self.get(&SECRETS.object(namespace, name))?;
        let decode = |value: &Value| BASE64_STANDARD.decode(value.as_str()?).ok();
        let data = secret["data"].as_object().into_iter().flatten();
        Some(data.map(|(key, value)| (key.clone(), decode(value).expect("base64"))).collect())
    }

    /// Returns the holder of an election's Lease, if any.
    pub fn leader(&self, namespace: &str, lease: &str) -> Option<String> {
        let lease = self.get(&LEASES.object(namespace, lease))?;
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        (!holder.is_empty()).then(|| holder.to_owned())
    }

    /// Creates a namespace with a new name on this server.
    pub fn new_namespace(&self, prefix: &str) -> String {
        let namespaces = resource("", "namespaces", "Namespace");
        let target =
            Target { resource: &namespaces, namespace: None, name: None, subresource: None };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": format!("{prefix}-")}});
        let created = self.create(&target, &body);
        created["metadata"]["name"].as_str().expect("a name").to_owned()
    }

    /// Creates a namespace with this name.
    pub fn create_namespace(&self, name: &str) {
        let namespaces = resource("", "namespaces", "Namespace");
        let target =
            Target { resource: &namespaces, namespace: None, name: None, subresource: None };
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create(&target, &body);
    }

    /// Creates the object of a manifest in `namespace`.
    pub fn apply(&self, manifest: &Value, namespace: &str) {
        let kind = manifest["kind"].as_str().expect("a kind");
        let group = manifest["apiVersion"].as_str().and_then(|version| version.split_once('/'));
        let resource = Resource {
            group: group.map(|(group, _)| group.to_owned()).unwrap_or_default().into(),
            version: "v1".into(),
            plural: format!("{}s", kind.to_lowercase()).into(),
            kind: kind.to_owned().into(),
        };
        let mut object = manifest.clone();
        object["metadata"]["namespace"] = json!(namespace);
        for subject in object["subjects"].as_array_mut().into_iter().flatten() {
            if subject["namespace"] == manifest["metadata"]["namespace"] {
                subject["namespace"] = json!(namespace);
            }
        }
        self.create(&resource.collection(namespace), &object);
    }
}
