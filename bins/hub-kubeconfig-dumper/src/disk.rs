//! Present state of the directory, for the plan.

use std::io;

use super::{
    directory::{Directory, EntryKind, MAX_BYTES},
    plan::{DATA, Files, Found, Generation, PathEntry, is_generation},
};

/// Inspects the paths of `wanted` and all entries of our own format, and reads no other file.
pub(super) fn look(directory: &Directory, wanted: &Files) -> io::Result<Found> {
    let (mut found, mut room) = (Found { mode: directory.mode()?, ..Found::default() }, MAX_BYTES);
    for name in directory.names()? {
        let is_hidden = name.starts_with("..");
        if is_hidden && !is_generation(&name) {
            continue;
        }
        match directory.kind(&name)? {
            Some(EntryKind::Directory) if is_hidden => found.generations.push(name),
            Some(kind) if !is_hidden => {
                let is_wanted = wanted.contains_key(&name);
                if let Some(entry) = entry(directory, &name, kind, is_wanted, &mut room) {
                    found.entries.insert(name, entry);
                }
            }
            _ => {}
        }
    }
    found.generations.sort_unstable();
    found.current = current(directory, &mut room)?;
    Ok(found)
}

/// The entry; `None` if it is irrelevant. The kubeconfig is always relevant, see `has_kubeconfig`.
fn entry(
    directory: &Directory,
    name: &str,
    kind: EntryKind,
    wanted: bool,
    room: &mut u64,
) -> Option<PathEntry> {
    match kind {
        EntryKind::Symlink(target) if target == format!("{DATA}/{name}").into_bytes() => {
            Some(PathEntry::Ours)
        }
        _ if !wanted && name != "kubeconfig" => None,
        EntryKind::File => Some(PathEntry::Plain(directory.read(name, room).ok())),
        EntryKind::Directory => Some(PathEntry::Directory),
        EntryKind::Symlink(_) | EntryKind::Other => Some(PathEntry::Other),
    }
}

fn current(directory: &Directory, room: &mut u64) -> io::Result<Option<Generation>> {
    let target = match directory.kind(DATA)? {
        Some(EntryKind::Symlink(target)) => String::from_utf8(target).ok(),
        Some(EntryKind::Directory) => {
            return Err(io::Error::other("..data is a directory there: it has to be removed"));
        }
        _ => None,
    };
    let name = target.filter(|name| is_generation(name));
    Ok(name.map(|name| {
        let mut generation = Generation { name, ..Generation::default() };
        if let Err(error) = read(directory, &mut generation, room) {
            log::debug!(
                path = generation.name, error:% = error;
                "a generation is not as it was written"
            );
        }
        generation
    }))
}

/// Reads a generation. Unreadable files are missing, so that it differs from the wanted set.
fn read(directory: &Directory, generation: &mut Generation, room: &mut u64) -> io::Result<()> {
    let inside = directory.open(&generation.name)?;
    generation.mode = inside.mode()?;
    for file in inside.names()? {
        if let Ok((content, mode)) = inside.read(&file, room) {
            generation.files.insert(file.clone(), content);
            generation.modes.insert(file, mode);
        }
    }
    Ok(())
}
