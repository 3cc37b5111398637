//! Which build of the programs this is.

/// The version of all programs, the workspace's.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that was built, with `-dirty` after it where the source differed from it. `make dist` gives it to the
/// compiler; it is empty in a build by cargo alone, so that a commit by itself does not compile everything anew.
pub const REVISION: &str = match option_env!("SPOKE_REVISION") {
    Some(revision) => revision,
    None => "",
};
