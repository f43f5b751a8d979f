//! The files of a state folder, each replaced as a whole.
//!
//! # Fault model
//! - Power may fail at any moment: new content is written to a separate file, made durable, and
//!   renamed atomically.
//! - The folder belongs to this user or to root, and other users cannot write to it
//!   ([`guarded`](crate::guarded)). Its files are opened relative to the open folder. A symbolic
//!   link, or a file of another user, is not opened: it may be older than the folder's protection.

use crate::errno::system_error;
use crate::guarded::{is_trusted, open_to_others};
use platform::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Only this user.
const OWN: Mode = Mode::from_raw_mode(0o600);

/// An open state folder.
pub(crate) struct Files {
    path: PathBuf,
    folder: OwnedFd,
}

/// Creates the directory of a durable state if it is missing. Returns its canonical path.
///
/// # Errors
/// If it cannot be created, is not a directory, or can be changed by another user.
pub fn make_state_folder(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    let made = std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path);
    made.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => {
            let sentence = format!("{shown} is not a directory; the state needs one");
            Error::new(ErrorKind::WrongKind, sentence)
        }
        _ => system_error(error, format!("cannot make the state directory {shown}")),
    })?;
    Files::open(path)?;
    std::fs::canonicalize(path)
        .map_err(|error| system_error(error, format!("cannot find the state directory {shown}")))
}

/// Why a state directory is refused, and what to do.
fn refused(path: &Path, why: &str) -> Error {
    let shown = path.display();
    let sentence = format!(
        "the state directory {shown} {why}, so another user could change its files; run \
         'chown -R {} {shown}' and 'chmod go-w {shown}', or give another one with '--state DIR'",
        rustix::process::geteuid().as_raw()
    );
    Error::new(ErrorKind::Denied, sentence)
}

impl Files {
    /// Opens an existing folder.
    pub(crate) fn open(path: &Path) -> Result<Files> {
        let cannot = |error: Errno| {
            system_error(error, format!("cannot use the state directory {}", path.display()))
        };
        let named = rustix::fs::lstat(path).map_err(cannot)?;
        if FileType::from_raw_mode(named.st_mode) == FileType::Symlink && !is_trusted(named.st_uid)
        {
            return Err(refused(
                path,
                &format!("is a symbolic link of another user (uid {})", named.st_uid),
            ));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(cannot)?;
        let stat = rustix::fs::fstat(&folder).map_err(cannot)?;
        match open_to_others(&stat) {
            Some(why) => Err(refused(path, &why)),
            None => Ok(Files { path: path.to_owned(), folder }),
        }
    }

    fn shown(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn failed(&self, what: &str, name: &str) -> impl FnOnce(Errno) -> Error {
        let sentence = format!("cannot {what} {}", self.shown(name));
        move |error| system_error(error, sentence)
    }

    /// Opens a file of this user or of root, without following links; `None`: it does not exist.
    pub(crate) fn open_file(&self, name: &str, how: OFlags, what: &str) -> Result<Option<File>> {
        let not_ours = |is: &str| {
            let shown = self.shown(name);
            let sentence = format!(
                "cannot {what} {shown}: it {is}; put a file of this user there, or remove it with \
                    'rm {shown}'"
            );
            Error::new(ErrorKind::Denied, sentence)
        };
        // Opening a pipe must not block.
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, name, flags, OWN) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(not_ours("is a symbolic link, which is not followed")),
            Err(error) => return Err(self.failed(what, name)(error)),
        };
        let stat = rustix::fs::fstat(&file).map_err(self.failed(what, name))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let sentence = format!("cannot {what} {}: it is not a file", self.shown(name));
            return Err(Error::new(ErrorKind::WrongKind, sentence));
        }
        if !is_trusted(stat.st_uid) {
            return Err(not_ours(&format!("belongs to another user (uid {})", stat.st_uid)));
        }
        Ok(Some(File::from(file)))
    }

    pub(crate) fn load(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open_file(name, OFlags::RDONLY, "read")? else { return Ok(None) };
        let mut content = Vec::new();
        let read = file.read_to_end(&mut content);
        read.map_err(|error| system_error(error, format!("cannot read {}", self.shown(name))))?;
        Ok(Some(content))
    }

    /// Whether a file of any kind has that name.
    fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn sync(&self) -> rustix::io::Result<()> {
        rustix::fs::fsync(&self.folder)
    }

    /// Creates a new file with that content, for this user only, and makes it durable.
    fn write_new(&self, name: &str, content: &[u8]) -> std::io::Result<()> {
        self.unlink(name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.folder, name, flags, OWN)?);
        file.write_all(content)?;
        file.sync_all()
    }

    pub(crate) fn store(&self, name: &str, content: &[u8]) -> Result<()> {
        let beside = format!(".{name}.new");
        let write = || {
            self.write_new(&beside, content)?;
            rustix::fs::renameat(&self.folder, &*beside, &self.folder, name)?;
            Ok(self.sync()?)
        };
        write().map_err(|error: std::io::Error| {
            system_error(error, format!("cannot store {}", self.shown(name)))
        })
    }

    /// Replaces the content, and keeps the old file as `previous`: `name` always exists.
    pub(crate) fn replace(&self, name: &str, previous: &str, content: &[u8]) -> Result<()> {
        if self.has(name) {
            self.keep_as(name, previous)?;
        }
        self.store(name, content)
    }

    /// Gives a file a second name, replacing the file that had it.
    fn keep_as(&self, name: &str, previous: &str) -> Result<()> {
        let beside = format!(".{previous}.new");
        let failed = |error: Errno| self.failed("keep the previous version of", name)(error);
        self.unlink(&beside).map_err(failed)?;
        if rustix::fs::linkat(&self.folder, name, &self.folder, &*beside, AtFlags::empty()).is_err()
        {
            // The file system has no hard links: a copy does the same, and takes space.
            let content = self.load(name)?.unwrap_or_default();
            self.write_new(&beside, &content).map_err(|error| {
                system_error(
                    error,
                    format!("cannot keep the previous version of {}", self.shown(name)),
                )
            })?;
        }
        rustix::fs::renameat(&self.folder, &*beside, &self.folder, previous).map_err(failed)?;
        // If both were the same file already, the rename did nothing.
        self.unlink(&beside).map_err(failed)
    }

    fn unlink(&self, name: &str) -> rustix::io::Result<()> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Err(error) if error != Errno::NOENT => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes a file, if it exists.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.unlink(name).map_err(self.failed("remove", name))
    }

    /// Renames a file, unless the new name exists (`false`). A link itself is renamed.
    pub(crate) fn set_aside(&self, name: &str, aside: &str) -> Result<bool> {
        if self.has(aside) {
            return Ok(false);
        }
        rustix::fs::renameat(&self.folder, name, &self.folder, aside)
            .and_then(|()| self.sync())
            .map_err(self.failed("move aside", name))?;
        Ok(true)
    }

    pub(crate) fn append(&self, name: &str, content: &[u8]) -> Result<()> {
        let is_new = !self.has(name);
        let how = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let Some(mut file) = self.open_file(name, how, "append to")? else {
            return Err(self.failed("append to", name)(Errno::NOENT));
        };
        let written = file.write_all(content).and_then(|()| file.sync_data());
        let written = written.and_then(|()| if is_new { Ok(self.sync()?) } else { Ok(()) });
        written
            .map_err(|error| system_error(error, format!("cannot append to {}", self.shown(name))))
    }
}
