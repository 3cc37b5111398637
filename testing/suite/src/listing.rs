//! Lists of objects, read as the programs read them.

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

/// The objects of a collection, or those of this name in it, with these labels.
///
/// # Errors
/// As the server says.
pub fn list(client: &Client, target: &Target<'_>, labels: &str) -> Result<Vec<Value>> {
    pages(client, &Selection { labels, ..Selection::all(*target) })
}

/// The objects of a selection, page by page.
///
/// # Errors
/// As the server says.
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
