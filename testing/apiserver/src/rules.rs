//! Fault rules for single requests: a matcher, a probability and count, and an action.

use crate::target::Target;

/// The action on a request that a rule matches.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Answer with this code; nothing is applied.
    Answer {
        /// Status code.
        code: u16,
        /// The body instead of a Status; sent as HTML if it begins with `<`, otherwise as JSON.
        body: Option<String>,
        /// `Retry-After` header, verbatim.
        retry_after: Option<String>,
    },
    /// Answer 403 in the real server's words.
    Forbid,
    /// Wait, then continue with the next matching rule, if any, or normally.
    Delay {
        /// Length of the delay.
        milliseconds: u64,
    },
    /// Cut the connection; nothing is applied.
    Drop,
    /// Apply the request, then cut the connection instead of answering.
    ApplyThenDrop,
    /// Apply the request, then delay the answer.
    ApplyThenDelay {
        /// Length of the delay.
        milliseconds: u64,
    },
    /// Apply the request, then send half of the announced body.
    Truncate,
    /// Answer with bytes that are not HTTP; nothing is applied.
    Garbage,
    /// Apply the request and add a header of this many bytes to the answer.
    HugeHeaders {
        /// Length of the header's value.
        bytes: usize,
    },
    /// Answer with a body of this many bytes of whitespace, which is not JSON.
    HugeBody {
        /// Length of the body.
        bytes: u64,
    },
    /// Apply the request and send only the head of the answer.
    Stall,
    /// Answer 200 with HTML.
    NotJson,
    /// Answer 200 with an object of another kind.
    WrongKind,
    /// Apply the request and answer with an object whose `spec` is null.
    NullSpec,
    /// Answer with a 307 redirect to another URL.
    Redirect {
        /// Value of the `Location` header.
        location: String,
    },
    /// Accept the watch and never send an event.
    WatchSilent,
    /// Send these bytes before the events of the watch.
    WatchSays {
        /// Any bytes.
        bytes: String,
    },
    /// Send a blank line at this interval and nothing else.
    WatchBlanks {
        /// Interval between blank lines.
        milliseconds: u64,
    },
    /// Cut the watch in the middle of the line after `events` complete ones.
    WatchCut {
        /// Number of complete events.
        events: u32,
    },
}

/// A fault, the requests that it applies to, and how often. None matches everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// RBAC verb.
    pub verb: Option<String>,
    /// Plural resource; for other paths, the path itself, for example `/readyz`.
    pub resource: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: Option<String>,
    /// Effective user.
    pub user: Option<String>,
    /// The number of requests that it applies to; None means until it is cleared.
    pub times: Option<u32>,
    /// Probability that it applies, 0 to 1.
    pub probability: Option<f64>,
    /// The random seed, for repeatable runs.
    pub seed: u64,
    /// The action.
    pub action: Action,
}

impl Rule {
    /// Returns a rule for every request, until it is cleared.
    pub fn new(action: Action) -> Self {
        Self {
            verb: None,
            resource: None,
            namespace: None,
            name: None,
            user: None,
            times: None,
            probability: None,
            seed: 0,
            action,
        }
    }

    /// Restricts the rule to this verb.
    pub fn verb(self, verb: &str) -> Self {
        Self { verb: Some(verb.into()), ..self }
    }

    /// Restricts the rule to this plural resource, or this path.
    pub fn resource(self, resource: &str) -> Self {
        Self { resource: Some(resource.into()), ..self }
    }

    /// Restricts the rule to this namespace.
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }

    /// Restricts the rule to objects of this name.
    pub fn name(self, name: &str) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Restricts the rule to this user.
    pub fn user(self, user: &str) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    /// Limits the number of requests that the rule applies to.
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Applies the rule with this probability.
    pub fn probability(self, probability: f64, seed: u64) -> Self {
        Self { probability: Some(probability), seed, ..self }
    }

    pub(crate) fn matches(&self, attributes: &Attributes<'_>) -> bool {
        let fits = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        fits(&self.verb, attributes.verb)
            && fits(&self.resource, attributes.resource)
            && fits(&self.namespace, &attributes.target.namespace)
            && fits(&self.name, attributes.target.any_name())
            && fits(&self.user, attributes.user)
    }
}

/// The attributes of a request that rules match.
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) target: &'a Target,
    pub(crate) user: &'a str,
}
