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
        rustix::fs::ftruncate(&lock, 0)
            .and_then(|()| rustix::io::pwrite(&lock, format!("{}\n", std::process::id()).as_bytes(), 0))
            .map_err(|error| system_error(error, format!("cannot write to the state directory {shown}")))?;
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

    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (directory, path) = (self.path.clone(), self.file(name)?);
            self.worker.run(move || append(&directory, &path, &content)).await?
        })
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

    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            self.content.borrow_mut().entry(name.to_owned()).or_default().extend_from_slice(&content);
            Ok(())
        })
    }
}
