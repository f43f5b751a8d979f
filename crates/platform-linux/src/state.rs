//! Small durable state: a directory locked by one controller, or memory if it need not last.
//!
//! Fault model: that of its files ([`state_folder`](crate::state_folder)). A store replaces the old
//! content atomically; an append is durable when its future completes.

use crate::errno::system_error;
use crate::state_folder::{Files, make_state_folder};
use crate::worker::Worker;
use platform::{Error, ErrorKind, LocalFuture, Result, StateStore};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file whose lock reserves the directory for a controller; it contains the process number.
const LOCK: &str = "lock";

/// A directory locked by this process.
pub(crate) struct StateDirectory {
    files: Arc<Files>,
    /// Keeps the lock.
    _lock: File,
    /// A single thread, which keeps stores and appends in order.
    worker: Worker,
}

impl StateDirectory {
    /// Locks the directory for this process; creates it if it is missing.
    pub(crate) fn open(path: &Path) -> Result<StateDirectory> {
        make_state_folder(path)?;
        let files = Files::open(path)?;
        let shown = path.display();
        let lock = files.open_file(LOCK, OFlags::RDWR | OFlags::CREATE, "lock")?;
        let mut lock = lock.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("the state directory {shown} was removed; start again"),
            )
        })?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let holder = lock
                    .read_to_string(&mut text)
                    .ok()
                    .and_then(|_| text.trim().parse::<u32>().ok());
                let holder = holder.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                return Err(Error::new(
                    ErrorKind::InUse,
                    format!("state directory {shown} is in use by another softroc serve{holder}"),
                ));
            }
            Err(error) => {
                return Err(system_error(
                    error,
                    format!("cannot lock the state directory {shown}"),
                ));
            }
        }
        let noted = rustix::fs::ftruncate(&lock, 0).and_then(|()| {
            rustix::io::pwrite(&lock, format!("{}\n", std::process::id()).as_bytes(), 0)
        });
        match noted {
            // Only the lock matters; the number is for people. A controller starts even if the file
            // system is full.
            Ok(_) | Err(Errno::NOSPC | Errno::DQUOT) => {}
            Err(error) => {
                return Err(system_error(
                    error,
                    format!("cannot write to the state directory {shown}"),
                ));
            }
        }
        Ok(StateDirectory { files: Arc::new(files), _lock: lock, worker: Worker::start()? })
    }
}

/// Accepts plain file names, except those that this module uses.
fn check_name(name: &str) -> Result<String> {
    let plain =
        !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && name != LOCK;
    match plain {
        true => Ok(name.to_owned()),
        false => Err(Error::new(
            ErrorKind::BadName,
            format!("'{name}' is not a valid name of a state file"),
        )),
    }
}

impl StateStore for StateDirectory {
    fn load<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let (files, name) = (self.files.clone(), check_name(name)?);
            self.worker.run(move || files.load(&name)).await?
        })
    }

    fn store<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (files, name) = (self.files.clone(), check_name(name)?);
            self.worker.run(move || files.store(&name, &content)).await?
        })
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        previous: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (files, name, previous) =
                (self.files.clone(), check_name(name)?, check_name(previous)?);
            self.worker.run(move || files.replace(&name, &previous, &content)).await?
        })
    }

    fn set_aside<'a>(&'a self, name: &'a str, aside: &'a str) -> LocalFuture<'a, Result<bool>> {
        Box::pin(async move {
            let (files, name, aside) = (self.files.clone(), check_name(name)?, check_name(aside)?);
            self.worker.run(move || files.set_aside(&name, &aside)).await?
        })
    }

    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(async move {
            let (files, name) = (self.files.clone(), check_name(name)?);
            self.worker.run(move || files.append(&name, &content)).await?
        })
    }
}

/// A folder with synchronous file access, which blocks the calling thread. Another part of this
/// process holds the folder's lock; no other part writes these files.
#[derive(Clone, Debug)]
pub struct StateFolder(PathBuf);

impl StateFolder {
    /// The files of that folder.
    pub fn new(path: &Path) -> StateFolder {
        StateFolder(path.to_owned())
    }

    /// The content of `name`, without following links; `None`: it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, is not a file, or belongs to another user.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let name = check_name(name)?;
        match Files::open(&self.0) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            files => files?.load(&name),
        }
    }

    /// Replaces the content of `name`, durably.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        Files::open(&self.0)?.store(&check_name(name)?, content)
    }

    /// Removes `name`, if it exists.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        let name = check_name(name)?;
        match Files::open(&self.0) {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
            files => files?.remove(&name),
        }
    }
}

impl StateStore for StateFolder {
    fn load<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Option<Vec<u8>>>> {
        Box::pin(std::future::ready(self.read(name)))
    }

    fn store<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        Box::pin(std::future::ready(self.write(name, &content)))
    }

    fn replace<'a>(
        &'a self,
        name: &'a str,
        previous: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, Result<()>> {
        let replaced =
            || Files::open(&self.0)?.replace(&check_name(name)?, &check_name(previous)?, &content);
        Box::pin(std::future::ready(replaced()))
    }

    fn set_aside<'a>(&'a self, name: &'a str, aside: &'a str) -> LocalFuture<'a, Result<bool>> {
        let moved = || Files::open(&self.0)?.set_aside(&check_name(name)?, &check_name(aside)?);
        Box::pin(std::future::ready(moved()))
    }

    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>> {
        let appended = || Files::open(&self.0)?.append(&check_name(name)?, &content);
        Box::pin(std::future::ready(appended()))
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
            self.content
                .borrow_mut()
                .entry(name.to_owned())
                .or_default()
                .extend_from_slice(&content);
            Ok(())
        })
    }
}
