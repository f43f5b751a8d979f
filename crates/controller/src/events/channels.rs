//! Channels of notifications that do not work, as their events say: whoever reads how all is should not have to wait for a message that
//! does not come.
//!
//! Only what was reported since the start counts. Whoever sends tries anew after a start, and says so again if it does not work.

use super::{EventCode, Events};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Those that do not take messages, each with the event's sentence.
#[derive(Default)]
pub(super) struct Channels(RefCell<BTreeMap<String, String>>);

impl Channels {
    /// An event was reported. One that is no channel's says nothing.
    pub(super) fn hear(&self, code: EventCode, subject: &str, text: &str) {
        let mut failing = self.0.borrow_mut();
        match code {
            EventCode::NotifyFailing => {
                failing.insert(subject.to_owned(), text.to_owned());
            }
            // One that is removed, or set anew, has to fail again.
            EventCode::NotifyWorks | EventCode::NotifyChanged => {
                failing.remove(subject);
            }
            _ => {}
        }
    }
}

impl Events {
    /// The channels of notifications that do not take messages: name, and what there is, a sentence.
    pub(crate) fn failing_channels(&self) -> Vec<(String, String)> {
        let failing = self.channels.0.borrow();
        failing.iter().map(|(name, what)| (name.clone(), what.clone())).collect()
    }
}
