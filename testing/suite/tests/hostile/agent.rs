//! csr-bootstrapper and a hub whose objects and errors are of any shape.

use serde_json::json;
use suite::{faults::answer, pause, within};

use crate::{
    shapes,
    subjects::{Agent, about},
};

#[test]
fn malformed_csrs_do_not_prevent_a_certificate() {
    let subject = Agent::new("agent-csr");
    let faults = subject.hub().faults();
    for (_, value) in shapes::values() {
        let resource = "certificatesigningrequests";
        let list = json!({"kind": "CertificateSigningRequestList", "metadata": {}, "items": value});
        let status =
            json!({"kind": "Status", "code": 503, "message": "x", "details": {"causes": value}});
        let csr = json!({"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1",
            "metadata": {"name": "x"}, "status": value});
        faults.add(about(resource, "list", answer(200, &list)).times(1));
        faults.add(about(resource, "create", answer(503, &status)).times(1));
        faults.add(about(resource, "get", answer(200, &csr)).times(1));
    }
    let agent = subject.start();
    pause(8000);
    faults.clear();
    within(80, &format!("it joins\n{}", agent.log()), || agent.ask("/readyz").0 == 200);
    subject.container.fits(&agent);
}
