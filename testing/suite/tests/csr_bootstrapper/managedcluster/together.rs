//! The dumper beside the program: it writes the Secret to files.

use std::fs;

use suite::{dumper, ocm::AVAILABLE, spoke::Spoke, throughout};

#[test]
fn with_the_dumper_ready_is_what_has_arrived_in_the_files() {
    let spoke = Spoke::auto("dumped");
    let path = spoke.directory.path().join("files");
    fs::create_dir(&path).expect("the volume");
    let agent = spoke.start(&["-hub-kubeconfig-dir", path.to_str().expect("a path")]);
    spoke.hub.wait_for_condition(&spoke.cluster, AVAILABLE, "True");
    let body = agent.wait_for_code("/readyz", 503);
    assert!(body.contains(path.to_str().expect("a path")), "{body}");
    throughout(500, "nobody wrote the files", || agent.ask("/readyz").0 == 503);

    let (dumper, _) = spoke.start_dumper(&[]);
    dumper.wait_for_code("/readyz", 200);
    agent.wait_for_code("/readyz", 200);
    assert_eq!(Some(dumper::set(&path)), spoke.credential());

    // What vanishes from the files is not ready any more.
    drop(dumper);
    for entry in fs::read_dir(&path).expect("the directory").flatten() {
        let path = entry.path();
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
    agent.wait_for_code("/readyz", 503);
    let _dumper = spoke.start_dumper(&[]);
    agent.wait_for_code("/readyz", 200);
}
