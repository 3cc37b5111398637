//! Kubernetes as the programs take it to be: what an API server answers, and what kubectl makes of a
//! kubeconfig.

mod answers;
mod kubeconfigs;
mod kubectl;
