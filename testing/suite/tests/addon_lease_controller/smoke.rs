//! What users would lose: one scenario or a few for each promise. All others are next to this module.

mod election;
mod outage;
mod pod;
mod renewal;
mod rights;
mod rotation;
mod secrecy;
mod sigterm;
