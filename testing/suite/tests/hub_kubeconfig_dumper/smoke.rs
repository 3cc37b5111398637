//! What users would lose: one scenario or a few for each promise. All others are next to this module.

mod crash;
mod files;
mod rights;
mod secrecy;
mod sigterm;
