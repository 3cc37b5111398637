//! What lies in the directory, as the plan wants to know it.

use std::io;

use crate::{
    directory::{Directory, Kind},
    plan::{DATA, Entry, Files, Found, Generation, TEMPORARY, is_generation},
};

/// Looks at the paths of `wanted` and at all of our own form. Of other files not even the content is read.
pub(crate) fn look(directory: &Directory, wanted: &Files) -> io::Result<Found> {
    let mut found = Found { mode: directory.mode()?, ..Found::default() };
    for name in directory.names()? {
        let temporary = name.starts_with(TEMPORARY);
        if !temporary && name.starts_with("..") && !is_generation(&name) {
            continue;
        }
        match directory.kind(&name)? {
            Some(Kind::Symlink(_)) if temporary => found.temporary.push(name),
            Some(Kind::Directory) if is_generation(&name) => found.generations.push(name),
            Some(kind) if !name.starts_with("..") => {
                if let Some(entry) = entry(directory, &name, kind, wanted.contains_key(&name)) {
                    found.entries.insert(name, entry);
                }
            }
            _ => {}
        }
    }
    found.generations.sort();
    found.current = current(directory)?;
    Ok(found)
}

/// `None` for what is nothing to us. The kubeconfig always is something: see `has_kubeconfig`.
fn entry(directory: &Directory, name: &str, kind: Kind, wanted: bool) -> Option<Entry> {
    match kind {
        Kind::Symlink(target) if target == format!("{DATA}/{name}").into_bytes() => {
            Some(Entry::Ours)
        }
        _ if !wanted && name != "kubeconfig" => None,
        Kind::File => Some(Entry::Plain(directory.read(name).ok().map(|(content, _)| content))),
        Kind::Directory => Some(Entry::Directory),
        Kind::Symlink(_) | Kind::Other => Some(Entry::Other),
    }
}

/// The generation that `..data` names, if it is one of ours.
fn current(directory: &Directory) -> io::Result<Option<Generation>> {
    let target = match directory.kind(DATA)? {
        Some(Kind::Symlink(target)) => String::from_utf8(target).ok(),
        Some(Kind::Directory) => {
            return Err(io::Error::other("..data is a directory there: it has to be removed"));
        }
        _ => None,
    };
    let name = target.filter(|name| is_generation(name));
    Ok(name.map(|name| {
        let mut generation = Generation { name, ..Generation::default() };
        if let Err(error) = read(directory, &mut generation) {
            log::debug!("generation {} is not as it was written: {error}", generation.name);
        }
        generation
    }))
}

/// What cannot be read is left out, so that the set is not the one that is wanted.
fn read(directory: &Directory, generation: &mut Generation) -> io::Result<()> {
    let inside = directory.open(&generation.name)?;
    generation.mode = inside.mode()?;
    for file in inside.names()? {
        if let Ok((content, mode)) = inside.read(&file) {
            generation.files.insert(file.clone(), content);
            generation.modes.insert(file, mode);
        }
    }
    Ok(())
}
