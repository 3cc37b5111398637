//! A certificate and a key. `C` before DER makes it the certificate beside a good key, `K` and a label's
//! letter the key beside a good certificate; else `certificate NUL key` as PEM, or one text as both.

#![no_main]

use fuzz::{CERTIFICATE, KEY, bounded, parts, pem, sentence};
use libfuzzer_sys::fuzz_target;
use shared::{certificate, kubeconfig};

fuzz_target!(|data: &[u8]| {
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
        _ => {
            let [certificate, key] = parts(data);
            let certificate = certificate.unwrap_or_default();
            pair(certificate, key.unwrap_or(certificate));
        }
    }
});

fn pair(certificate: &[u8], key: &[u8]) {
    // A certificate in its parts, and an RSA key with what belongs to it.
    let limit = 16 * (certificate.len() + key.len()) + (32 << 10);
    let fits = bounded(limit, || kubeconfig::check_pair(certificate, key));
    if let Err(what) = fits {
        sentence(what, 100);
    }
    let (chain, end) =
        bounded(limit, || (certificate::chain(certificate), certificate::expiry(certificate)));
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
