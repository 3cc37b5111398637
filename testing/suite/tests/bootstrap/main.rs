//! A cluster joins a hub: the stage itself, OCM's own agent on it, and the program, on either server.

mod goagent;
mod hub;
mod join;
