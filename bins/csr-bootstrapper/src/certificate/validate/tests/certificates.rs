//! Requirements for `tls.crt` and `tls.key`.

use super::*;

/// certificate_test.go:66
#[test]
fn certificate_that_is_not_ours_or_not_now_is_unusable() {
    let fixture = Fixture::new();
    let here = fixture.bootstrap();
    let groups = names().groups();
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
        ("no cert", fixture.set("tls.crt", ""), UNREADABLE),
        ("bad cert", fixture.set("tls.crt", "bad cert"), UNREADABLE),
        ("expired cert", fixture.certificate(|paper| paper.not_after = now() - MINUTE), NOT_VALID),
        ("expired authority", fixture.set("tls.crt", old), NOT_VALID),
        ("wrong CN", fixture.certificate(|paper| paper.common_name += "0"), NOT_VALID),
        ("wrong O", fixture.certificate(|paper| paper.organizations[0] += "0"), NOT_VALID),
        ("wrong OU", fixture.certificate(|paper| paper.units.push("unit".into())), NOT_VALID),
        ("valid cert", fixture.data.clone(), "usable"),
        (
            "valid cert with different order",
            fixture.certificate(|paper| {
                paper.organizations = vec![groups[1].clone(), groups[0].clone()]
            }),
            "usable",
        ),
        ("valid cert with its authority", fixture.set("tls.crt", chain), "usable"),
        (
            "five minutes early",
            fixture.certificate(|paper| paper.not_before = now() + TOLERANCE),
            "usable",
        ),
        (
            "six minutes early",
            fixture.certificate(|paper| paper.not_before = now() + MINUTE * 6),
            NOT_VALID,
        ),
        ("another key", fixture.set("tls.key", &other.data["tls.key"]), NOT_VALID),
        ("another certificate", fixture.set("tls.crt", &other.data["tls.crt"]), NOT_VALID),
        ("a key that is none", fixture.set("tls.key", "key"), NOT_VALID),
        ("an empty key", fixture.set("tls.key", ""), NOT_VALID),
        ("the authority first", fixture.set("tls.crt", behind), NOT_VALID),
        ("nothing", Data::new(), NOT_VALID),
        ("other keys only", Data::from([("config.yaml".into(), b"x".to_vec().into())]), UNREADABLE),
    ] {
        let validation = validated(&data, Some(&here));
        assert_eq!(word(&validation), expected, "{case}: {validation:?}");
    }
}

#[test]
fn the_last_second_is_good_and_the_next_is_not() {
    let fixture = Fixture::new();
    let validated = |time| validate(&fixture.data, None, &names(), at(time));
    assert_eq!(word(&validated(now() + HOUR)), "usable");
    assert_eq!(word(&validated(now() + HOUR + Duration::from_secs(1))), NOT_VALID);
}

#[test]
fn half_written_certificates_and_keys_are_unusable() {
    let fixture = Fixture::new();
    for key in ["tls.crt", "tls.key"] {
        let whole = &fixture.data[key];
        // The end of the PEM is the last part to be missed.
        for length in 0..whole.len() - 2 {
            let validation = validated(&fixture.set(key, &whole[..length]), None);
            assert!(
                matches!(validation, Validation::Unusable(_)),
                "{length} of {key}: {validation:?}"
            );
        }
    }
}
