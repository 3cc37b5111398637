use base64::{Engine, prelude::BASE64_STANDARD};

use super::*;
use crate::{
    certificate::{authority::*, csr::CertificateRequest},
    clocks::tests::at,
};

/// The kubeconfig of ocm 1.2.0, from the audit log of a real cluster, except for authority and server.
const GO: &str = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: AUTHORITY
    server: https://127.0.0.1:32927
  name: c
contexts:
- context:
    cluster: c
    namespace: configuration
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    client-certificate: tls.crt
    client-key: tls.key
";

/// A credential as the Go agent leaves it.
struct Fixture {
    request: CertificateRequest,
    authority: String,
    data: Data,
}

impl Fixture {
    fn new() -> Self {
        let request = CertificateRequest::new(&template()).unwrap();
        let authority = CertificateTemplate::of_authority(now()).certificate(&request);
        let kubeconfig = GO.replace("AUTHORITY", &BASE64_STANDARD.encode(&authority));
        let data = [
            ("kubeconfig", kubeconfig),
            ("cluster-name", "cluster1".into()),
            ("agent-name", "agent1".into()),
            ("tls.crt", CertificateTemplate::of(&names(), now()).certificate(&request)),
            ("tls.key", go_key(&request)),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value.into_bytes().into())).into();
        Self { request, authority, data }
    }

    fn set(&self, key: &str, value: impl AsRef<[u8]>) -> Data {
        let mut data = self.data.clone();
        data.insert(key.to_owned(), value.as_ref().to_vec().into());
        data
    }

    fn without(&self, key: &str) -> Data {
        let mut data = self.data.clone();
        data.remove(key);
        data
    }

    fn kubeconfig(&self, from: &str, to: &str) -> Data {
        let text = str::from_utf8(&self.data["kubeconfig"]).unwrap();
        assert!(text.contains(from), "{from}");
        self.set("kubeconfig", text.replace(from, to))
    }

    fn certificate(&self, change: impl Fn(&mut CertificateTemplate)) -> Data {
        let mut paper = CertificateTemplate::of(&names(), now());
        change(&mut paper);
        self.set("tls.crt", paper.certificate(&self.request))
    }

    fn bootstrap(&self) -> Hub {
        Hub::of_secret("bootstrap", &self.data).unwrap()
    }
}

fn validated(data: &Data, bootstrap: Option<&Hub>) -> Validation {
    validate(data, bootstrap, &names(), at(now()))
}

/// The result in a word, to compare.
fn word(validation: &Validation) -> String {
    match validation {
        Ok(UsableCredential { moved: Some(what), .. }) => format!("moved: {what}"),
        Ok(UsableCredential { stale: false, config: Some(_), .. }) => "usable".into(),
        Ok(UsableCredential { config: Some(_), .. }) => "stale".into(),
        Ok(_) => "certificate only".into(),
        Err(UnusableCredential { event, .. }) => (*event).to_owned(),
    }
}

/// csr_test.go:297 and common_test.go:170. Upstream's "false" is here either an unusable credential, or another hub to
/// ask.
#[test]
fn upstreams_table_holds() {
    let fixture = Fixture::new();
    let here = fixture.bootstrap();
    let at =
        |from: &str, to: &str| Hub::of_secret("bootstrap", &fixture.kubeconfig(from, to)).unwrap();
    let server = "    server: https://127.0.0.1:32927\n";
    let proxied = format!("    proxy-url: https://127.0.0.1:3129\n{server}");
    let bundle = BASE64_STANDARD.encode(fixture.authority.as_bytes());
    let authority = format!("certificate-authority-data: {bundle}");
    for (case, bootstrap, expected) in [
        (
            "context cluster changes",
            Hub { name: "d".into(), ..here.clone() },
            "moved: cluster name",
        ),
        ("hub server url changes", at("32927", "32928"), "moved: server"),
        ("proxy url changes", at(server, &proxied), "moved: proxy-url"),
        (
            "ca bundle changes",
            at(&authority, "certificate-authority-data: aGk="),
            "moved: certificate-authority",
        ),
        ("valid hub client config", here.clone(), "usable"),
        // The connection is repaired.
        ("name of the server", Hub { server_name: Some("hub".into()), ..here.clone() }, "stale"),
        ("no verification", Hub { insecure: true, ..here.clone() }, "stale"),
    ] {
        assert_eq!(word(&validated(&fixture.data, Some(&bootstrap))), expected, "{case}");
    }
    let to_file = |file: &str| Hub { authority_file: Some(file.into()), ..here.clone() };
    let data = fixture.kubeconfig(&authority, "certificate-authority: /old/ca.crt");
    for (bootstrap, expected) in [
        (Some(to_file("/old/ca.crt")), "certificate only"),
        (Some(to_file("/new/ca.crt")), "moved: certificate-authority"),
        (None, OTHER_DATA),
    ] {
        assert_eq!(word(&validated(&data, bootstrap.as_ref())), expected, "{bootstrap:?}");
    }
}

#[test]
fn what_our_own_kubeconfig_gives_is_never_stale() {
    let fixture = Fixture::new();
    let here = fixture.bootstrap();
    for hub in [
        here.clone(),
        Hub { authority: None, insecure: true, ..here.clone() },
        Hub { server_name: Some("hub".into()), proxy: Some("http://p:1".into()), ..here.clone() },
        Hub { authority_file: Some("/x/ca.crt".into()), ..here.clone() },
        Hub { server: "http://127.0.0.1:1".into(), ..here },
    ] {
        let data = fixture.set("kubeconfig", hub.kubeconfig());
        assert_eq!(word(&validated(&data, Some(&hub))), "usable", "{hub:?}");
    }
}

/// Each row expects one result with a bootstrap kubeconfig and one without.
#[test]
fn what_is_next_to_the_certificate_is_repaired() {
    let fixture = Fixture::new();
    let user = "    client-certificate: tls.crt\n    client-key: tls.key\n";
    let of_user = |other: &str| fixture.kubeconfig(user, other);
    for (data, expected, without) in [
        (fixture.without("cluster-name"), "stale", "stale"),
        (fixture.without("agent-name"), "stale", "stale"),
        (fixture.set("cluster-name", "cluster2"), "stale", "stale"),
        (fixture.set("agent-name", "agent10"), "stale", "stale"),
        (fixture.set("agent-name", "agent1\n"), "usable", "usable"),
        (fixture.kubeconfig("32927", "1"), "moved: server", "usable"),
        (of_user("    tokenFile: token\n"), "certificate only", OTHER_DATA),
        (of_user("    {}\n"), "certificate only", OTHER_DATA),
        (of_user(&format!("{user}    token: abc\n")), "certificate only", OTHER_DATA),
        (of_user(&format!("{user}    as: system:admin\n")), "certificate only", OTHER_DATA),
        (of_user("    exec: {command: aws}\n"), "certificate only", OTHER_DATA),
        (fixture.set("kubeconfig", ""), OTHER_DATA, OTHER_DATA),
        (fixture.set("kubeconfig", "apiVersion: v1\nkind: Config\n"), OTHER_DATA, OTHER_DATA),
        (fixture.set("kubeconfig", "[]"), OTHER_DATA, OTHER_DATA),
    ] {
        let found = [Some(&fixture.bootstrap()), None].map(|it| word(&validated(&data, it)));
        assert_eq!(found, [expected, without], "{data:?}");
    }
}

#[test]
fn reasons_go_on_after_the_name_and_hold_no_key() {
    let fixture = Fixture::new();
    let key = fixture.data["tls.key"].clone();
    for (data, expected) in [
        (Data::new(), "is empty"),
        (fixture.without("tls.crt"), "has no tls.crt"),
        (fixture.without("kubeconfig"), "has no key \"kubeconfig\""),
        (fixture.set("tls.crt", &key), "has a tls.crt that holds no certificate"),
        (
            fixture.certificate(|paper| paper.not_after = now() - MINUTE),
            "has a certificate that expired at 2027-01-15T07:59:00Z",
        ),
        (
            fixture.kubeconfig("client-key: tls.key", "client-key: x.key"),
            "has a client-key \"x.key\" that cannot be read: the Secret has no such key",
        ),
    ] {
        let validation = validate(&data, None, &names(), at(now()));
        assert_eq!(validation.unwrap_err().reason, expected);
    }
    let validation = format!("{:?}", validated(&fixture.data, None));
    let line = str::from_utf8(&key).unwrap().lines().nth(1).unwrap();
    assert!(!validation.contains(line));
}

/// certificate_test.go:66, and the rest of common_test.go:170.
#[test]
fn certificate_that_is_not_ours_or_not_now_is_unusable() {
    let fixture = Fixture::new();
    let good = fixture.data["tls.crt"].clone();
    let other = Fixture::new();
    let old = CertificateTemplate {
        not_after: now() - MINUTE,
        ..CertificateTemplate::of_authority(now())
    };
    let old = [&good[..], old.certificate(&fixture.request).as_bytes()].concat();
    let chain = [&good[..], fixture.authority.as_bytes()].concat();
    let behind = [fixture.authority.as_bytes(), &good[..]].concat();
    for (case, data, expected) in [
        ("bad cert", fixture.set("tls.crt", "bad cert"), UNREADABLE),
        ("last second", fixture.certificate(|paper| paper.not_after = now()), "usable"),
        (
            "expired cert",
            fixture.certificate(|paper| paper.not_after = now() - Duration::from_secs(1)),
            NOT_VALID,
        ),
        ("expired authority", fixture.set("tls.crt", old), NOT_VALID),
        ("wrong CN", fixture.certificate(|paper| paper.subject.user += "0"), NOT_VALID),
        ("wrong O", fixture.certificate(|paper| paper.subject.groups[0] += "0"), NOT_VALID),
        ("wrong OU", fixture.certificate(|it| it.subject.units.push("unit".into())), NOT_VALID),
        ("valid cert", fixture.data.clone(), "usable"),
        ("another order", fixture.certificate(|it| it.subject.groups.reverse()), "usable"),
        ("valid cert with its authority", fixture.set("tls.crt", chain), "usable"),
        ("5 min early", fixture.certificate(|it| it.not_before = now() + TOLERANCE), "usable"),
        ("6 min early", fixture.certificate(|it| it.not_before = now() + MINUTE * 6), NOT_VALID),
        ("no tls key", fixture.without("tls.key"), NOT_VALID),
        ("no tls cert", fixture.without("tls.crt"), UNREADABLE),
        ("no kubeconfig", fixture.without("kubeconfig"), OTHER_DATA),
        ("invalid issuer", fixture.certificate(|paper| paper.not_before -= MINUTE), "usable"),
        ("another key", fixture.set("tls.key", &other.data["tls.key"]), NOT_VALID),
        ("another certificate", fixture.set("tls.crt", &other.data["tls.crt"]), NOT_VALID),
        ("a key that is none", fixture.set("tls.key", "key"), NOT_VALID),
        ("an empty key", fixture.set("tls.key", ""), NOT_VALID),
        ("the authority first", fixture.set("tls.crt", behind), NOT_VALID),
        ("nothing", Data::new(), NOT_VALID),
        ("other keys only", Data::from([("config.yaml".into(), b"x".to_vec().into())]), UNREADABLE),
    ] {
        let validation = validated(&data, Some(&fixture.bootstrap()));
        assert_eq!(word(&validation), expected, "{case}: {validation:?}");
    }
}

#[test]
fn half_written_values_are_unusable() {
    let fixture = Fixture::new();
    for key in ["tls.crt", "tls.key", "kubeconfig"] {
        let whole = &fixture.data[key];
        // The end of the PEM is the last part to be missed.
        for length in 0..whole.len() - 2 {
            let validation = validated(&fixture.set(key, &whole[..length]), None);
            assert!(validation.is_err(), "{length} of {key}: {validation:?}");
        }
    }
}

#[test]
fn what_the_credential_needs() {
    let fixture = Fixture::new();
    let usable = validated(&fixture.data, None);
    let stale = validated(&fixture.without("agent-name"), None);
    let elsewhere = Hub { server: "https://other.example".into(), ..fixture.bootstrap() };
    let moved = validated(&fixture.data, Some(&elsewhere));
    let (due, later) = (Duration::ZERO, HOUR);
    for (validation, due_in, refused, expected) in [
        (&usable, later, false, "nothing for 3600 s"),
        (&stale, later, false, "repair"),
        (&stale, due, false, "CertificateRotationStarted"),
        (&usable, later, true, "HubKubeConfigUnauthorized"),
        (&moved, later, false, OTHER_DATA),
        (&validated(&Data::new(), None), due, false, NOT_VALID),
    ] {
        let found = match need("Secret ns/x", validation, due_in, refused) {
            Need::Nothing(time) => format!("nothing for {} s", time.as_secs()),
            Need::Repair => "repair".to_owned(),
            Need::Certificate(why) => why.event.to_owned(),
        };
        assert_eq!(found, expected, "{due_in:?} {refused}");
    }
}
