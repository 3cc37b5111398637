//! What the program is for a hub once it has a credential: heartbeat, status, client configs; and what it
//! is for the node it runs on: endpoint, `-once`, flags, signals, rights. On either server.

mod acceptance;
mod audit;
mod configs;
mod endpoint;
mod flags;
mod health;
mod heartbeat;
mod once;
mod secrecy;
mod sigterm;
mod status;
mod together;
mod tools;
