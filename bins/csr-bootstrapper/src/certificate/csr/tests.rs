pub(crate) mod authority;

use std::{
    io::{ErrorKind, Write},
    process::{Command, Stdio},
};

use apiclient::{certificate, resource::valid_name};
use kubeconfig::check_pair;

use self::authority::*;
use super::*;
use crate::certificate::{Subject, pkcs10::*};

/// The output of openssl for `input`; `None` without openssl.
fn openssl(arguments: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new("openssl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: openssl is not there");
            return None;
        }
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{text}");
    Some(text)
}

fn kept(request: &CertificateRequest, names: &AgentNames) -> Data {
    let values = request.stored_texts(names).into_iter();
    values.map(|(key, text)| (key.to_owned(), text.as_bytes().to_vec().into())).collect()
}

#[test]
fn openssl_verifies_the_request_and_reads_the_names() {
    let request = CertificateRequest::new(&template()).unwrap();
    let arguments = ["req", "-verify", "-noout", "-subject", "-nameopt", "RFC2253", "-text"];
    let Some(text) = openssl(&arguments, &request.pem().unwrap()) else { return };
    assert!(text.contains("verify OK"), "{text}");
    // RFC 2253 begins with the last part.
    let subject = "CN=system:open-cluster-management:cluster1:agent1,\
        O=system:open-cluster-management:managed-clusters,O=system:open-cluster-management:cluster1";
    assert!(text.contains(subject), "{text}");
    for line in ["ASN1 OID: prime256v1", "Signature Algorithm: ecdsa-with-SHA256"] {
        assert!(text.contains(line), "{text}");
    }
    let key = openssl(&["pkey", "-check", "-noout"], &request.key).unwrap();
    assert!(key.contains("is valid"), "{key}");
    let public = openssl(&["req", "-pubkey", "-noout"], &request.pem().unwrap());
    assert_eq!(public, openssl(&["pkey", "-pubout"], &request.key));
    assert_eq!(public, openssl(&["pkey", "-pubout"], &go_key(&request)), "the tests' own SEC 1");
}

#[test]
fn lengths_of_one_and_more_bytes_are_right() {
    for length in [1, 2, 63, 64, 126, 127, 128, 129, 200, 253, 255, 256, 257, 300] {
        let names = AgentNames { agent: "x".repeat(length), ..names() };
        let request = CertificateRequest::new(&names.csr_template()).unwrap();
        if let Some(text) = openssl(&["req", "-verify", "-noout"], &request.pem().unwrap()) {
            assert!(text.contains("verify OK"), "{length}: {text}");
        }
        let wrapped = wrap(SEQUENCE, &vec![7; length]);
        let head: &[u8] = match length {
            0..=127 => &[0x30, length as u8],
            128..=255 => &[0x30, 0x81, length as u8],
            _ => &[0x30, 0x82, 1, (length - 256) as u8],
        };
        assert_eq!(wrapped, [head, &vec![7; length]].concat());
    }
}

#[test]
fn a_certificate_for_the_request_fits_its_key_and_no_other() {
    let (request, other) = (
        CertificateRequest::new(&template()).unwrap(),
        CertificateRequest::new(&template()).unwrap(),
    );
    let pem = CertificateTemplate::of(&names(), now()).certificate(&request);
    assert_eq!(check_pair(pem.as_bytes(), request.key.as_bytes()), Ok(()));
    assert_eq!(check_pair(pem.as_bytes(), go_key(&request).as_bytes()), Ok(()));
    assert!(check_pair(pem.as_bytes(), other.key.as_bytes()).is_err());
    let chain = certificate::chain(pem.as_bytes()).unwrap();
    assert_eq!(chain[0].common_name, names().user());
    assert_eq!(chain[0].organizations, names().groups());
    assert_eq!((chain[0].not_before, chain[0].not_after), (now() - MINUTE * 5, now() + HOUR));
}

#[test]
fn the_name_is_the_requests_and_a_valid_one() {
    let names = AgentNames { cluster: "a".repeat(63), ..names() };
    let (request, other) = (
        CertificateRequest::new(&names.csr_template()).unwrap(),
        CertificateRequest::new(&names.csr_template()).unwrap(),
    );
    assert!(valid_name(&request.name), "{}", request.name);
    assert_eq!(request.name.len(), 63 + 1 + 16);
    assert_ne!(request.name, other.name);
}

#[test]
fn the_object_is_the_go_agents_but_for_the_name() {
    let request = CertificateRequest::new(&template()).unwrap();
    let object = request.object(&template(), None).unwrap();
    let expected = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {
            "name": request.name,
            "labels": {"open-cluster-management.io/cluster-name": "cluster1"},
        },
        "spec": {
            "request": object["spec"]["request"],
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "key encipherment", "client auth"],
        },
    });
    assert_eq!(object, expected);
    assert_eq!(
        request.object(&template(), Some(86_400)).unwrap()["spec"]["expirationSeconds"],
        86_400
    );
}

#[test]
fn a_request_comes_back_out_of_its_secret() {
    let request = CertificateRequest::new(&template()).unwrap();
    let again = CertificateRequest::of_secret(&kept(&request, &names()), &names()).unwrap();
    assert_eq!(again.key, request.key);
    assert_eq!(again.name, request.name);
}

#[test]
fn a_request_that_is_not_whole_is_none() {
    let (request, other) = (
        CertificateRequest::new(&template()).unwrap(),
        CertificateRequest::new(&template()).unwrap(),
    );
    let (whole, foreign) = (kept(&request, &names()), kept(&other, &names()));
    for key in whole.keys() {
        let without = whole.iter().filter(|(name, _)| *name != key);
        let without = without.map(|(name, value)| (name.clone(), value.clone())).collect();
        assert!(CertificateRequest::of_secret(&without, &names()).is_none(), "without {key}");
        for value in [&b""[..], b"x", b"\xff", &whole[key][..whole[key].len() / 2]] {
            let mut broken = whole.clone();
            broken.insert(key.clone(), value.to_vec().into());
            assert!(CertificateRequest::of_secret(&broken, &names()).is_none(), "broken {key}");
        }
        if ["tls.key", "csr-name"].contains(&key.as_str()) {
            let mut mixed = whole.clone();
            mixed.insert(key.clone(), foreign[key].clone());
            assert!(CertificateRequest::of_secret(&mixed, &names()).is_none(), "{key} of another");
        }
    }
}

#[test]
fn a_request_for_other_names_is_none() {
    let request = CertificateRequest::new(&template()).unwrap();
    for other in [
        AgentNames { cluster: "cluster2".into(), ..names() },
        AgentNames { agent: "agent10".into(), ..names() },
    ] {
        assert!(CertificateRequest::of_secret(&kept(&request, &names()), &other).is_none());
        // The Secret has the other names, the request does not.
        assert!(CertificateRequest::of_secret(&kept(&request, &other), &other).is_none());
    }
}

#[test]
fn the_key_is_in_no_debug_output() {
    let request = CertificateRequest::new(&template()).unwrap();
    assert_eq!(format!("{request:?}"), format!("CertificateRequest({})", request.name));
}

/// As the Go agent's for an add-on.
fn of_addon() -> CsrTemplate {
    let text = str::to_owned;
    CsrTemplate {
        subject: Subject {
            user: text("addon-user"),
            groups: vec![text("group1"), text("group2")],
            units: vec![text("unit1"), text("unit2")],
        },
        dns_names: vec![text("a.addon.open-cluster-management.io"), text("b.example")],
        signer: text("example.com/signer"),
        name_prefix: text("addon-cluster1-a-"),
        labels: vec![(CLUSTER_LABEL, text("cluster1"))],
    }
}

#[test]
fn openssl_reads_units_and_names_of_hosts() {
    let request = CertificateRequest::new(&of_addon()).unwrap();
    assert!(request.name.starts_with("addon-cluster1-a-"));
    let arguments = ["req", "-verify", "-noout", "-subject", "-nameopt", "RFC2253", "-text"];
    let Some(text) = openssl(&arguments, &request.pem().unwrap()) else { return };
    let subject = "CN=addon-user,OU=unit2,OU=unit1,O=group2,O=group1";
    let hosts = "DNS:a.addon.open-cluster-management.io, DNS:b.example";
    for part in ["verify OK", subject, hosts] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn openssl_verifies_the_endpoints_own_certificate() {
    let (certificate, key) = self_signed().unwrap();
    let pem = to_pem("CERTIFICATE", &certificate);
    assert!(check_pair(pem.as_bytes(), to_pem(KEY, &key).as_bytes()).is_ok());
    let chain = certificate::chain(pem.as_bytes()).unwrap();
    assert!(chain[0].not_before < now() && now() < chain[0].not_after);
    let directory = std::env::temp_dir().join(format!("own-{}.pem", std::process::id()));
    std::fs::write(&directory, &pem).unwrap();
    let path = directory.to_str().unwrap().to_owned();
    let verified = openssl(&["verify", "-check_ss_sig", "-CAfile", &path], &pem);
    std::fs::remove_file(directory).unwrap();
    let Some(verified) = verified else { return };
    assert!(verified.contains("OK"), "{verified}");
    let text = openssl(&["x509", "-noout", "-text", "-subject"], &pem).unwrap();
    assert!(text.contains("DNS:localhost") && text.contains("Version: 3"), "{text}");
    let (other, _) = self_signed().unwrap();
    assert_ne!(other, certificate, "a key of its own each time");
}

#[test]
fn the_same_key_for_another_user_has_another_name() {
    let request = CertificateRequest::new(&template()).unwrap();
    let of_addon = CertificateRequest::of_key(request.key.clone(), &of_addon()).unwrap();
    assert_ne!(of_addon.name, request.name);
}
