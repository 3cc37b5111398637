//! Selections, and lists of them: page by page, object by object, never a whole list in memory.

use std::{cell::RefCell, io::Read, ops::ControlFlow, time::Instant};

use crate::{
    client::{
        Client, LIST_TIMEOUT,
        request::{ApiRequest, JSON, METADATA, METADATA_LIST, encoded},
    },
    error::{Error, Result},
    json::{self, Document},
    resource::Target,
    stop::Stop,
};

use super::{Event, On};

/// Objects in a page of a list, as in client-go (`tools/pager/pager.go`, defaultPageSize).
const PAGE: u32 = 500;

/// The objects to list and watch.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// A collection, or a single object if it has a name.
    pub target: Target<'a>,
    /// A label selector, or empty.
    pub labels: &'a str,
    /// Whether the server sends metadata only.
    pub metadata_only: bool,
    /// The maximum number of objects in a page.
    pub page: u32,
    /// Whether to list after each lost connection: a restored server accepts a watch from a newer version, and stays
    /// silent for minutes.
    pub list_after_loss: bool,
}

impl<'a> Selection<'a> {
    /// Whole objects with any labels.
    pub fn all(target: Target<'a>) -> Self {
        Self { target, labels: "", metadata_only: false, page: PAGE, list_after_loss: false }
    }

    /// The query for the first page of a list at least as new as `version`; of the newest state if it is empty.
    fn first_page(&self, version: &str) -> String {
        let limit = format!("limit={}", self.page);
        match version {
            "" => limit,
            _ => format!("{limit}&resourceVersion={version}&resourceVersionMatch=NotOlderThan"),
        }
    }

    fn list(&self, query: &str) -> ApiRequest<'a> {
        let accept = if self.metadata_only { METADATA_LIST } else { JSON };
        ApiRequest { accept, ..ApiRequest::list(self.target, self.query(query)) }
    }

    pub(super) fn watch(&self, version: &str, seconds: u64) -> ApiRequest<'a> {
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}"
        );
        let accept = if self.metadata_only { METADATA } else { JSON };
        ApiRequest { accept, ..ApiRequest::watch(self.target, self.query(&query)) }
    }

    /// Rejects another object than the selected one: a server or proxy may ignore the field selector.
    pub(super) fn check(&self, client: &Client, object: &Document) -> Result<()> {
        if self.target.name.is_none_or(|name| object.name() == name) {
            return Ok(());
        }
        let (target, server) = (self.target, client.name());
        Err(Error::BadPeer(format!(
            "watch {target} on {server}: the answer is about another object"
        )))
    }

    fn query(&self, query: &str) -> String {
        match self.labels {
            "" => query.to_owned(),
            labels => format!("{query}&labelSelector={}", encoded(labels)),
        }
    }
}

/// Lists the selection once, until `each` breaks or `stop` is raised. After an error, `each` has not seen all objects.
pub fn list(
    client: &Client,
    selection: &Selection<'_>,
    stop: &Stop,
    each: &mut dyn FnMut(Document) -> ControlFlow<()>,
) -> Result<()> {
    let ended = read_list(client, selection, stop, ("", false), &mut |event| match event {
        Event::InitApply(document) => each(document),
        _ => ControlFlow::Continue(()),
    });
    ended.map(drop)
}

/// Reads a list; returns its resourceVersion, or breaks before its end. It fails if the client's files lead to another
/// server meanwhile.
pub(super) fn read_list(
    client: &Client,
    selection: &Selection<'_>,
    stop: &Stop,
    (version, rewound): (&str, bool),
    on: &mut On<'_>,
) -> Result<ControlFlow<(), String>> {
    let (mut query, mut begun) = (selection.first_page(version), false);
    let (deadline, server) = (Instant::now() + LIST_TIMEOUT, client.host());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let request = selection.list(&query);
        let answer = client.within(left).send(&request)?;
        if !begun && on(Event::Init { rewound }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        begun = true;
        let body = answer.into_body().into_reader();
        let read =
            read_page(client, &request, body, &mut |item| match selection.check(client, &item) {
                Ok(()) => on(Event::InitApply(item)).map_break(Ok),
                Err(error) => ControlFlow::Break(Err(error)),
            })?;
        let ControlFlow::Continue(Page { version, next }) = read else {
            return Ok(ControlFlow::Break(()));
        };
        client.mark_heard();
        if client.host() != server {
            let what = client.describe(&request);
            return Err(Error::TooNew(format!("{what}: it is another server than before")));
        }
        let Some(token) = next else { return Ok(ControlFlow::Continue(version)) };
        if stop.raised() {
            return Ok(ControlFlow::Break(()));
        }
        if Instant::now() >= deadline {
            let what = client.describe(&request);
            return Err(Error::Gone(format!("{what}: the list took too long")));
        }
        query = format!("limit={}&continue={token}", selection.page);
    }
}

#[derive(Debug, PartialEq)]
struct Page {
    /// Empty if the server gave no usable one.
    version: String,
    /// The token of the next page, percent-encoded.
    next: Option<String>,
}

type Each<'a> = dyn FnMut(Document) -> ControlFlow<Result<()>> + 'a;

/// Passes on each item as it arrives. It fails if the body is not a list or is truncated: missing items must not count
/// as deleted.
fn read_page(
    client: &Client,
    request: &ApiRequest<'_>,
    body: impl Read,
    each: &mut Each<'_>,
) -> Result<ControlFlow<(), Page>> {
    let budget = client.budget(request);
    // What `each` broke with.
    let (each, ended) = (RefCell::new(each), RefCell::new(None));
    let list = json::list(&mut json::reader(body, &budget), &budget, &|item| {
        let went = (each.borrow_mut())(item);
        *ended.borrow_mut() = went.break_value();
        ended.borrow().is_none()
    });
    if let Some(ended) = ended.into_inner() {
        return ended.map(ControlFlow::Break);
    }
    let list = list.map_err(|e| client.unread(request, e, "a list"))?;
    // Go may write an empty list as null. Anything else is not a list: all objects would seem to be deleted.
    let has_items = list.get("items").is_some_and(|items| items.is_array() || items.is_null());
    let is_list = has_items && list["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    // Incomplete metadata might lack the token of the next page.
    if !is_list || budget.is_exceeded() {
        return Err(client.odd(request, "not a list"));
    }
    let metadata = &list["metadata"];
    let version = super::usable(metadata["resourceVersion"].as_str().unwrap_or_default());
    let next = metadata["continue"].as_str().filter(|token| !token.is_empty()).map(encoded);
    Ok(ControlFlow::Continue(Page { version: version.unwrap_or_default().to_owned(), next }))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{
        client::tests::client,
        error::Error,
        resource::{LEASES, SECRETS},
    };

    /// The items reported until the end, and the end.
    fn read(body: impl Read, most: usize) -> (usize, Result<ControlFlow<(), Page>>) {
        let mut items = 0;
        let request = ApiRequest::list(LEASES.collection("ns"), String::new());
        let page = read_page(&client(), &request, body, &mut |_| {
            items += 1;
            if items < most { ControlFlow::Continue(()) } else { ControlFlow::Break(Ok(())) }
        });
        (items, page)
    }

    fn page(version: &str, next: Option<&str>) -> Result<ControlFlow<(), Page>> {
        let (version, next) = (version.to_owned(), next.map(str::to_owned));
        Ok(ControlFlow::Continue(Page { version, next }))
    }

    #[test]
    fn a_page_is_read_whatever_the_order_of_its_fields() {
        for (body, items, version, next) in [
            (
                r#"{"kind":"LeaseList","metadata":{"resourceVersion":"7"},"items":[{},{}]}"#,
                2,
                "7",
                None,
            ),
            (
                r#"{"items":[{"a":[1]}],"x":{"y":[]},"metadata":{"continue":"a/="},"kind":"List"} "#,
                1,
                "",
                Some("a%2F%3D"),
            ),
            (
                r#"{"kind":"LeaseList","metadata":{"resourceVersion":"7","continue":""},"items":null}"#,
                0,
                "7",
                None,
            ),
            (
                r#"{"kind":"LeaseList","items":[],"metadata":{"resourceVersion":"7&watch"}}"#,
                0,
                "",
                None,
            ),
        ] {
            assert_eq!(read(body.as_bytes(), 9), (items, page(version, next)), "{body}");
        }
    }

    #[test]
    fn what_is_no_list_or_not_a_whole_one_is_never_complete() {
        for (body, words) in [
            ("", "cut short"),
            ("<html>", "not a list"),
            ("[]", "not a list"),
            ("null", "not a list"),
            (r#"{"kind":"Lease","items":[]}"#, "not a list"),
            (r#"{"kind":7,"items":[]}"#, "not a list"),
            (r#"{"items":[]}"#, "not a list"),
            (r#"{"kind":"LeaseList","metadata":{}}"#, "not a list"),
            (r#"{"kind":"LeaseList","items":{}}"#, "not a list"),
            (r#"{"kind":"LeaseList","items":"x"}"#, "not a list"),
            (r#"{"kind":"LeaseList","items":[{},{}"#, "cut short"),
            (r#"{"kind":"LeaseList","items":[{}],"#, "cut short"),
            (r#"{"kind":"LeaseList","items":[{}]}x"#, "not a list"),
            (r#"{"kind":"LeaseList","items":[{}{}]}"#, "not a list"),
        ] {
            let (_, end) = read(body.as_bytes(), 9);
            let Err(Error::BadPeer(sentence)) = end else { panic!("{body}: {end:?}") };
            assert!(sentence.ends_with(&format!("the answer is {words}")), "{body}: {sentence}");
        }
    }

    #[test]
    fn objects_are_bounded_one_by_one_and_a_page_is_not() {
        let item = format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20));
        let items = vec![item; 5].join(",");
        let body = format!(r#"{{"kind":"LeaseList","items":[{items}],"metadata":{{}}}}"#);
        assert_eq!(read(body.as_bytes(), 9), (5, page("", None)));
        for body in [
            format!(r#"{{"kind":"LeaseList","items":[{{}},"{}"#, "x".repeat(2 << 20)),
            format!(r#"{{"kind":"LeaseList","items":[{{}},{}"#, " ".repeat(2 << 20)),
            format!(r#"{{"kind":"LeaseList","items":[{{}}],"{}"#, "x".repeat(2 << 20)),
        ] {
            let (items, end) = read(body.as_bytes(), 9);
            assert!(items == 1 && matches!(end, Err(Error::BadPeer(_))), "{items} {end:?}");
        }
        let many = format!(r#"{{"kind":"LeaseList","items":[[{}0]]}}"#, "0,".repeat(200_000));
        assert!(matches!(read(many.as_bytes(), 9), (0, Err(Error::BadPeer(_)))));
        // As deep as the parser of one object allows, without a stack of our own.
        let deep = format!(r#"{{"kind":"LeaseList","items":[{}"#, "[".repeat(1 << 20));
        assert!(matches!(read(deep.as_bytes(), 9), (0, Err(Error::BadPeer(_)))));
    }

    #[test]
    fn whoever_has_enough_gets_no_more() {
        let body = r#"{"kind":"LeaseList","items":[{},{},{}]}"#;
        assert_eq!(read(body.as_bytes(), 2), (2, Ok(ControlFlow::Break(()))));
    }

    #[test]
    fn a_lost_connection_is_a_lost_connection() {
        struct Lost;
        impl Read for Lost {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::ErrorKind::ConnectionReset.into())
            }
        }
        let body = br#"{"kind":"LeaseList","items":[{},"#.chain(Lost);
        assert!(matches!(read(body, 9), (1, Err(Error::Unreachable(_)))));
    }

    #[test]
    fn first_page_asks_for_the_newest_state_or_no_older_one() {
        let all = Selection::all(SECRETS.collection("ns"));
        assert_eq!(all.first_page(""), "limit=500");
        let not_older = "limit=500&resourceVersion=7&resourceVersionMatch=NotOlderThan";
        assert_eq!(all.first_page("7"), not_older);
    }
}
