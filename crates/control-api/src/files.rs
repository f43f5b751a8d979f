//! Private files in the state folder.

use controller::{
    ControllerHandle, Error, ErrorKind, EventCode, Loaded, Occurrence, Result, StateFile, Trouble,
    put_aside,
};
use platform::StateStore;
use platform_linux::StateFolder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The files of a state folder, with synchronous access.
#[derive(Clone, Debug)]
pub(crate) struct Files(StateFolder);

impl Files {
    pub(crate) fn new(folder: &Path) -> Files {
        Files(StateFolder::new(folder))
    }

    /// The content of a file; `None`: no such file.
    pub(crate) fn load(&self, name: &str) -> platform::Result<Option<Vec<u8>>> {
        at_once(self.0.load(name))
    }

    /// Replaces a file durably: after a crash it has the old or the new content.
    pub(crate) fn store(&self, name: &str, content: &[u8]) -> platform::Result<()> {
        at_once(self.0.store(name, content.to_vec()))
    }

    /// Appends to a file durably; after a crash it may have a part of the addition.
    pub(crate) fn append(&self, name: &str, content: &[u8]) -> platform::Result<()> {
        at_once(self.0.append(name, content.to_vec()))
    }

    /// Removes a file, if it exists.
    pub(crate) fn remove(&self, name: &str) -> platform::Result<()> {
        self.0.remove(name)
    }

    /// Renames an unreadable file. Returns a sentence about the result.
    pub(crate) fn set_aside(&self, name: &str, why: &str) -> String {
        match at_once(put_aside(&self.0, name, name)) {
            Ok(aside) => {
                format!("{name} in the state folder cannot be read: {why}; it is kept as {aside}")
            }
            Err(stuck) => {
                format!(
                    "{name} in the state folder cannot be read: {why}; renaming it failed ({stuck})"
                )
            }
        }
    }

    /// The content of a state file.
    pub(crate) fn load_state<T: Serialize + DeserializeOwned>(
        &self,
        file: &StateFile<T>,
    ) -> Loaded<T> {
        at_once(file.load(&self.0))
    }

    /// The content of its previous version.
    ///
    /// # Errors
    /// Why it cannot be read: the end of a sentence.
    pub(crate) fn load_previous<T: Serialize + DeserializeOwned>(
        &self,
        file: &StateFile<T>,
    ) -> std::result::Result<Option<T>, String> {
        at_once(file.load_previous(&self.0))
    }

    /// Stores a state file durably.
    ///
    /// # Errors
    /// When the write fails.
    pub(crate) fn store_state<T: Serialize + DeserializeOwned>(
        &self,
        file: &StateFile<T>,
        value: &T,
    ) -> Result<()> {
        at_once(file.store(&self.0, value)).map_err(|why| {
            let (name, about) = (file.name(), file.about());
            let sentence = format!(
                "{about} ({name}) cannot be stored in the state folder: {why}; free space there, \
                 then try again"
            );
            Error::new(ErrorKind::Failed, sentence)
        })
    }
}

/// Reports an unreadable state file to the controller. `lost`: the effect without a previous
/// version.
pub(crate) fn tell_trouble(controller: &ControllerHandle, trouble: &Trouble, lost: &str) {
    let effect = if trouble.from_previous { "the last change may be missing" } else { lost };
    tell_unreadable(controller, trouble.file, &trouble.why, effect, &trouble.sentence());
}

/// Reports an unreadable file to the controller.
pub(crate) fn tell_unreadable(
    controller: &ControllerHandle,
    file: &str,
    why: &str,
    effect: &str,
    sentence: &str,
) {
    controller.note(Occurrence {
        code: EventCode::ControllerStateUnreadable,
        subject: file.to_owned(),
        cause: why.to_owned(),
        effect: effect.to_owned(),
        text: format!("{sentence}: {effect}"),
        by: None,
    });
}

/// The result of a future that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::yield_now();
    }
}
