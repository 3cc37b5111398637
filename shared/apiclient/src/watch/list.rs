//! Page of a list, read from the connection object by object: never the whole of it in memory.

use std::{fmt, io::Read, ops::ControlFlow};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

use crate::{
    client::{Client, request::ApiRequest},
    error::Result,
    json::{self, Document, Object, Tree},
    memory::Budget,
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
    let mut bytes = json::reader(body, &budget);
    let mut reading = Reading { each, budget: &budget, ended: None };
    let mut json = serde_json::Deserializer::from_reader(&mut bytes);
    let page = (&mut json).deserialize_map(List(&mut reading));
    // Read to the very end, so that the connection can be kept.
    let page = page.and_then(|page| json.end().map(|()| page));
    match (reading.ended, page) {
        (Some(ended), _) => ended.map(ControlFlow::Break),
        (None, Ok(page)) => Ok(ControlFlow::Continue(page)),
        (None, Err(e)) => Err(client.unread(request, e, "a list")),
    }
}

struct Reading<'a, 'b> {
    each: &'a mut Each<'b>,
    budget: &'a Budget,
    /// What stopped the reading, though there may be more.
    ended: Option<Result<()>>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Items,
    Kind,
    Metadata,
    #[serde(other)]
    Other,
}

/// The whole body.
struct List<'a, 'b, 'c>(&'a mut Reading<'b, 'c>);

impl<'de> Visitor<'de> for List<'_, '_, '_> {
    type Value = Page;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut fields: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let (mut kind, mut metadata, mut listed) = (Value::Null, Value::Null, false);
        while let Some(field) = fields.next_key()? {
            match field {
                Field::Items => {
                    fields.next_value_seed(Items(self.0))?;
                    listed = true;
                }
                Field::Kind => kind = fields.next_value_seed(Tree::any(self.0.budget))?,
                Field::Metadata => metadata = fields.next_value_seed(Tree::any(self.0.budget))?,
                Field::Other => drop(fields.next_value::<IgnoredAny>()?),
            }
            // Half of the metadata might lack the token of the next page.
            if self.0.budget.is_exceeded() {
                return Err(A::Error::custom("too large"));
            }
        }
        // Anything else must not be taken for an empty list, which would mean that all is gone.
        if !listed || !kind.as_str().is_some_and(|kind| kind.ends_with("List")) {
            return Err(A::Error::custom("not a list"));
        }
        let version = super::usable(metadata["resourceVersion"].as_str().unwrap_or_default());
        let next = metadata["continue"].as_str().filter(|token| !token.is_empty()).map(encoded);
        Ok(Page { version: version.unwrap_or_default().to_owned(), next })
    }
}

/// The array of objects; an empty one of Go can be null.
struct Items<'a, 'b, 'c>(&'a mut Reading<'b, 'c>);

impl<'de> DeserializeSeed<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, items: D) -> std::result::Result<(), D::Error> {
        items.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the objects of a list")
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        let reading = self.0;
        reading.budget.reset();
        while let Some(item) = items.next_element_seed(Object::new(reading.budget))? {
            if let ControlFlow::Break(ended) = (reading.each)(item) {
                reading.ended = Some(ended);
                return Err(A::Error::custom("ended"));
            }
            reading.budget.reset();
        }
        Ok(())
    }
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
pub(super) mod tests {
    use std::{io, time::Duration};

    use super::*;
    use crate::{
        client::{Reload, Timeouts},
        error::Error,
        resource::LEASES,
    };
    use kubeconfig::config::{Auth, ClusterConfig, Trust};

    pub(crate) fn client() -> Client {
        let config = ClusterConfig {
            server: "http://127.0.0.1:1".into(),
            trust: Trust::System,
            server_name: None,
            identity: None,
            auth: Auth::None,
            impersonate: Vec::new(),
            proxy: None,
            namespace: None,
        };
        let timeouts = Timeouts::with_request(Duration::from_secs(1));
        Client::new("the hub", config, Reload::Never, timeouts).unwrap()
    }

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
