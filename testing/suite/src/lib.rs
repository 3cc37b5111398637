//! Real processes against either server.
