//! Flags about single fields.

use sidecar::flags::Flags;

use crate::model::{
    discovery::ResourceArg,
    key::PerKind,
    rules::{FieldPath, FieldRules},
};

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
            "-ignore-field must be KIND:POINTER, with a JSON pointer to content such as /spec/replicas, got {text:?}"
        )
    })
}
