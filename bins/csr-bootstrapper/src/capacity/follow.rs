//! Watch of the spoke's nodes.

use std::ops::ControlFlow;

use apiclient::{
    json::Document,
    log_object,
    resource::Resource,
    watch::{Event, Selection, Watcher},
};
use log::Level;

use super::nodes::Nodes;
use crate::agent::{Agent, PAGE};

static NODES: Resource = Resource::v1("", "nodes", "Node");

/// Keeps the capacity in the shared state; while it is not known, what the hub has of it stays.
pub(crate) fn follow(agent: &Agent) {
    let selection = Selection { page: PAGE, ..Selection::all(NODES.everywhere()) };
    let mut nodes = Nodes::default();
    let mut is_unknown = false;
    while !agent.stop.raised() {
        // Each run begins with a list.
        Watcher::default().run(agent.spoke(), &selection, &agent.stop, &mut |event| {
            if take(agent, &mut nodes, event) {
                is_unknown = publish(agent, &nodes, is_unknown);
            }
            match nodes.needs_list() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
    }
}

/// Publishes the sum; returns whether it is unknown, which is logged when it begins.
fn publish(agent: &Agent, nodes: &Nodes, was_unknown: bool) -> bool {
    let sum = nodes.sum();
    let is_unknown = sum.is_none();
    match nodes.unreadable() {
        _ if was_unknown || !is_unknown => {}
        Some(name) => log_object!(
            Level::Warn, NODES.cluster_object(name);
            "a node cannot be read: the cluster's capacity is not reported"
        ),
        None => log::warn!("there are too many nodes: the cluster's capacity is not reported"),
    }
    agent.update(|state| state.capacity = sum);
    is_unknown
}

/// Takes an event; returns whether the sum may be another now.
fn take(agent: &Agent, nodes: &mut Nodes, event: Event<'_>) -> bool {
    match event {
        Event::Init { .. } => nodes.begin_list(),
        Event::InitApply(document) => {
            put(nodes, &document);
        }
        Event::InitDone => {
            nodes.end_list();
            return true;
        }
        Event::Apply(document) => return put(nodes, &document),
        Event::Delete(document) => return nodes.remove(document.name()),
        Event::Watching => agent.errors.nodes.set(None),
        Event::Failed(error) => agent.errors.nodes.set(Some(error)),
    }
    false
}

fn put(nodes: &mut Nodes, document: &Document) -> bool {
    let node = if let Document::Whole(node) = document { Some(node) } else { None };
    nodes.put(document.name(), node)
}
