//! A certificate and a key. `C` and DER: a certificate with a valid key. `K`, a letter for the label, and DER: a key
//! with a valid certificate. Otherwise `certificate NUL key` as PEM, or one text for both.
//!
//! An error is one line. The chain and the expiry agree.

#![cfg_attr(fuzzing, no_main)]

use apiclient::certificate;
use fuzz::{CERTIFICATE, HUGE, KEY, assert_one_line, bounded, expand, parts, pem};

fuzz::target!(run);

fn run(data: &[u8]) {
    match data {
        [b'C', der @ ..] => {
            let first = pem("CERTIFICATE", der);
            check(&first, KEY);
            // The certificate is the first, and then the last, of a chain.
            check(&[&first, CERTIFICATE].concat(), KEY);
            check(&[CERTIFICATE, &first].concat(), KEY);
        }
        [b'K', label, der @ ..] => {
            let label = match label {
                b'E' => "EC PRIVATE KEY",
                b'R' => "RSA PRIVATE KEY",
                _ => "PRIVATE KEY",
            };
            check(CERTIFICATE, &pem(label, der));
        }
        text => {
            let text = expand(text, HUGE);
            let [certificate, key] = parts(&text);
            let certificate = certificate.unwrap_or_default();
            check(certificate, key.unwrap_or(certificate));
        }
    }
}

fn check(certificate: &[u8], key: &[u8]) {
    let length = certificate.len() + key.len();
    // For a parsed certificate, and an RSA key with its precomputed values.
    let limit = 6 * length + (32 << 10);
    let fits = bounded(length, limit, || kubeconfig::check_pair(certificate, key));
    if let Err(what) = fits {
        assert_one_line(what, 100);
    }
    let (chain, end) = bounded(length, limit, || {
        (certificate::chain(certificate), certificate::expiry(certificate))
    });
    match chain {
        Ok(chain) => {
            assert_eq!(end, chain.first().map(|leaf| leaf.not_after));
            for each in chain {
                assert!(each.organizations.is_sorted() && each.units.is_sorted());
            }
        }
        Err(what) => assert_one_line(what, 100),
    }
}
