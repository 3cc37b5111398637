//! Copies between clusters: remote-sync with two and more API servers, on either kind of server.
//!
//! `t1_` to `t8_`: the table of sync-controller's own test (`controller/controller_test.go:87-424`); `_compat`
//! with the writes of each of its passes, `_safe` with what differs. `gap01_` to `gap29_`: cases that it lacks.
//! Of these, gap29's streaming list is not tested, as the program lists by pages only. `f55_` to `f59_`: faults
//! of copies.

mod content;
mod crash;
mod credentials;
mod deletion;
mod doubt;
mod equality;
mod events;
mod explain;
mod failures;
mod flags;
mod fleet;
mod gate;
mod identity;
mod kinds;
mod late;
mod life;
mod load;
mod many;
mod namespaces;
mod operation;
mod orphans;
mod pauses;
mod process;
mod push;
mod registry;
mod rights;
mod scope;
mod secrecy;
mod secrets;
mod silence;
mod support;
mod takeover;
mod track;
mod twins;
mod upstream;
mod waiting;
