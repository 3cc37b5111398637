//! Selection that is listed and watched, and its lists: page by page, never more than an object in memory.

use std::{ops::ControlFlow, time::Instant};

use crate::{
    client::{
        Client, LIST_TIMEOUT,
        request::{ApiRequest, JSON, METADATA, METADATA_LIST, joined},
    },
    error::{Error, Result},
    json::Document,
    resource::Target,
    stop::Stop,
};

use super::{
    Event, On, State,
    list::{Page, encoded, read_page},
};

/// Objects in a page of a list, as in client-go (`tools/pager/pager.go`, defaultPageSize).
const PAGE: u32 = 500;

/// The objects to list and watch.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// A collection, or one object of it if it has a name.
    pub target: Target<'a>,
    /// A label selector, or empty.
    pub labels: &'a str,
    /// Of each object nothing but its metadata is sent.
    pub metadata_only: bool,
    /// The most objects in a page of a list.
    pub page: u32,
    /// A list follows each loss of the connection: a server that was restored accepts a watch from its future, and
    /// stays silent for minutes.
    pub list_after_loss: bool,
}

impl<'a> Selection<'a> {
    /// Whole objects, whatever their labels are.
    pub fn all(target: Target<'a>) -> Self {
        Self { target, labels: "", metadata_only: false, page: PAGE, list_after_loss: false }
    }

    /// Returns whether a list of it is a request as any other. A name without a namespace may be in all of them.
    pub(super) fn is_one(&self) -> bool {
        self.target.namespace.is_some() && self.target.name.is_some()
    }

    fn list(&self, query: &str) -> ApiRequest<'a> {
        let accept = if self.metadata_only { METADATA_LIST } else { JSON };
        ApiRequest { accept, ..ApiRequest::list(self.target, &self.query(query)) }
    }

    pub(super) fn watch(&self, version: &str, seconds: u64) -> ApiRequest<'a> {
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}"
        );
        let accept = if self.metadata_only { METADATA } else { JSON };
        ApiRequest { accept, ..ApiRequest::watch(self.target, &self.query(&query)) }
    }

    fn query(&self, query: &str) -> String {
        match self.labels {
            "" => query.to_owned(),
            labels => joined(&[&format!("labelSelector={}", encoded(labels)), query]),
        }
    }
}

/// The selection, its server, and the end.
pub(super) struct ListWatch<'a> {
    pub(super) client: &'a Client,
    pub(super) selection: &'a Selection<'a>,
    pub(super) stop: &'a Stop,
}

/// Reads the selection once, in its present state, until `each` breaks or `stop` is raised. After an
/// error, the items so far were not all.
pub fn list(
    client: &Client,
    selection: &Selection<'_>,
    stop: &Stop,
    each: &mut dyn FnMut(Document) -> ControlFlow<()>,
) -> Result<()> {
    let list_watch = ListWatch { client, selection, stop };
    let ended = list_watch.list(&State::Newest, false, &mut |event| match event {
        Event::InitApply(document) => each(document),
        _ => ControlFlow::Continue(()),
    });
    ended.map(drop)
}

impl ListWatch<'_> {
    /// Reads a list of this state; returns its resourceVersion, or breaks before its end. The client's files may lead
    /// elsewhere meanwhile: a list is of the server that it began on, or none.
    pub(super) fn list(
        &self,
        state: &State,
        rewound: bool,
        on: &mut On<'_>,
    ) -> Result<ControlFlow<(), String>> {
        let (page, is_one) = (self.selection.page, self.selection.is_one());
        let mut query = state.first_page(if is_one { None } else { Some(page) });
        let mut begun = false;
        let (deadline, server) = (Instant::now() + LIST_TIMEOUT, self.client.host());
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let client = if is_one { self.client } else { &self.client.within(left) };
            let request = self.selection.list(&query);
            let answer = client.send(&request)?;
            if !begun && on(Event::Init { rewound }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            begun = true;
            let body = answer.into_body().into_reader();
            let read = read_page(self.client, &request, body, &mut |item| match self
                .is_asked_for(&item)
            {
                Ok(()) => on(Event::InitApply(item)).map_break(Ok),
                Err(error) => ControlFlow::Break(Err(error)),
            })?;
            let ControlFlow::Continue(Page { version, next }) = read else {
                return Ok(ControlFlow::Break(()));
            };
            self.client.mark_heard();
            if self.client.host() != server {
                let what = self.client.describe(&request);
                return Err(Error::TooNew(format!("{what}: it is another server than before")));
            }
            let Some(token) = next else { return Ok(ControlFlow::Continue(version)) };
            if self.stop.raised() {
                return Ok(ControlFlow::Break(()));
            }
            if Instant::now() >= deadline {
                let what = self.client.describe(&request);
                return Err(Error::Gone(format!("{what}: the list took too long")));
            }
            query = format!("limit={page}&continue={token}");
        }
    }

    /// A server or proxy that ignores the field selector must not pass another object off.
    pub(super) fn is_asked_for(&self, object: &Document) -> Result<()> {
        let target = self.selection.target;
        if target.name.is_none_or(|name| object.name() == name) {
            return Ok(());
        }
        let server = self.client.name();
        Err(Error::BadPeer(format!(
            "watch {target} on {server}: the answer is about another object"
        )))
    }
}
