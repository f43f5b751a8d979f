//! Persistent memory that other processes of this computer have, or left behind: files of the same
//! name in the folders next to this process's own.
//!
//! # Fault model
//! - A file in use is locked. It may be taken or removed at any time: it is locked before it is
//!   removed.
//! - Only its header is trusted, and numbers within its length.
//! - No other user can change the parent of those folders ([`guarded`](crate::guarded)). A folder
//!   in it that another user can change is ignored: all access is relative to open folders.

use crate::errno::system_error;
use crate::guarded;
use crate::kept::{HEAD_WORDS, MAGIC, PAGE, VERSION, file_name, refused};
use platform::{Error, ErrorKind, OtherMemory, Result};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use units::ByteCount;

/// The maximum number of words read from a file: more than the largest memory has.
const MOST_WORDS: u64 = 1 << 28;

/// A folder next to this process's own.
struct SiblingFolder {
    base: Rc<OwnedFd>,
    folder: OwnedFd,
    /// The folder's name in its parent.
    called: OsString,
    path: PathBuf,
}

/// See [`platform::World::other_memories`]. `own`: the folder of this process. Blocks.
pub(crate) fn list(own: Option<&Path>, name: &str) -> Result<Vec<OtherMemory>> {
    let mut memories = Vec::new();
    for beside in folders(own, name)? {
        // Ignored if it was removed meanwhile.
        if let Some((file, stat)) = beside.open(name)? {
            memories.push(look(&beside.path, &file, &stat));
        }
    }
    Ok(memories)
}

/// See [`platform::World::forget_other_memory`]. Blocks.
pub(crate) fn remove(own: Option<&Path>, name: &str, other: &str) -> Result<()> {
    let none = || Error::new(ErrorKind::NotFound, format!("there is no memory {other}"));
    let found =
        folders(own, name)?.into_iter().find(|beside| beside.path.display().to_string() == other);
    let beside = found.ok_or_else(none)?;
    let (file, stat) = beside.open(name)?.ok_or_else(none)?;
    if !lock(&file) {
        let sentence = format!("{other} is in use by a 'softroc serve'; stop it first");
        return Err(Error::new(ErrorKind::InUse, sentence));
    }
    let cannot = |error: Errno| system_error(error, format!("cannot remove {other}"));
    // Another file may have taken its name before the lock.
    let file = file_name(name)?;
    let now =
        rustix::fs::statat(&beside.folder, &*file, AtFlags::SYMLINK_NOFOLLOW).map_err(cannot)?;
    if (now.st_dev, now.st_ino) != (stat.st_dev, stat.st_ino) {
        return Err(none());
    }
    rustix::fs::unlinkat(&beside.folder, &*file, AtFlags::empty()).map_err(cannot)?;
    match rustix::fs::unlinkat(&*beside.base, &*beside.called, AtFlags::REMOVEDIR) {
        // The folder has other files: keep it.
        Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(()),
        Err(error) => Err(cannot(error)),
    }
}

/// The folders next to this one that may have a file of that name.
fn folders(own: Option<&Path>, name: &str) -> Result<Vec<SiblingFolder>> {
    let file = file_name(name)?;
    let Some((own, path)) = own.and_then(|own| Some((own, own.parent()?))) else {
        return Ok(Vec::new());
    };
    let cannot =
        |error: Errno| system_error(error, format!("cannot read the folder {}", path.display()));
    let Some(base) = guarded::open_base(path).map_err(|error| refused(path, error))? else {
        return Ok(Vec::new());
    };
    let base = Rc::new(base);
    let mut folders = Vec::new();
    for entry in rustix::fs::Dir::read_from(&*base).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let called = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        let is_own = own.file_name() == Some(called.as_os_str());
        let is_dots = called == "." || called == "..";
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match is_own || is_dots {
            true => continue,
            false => rustix::fs::openat(&*base, &*called, flags, Mode::empty()),
        };
        // Not a folder, or not accessible: it has no memory of this user.
        if let Ok(folder) = folder
            && rustix::fs::fstat(&folder).is_ok_and(|stat| guarded::open_to_others(&stat).is_none())
        {
            folders.push(SiblingFolder {
                base: base.clone(),
                folder,
                path: path.join(&called).join(&file),
                called,
            });
        }
    }
    folders.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(folders)
}

impl SiblingFolder {
    /// A file of this user, without following links. `None`: there is none, or it is not persistent
    /// memory of this user.
    fn open(&self, name: &str) -> Result<Option<(File, Stat)>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let cannot =
            |error: Errno| system_error(error, format!("cannot open {}", self.path.display()));
        let fd = match rustix::fs::openat(&self.folder, &*file_name(name)?, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(None),
            Err(error) => return Err(cannot(error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(cannot)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
        Ok((is_file && is_ours).then(|| (File::from(fd), stat)))
    }
}

/// Locks a free file for this process, until it is closed; false if it is in use.
fn lock(file: &File) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn look(path: &Path, file: &File, stat: &Stat) -> OtherMemory {
    let len = stat.st_size as u64;
    let in_use = !lock(file);
    let words = if in_use { Ok(Vec::new()) } else { read_words(file, len) };
    OtherMemory { name: path.display().to_string(), len: ByteCount(len), in_use, words }
}

/// The words of a file, as many as its header says.
fn read_words(file: &File, len: u64) -> std::result::Result<Vec<u64>, String> {
    let read = |at: u64, count: u64| -> std::result::Result<Vec<u64>, String> {
        let mut bytes = vec![0; count as usize * 8];
        file.read_exact_at(&mut bytes, at)
            .map_err(|error| format!("it cannot be read: {error}"))?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        Ok(bytes.chunks_exact(8).map(word).collect())
    };
    let head = read(0, HEAD_WORDS as u64)?;
    match head[..] {
        [MAGIC, VERSION, words, ..] if words <= MOST_WORDS && words * 8 + PAGE <= len => {
            read(PAGE, words)
        }
        [MAGIC, ..] => Err("it is damaged, or of another version".to_owned()),
        _ => Err("it is not persistent memory of SoftROC".to_owned()),
    }
}
