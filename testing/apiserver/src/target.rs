//! The target of a request: method, path and query, parsed as the API server's authorizer parses
//! them, before the resource is looked up.

/// The parts of a resource request; for any other path, only the verb.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Target {
    /// RBAC verb; for other paths, the method in lower case.
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty if the path is not a resource's.
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The name that a list or watch selects by field; the authorizer treats it as the object's name (apiserver
    /// `pkg/endpoints/request/requestinfo.go`).
    pub(crate) selected: String,
}

impl Target {
    pub(crate) fn new(method: &str, path: &str, query: &Query) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Self { verb: plain_verb(method), ..Self::default() },
        };
        let mut target = Self { group: group.into(), version: version.into(), ..Self::default() };
        target.parse_resource(rest);
        target.verb = resource_verb(method, !target.name.is_empty(), query);
        let selected = query.get("fieldSelector").and_then(|it| it.strip_prefix("metadata.name="));
        target.selected = selected.unwrap_or_default().into();
        target
    }

    /// Returns the name of the object, or the selected one.
    pub(crate) fn any_name(&self) -> &str {
        if self.name.is_empty() { &self.selected } else { &self.name }
    }

    fn parse_resource(&mut self, rest: &[&str]) {
        let own = match rest {
            // `/namespaces/x` and its subresources refer to the namespace itself.
            ["namespaces", name] | ["namespaces", name, "status" | "finalize"] => {
                self.namespace = decode(name);
                rest
            }
            ["namespaces", namespace, own @ ..] => {
                self.namespace = decode(namespace);
                own
            }
            _ => rest,
        };
        self.resource = own.first().map(|part| decode(part)).unwrap_or_default();
        self.name = own.get(1).map(|part| decode(part)).unwrap_or_default();
        self.subresource = own.get(2..).unwrap_or_default().join("/");
    }
}

fn plain_verb(method: &str) -> &'static str {
    match method {
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "HEAD" => "head",
        _ => "get",
    }
}

fn resource_verb(method: &str, named: bool, query: &Query) -> &'static str {
    match method {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ if query.flag("watch") => "watch",
        _ if named => "get",
        _ => "list",
    }
}

/// The decoded parameters of a query, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn new(raw: &str) -> Self {
        let pairs = raw.split('&').filter(|pair| !pair.is_empty());
        let split = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
        };
        Self(pairs.map(split).collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Returns the value if it is present and not empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.is_empty() || value == "true" || value == "1")
    }
}

/// Percent-decodes `text`; keeps malformed escapes unchanged.
fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.into();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = bytes
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(escaped.unwrap_or(bytes[at]));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Splits a request target into path and query.
pub(crate) fn split(raw: &str) -> (String, String) {
    let (path, query) = raw.split_once('?').unwrap_or((raw, ""));
    (path.into(), query.into())
}
