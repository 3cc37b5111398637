//! The ManagedCluster once there is a credential: heartbeat, status, client configs.

mod configs;
mod health;
mod heartbeat;
