//! Files that a kubeconfig names, and Secrets.

use super::*;

#[test]
fn relative_paths_resolve_against_the_kubeconfig() {
    let dir = Dir::new("relative");
    dir.write("pki/ca.crt", CA);
    dir.write("pki/tls.crt", CERT);
    let key = dir.write("elsewhere/tls.key", KEY);
    let user =
        format!("{{client-certificate: ../pki/tls.crt, client-key: {key:?}, tokenFile: token}}");
    dir.write("conf/token", "t\n");
    let path = dir.write(
        "conf/config",
        config("{server: 'https://h', certificate-authority: ../pki/ca.crt}", &user),
    );
    let access = from_file(&path).unwrap();
    assert_eq!(access.trust, Trust::Bundle(CA.into()));
    assert_eq!(access.auth, token("t"));
    let identity = access.identity.unwrap();
    assert_eq!((&*identity.certificate, &**identity.key), (CERT.as_bytes(), KEY.as_bytes()));
}

#[test]
fn foreign_kubeconfig_reads_only_files_next_to_it() {
    let dir = Dir::new("beside");
    let elsewhere = dir.write("elsewhere/token", "the pod's own\n");
    let read = |user: &str, cluster: &str| {
        let cluster = format!("{{server: 'https://h', {cluster}}}");
        let path = dir.write("conf/config", config(&cluster, &format!("{{{user}}}")));
        kubeconfig::from_file(&path)
    };
    dir.write("conf/token", "t\n");
    dir.write("conf/pki/ca.crt", CA);
    let inside = dir.0.join("conf/token");
    for user in ["tokenFile: token".to_owned(), format!("tokenFile: {inside:?}")] {
        let access = read(&user, "certificate-authority: pki/ca.crt").unwrap();
        assert_eq!(access.auth, token("t"), "{user}");
    }
    let service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
    for (user, cluster) in [
        (format!("tokenFile: {elsewhere:?}"), String::new()),
        ("tokenFile: ../elsewhere/token".to_owned(), String::new()),
        (format!("tokenFile: {service_account}/token"), String::new()),
        (format!("tokenFile: {service_account}/ca.crt"), String::new()),
        (format!("client-certificate: {elsewhere:?}, client-key: tls.key"), String::new()),
        (String::new(), format!("certificate-authority: {elsewhere:?}")),
    ] {
        let error = read(&user, &cluster).unwrap_err();
        let why = "it is not in the directory of the kubeconfig";
        assert!(error.message().ends_with(why), "{user} {cluster}: {error}");
    }
    // The CA of the pod's own cluster is no secret; it just does not exist here.
    let error = read("", &format!("certificate-authority: {service_account}/ca.crt")).unwrap_err();
    assert!(error.message().contains("No such file"), "{error}");
    let in_secret = format!("certificate-authority: {service_account}/ca.crt");
    assert_eq!(
        accepted(with_cluster(&in_secret)).trust,
        Trust::Bundle(CA.into()),
        "a Secret's keys go by the file name alone"
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = Dir::new("unreadable");
    let big = dir.write("big", " ".repeat((1 << 20) + 1));
    let fits = dir.write("fits", " ".repeat(1 << 20));
    let names_big = dir.write("names-big", with_cluster("certificate-authority: big"));
    let names_dir = dir.write("names-dir", with_user("tokenFile: ."));
    let pasted = dir.write(
        "pasted",
        with_user(&format!("client-certificate: big, client-key: {}", base64(KEY))),
    );
    dir.write("tls.crt", CERT);
    for (path, part) in [
        (&dir.0, "cannot be read: Is a directory"),
        (&dir.0.join("missing"), "missing does not exist"),
        (&big, "larger than 1 MiB"),
        (&fits, "has no configuration"),
        (&names_big, "\"(not shown)\" that cannot be read: it is larger than 1 MiB"),
        (&names_dir, "\".\" that cannot be read: Is a directory"),
    ] {
        let error = from_file(path).unwrap_err();
        assert!(error.message().contains(part), "{error}");
        assert!(error.message().starts_with(&format!("kubeconfig {}", path.display())), "{error}");
    }
    fs::write(&big, CERT).unwrap();
    let error = from_file(&pasted).unwrap_err();
    assert!(error.message().contains("client-key \"(not shown)\" that cannot be read"), "{error}");
}

#[test]
fn a_secret_reads_no_files() {
    let dir = Dir::new("secret");
    let on_disk = dir.write("only-on-disk", "t");
    rejected_with(with_user(&format!("tokenFile: {on_disk:?}")), "the Secret has no such key");
    let error = from_secret(SECRET, &Data::new()).unwrap_err();
    assert_eq!(error.message(), "Secret agent/hub has no key \"kubeconfig\"");
    let big = Data::from([("kubeconfig".to_owned(), vec![b' '; (1 << 20) + 1].into())]);
    assert!(from_secret(SECRET, &big).is_err());
}

/// The kubeconfig as Open Cluster Management's registration agent writes it.
#[test]
fn kubeconfig_of_the_registration_agent_is_read() {
    let text = format!(
        "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    server: https://hub:6443\n  name: hub\n\
         contexts:\n- context:\n    cluster: hub\n    namespace: configuration\n    user: default-auth\n  name: default-context\n\
         current-context: default-context\nkind: Config\npreferences: {{}}\n\
         users:\n- name: default-auth\n  user:\n    client-certificate: tls.crt\n    client-key: tls.key\n",
        base64(CA)
    );
    let access = accepted(text);
    assert_eq!(
        (&*access.server, access.namespace.as_deref()),
        ("https://hub:6443", Some("configuration"))
    );
    assert!(access.identity.is_some());
}
