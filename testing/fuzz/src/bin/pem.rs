//! A certificate and a key. `C` before DER makes it the certificate beside a good key, `K` and a label's
//! letter the key beside a good certificate; else `certificate NUL key` as PEM, or one text as both.
//!
//! An error is one line. The chain and the expiry agree.

#![cfg_attr(fuzzing, no_main)]

use fuzz::{CERTIFICATE, HUGE, KEY, bounded, expanded, parts, pem, sentence};
use shared::{certificate, kubeconfig};

fuzz::target!(run);

fn run(data: &[u8]) {
    match data {
        [b'C', der @ ..] => {
            let first = pem("CERTIFICATE", der);
            pair(&first, KEY);
            // As the first and as the last of a chain.
            pair(&[&first, CERTIFICATE].concat(), KEY);
            pair(&[CERTIFICATE, &first].concat(), KEY);
        }
        [b'K', label, der @ ..] => {
            let label = match label {
                b'E' => "EC PRIVATE KEY",
                b'R' => "RSA PRIVATE KEY",
                _ => "PRIVATE KEY",
            };
            pair(CERTIFICATE, &pem(label, der));
        }
        text => {
            let text = expanded(text, HUGE);
            let [certificate, key] = parts(&text);
            let certificate = certificate.unwrap_or_default();
            pair(certificate, key.unwrap_or(certificate));
        }
    }
}

fn pair(certificate: &[u8], key: &[u8]) {
    let length = certificate.len() + key.len();
    // A certificate in its parts, and an RSA key with what belongs to it.
    let limit = 6 * length + (32 << 10);
    let fits = bounded(length, limit, || kubeconfig::check_pair(certificate, key));
    if let Err(what) = fits {
        sentence(what, 100);
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
        Err(what) => sentence(what, 100),
    }
}
