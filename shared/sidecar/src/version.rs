//! Which build of the programs this is.

/// The version of all programs, the workspace's.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that was built, with `-dirty` after it where the source differed from it. `make dist` gives it to the
/// compiler; it is empty in a build by cargo alone, so that a commit by itself does not compile everything anew.
pub const REVISION: &str = match option_env!("SPOKE_REVISION") {
    Some(revision) => revision,
    None => "",
};

/// The line that `-version` prints.
pub(crate) fn line(program: &str, revision: &str) -> String {
    let space = if revision.is_empty() { "" } else { " " };
    format!("{program} {VERSION}{space}{revision}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_ends_with_the_commit_where_one_is_known() {
        assert_eq!(line("remote-sync", ""), format!("remote-sync {VERSION}\n"));
        assert_eq!(line("remote-sync", "5f59426"), format!("remote-sync {VERSION} 5f59426\n"));
    }
}
