//! Lists of objects, read like in the programs.

use std::ops::ControlFlow;

use apiclient::{
    client::Client,
    error::Result,
    json::Document,
    resource::Target,
    stop::Stop,
    watch::{self, Selection},
};
use serde_json::Value;

/// Returns the objects of a collection with these labels, or only that of this name.
///
/// # Errors
/// The server's error.
pub fn list(client: &Client, target: &Target<'_>, labels: &str) -> Result<Vec<Value>> {
    pages(client, &Selection { labels, ..Selection::all(*target) })
}

/// Returns the objects of a selection, read page by page.
///
/// # Errors
/// The server's error.
pub fn pages(client: &Client, selection: &Selection<'_>) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    watch::list(client, selection, &Stop::default(), &mut |document| {
        match document {
            Document::Whole(object) => objects.push(object),
            Document::TooLarge(head) => panic!("{head:?} is too large"),
        }
        ControlFlow::Continue(())
    })?;
    Ok(objects)
}
