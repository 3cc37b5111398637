//! Watch of the spoke's claims of one kind.

use std::{ops::ControlFlow, time::Duration};

use apiclient::{
    client::Client,
    error::{Error, Result},
    json::Document,
    log_object,
    resource::Resource,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use log::Level;

use super::{ClaimKind, Claims};
use crate::agent::{Agent, PAGE};

/// All claims but those that are meant to stay on the spoke (ocm
/// `pkg/registration/spoke/managedcluster/claim_reconcile.go`, labelCustomizedOnly).
const SELECTOR: &str = "!open-cluster-management.io/spoke-only";
/// A spoke that has no such kind is asked again this often.
const ASK_AGAIN: Duration = Duration::from_secs(300);
/// More claims than this are left alone: each costs memory.
const MOST: usize = 1000;
/// Longer values are refused by the kind's own schema.
const LONGEST: usize = 1024;

/// Keeps the claims in the shared state; while they cannot be read, what the hub has of them stays.
pub(crate) fn follow(agent: &Agent, kind: ClaimKind) {
    if !wait_until_served(agent, kind) {
        return;
    }
    let target = kind.resource().everywhere();
    let errors = agent.errors.of_claims(kind);
    let selection = Selection { labels: SELECTOR, page: PAGE, ..Selection::all(target) };
    let (mut listed, mut too_many) = (Claims::new(), false);
    Watcher::default().run(agent.spoke(), &selection, &agent.stop, &mut |event| {
        match event {
            Event::Init { .. } => listed = Claims::new(),
            Event::InitApply(document) => too_many |= put(&mut listed, &document),
            Event::InitDone => {
                let all = std::mem::take(&mut listed);
                agent.update(|state| state.claims.insert(kind, all));
            }
            Event::Apply(document) => agent.update(|state| {
                too_many |= put(state.claims.entry(kind).or_default(), &document);
            }),
            Event::Delete(document) => agent.update(|state| {
                state.claims.entry(kind).or_default().remove(document.name());
            }),
            Event::Watching => errors.set(None),
            Event::Failed(error) => errors.set(Some(error)),
        }
        if std::mem::take(&mut too_many) {
            log_object!(Level::Warn, target; "too many or too long claims: ignoring some");
        }
        ControlFlow::Continue(())
    });
}

/// Waits until the spoke serves the kind; `false` at the end of the process.
fn wait_until_served(agent: &Agent, kind: ClaimKind) -> bool {
    let errors = agent.errors.of_claims(kind);
    let mut looks = 0;
    loop {
        let wait = match is_served(agent.spoke(), kind.resource()) {
            Ok(true) => return true,
            Ok(false) => {
                errors.set(None);
                looks += 1;
                not_served(agent, kind, looks);
                if looks == 1 { Stop::SLICE } else { ASK_AGAIN }
            }
            Err(error) => {
                errors.set(Some(&error));
                Stop::SLICE
            }
        };
        if agent.stop.wait(wait) {
            return false;
        }
    }
}

/// ClusterClaims come with OCM's operator; a cluster may never have ClusterProperties. A definition that is made anew is
/// away for a moment, so that the first look proves nothing.
fn not_served(agent: &Agent, kind: ClaimKind, looks: u32) {
    if looks == 1 {
        let (server, name) = (agent.spoke().name(), &kind.resource().kind);
        log::info!(server = server; "no {name} is served: none are reported to the hub");
    } else if kind == ClaimKind::ClusterProperty {
        agent.update(|state| state.claims.insert(kind, Claims::new()));
    }
}

/// Returns whether the server has this kind.
///
/// # Errors
/// As the server says.
fn is_served(client: &Client, resource: &Resource) -> Result<bool> {
    let path = format!("/apis/{}", resource.api_version());
    match client.document(&path) {
        Ok(found) => {
            let mut kinds = found["resources"].as_array().into_iter().flatten();
            Ok(kinds.any(|kind| kind["name"] == *resource.plural))
        }
        Err(Error::NotServed(_) | Error::NotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Puts a claim among the others, in place of an earlier value; returns whether there is no room for it.
fn put(claims: &mut Claims, document: &Document) -> bool {
    claims.remove(document.name());
    let Document::Whole(claim) = document else { return true };
    let value = claim["spec"]["value"].as_str().unwrap_or_default();
    let has_room = claims.len() < MOST && value.len() <= LONGEST;
    if has_room {
        claims.insert(document.name().to_owned(), value.to_owned());
    }
    !has_room
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(name: &str, value: &str) -> Document {
        Document::Whole(json!({"metadata": {"name": name}, "spec": {"value": value}}))
    }

    #[test]
    fn claims_beyond_the_most_or_of_any_length_cost_nothing() {
        let mut claims = Claims::new();
        for number in 0..MOST {
            assert!(!put(&mut claims, &claim(&format!("c{number}"), "v")));
        }
        assert!(put(&mut claims, &claim("one-more", "v")));
        assert!(!put(&mut claims, &claim("c7", "new")), "one that is known");
        assert_eq!((claims.len(), &*claims["c7"]), (MOST, "new"));
        assert!(put(&mut claims, &claim("c7", &"v".repeat(LONGEST + 1))));
        assert!(!claims.contains_key("c7"), "its old value no longer holds");
        claims.clear();
        assert!(put(&mut claims, &claim("long", &"v".repeat(LONGEST + 1))) && claims.is_empty());
        assert!(!put(
            &mut claims,
            &Document::Whole(json!({"metadata": {"name": "odd"}, "spec": 7}))
        ));
        assert_eq!(claims["odd"], "");
    }
}
