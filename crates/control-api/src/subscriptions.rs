//! The Redfish event subscriptions, and their file.

use crate::files::{self, Files};
use controller::{ControllerHandle, Error, ErrorKind, Result, StateFile};
use redfish::Subscription;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file in the state folder.
const FILE: StateFile<StoredSubscriptions> =
    StateFile::json("subscriptions.json", "the list of subscriptions");

/// Maximum number of subscriptions.
const MOST: usize = 16;

/// The subscriptions.
pub(crate) struct Subscriptions {
    kept: Mutex<StoredSubscriptions>,
    files: Files,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSubscriptions {
    /// The number of the next subscription; numbers are not reused.
    next: u64,
    all: Vec<Subscription>,
}

impl Subscriptions {
    /// Reads the state folder. Without a readable version there are no subscriptions, and an event
    /// reports it.
    pub(crate) fn open(files: &Files, controller: &ControllerHandle) -> Subscriptions {
        let loaded = files.load_state(&FILE);
        if let Some(trouble) = &loaded.trouble {
            files::tell_trouble(
                controller,
                trouble,
                "no events are sent to Redfish subscribers; subscribe again",
            );
        }
        Subscriptions { kept: Mutex::new(loaded.value.unwrap_or_default()), files: files.clone() }
    }

    fn kept(&self) -> MutexGuard<'_, StoredSubscriptions> {
        // Changes are made to a copy, so the state is consistent after a panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All subscriptions.
    pub(crate) fn list(&self) -> Vec<Subscription> {
        self.kept().all.clone()
    }

    /// A subscription; `None`: no such subscription.
    pub(crate) fn get(&self, id: &str) -> Option<Subscription> {
        self.kept().all.iter().find(|one| one.id == id).cloned()
    }

    /// Adds a subscription.
    pub(crate) fn add(
        &self,
        destination: &str,
        context: &str,
        verify_certificate: bool,
    ) -> Result<Subscription> {
        self.change(|kept| {
            if kept.all.len() >= MOST {
                let sentence = format!("there are {MOST} subscriptions already; delete one first");
                return Err(Error::new(ErrorKind::OutOfSpace, sentence));
            }
            kept.next += 1;
            let (id, destination, context) =
                (kept.next.to_string(), destination.to_owned(), context.to_owned());
            let made = Subscription { id, destination, context, verify_certificate };
            kept.all.push(made.clone());
            Ok(made)
        })
    }

    /// Changes the context, and whether certificates are verified; `None`: unchanged.
    pub(crate) fn set(
        &self,
        id: &str,
        context: Option<&str>,
        verify_certificate: Option<bool>,
    ) -> Result<()> {
        self.change(|kept| {
            let one = kept.all.iter_mut().find(|one| one.id == id).ok_or_else(|| missing(id))?;
            if let Some(context) = context {
                context.clone_into(&mut one.context);
            }
            one.verify_certificate = verify_certificate.unwrap_or(one.verify_certificate);
            Ok(())
        })
    }

    /// Removes a subscription.
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        self.change(|kept| {
            let before = kept.all.len();
            kept.all.retain(|one| one.id != id);
            if kept.all.len() < before { Ok(()) } else { Err(missing(id)) }
        })
    }

    /// Applies a change: first durably, then in memory.
    fn change<T>(&self, change: impl FnOnce(&mut StoredSubscriptions) -> Result<T>) -> Result<T> {
        let mut kept = self.kept();
        let mut new = kept.clone();
        let done = change(&mut new)?;
        self.files.store_state(&FILE, &new)?;
        *kept = new;
        Ok(done)
    }
}

fn missing(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no subscription {id}"))
}
