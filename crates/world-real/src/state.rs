//! Small durable state: a directory that one controller holds, or memory where nothing need last.
//!
//! Fault model: power may fail at any moment. What is stored is written beside the old content, made durable,
//! and takes its place in one step; what is appended is made durable before the future is done.

use crate::errno::system_error;
use crate::worker::Worker;
use env::{Error, ErrorKind, LocalFuture, Result, StateStore};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file whose lock says that a controller has the directory; its process number is written in it.
const LOCK: &str = "lock";

/// A directory held by this process.
pub(crate) struct StateDirectory {
    path: PathBuf,
    /// Held as long as this lives.
    _lock: OwnedFd,
    /// One thread, so that what is stored and appended keeps its order.
    worker: Worker,
}

/// Makes the directory of a durable state if it is missing. The one path that it has, whichever way it was named.
///
/// # Errors
/// When it cannot be made, or is no directory.
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
    std::fs::canonicalize(path)
        .map_err(|error| system_error(error, format!("cannot find the state directory {shown}")))
}

impl StateDirectory {
    /// Takes the directory for this process alone; makes it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<StateDirectory> {
        make_state_folder(path)?;
        let shown = path.display();
        let lock_path = path.join(LOCK);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let lock = rustix::fs::open(&lock_path, flags, Mode::from_raw_mode(0o600))
            .map_err(|error| system_error(error, format!("cannot use the state directory {shown}")))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let holder = std::fs::read_to_string(&lock_path).ok();
                let holder = holder.and_then(|text| text.trim().parse::<u32>().ok());
                let holder = holder.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!("state directory {shown} is in use by another softroc serve{holder}"),
                ));
            }
            Err(error) => {
                return Err(system_error(error, format!("cannot lock the state directory {shown}")));
            }
        }
        let noted = rustix::fs::ftruncate(&lock, 0)
            .and_then(|()| rustix::io::pwrite(&lock, format!("{}\n", std::process::id()).as_bytes(), 0));
        match noted {
            // The lock is what counts; the number is for people. A controller starts where the folder is full.
            Ok(_) | Err(Errno::NOSPC | Errno::DQUOT) => {}
            Err(error) => {
                return Err(system_error(error, format!("cannot write to the state directory {shown}")));
            }
        }
        Ok(StateDirectory { path: path.to_owned(), _lock: lock, worker: Worker::start()? })
    }

    fn file(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        Ok(self.path.join(name))
    }
}

/// Plain file names that are not ours.
fn check_name(name: &str) -> Result<()> {
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && name != LOCK;
    if plain { Ok(()) } else { Err(Error::new(ErrorKind::BadName, format!("'{name}' cannot name a state"))) }
}

fn failed(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let sentence = format!("cannot {what} {}", path.display());
    move |error| system_error(error, sentence)
}

fn load(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn sync_directory(directory: &Path) -> std::io::Result<()> {
    std::fs::File::open(directory)?.sync_all()
}

fn store(directory: &Path, path: &Path, content: &[u8]) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = directory.join(format!(".{name}.new"));
    let write = || {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        sync_directory(directory)
    };
    write().map_err(failed("store", path))
}

/// The new content takes the place of the old one, which has a second name from then on: at no moment there is none under `path`.
fn replace(directory: &Path, path: &Path, previous: &Path, content: &[u8]) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        keep_as(directory, path, previous).map_err(failed("keep the previous version of", path))?;
    }
    store(directory, path, content)
}

/// Gives a file a second name, in the place of what had that before.
fn keep_as(directory: &Path, path: &Path, previous: &Path) -> std::io::Result<()> {
    let name = previous.file_name().unwrap_or_default().to_string_lossy();
    let beside = directory.join(format!(".{name}.new"));
    remove(&beside)?;
    if std::fs::hard_link(path, &beside).is_err() {
        // A file system without second names: a copy is as good, and takes room.
        let mut options = std::fs::OpenOptions::new();
        let mut copy = options.write(true).create_new(true).mode(0o600).open(&beside)?;
        copy.write_all(&std::fs::read(path)?)?;
        copy.sync_all()?;
    }
    std::fs::rename(&beside, previous)?;
    // Where the two were one file already, nothing was moved.
    remove(&beside)
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn set_aside(directory: &Path, path: &Path, aside: &Path) -> Result<bool> {
    if aside.symlink_metadata().is_ok() {
        return Ok(false);
    }
    let moved = std::fs::rename(path, aside).and_then(|()| sync_directory(directory));
    moved.map(|()| true).map_err(failed("move aside", path))
}

fn append(directory: &Path, path: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        let is_new = !path.exists();
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(path)?;
        file.write_all(content)?;
        file.sync_data()?;
        if is_new { sync_directory(directory) } else { Ok(()) }
    };
    write().map_err(failed("append to", path))
}

impl StateStore for StateDirectory {
    fn load<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let path = self.file(name)?;
            self.worker.run(move || load(&path)).await?
        })
    }

    fn store<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (directory, path) = (self.path.clone(), self.file(name)?);
            self.worker.run(move || store(&directory, &path, &content)).await?
        })
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        previous: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (directory, path, previous) = (self.path.clone(), self.file(name)?, self.file(previous)?);
            self.worker.run(move || replace(&directory, &path, &previous, &content)).await?
        })
    }

    fn set_aside<'a>(&'a self, name: &'a str, aside: &'a str) -> LocalFuture<'a, Result<bool>> {
        Box::pin(async move {
            let (directory, path, aside) = (self.path.clone(), self.file(name)?, self.file(aside)?);
            self.worker.run(move || set_aside(&directory, &path, &aside)).await?
        })
    }

    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (directory, path) = (self.path.clone(), self.file(name)?);
            self.worker.run(move || append(&directory, &path, &content)).await?
        })
    }
}

/// A folder whose files are read and written at once, on the thread that asks, which may block. Another part of this process holds the
/// folder: these are files that no other part writes.
#[derive(Clone, Debug)]
pub struct StateFolder(PathBuf);

impl StateFolder {
    /// Removes what is stored under `name`, if there is something.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.file(name)?;
        remove(&path).map_err(failed("remove", &path))
    }

    /// The files of that folder.
    pub fn new(path: &Path) -> StateFolder {
        StateFolder(path.to_owned())
    }

    fn file(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        Ok(self.0.join(name))
    }
}

impl StateStore for StateFolder {
    fn load<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(std::future::ready(self.file(name).and_then(|path| load(&path))))
    }

    fn store<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(std::future::ready(self.file(name).and_then(|path| store(&self.0, &path, &content))))
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        previous: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, Result<()>> {
        let replaced = || replace(&self.0, &self.file(name)?, &self.file(previous)?, &content);
        Box::pin(std::future::ready(replaced()))
    }

    fn set_aside<'a>(&'a self, name: &'a str, aside: &'a str) -> LocalFuture<'a, Result<bool>> {
        let moved = || set_aside(&self.0, &self.file(name)?, &self.file(aside)?);
        Box::pin(std::future::ready(moved()))
    }

    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(std::future::ready(self.file(name).and_then(|path| append(&self.0, &path, &content))))
    }
}

/// State that lasts as long as its shard.
#[derive(Default)]
pub(crate) struct MemoryState {
    content: RefCell<BTreeMap<String, Vec<u8>>>,
}

impl StateStore for MemoryState {
    fn load<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            check_name(name)?;
            Ok(self.content.borrow().get(name).cloned())
        })
    }

    fn store<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            self.content.borrow_mut().insert(name.to_owned(), content);
            Ok(())
        })
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        previous: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            let mut all = self.content.borrow_mut();
            if let Some(before) = all.insert(name.to_owned(), content) {
                all.insert(previous.to_owned(), before);
            }
            Ok(())
        })
    }

    fn set_aside<'a>(&'a self, name: &'a str, aside: &'a str) -> LocalFuture<'a, Result<bool>> {
        Box::pin(async move {
            let mut all = self.content.borrow_mut();
            if all.contains_key(aside) {
                return Ok(false);
            }
            if let Some(content) = all.remove(name) {
                all.insert(aside.to_owned(), content);
            }
            Ok(true)
        })
    }

    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            self.content.borrow_mut().entry(name.to_owned()).or_default().extend_from_slice(&content);
            Ok(())
        })
    }
}
