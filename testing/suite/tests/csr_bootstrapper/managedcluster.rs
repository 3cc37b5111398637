//! The ManagedCluster once there is a credential: heartbeat, status, client configs.

mod acceptance;
mod configs;
mod health;
mod heartbeat;
mod status;
mod together;
