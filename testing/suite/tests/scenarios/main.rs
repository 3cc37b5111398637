//! What a user relies on, on either server: `make test` runs it on the embedded one, `make e2e` on the
//! real control plane.

mod lifecycle;
