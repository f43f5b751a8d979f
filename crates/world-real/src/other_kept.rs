//! Memory that other processes of this machine have, or left behind: the files of that name in the folders beside this process's own.
//!
//! # Fault model
//! - A file that a process has is locked. It may be taken or removed between a look and an act: what is removed is locked first.
//! - Nothing of a file is believed but its head, and numbers within its length.

use crate::errno::system_error;
use crate::kept::{HEAD_WORDS, MAGIC, PAGE, VERSION, file_name};
use env::{Error, ErrorKind, OtherMemory, Result};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use units::ByteCount;

/// The most numbers that are read of a file: more than those of the largest memory.
const MOST_WORDS: u64 = 1 << 28;

/// See [`env::World::other_memories`]. `own`: the folder of this process. Blocks.
pub(crate) fn list(own: Option<&Path>, name: &str) -> Result<Vec<OtherMemory>> {
    let mut memories = Vec::new();
    for path in files(own, name)? {
        // One that is gone by now is none.
        if let Some((file, stat)) = open(&path)? {
            memories.push(look(&path, &file, &stat));
        }
    }
    Ok(memories)
}

/// See [`env::World::forget_other_memory`]. Blocks.
pub(crate) fn remove(own: Option<&Path>, name: &str, other: &str) -> Result<()> {
    let none = || Error::new(ErrorKind::NotFound, format!("there is no memory {other}"));
    let path =
        files(own, name)?.into_iter().find(|path| path.display().to_string() == other).ok_or_else(none)?;
    let (file, stat) = open(&path)?.ok_or_else(none)?;
    if !lock(&file) {
        let sentence = format!("{other} is in use by a 'softroc serve'; stop that one first");
        return Err(Error::new(ErrorKind::InUse, sentence));
    }
    let cannot = |error: Errno| system_error(error, format!("cannot remove {other}"));
    // Another file may have got its name before it was locked.
    let now = rustix::fs::stat(&path).map_err(cannot)?;
    if (now.st_dev, now.st_ino) != (stat.st_dev, stat.st_ino) {
        return Err(none());
    }
    rustix::fs::unlink(&path).map_err(cannot)?;
    match path.parent().map(rustix::fs::rmdir) {
        // Somebody keeps something else there.
        None | Some(Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT)) => Ok(()),
        Some(Err(error)) => Err(cannot(error)),
    }
}

/// The files of that name in the folders beside this one.
fn files(own: Option<&Path>, name: &str) -> Result<Vec<PathBuf>> {
    let file = file_name(name)?;
    let Some((own, base)) = own.and_then(|own| Some((own, own.parent()?))) else { return Ok(Vec::new()) };
    let cannot =
        |error: std::io::Error| system_error(error, format!("cannot read the folder {}", base.display()));
    let entries = match std::fs::read_dir(base) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let folder = entry.map_err(cannot)?.path();
        let is_real = std::fs::symlink_metadata(&folder).is_ok_and(|data| data.is_dir());
        if is_real && folder != own {
            files.push(folder.join(&file));
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// A file of this user, links not followed. `None`: there is none, or it is no memory of this user.
fn open(path: &Path) -> Result<Option<(File, Stat)>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let cannot = |error: Errno| system_error(error, format!("cannot open {}", path.display()));
    let fd = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    let stat = rustix::fs::fstat(&fd).map_err(cannot)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
    Ok((is_file && is_ours).then(|| (File::from(fd), stat)))
}

/// Whether nobody has it; this process has it then, until the file is closed.
fn lock(file: &File) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn look(path: &Path, file: &File, stat: &Stat) -> OtherMemory {
    let len = stat.st_size as u64;
    let in_use = !lock(file);
    let words = if in_use { Ok(Vec::new()) } else { read_words(file, len) };
    OtherMemory { name: path.display().to_string(), len: ByteCount(len), in_use, words }
}

/// The numbers that a file says it has.
fn read_words(file: &File, len: u64) -> std::result::Result<Vec<u64>, String> {
    let read = |at: u64, count: u64| -> std::result::Result<Vec<u64>, String> {
        let mut bytes = vec![0; count as usize * 8];
        file.read_exact_at(&mut bytes, at).map_err(|error| format!("it cannot be read: {error}"))?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        Ok(bytes.chunks_exact(8).map(word).collect())
    };
    let head = read(0, HEAD_WORDS as u64)?;
    match head[..] {
        [MAGIC, VERSION, words, ..] if words <= MOST_WORDS && words * 8 + PAGE <= len => read(PAGE, words),
        [MAGIC, ..] => Err("it is damaged, or another version made it".to_owned()),
        _ => Err("it is not memory of softroc".to_owned()),
    }
}
