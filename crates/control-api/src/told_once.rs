//! Notes of the controller's reply, shown once on the caller's next page.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of owners; beyond it, the first owner by name loses its notes.
const MOST: usize = 256;

/// Notes by owner.
#[derive(Default)]
pub(crate) struct PendingNotes {
    notes: Mutex<BTreeMap<String, Vec<String>>>,
}

impl PendingNotes {
    /// Replaces the notes of an owner.
    pub(crate) fn keep(&self, owner: &str, told: &[String]) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.remove(owner);
        if told.is_empty() {
            return;
        }
        while notes.len() >= MOST {
            notes.pop_first();
        }
        notes.insert(owner.to_owned(), told.to_vec());
    }

    /// Takes the notes of an owner.
    pub(crate) fn take(&self, owner: &str) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).remove(owner).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_told_once_and_to_whoever_asked() {
        let told = PendingNotes::default();
        told.keep("session 1", &["first".to_owned()]);
        told.keep("session 2", &["other".to_owned()]);
        told.keep("session 1", &["second".to_owned()]);
        assert_eq!(told.take("session 1"), ["second"]);
        assert!(told.take("session 1").is_empty());
        told.keep("session 2", &[]);
        assert!(told.take("session 2").is_empty());
        (0..1000).for_each(|number| told.keep(&format!("session {number}"), &["much".to_owned()]));
        assert!(told.notes.lock().unwrap().len() <= MOST);
    }
}
