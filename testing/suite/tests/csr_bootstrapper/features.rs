//! What a flag turns off costs neither cluster a request.

use serde_json::json;
use suite::{
    needs::{Need, needs},
    ocm::serve_claims,
    spoke::Spoke,
    stays,
};

use crate::{
    capacity::Node,
    claim, managed_namespace,
    support::{account, cluster, joins, sent},
};

#[test]
fn features_that_are_off_ask_and_tell_nothing() {
    if !needs(Need::Embedded, "its log of requests is read") {
        return;
    }
    let spoke = Spoke::auto("off");
    serve_claims(&spoke.managed);
    claim::put(&spoke, "a", "1", &json!({}));
    let _node = Node::new(&spoke, "a", &json!({"cpu": "4"}));
    let gates = "-feature-gates=AddonManagement=false,ClusterClaim=false";
    let _agent = joins(&spoke, &[gates, "-report-capacity=false", "-managed-namespaces=false"]);
    spoke.hub.add_addon(&spoke.cluster, "addon1", "addons");
    managed_namespace::manage(&spoke, &["never"]);
    let off = ["managedclusteraddons", "clusterclaims", "nodes", "namespaces"];
    stays("nothing is asked", || {
        let requests = [spoke.managed.requests_of(&account(&spoke)), sent(&spoke)].concat();
        !requests.iter().any(|request| off.contains(&&*request.resource))
    });
    for told in ["capacity", "clusterClaims"] {
        assert!(cluster(&spoke)["status"][told].is_null(), "{told}");
    }
}
