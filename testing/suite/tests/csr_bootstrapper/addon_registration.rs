//! Registration of add-ons: their credentials on the hub, by CSR and by token (upstream's
//! `addon_registration_test.go` and `addon_token_registration_test.go`).

pub(crate) mod certificate;
mod conflict;
mod hosted;
pub(crate) mod support;
mod token;
