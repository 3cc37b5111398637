//! A restart: what it has is kept, what has changed is noticed.

use suite::{
    eventually,
    ocm::{AUTO, Bootstrap, Hub},
    spoke::Spoke,
};

use crate::joining::support::{joined, roles, settled, stays_as_it_is, version};

// ocm spokeagent_restart_test.go:26
#[test]
fn restart_keeps_names_and_credential() {
    let (spoke, mut sidecar) = joined("restart");
    let before = (version(&spoke), spoke.credential());
    let (code, _) = sidecar.terminate();
    assert_eq!(code, Some(0), "{}", sidecar.log());
    for _ in 0..2 {
        let mut sidecar = spoke.start(&[]);
        sidecar.wait_for_code("/readyz", 200);
        settled(&spoke, &sidecar);
        assert_eq!((version(&spoke), spoke.credential()), before);
        sidecar.kill();
    }
    let mut sidecar = spoke.start(&[]);
    sidecar.wait_for_code("/readyz", 200);
    stays_as_it_is(&spoke, &mut sidecar);
    assert_eq!((version(&spoke), spoke.credential()), before);
    assert_eq!(roles(&spoke), ["bootstrap"], "the one request from before");
}

// ocm spokeagent_restart_test.go:162
#[test]
fn restart_with_another_cluster_name_joins_anew() {
    let mut spoke = Spoke::joining(Hub::new(), "restart-name", Bootstrap::Auto);
    let mut sidecar = spoke.start(&[]);
    settled(&spoke, &sidecar);
    sidecar.terminate();
    let first = std::mem::take(&mut spoke.cluster);
    spoke.cluster = format!("{AUTO}other-{}", spoke.namespace);
    let old = spoke.credential().expect("the Secret");

    let sidecar = spoke.start(&[]);
    sidecar.wait_for(&format!("has a certificate that is for user {:?}", user(&first)));
    eventually("there is another certificate", || {
        let new = spoke.certificate()?;
        (new.bearer.common_name == spoke.user()).then_some(())
    });
    settled(&spoke, &sidecar);
    let new = spoke.credential().expect("the Secret");
    assert_eq!(new["cluster-name"], spoke.cluster.as_bytes());
    assert_ne!(new["tls.key"], old["tls.key"]);
    assert_eq!(roles(&spoke), ["bootstrap"], "under the new name");
    assert!(spoke.hub.managed_cluster(&first).is_some(), "the old one is left to the hub's people");
}

fn user(cluster: &str) -> String {
    format!("{}{cluster}:{}", suite::ocm::PREFIX, suite::spoke::AGENT)
}
