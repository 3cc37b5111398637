//! Operations on names in an open directory. They follow no symlink: other writers must not redirect this program.

use std::{
    fs::{DirBuilder, File},
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::Path,
};

use rustix::{
    fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RawMode},
    io::Errno,
};

use zeroize::Zeroizing;

/// The read limit for a directory, in bytes: two sets, each with the 1 MiB of a Secret and as much again in base64.
pub(super) const MAX_BYTES: u64 = 5 << 20;
/// A directory with more names is not ours.
const MAX_NAMES: usize = 20_000;
/// The mode bits that `-dir-mode` and `-file-mode` set. Other bits stay, such as set-group-ID on a volume with an
/// fsGroup.
const PERMISSIONS: u32 = 0o777;

#[derive(Debug)]
pub(super) struct Directory(OwnedFd);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Directory,
    Symlink(Vec<u8>),
    Other,
}

impl Directory {
    /// Opens or creates `path`; its symlinks are trusted, because an administrator set the path.
    pub(super) fn create(path: &Path, mode: u32) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(mode).create(path)?;
        Ok(Self(fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens the entry `name`. A symlink is an error, and a FIFO does not block.
    fn open_at(&self, name: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let always = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        fs::openat(&self.0, name, flags | always, mode)
    }

    pub(super) fn open(&self, name: &str) -> io::Result<Self> {
        Ok(Self(self.open_at(name, OFlags::DIRECTORY, Mode::empty())?))
    }

    pub(super) fn make(&self, name: &str) -> io::Result<Self> {
        fs::mkdirat(&self.0, name, Mode::RWXU)?;
        self.open(name)
    }

    /// Takes the lock that dumpers of this directory share; `false` while another one holds it. The lock ends with the
    /// process. A file system without locks counts as locked.
    pub(super) fn lock(&self) -> io::Result<bool> {
        match fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// All names in UTF-8; other names are not ours.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
            if names.len() > MAX_NAMES {
                return Err(io::Error::other(format!("it has more than {MAX_NAMES} entries")));
            }
        }
        Ok(names)
    }

    pub(super) fn kind(&self, name: &str) -> io::Result<Option<EntryKind>> {
        let stat = match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            stat => stat?,
        };
        Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => {
                EntryKind::Symlink(fs::readlinkat(&self.0, name, Vec::new())?.into_bytes())
            }
            _ => EntryKind::Other,
        }))
    }

    /// Content and permissions of a plain file, if its size fits into `room`, which shrinks by it.
    pub(super) fn read(&self, name: &str, room: &mut u64) -> io::Result<(Zeroizing<Vec<u8>>, u32)> {
        let mut file = File::from(self.open_at(name, OFlags::RDONLY, Mode::empty())?);
        let about = file.metadata()?;
        if !about.is_file() || about.len() > *room {
            return Err(io::Error::other(
                "it is not a regular file, or exceeds what is left of 5 MiB",
            ));
        }
        let mut content = Zeroizing::new(Vec::new());
        Read::take(&mut file, *room).read_to_end(&mut content)?;
        *room -= content.len() as u64;
        Ok((content, about.mode() & PERMISSIONS))
    }

    /// Writes and syncs a new file.
    pub(super) fn write(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(mode as RawMode);
        let mut file = File::from(self.open_at(name, flags, mode & Mode::RWXU)?);
        // Overrides the umask.
        fs::fchmod(&file, mode)?;
        file.write_all(content)?;
        file.sync_all()
    }

    pub(super) fn mode(&self) -> io::Result<u32> {
        Ok(fs::fstat(&self.0)?.st_mode as u32 & PERMISSIONS)
    }

    pub(super) fn set_mode(&self, mode: u32) -> io::Result<()> {
        let others = fs::fstat(&self.0)?.st_mode as u32 & 0o7000;
        Ok(fs::fchmod(&self.0, Mode::from_raw_mode((others | mode) as RawMode))?)
    }

    /// Makes `name` a symlink to `target` with one rename, and syncs it. It replaces anything except a directory.
    pub(super) fn link(&self, name: &str, target: &str) -> io::Result<()> {
        // Truncated, so that a long key with the prefix fits into NAME_MAX. Names are ASCII.
        let temporary = format!("..tmp-{}", name.get(..200).unwrap_or(name));
        // A process may have died before the rename.
        self.unlink(&temporary)?;
        fs::symlinkat(target, &self.0, &temporary)?;
        let renamed = fs::renameat(&self.0, &temporary, &self.0, name);
        if renamed.is_err() {
            let _ = self.unlink(&temporary);
        }
        renamed?;
        self.sync()
    }

    /// Removes an entry other than a directory, if it exists.
    pub(super) fn unlink(&self, name: &str) -> io::Result<()> {
        gone(fs::unlinkat(&self.0, name, AtFlags::empty()))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        let directory = match self.open(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        directory.names()?.iter().try_for_each(|name| directory.unlink(name))?;
        gone(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR))
    }

    /// Syncs the entries to disk, unless the file system cannot sync directories, as some network and FUSE ones.
    pub(super) fn sync(&self) -> io::Result<()> {
        match fs::fsync(&self.0) {
            Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn gone(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
