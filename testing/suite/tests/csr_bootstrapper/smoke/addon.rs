//! The credential of an add-on.

use suite::stays;

use crate::addon_registration::{certificate::keys, support::*};

#[test]
fn addon_gets_a_certificate_for_the_hubs_api_server() {
    let (spoke, _agent, namespace) = stage("addon-client", &[]);
    add(&spoke, &namespace, &of_signer(KUBE_CLIENT));
    has_driver(&spoke, "csr");
    let name = spoke.hub.approve_next(&spoke.cluster);
    assert!(name.starts_with(&format!("addon-{}-{ADDON}-", spoke.cluster)), "{name}");
    let (data, issued) = certificate(&spoke.managed, &namespace, KUBE_CLIENT_SECRET, None);
    assert_eq!(keys(&data), ["cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    assert_eq!(data["cluster-name"], spoke.cluster.as_bytes());
    assert_eq!(issued.bearer.common_name, user(&spoke));
    assert_eq!(issued.bearer.organizations, [group(&spoke)]);
    is_known(&data);
    let rotated = told(&spoke, "ClusterCertificateRotated", "True");
    assert_eq!(rotated["reason"], "ClientCertificateUpdated");
    let message = rotated["message"].as_str().expect("a message");
    assert!(message.starts_with("client certificate rotated starting from "), "{message}");
    stays("one request is enough", || csrs(&spoke).len() == 1);
}
