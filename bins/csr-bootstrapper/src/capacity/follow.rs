//! Watch of the spoke's nodes.

use apiclient::{api::Node, log_object, resource::Resource, watch::Selection};
use log::Level;

use super::nodes::{Interner, sum};
use crate::agent::{Agent, PAGE};

static NODES: Resource = Resource::v1("", "nodes", "Node");

/// Keeps the capacity in the shared state; while it is not known, what the hub has of it stays.
pub(crate) fn follow(agent: &Agent) {
    let selection = Selection { page: PAGE, ..Selection::all(NODES.everywhere()) };
    let mut interner = Interner::default();
    let mut parse = |node: Node| interner.resources(&node);
    let mut was_unknown = false;
    agent.nodes.run(agent.spoke(), &selection, &agent.stop, &mut parse, &mut || {
        was_unknown = publish(agent, was_unknown);
    });
}

/// Publishes the sum; returns whether it is unknown, which is logged when it begins.
fn publish(agent: &Agent, was_unknown: bool) -> bool {
    let sum = agent.nodes.read(sum).flatten().filter(|_| agent.nodes.is_complete());
    let is_unknown = sum.is_none();
    if is_unknown && !was_unknown {
        match agent.nodes.first_invalid() {
            Some(name) => log_object!(
                Level::Warn, NODES.cluster_object(&name);
                "a node cannot be read: the cluster's capacity is not reported"
            ),
            None => log::warn!("there are too many nodes: the cluster's capacity is not reported"),
        }
    }
    agent.update(|state| state.capacity = sum);
    is_unknown
}
