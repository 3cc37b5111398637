//! Watch of a single object, which is kept whole.

use std::{ops::ControlFlow, sync::Mutex};

use log::Level;
use serde_json::Value;

use crate::{
    client::{Client, request::ApiRequest},
    error::Error,
    json::Document,
    lock::lock,
    log_object,
    resource::Target,
    stop::Stop,
};

use super::{Event, Selection, Watcher};

/// The reason why an object may have changed unseen, for the diagnostics endpoint.
#[derive(Debug, Default)]
pub struct LastError(Mutex<Option<String>>);

impl LastError {
    /// The sentence, if there is one at present.
    pub fn get(&self) -> Option<String> {
        lock(&self.0).clone()
    }

    /// Sets the sentence, or removes it with `None`.
    pub fn set(&self, error: Option<&Error>) {
        *lock(&self.0) = error.map(ToString::to_string);
    }
}

/// Follows the object `target`. Calls `on` with its present state, or with `None` if there is none, until
/// it breaks or `stop` is raised. Failures are logged once, shown in `last_error` and tried again; neither
/// a failure nor an object that is too large is ever reported as an absence.
pub fn follow(
    client: &Client,
    target: &Target<'_>,
    stop: &Stop,
    last_error: &LastError,
    on: &mut dyn FnMut(Option<Value>) -> ControlFlow<()>,
) {
    let (mut listed, mut too_large) = (None, false);
    Watcher::default().run(client, &Selection::all(*target), stop, &mut |event| {
        let document = match event {
            Event::InitDone => listed.take(),
            Event::Apply(document) => Some(document),
            Event::Delete(_) => None,
            other => {
                match other {
                    Event::Init { .. } => listed = None,
                    Event::InitApply(document) => listed = Some(document),
                    Event::Failed(error) => last_error.set(Some(error)),
                    Event::Watching if !too_large => last_error.set(None),
                    _ => {}
                }
                return ControlFlow::Continue(());
            }
        };
        let object = match document {
            Some(Document::TooLarge(_)) => {
                let error = client.too_large(&ApiRequest::get(*target));
                last_error.set(Some(&error));
                if !std::mem::replace(&mut too_large, true) {
                    let server = client.name();
                    log_object!(
                        Level::Warn, target, server = server, error:% = error;
                        "keeping the last known state"
                    );
                }
                return ControlFlow::Continue(());
            }
            Some(Document::Whole(object)) => Some(object),
            None => None,
        };
        if std::mem::take(&mut too_large) {
            last_error.set(None);
        }
        on(object)
    });
    last_error.set(None);
}
