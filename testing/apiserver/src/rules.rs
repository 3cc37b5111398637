//! Rules for faults of single requests: which requests, how often, and what happens to them.

use serde::{Deserialize, Serialize};

use crate::target::Target;

/// What happens to a request that a rule matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Action {
    /// Answer with this code instead of doing anything.
    Answer {
        /// Status code.
        code: u16,
        /// The body instead of a Status; sent as HTML where it begins with `<`, else as JSON.
        #[serde(default)]
        body: Option<String>,
        /// `Retry-After` header, word for word.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// 403 in the words of the real server.
    Forbid,
    /// Wait, then go on (to the next matching rule, or normally).
    Delay {
        /// How long.
        milliseconds: u64,
    },
    /// Cut the connection; nothing is applied.
    Drop,
    /// Apply the request, then cut the connection instead of answering.
    ApplyThenDrop,
    /// Apply the request, and answer so much later.
    ApplyThenDelay {
        /// How much.
        milliseconds: u64,
    },
    /// Apply, then send half of the body that the head announces.
    Truncate,
    /// Bytes that are no HTTP; nothing is applied.
    Garbage,
    /// Apply, and add a header of this many bytes to the answer.
    HugeHeaders {
        /// Length of the header's value.
        bytes: usize,
    },
    /// A body of this many bytes that is no end of whitespace before any JSON.
    HugeBody {
        /// Length of the body.
        bytes: u64,
    },
    /// Apply, send the head of the answer, and then nothing any more.
    Stall,
    /// 200 with HTML.
    NotJson,
    /// 200 with JSON of another kind.
    WrongKind,
    /// Apply, and answer with an object whose `spec` is null.
    NullSpec,
    /// 307 to another URL.
    Redirect {
        /// Value of the `Location` header.
        location: String,
    },
    /// A watch that is accepted and never says a word.
    WatchSilent,
    /// A watch that says these bytes before its events.
    WatchSays {
        /// Whatever a server may send.
        bytes: String,
    },
    /// A watch that says a blank after each of so many milliseconds, and nothing else.
    WatchBlanks {
        /// Between two.
        milliseconds: u64,
    },
    /// A watch that ends after so many milliseconds, without an event.
    WatchEnds {
        /// Until then.
        milliseconds: u64,
    },
    /// A watch that is cut in the middle of the line after `events` whole ones.
    WatchCut {
        /// How many events pass.
        #[serde(default)]
        events: u32,
    },
}

/// A fault, the requests it is for, and how often. Fields that are None match everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// RBAC verb.
    #[serde(default)]
    pub verb: Option<String>,
    /// Plural resource; for other paths the path itself, for example `/readyz`.
    #[serde(default)]
    pub resource: Option<String>,
    /// Subresource; Some("") for the object itself.
    #[serde(default)]
    pub subresource: Option<String>,
    /// Namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name of the object.
    #[serde(default)]
    pub name: Option<String>,
    /// Effective user.
    #[serde(default)]
    pub user: Option<String>,
    /// How many requests it is for; None until it is cleared.
    #[serde(default)]
    pub times: Option<u32>,
    /// How likely it strikes, 0 to 1.
    #[serde(default)]
    pub probability: Option<f64>,
    /// Seed of that likelihood, so that runs repeat.
    #[serde(default)]
    pub seed: u64,
    /// What happens.
    pub action: Action,
}

impl Rule {
    /// A rule for every request, until it is cleared.
    pub fn new(action: Action) -> Self {
        Self {
            verb: None,
            resource: None,
            subresource: None,
            namespace: None,
            name: None,
            user: None,
            times: None,
            probability: None,
            seed: 0,
            action,
        }
    }

    /// Only for this verb.
    pub fn verb(self, verb: &str) -> Self {
        Self { verb: Some(verb.into()), ..self }
    }

    /// Only for this plural resource, or this path.
    pub fn resource(self, resource: &str) -> Self {
        Self { resource: Some(resource.into()), ..self }
    }

    /// Only for this subresource.
    pub fn subresource(self, subresource: &str) -> Self {
        Self { subresource: Some(subresource.into()), ..self }
    }

    /// Only in this namespace.
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Only for this object.
    pub fn name(self, name: &str) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Only for this user.
    pub fn user(self, user: &str) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Only so many times.
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Only with this probability.
    pub fn probability(self, probability: f64, seed: u64) -> Self {
        Self { probability: Some(probability), seed, ..self }
    }

    pub(crate) fn matches(&self, asked: &Asked<'_>) -> bool {
        let fits = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        fits(&self.verb, asked.verb)
            && fits(&self.resource, asked.resource)
            && fits(&self.subresource, &asked.target.subresource)
            && fits(&self.namespace, &asked.target.namespace)
            && fits(&self.name, &asked.target.name)
            && fits(&self.user, asked.user)
    }
}

/// A request in the terms of a rule.
pub(crate) struct Asked<'a> {
    pub(crate) verb: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) target: &'a Target,
    pub(crate) user: &'a str,
}
