//! The places of a kubeconfig.

use super::*;

#[test]
fn flag_then_variable_then_pod_then_home() {
    let dir = Dir::new("order");
    let account = account(&dir);
    let flag = dir.write("flag", on_server("https://flag"));
    let listed = dir.write("listed", on_server("https://listed"));
    dir.write("home/.kube/config", on_server("https://home"));
    let home = ("HOME", dir.0.join("home").into_os_string());
    let [host, port] = pod("10.0.0.1", "443");
    let list = ("KUBECONFIG", listed.into_os_string());
    let all = [list, host.clone(), port.clone(), home.clone()];
    let server = |flag: Option<&Path>, variables: &[(&str, OsString)]| {
        load_with(flag, None, variables, &account).map(|access| access.server)
    };
    assert_eq!(server(Some(&flag), &all).unwrap(), "https://flag");
    assert_eq!(server(Some(Path::new("")), &all).unwrap(), "https://listed");
    assert_eq!(server(None, &all[1..]).unwrap(), "https://10.0.0.1:443");
    assert_eq!(server(None, &all[3..]).unwrap(), "https://home");
    let two = [("KUBECONFIG", OsString::from("/a:/b"))];
    let error = server(None, &two).unwrap_err();
    assert_eq!(error.message(), "KUBECONFIG must name one file, got 2");
    // KUBECONFIG names no existing file: the pod wins, not the home directory.
    let nothing = [("KUBECONFIG", OsString::from("/nowhere::")), host, port, home];
    assert_eq!(server(None, &nothing).unwrap(), "https://10.0.0.1:443");
    let error = server(None, &[("KUBECONFIG", "/nowhere".into())]).unwrap_err();
    assert!(
        error.message().contains("/nowhere") && error.message().contains("KUBERNETES_SERVICE_HOST"),
        "{error}"
    );
    assert!(server(None, &[]).is_err());
    // The file that the flag names must exist.
    let error = server(Some(Path::new("/nowhere")), &all).unwrap_err();
    assert_eq!(error.message(), "kubeconfig /nowhere does not exist");
}

#[test]
fn master_overrides_the_server_of_files_only() {
    let dir = Dir::new("master");
    let account = account(&dir);
    let path =
        dir.write("config", config("{server: 'https://h', tls-server-name: n}", "{token: t}"));
    let access = load_with(Some(&path), Some("https://m:1/"), &[], &account).unwrap();
    assert_eq!(
        (&*access.server, access.server_name, access.auth),
        ("https://m:1", None, token("t"))
    );
    let access = load_with(Some(&path), Some(""), &[], &account).unwrap();
    assert_eq!((&*access.server, access.server_name.as_deref()), ("https://h", Some("n")));
    let access = load_with(None, Some("http://localhost:8080"), &[], &account).unwrap();
    assert_eq!((&*access.server, access.auth), ("http://localhost:8080", Auth::None));
    let access = load_with(None, Some("https://m"), &pod("10.0.0.1", "443"), &account).unwrap();
    assert_eq!(access.server, "https://10.0.0.1:443");
    let error = load_with(Some(&path), Some("ftp://m"), &[], &account).unwrap_err();
    assert!(error.message().starts_with("-master is not"), "{error}");
}

#[test]
fn in_cluster_uses_the_service_account() {
    let dir = Dir::new("pod");
    let account = account(&dir);
    let load = |variables: &[(&str, OsString)]| {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
        };
        in_cluster(&Env { variable: &variable, service_account: &account })
    };
    let [host, port] = pod("fd00::1", "443");
    let access = load(&[host.clone(), port.clone()]).unwrap();
    let expected = ClusterConfig {
        server: "https://[fd00::1]:443".into(),
        trust: Trust::Bundle(CA.into()),
        server_name: None,
        identity: None,
        auth: token("sa-token"),
        proxy: None,
        namespace: Some("sa-namespace".into()),
    };
    assert_eq!(access, expected);
    let named = [host.clone(), port.clone(), ("POD_NAMESPACE", "pod-namespace".into())];
    assert_eq!(load(&named).unwrap().namespace.as_deref(), Some("pod-namespace"));

    for variables in
        [vec![], vec![host.clone()], vec![host.clone(), ("KUBERNETES_SERVICE_PORT", "".into())]]
    {
        let error = load(&variables).unwrap_err();
        assert!(error.message().contains("must be set"), "{error}");
    }
    assert!(load(&pod("a b", "443")).is_err());
    assert!(load(&pod("10.0.0.1", "tcp://1")).is_err());

    // A missing namespace is accepted; a bad token or CA is not.
    fs::remove_file(account.join("namespace")).unwrap();
    assert_eq!(load(&pod("10.0.0.1", "443")).unwrap().namespace, None);
    fs::write(account.join("ca.crt"), "junk").unwrap();
    let error = load(&pod("10.0.0.1", "443")).unwrap_err();
    assert!(error.message().ends_with("holds no usable ca.crt"), "{error}");
    fs::write(account.join("ca.crt"), CA).unwrap();
    fs::write(account.join("token"), "\n").unwrap();
    assert!(load(&pod("10.0.0.1", "443")).unwrap_err().message().contains("holds no usable token"));
    fs::remove_file(account.join("token")).unwrap();
    assert!(load(&pod("10.0.0.1", "443")).unwrap_err().message().contains("cannot be read"));
}
