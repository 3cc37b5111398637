//! Flags about single fields.

use sidecar::flags::Flags;

use crate::model::{
    discovery::ResourceArg,
    key::PerKind,
    mode::Mode,
    rules::{FieldPath, FieldRules},
};

/// The flags, which compat mode has no use for: its writes are upstream's.
const FLAGS: [&str; 3] = ["ignore-field", "secret-metadata", "track"];

/// Checks that none of the flags is given in compat mode.
pub(super) fn check_mode(flags: &Flags, mode: Mode) -> Result<(), String> {
    match FLAGS.into_iter().find(|name| mode == Mode::Compat && flags.is_given(name)) {
        Some(name) => Err(format!("-{name} is for safe mode, compat has sync-controller's writes")),
        None => Ok(()),
    }
}

/// The rules for each of these kinds.
pub(super) fn rules(
    flags: &Flags,
    resources: &PerKind<ResourceArg>,
) -> Result<PerKind<FieldRules>, String> {
    let ignored = flags.list("ignore-field").into_iter().map(ignored_field);
    let ignored: Vec<_> = ignored.collect::<Result<_, _>>()?;
    let known = |kind: &ResourceArg| resources.iter().any(|(_, resource)| resource.same(kind));
    if let Some((kind, _)) = ignored.iter().find(|(kind, _)| !known(kind)) {
        return Err(format!("-ignore-field: -resource does not name {kind}"));
    }
    Ok(resources.map(|resource| {
        let ignored = ignored.iter().filter(|(kind, _)| kind.same(resource));
        FieldRules { ignored: ignored.map(|(_, path)| path.clone()).collect() }
    }))
}

fn ignored_field(text: &str) -> Result<(ResourceArg, FieldPath), String> {
    let parsed = text.split_once(':').and_then(|(kind, pointer)| {
        Some((ResourceArg::parse(kind).ok()?, FieldPath::parse(pointer)?))
    });
    parsed.ok_or_else(|| {
        format!(
            "-ignore-field is KIND:POINTER, with a JSON pointer to content such as /spec/replicas, not {text:?}"
        )
    })
}
