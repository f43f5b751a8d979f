//! Folders and files that no other user of this machine can change.
//!
//! # Fault model
//! - Another user may have made, renamed or replaced what has an expected name, also between two looks. So nothing is judged by its path:
//!   it is opened relative to a folder that is open, links not followed, and judged by what the open file is.
//! - A folder is guarded if it belongs to this user or to root and others cannot write to it. A folder above it may be open to all if it
//!   is sticky, as /tmp is: others cannot rename there what is not theirs.
//! - Root and this user's own processes are trusted.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Symbolic links on the way to a folder: as many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The permissions of others, the group's among them, to write.
const WRITE_OF_OTHERS: u32 = 0o022;

const STICKY: u32 = 0o1000;

/// Whether what belongs to that user is changed by nobody but root or this user.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Why another user can change what `stat` describes: the rest of a sentence that begins with its path.
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
        format!("can be written by other users (mode {mode:04o}; expected no w for group and others)")
    })
}

/// Why a folder cannot be relied on.
#[derive(Debug)]
pub(crate) enum Unguarded {
    /// Another user can change it, or what is above it: its path, and the rest of a sentence.
    Open(PathBuf, String),
    /// The system's own word.
    System(Errno),
}

impl From<Errno> for Unguarded {
    fn from(error: Errno) -> Unguarded {
        Unguarded::System(error)
    }
}

/// Opens a folder that no other user can change, rename or replace; `make` makes what is missing of its path, for this user
/// alone. `None`: it is not there.
pub(crate) fn open_folder(path: &Path, make: bool) -> Result<Option<OwnedFd>, Unguarded> {
    let Some(walk) = walk(path, make)? else { return Ok(None) };
    match open_to_others(&rustix::fs::fstat(&walk.folder)?) {
        Some(why) => Err(Unguarded::Open(walk.path, why)),
        None => walk.opened().map(Some),
    }
}

/// Opens a folder in which no other user can rename or replace what belongs to this one. `None`: it is not there.
pub(crate) fn open_base(path: &Path) -> Result<Option<OwnedFd>, Unguarded> {
    walk(path, false)?.map(|walk| walk.opened()).transpose()
}

/// Goes to a folder; `make` makes what is missing.
fn walk(path: &Path, make: bool) -> Result<Option<Walk>, Unguarded> {
    let mut walk = Walk::begin(path)?;
    // A folder that is made and removed again and again is not waited for.
    let mut tries = MOST_LINKS;
    while let Some(name) = walk.names.pop() {
        match walk.step(&name) {
            Err(Unguarded::System(Errno::NOENT)) if !make => return Ok(None),
            Err(Unguarded::System(Errno::NOENT)) if tries > 0 => {
                tries -= 1;
                match rustix::fs::mkdirat(&walk.folder, &*name, Mode::from_raw_mode(0o700)) {
                    // Somebody else may have made it: the next look judges what is there.
                    Ok(()) | Err(Errno::EXIST) => walk.names.push(name),
                    Err(error) => return Err(error.into()),
                }
            }
            outcome => outcome?,
        }
    }
    Ok(Some(walk))
}

/// A way through folders, each of which is judged before the next one is opened.
struct Walk {
    /// Where it is, and how that is called.
    folder: OwnedFd,
    path: PathBuf,
    /// What is left of the way, the next name last.
    names: Vec<OsString>,
    links: usize,
}

impl Walk {
    fn begin(path: &Path) -> Result<Walk, Unguarded> {
        let path = std::path::absolute(path)
            .map_err(|error| Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::ENOENT)))?;
        let mut walk = Walk { folder: root()?, path: "/".into(), names: Vec::new(), links: 0 };
        walk.go_on_with(&path)?;
        Ok(walk)
    }

    /// What is to be walked next, before all that is left.
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

    /// The folder that it has come to, to be read.
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

/// Sets owner, group and permissions of a file that is open as a path alone.
pub(crate) fn permit(file: &OwnedFd, mode: u32, group: Option<u32>) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd;
    if let Some(group) = group {
        let group = Some(rustix::process::Gid::from_raw(group));
        rustix::fs::chownat(file, "", None, group, AtFlags::EMPTY_PATH)?;
    }
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::chmod(own, Mode::from_raw_mode(mode))
}
