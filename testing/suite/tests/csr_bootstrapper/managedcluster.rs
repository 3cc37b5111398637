//! What the program is for a hub once it has a credential: heartbeat, status, client configs.

mod acceptance;
mod configs;
mod health;
mod heartbeat;
mod status;
mod together;
