//! Renews an add-on Lease while its pod is healthy.
fn main() {}
