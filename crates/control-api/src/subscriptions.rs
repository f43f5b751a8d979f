//! Who gets events sent, as it is kept.

use crate::files::{self, Files};
use controller::{ControllerHandle, Error, ErrorKind, Result, StateFile};
use redfish::Subscription;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where they are kept, in the state folder.
const FILE: StateFile<Kept> = StateFile::json("subscriptions.json", "the list of subscriptions");

/// Subscriptions there may be.
const MOST: usize = 16;

/// The subscriptions.
pub(crate) struct Subscriptions {
    kept: Mutex<Kept>,
    files: Files,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// The number of the next one: none is given twice.
    next: u64,
    all: Vec<Subscription>,
}

impl Subscriptions {
    /// Reads what the state folder has. Where no version of it can be read there are none, and an event says so.
    pub(crate) fn open(files: &Files, controller: &ControllerHandle) -> Subscriptions {
        let loaded = files.load_state(&FILE);
        if let Some(trouble) = &loaded.trouble {
            files::tell_trouble(controller, trouble, "nobody gets events sent by Redfish; subscribe again");
        }
        Subscriptions { kept: Mutex::new(loaded.value.unwrap_or_default()), files: files.clone() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A change is made to a copy: what a panic left behind is whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<Subscription> {
        self.kept().all.clone()
    }

    /// One; `None`: it is there no more.
    pub(crate) fn get(&self, id: &str) -> Option<Subscription> {
        self.kept().all.iter().find(|one| one.id == id).cloned()
    }

    /// Makes one.
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

    /// Changes what is sent along, and whether certificates are looked at; `None`: that stays.
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

    /// Removes one.
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        self.change(|kept| {
            let before = kept.all.len();
            kept.all.retain(|one| one.id != id);
            if kept.all.len() < before { Ok(()) } else { Err(missing(id)) }
        })
    }

    /// Durable first, then in effect.
    fn change<T>(&self, change: impl FnOnce(&mut Kept) -> Result<T>) -> Result<T> {
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
