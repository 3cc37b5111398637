//! A stream for those who keep whole objects, and few.

use std::ops::ControlFlow;

use serde_json::Value;

use crate::{client::Client, resource::Target, stop::Stop};

use super::{Selection, Step, Stream};

/// What happened to the collection.
#[derive(Debug)]
pub enum Change {
    /// All there is now; what is not in it is gone.
    Listed(Vec<Value>),
    /// An object is new or changed.
    Put(Value),
    /// An object was deleted; this is its last state.
    Removed(Value),
}

impl Change {
    /// The object as it is now, where only one is followed; `None` if there is none.
    pub fn into_object(self) -> Option<Value> {
        match self {
            Self::Listed(objects) => objects.into_iter().next(),
            Self::Put(object) => Some(object),
            Self::Removed(_) => None,
        }
    }
}

/// Follows `target`: a collection, or one object of it if it has a name. Calls `on` for each change
/// until it breaks or `stop` is raised; failures are logged once and tried again, and a failure is
/// never reported as an absence.
pub fn follow(
    client: &Client,
    target: &Target<'_>,
    stop: &Stop,
    on: &mut dyn FnMut(Change) -> ControlFlow<()>,
) {
    let mut listed = Vec::new();
    Stream::default().run(client, &Selection::all(*target), stop, &mut |step| match step {
        Step::Began { .. } => {
            listed = Vec::new();
            ControlFlow::Continue(())
        }
        Step::Item(item) => {
            listed.push(item);
            ControlFlow::Continue(())
        }
        Step::Complete => on(Change::Listed(std::mem::take(&mut listed))),
        Step::Put(object) => on(Change::Put(object)),
        Step::Removed(object) => on(Change::Removed(object)),
        Step::Watching | Step::Failed(_) => ControlFlow::Continue(()),
    });
}
