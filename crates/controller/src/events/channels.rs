//! Notification channels that fail, according to their events, so that the health report shows
//! them.
//!
//! Only events since the start count: the notifier tries each channel again after a start and
//! reports failures again.

use super::{EventCode, Events};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Failing channels, each with the text of its event.
#[derive(Default)]
pub(super) struct Channels(RefCell<BTreeMap<String, String>>);

impl Channels {
    /// Updates the list from an event of a channel; other events are ignored.
    pub(super) fn hear(&self, code: EventCode, subject: &str, text: &str) {
        let mut failing = self.0.borrow_mut();
        match code {
            EventCode::NotifyFailing => {
                failing.insert(subject.to_owned(), text.to_owned());
            }
            // A removed or changed channel counts as working until it fails again.
            EventCode::NotifyWorks | EventCode::NotifyChanged => {
                failing.remove(subject);
            }
            _ => {}
        }
    }
}

impl Events {
    /// The failing notification channels: name and description, a sentence.
    pub(crate) fn failing_channels(&self) -> Vec<(String, String)> {
        let failing = self.channels.0.borrow();
        failing.iter().map(|(name, what)| (name.clone(), what.clone())).collect()
    }
}
