//! Folders and files that no other user of this computer can change.
//!
//! # Fault model
//! - Another user may create, rename or replace a file of an expected name at any time, also
//!   between two checks. So no path is checked: a file is opened relative to an open folder,
//!   without following links, and the open file is checked.
//! - A folder is guarded if it belongs to this user or root, and no other user can write to it. A
//!   folder above it may be writable for all if it is sticky, like /tmp: other users cannot rename
//!   files there that they do not own.
//! - Root and processes of this user are trusted.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The maximum number of symbolic links in a path, as in the kernel.
const MOST_LINKS: usize = 40;

/// Write permission for the group and for others.
const WRITE_OF_OTHERS: u32 = 0o022;

const STICKY: u32 = 0o1000;

/// Whether the owner of a file is this user or root.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Why another user can change the file of `stat`: the end of a sentence that starts with its path.
pub(crate) fn open_to_others(stat: &Stat) -> Option<String> {
    if !is_trusted(stat.st_uid) {
        return Some(format!(
            "belongs to another user (uid {}; expected uid {} or root)",
            stat.st_uid,
            rustix::process::geteuid().as_raw()
        ));
    }
    let mode = stat.st_mode & 0o7777;
    (mode & WRITE_OF_OTHERS != 0).then(|| {
        format!(
            "can be written by other users (mode {mode:04o}; expected no w for group and others)"
        )
    })
}

/// Why a folder cannot be trusted.
#[derive(Debug)]
pub(crate) enum Unguarded {
    /// Another user can change it or a folder above it: its path, and the end of the sentence.
    Open(PathBuf, String),
    /// A system error.
    System(Errno),
}

impl From<Errno> for Unguarded {
    fn from(error: Errno) -> Unguarded {
        Unguarded::System(error)
    }
}

/// Opens a folder that no other user can change, rename or replace; `make` creates missing folders
/// of its path, for this user only. `None`: it does not exist.
pub(crate) fn open_folder(path: &Path, make: bool) -> Result<Option<OwnedFd>, Unguarded> {
    let Some(walk) = walk(path, make)? else { return Ok(None) };
    match open_to_others(&rustix::fs::fstat(&walk.folder)?) {
        Some(why) => Err(Unguarded::Open(walk.path, why)),
        None => walk.opened().map(Some),
    }
}

/// Opens a folder in which no other user can rename or replace this user's files. `None`: it does
/// not exist.
pub(crate) fn open_base(path: &Path) -> Result<Option<OwnedFd>, Unguarded> {
    walk(path, false)?.map(|walk| walk.opened()).transpose()
}

/// Walks to a folder; `make` creates missing ones.
fn walk(path: &Path, make: bool) -> Result<Option<Walk>, Unguarded> {
    let mut walk = Walk::begin(path)?;
    // Bounded: the folder might be created and removed again and again.
    let mut tries = MOST_LINKS;
    while let Some(name) = walk.names.pop() {
        match walk.step(&name) {
            Err(Unguarded::System(Errno::NOENT)) if !make => return Ok(None),
            Err(Unguarded::System(Errno::NOENT)) if tries > 0 => {
                tries -= 1;
                match rustix::fs::mkdirat(&walk.folder, &*name, Mode::from_raw_mode(0o700)) {
                    // Another process may have created it: the next step checks it.
                    Ok(()) | Err(Errno::EXIST) => walk.names.push(name),
                    Err(error) => return Err(error.into()),
                }
            }
            outcome => outcome?,
        }
    }
    Ok(Some(walk))
}

/// A walk through folders; each is checked before the next one is opened.
struct Walk {
    /// The current folder and its path.
    folder: OwnedFd,
    path: PathBuf,
    /// The remaining names, in reverse order.
    names: Vec<OsString>,
    links: usize,
}

impl Walk {
    fn begin(path: &Path) -> Result<Walk, Unguarded> {
        let path = std::path::absolute(path).map_err(|error| {
            Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::ENOENT))
        })?;
        let mut walk = Walk { folder: root()?, path: "/".into(), names: Vec::new(), links: 0 };
        walk.go_on_with(&path)?;
        Ok(walk)
    }

    /// Inserts a path before the remaining names.
    fn go_on_with(&mut self, path: &Path) -> Result<(), Unguarded> {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.names.push(name.to_owned()),
                Component::ParentDir => self.names.push("..".into()),
                Component::RootDir => (self.folder, self.path) = (root()?, "/".into()),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        Ok(())
    }

    /// Opens the current folder for reading.
    fn opened(&self) -> Result<OwnedFd, Unguarded> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, ".", flags, Mode::empty())?)
    }

    fn step(&mut self, name: &OsStr) -> Result<(), Unguarded> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(&self.folder, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&found)?;
        let path = if name == ".." { self.path.join("..") } else { self.path.join(name) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let is_sticky = stat.st_mode & STICKY != 0 && is_trusted(stat.st_uid);
                if let Some(why) = open_to_others(&stat).filter(|_| !is_sticky) {
                    return Err(Unguarded::Open(path, why));
                }
                (self.folder, self.path) = (found, path);
                Ok(())
            }
            FileType::Symlink if !is_trusted(stat.st_uid) => {
                let why = format!("is a symbolic link of another user (uid {})", stat.st_uid);
                Err(Unguarded::Open(path, why))
            }
            FileType::Symlink => {
                self.links += 1;
                if self.links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target: CString = rustix::fs::readlinkat(&found, "", Vec::new())?;
                self.go_on_with(Path::new(&OsString::from_vec(target.into_bytes())))
            }
            _ => Err(Errno::NOTDIR.into()),
        }
    }
}

fn root() -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Sets the owner, group and permissions of a file that was opened with `O_PATH`.
pub(crate) fn permit(file: &OwnedFd, mode: u32, group: Option<u32>) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    if let Some(group) = group {
        let group = Some(rustix::process::Gid::from_raw(group));
        rustix::fs::chownat(file, "", None, group, AtFlags::EMPTY_PATH)?;
    }
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::chmod(own, Mode::from_raw_mode(mode))
}
