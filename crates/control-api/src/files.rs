//! Files of the state folder that interfaces keep. Nobody else may read them.

use controller::{
    ControllerHandle, Error, ErrorKind, EventCode, Loaded, Occurrence, Result, StateFile, Trouble, put_aside,
};
use platform::StateStore;
use platform_linux::StateFolder;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The files of a state folder, read and written on this thread.
#[derive(Clone, Debug)]
pub(crate) struct Files(StateFolder);

impl Files {
    pub(crate) fn new(folder: &Path) -> Files {
        Files(StateFolder::new(folder))
    }

    /// The content of a file; `None`: there is none.
    pub(crate) fn load(&self, name: &str) -> platform::Result<Option<Vec<u8>>> {
        at_once(self.0.load(name))
    }

    /// Replaces a file, durably: a crash leaves the old content or the new one.
    pub(crate) fn store(&self, name: &str, content: &[u8]) -> platform::Result<()> {
        at_once(self.0.store(name, content.to_vec()))
    }

    /// Adds to a file, durably; a crash leaves a part of it at most.
    pub(crate) fn append(&self, name: &str, content: &[u8]) -> platform::Result<()> {
        at_once(self.0.append(name, content.to_vec()))
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, name: &str) -> platform::Result<()> {
        self.0.remove(name)
    }

    /// Moves a file that cannot be read aside. A sentence: what became of it.
    pub(crate) fn set_aside(&self, name: &str, why: &str) -> String {
        match at_once(put_aside(&self.0, name, name)) {
            Ok(aside) => format!("{name} of the state folder cannot be read: {why}; it is kept as {aside}"),
            Err(stuck) => format!("{name} of the state folder cannot be read: {why}; it stays ({stuck})"),
        }
    }

    /// What a state file holds.
    pub(crate) fn load_state<T: Serialize + DeserializeOwned>(&self, file: &StateFile<T>) -> Loaded<T> {
        at_once(file.load(&self.0))
    }

    /// What its previous version holds.
    ///
    /// # Errors
    /// Why that cannot be read: the end of a sentence.
    pub(crate) fn load_previous<T: Serialize + DeserializeOwned>(
        &self,
        file: &StateFile<T>,
    ) -> std::result::Result<Option<T>, String> {
        at_once(file.load_previous(&self.0))
    }

    /// Has a state file hold this from now on, durably.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub(crate) fn store_state<T: Serialize + DeserializeOwned>(
        &self,
        file: &StateFile<T>,
        value: &T,
    ) -> Result<()> {
        at_once(file.store(&self.0, value)).map_err(|why| {
            let (name, about) = (file.name(), file.about());
            let sentence = format!(
                "{about} ({name}) cannot be stored in the state folder: {why}; make room there, then try again"
            );
            Error::new(ErrorKind::Failed, sentence)
        })
    }
}

/// Has the controller take note that a state file cannot be read. `lost`: what follows where its previous version was not read.
pub(crate) fn tell_trouble(controller: &ControllerHandle, trouble: &Trouble, lost: &str) {
    let effect = if trouble.from_previous { "what was stored last may be missing" } else { lost };
    tell_unreadable(controller, trouble.file, &trouble.why, effect, &trouble.sentence());
}

/// Has the controller take note that a file cannot be read.
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

/// What comes of a future that waits for nothing.
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
