//! The server over real TLS: what the real one was measured to answer, and each fault.

mod certificates;
mod client;
mod deletion;
mod faults;
mod lists;
mod objects;
mod registered;
mod states;
mod watches;
