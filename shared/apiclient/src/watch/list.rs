//! Page of a list, read from the connection object by object: never the whole of it in memory.

use std::{cell::RefCell, io::Read, ops::ControlFlow};

use crate::{
    client::{Client, request::ApiRequest},
    error::Result,
    json::{self, Document},
};

#[derive(Debug, PartialEq)]
pub(super) struct Page {
    /// Empty if the server gave no usable one.
    pub(super) version: String,
    /// The token of the next page, encoded for a query.
    pub(super) next: Option<String>,
}

type Each<'a> = dyn FnMut(Document) -> ControlFlow<Result<()>> + 'a;

/// Hands over each item as soon as it has arrived. A body that is not a list, or is cut short, is a failure,
/// so that missing items do not count as gone.
pub(super) fn read_page(
    client: &Client,
    request: &ApiRequest<'_>,
    body: impl Read,
    each: &mut Each<'_>,
) -> Result<ControlFlow<(), Page>> {
    let budget = client.budget(request);
    // What stopped the reading, though there may be more.
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
    // An empty list of Go can be null. Anything else must not count as an empty list: all would be gone.
    let has_items = list.get("items").is_some_and(|items| items.is_array() || items.is_null());
    let is_list = has_items && list["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    // Half of the metadata might lack the token of the next page.
    if !is_list || budget.is_exceeded() {
        return Err(client.odd(request, "not a list"));
    }
    let metadata = &list["metadata"];
    let version = super::usable(metadata["resourceVersion"].as_str().unwrap_or_default());
    let next = metadata["continue"].as_str().filter(|token| !token.is_empty()).map(encoded);
    Ok(ControlFlow::Continue(Page { version: version.unwrap_or_default().to_owned(), next }))
}

/// Escaped for a query.
pub(crate) fn encoded(token: &str) -> String {
    let mut text = String::new();
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(byte.into());
        } else {
            text += &format!("%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::{client::tests::client, error::Error, resource::LEASES};

    /// The items reported until the end, and the end.
    fn read(body: impl Read, most: usize) -> (usize, Result<ControlFlow<(), Page>>) {
        let mut items = 0;
        let request = ApiRequest::list(LEASES.collection("ns"), "");
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
            ("<html>", "not JSON"),
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
            (r#"{"kind":"LeaseList","items":[{}]}x"#, "not JSON"),
            (r#"{"kind":"LeaseList","items":[{}{}]}"#, "not JSON"),
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
}
