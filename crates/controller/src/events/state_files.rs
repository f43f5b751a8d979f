//! State files that cannot be read or stored, as their events say: one event when it begins and one when it ends, however often it is
//! tried meanwhile.

use super::{EventCode, Events};
use crate::append_log::AppendLog;
use crate::interface::{Error, ErrorKind, Finding, Result, WellBeing};
use crate::statefile::{Loaded, StateFile, Trouble};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Files with trouble, by name, each with the event's sentence.
#[derive(Default)]
pub(super) struct StateTroubles {
    unreadable: RefCell<BTreeMap<String, String>>,
    unstored: RefCell<BTreeMap<String, String>>,
}

impl StateTroubles {
    /// An event was reported, here or by an interface. One that is about no state file says nothing.
    pub(super) fn hear(&self, code: EventCode, subject: &str, text: &str) {
        let (file, text) = (subject.to_owned(), text.to_owned());
        match code {
            EventCode::ControllerStateUnreadable => drop(self.unreadable.borrow_mut().insert(file, text)),
            EventCode::ControllerStateNotStored => drop(self.unstored.borrow_mut().insert(file, text)),
            EventCode::ControllerStateStored => drop(self.unstored.borrow_mut().remove(&file)),
            EventCode::ControllerStateRepaired => drop(self.unreadable.borrow_mut().remove(&file)),
            _ => {}
        }
    }
}

impl Events {
    /// What a state file holds. If it cannot be read an event says so; `lost`: what follows where no version of it can be.
    pub(crate) async fn load_state<T: Serialize + DeserializeOwned>(
        &self,
        file: &StateFile<T>,
        lost: &str,
    ) -> Loaded<T> {
        let loaded = file.load(self.env.world().state()).await;
        if let Some(trouble) = &loaded.trouble {
            self.report_state(trouble, lost);
        }
        loaded
    }

    /// Says that a state file cannot be read.
    pub(crate) fn report_state(&self, trouble: &Trouble, lost: &str) {
        let effect = match (trouble.from_previous, trouble.is_complete) {
            (true, true) => "nothing of it is lost",
            (true, false) => "what was stored last may be missing",
            (false, _) => lost,
        };
        let text = format!("{}: {effect}", trouble.sentence());
        self.report(EventCode::ControllerStateUnreadable, trouble.file, &trouble.why, effect, text);
    }

    /// Has a state file hold this from now on.
    ///
    /// # Errors
    /// When it cannot be stored: a sentence.
    pub(crate) async fn store_state<T: Serialize + DeserializeOwned>(
        &self,
        file: &StateFile<T>,
        value: &T,
    ) -> Result<()> {
        let stored = file.store(self.env.world().state(), value).await;
        let (name, about) = (file.name(), file.about());
        let was_unstored = self.state_files.unstored.borrow().contains_key(name);
        match stored {
            Ok(()) if was_unstored => {
                let text = format!("{about} ({name}) can be stored again");
                let effect = "what is ordered outlives a restart";
                self.report(EventCode::ControllerStateStored, name, "there is room again", effect, text);
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(why) => {
                let sentence = format!(
                    "{about} ({name}) cannot be stored in the state folder: {why}; make room there, then try again"
                );
                if !was_unstored {
                    let effect = "orders that are kept there alone are refused";
                    self.report(EventCode::ControllerStateNotStored, name, &why, effect, sentence.clone());
                }
                Err(Error::new(ErrorKind::Failed, sentence))
            }
        }
    }

    /// Lines of a log cannot be stored. `effect`: what follows from it.
    pub(crate) fn log_is_not_stored(&self, log: &AppendLog, why: &str, effect: &str) {
        let (name, about) = (log.name(), log.about());
        if !self.is_unstored(name) {
            let text = format!(
                "{about} ({name}) cannot be stored in the state folder: {why}; {effect}; make room there"
            );
            self.report(EventCode::ControllerStateNotStored, name, why, effect, text);
        }
    }

    /// All lines of a log are stored.
    pub(crate) fn log_is_stored(&self, log: &AppendLog) {
        let (name, about) = (log.name(), log.about());
        if self.is_unstored(name) {
            let text = format!("{about} ({name}) can be stored again: what waited is stored");
            let effect = "what waited is stored";
            self.report(EventCode::ControllerStateStored, name, "there is room again", effect, text);
        }
    }

    /// What could not be stored is tried again, and `health` says so meanwhile.
    pub(crate) fn leave_to_health(&self, stored: Result<()>) {
        if let Err(error) = stored {
            tracing::debug!("{error}");
        }
    }

    /// Whether a state file could not be stored when that was tried last.
    pub(crate) fn is_unstored(&self, file: &str) -> bool {
        self.state_files.unstored.borrow().contains_key(file)
    }

    /// Waits until there is such a file. Whether there is: the events may end before.
    pub(crate) async fn wait_for_unstored(&self) -> bool {
        let has_one = || !self.state_files.unstored.borrow().is_empty();
        self.changed.wait_until(&self.env, || has_one() || self.closed.get()).await;
        !self.closed.get()
    }

    /// State files that cannot be stored, and those that could not be read since the start.
    pub(crate) fn state_findings(&self) -> Vec<Finding> {
        let all = [
            (&self.state_files.unstored, "make room in the state folder, or let its owner write there"),
            (&self.state_files.unreadable, "softroc events"),
        ];
        let findings = all.into_iter().flat_map(|(files, todo)| {
            let files = files.borrow();
            let finding = |(file, what): (&String, &String)| Finding {
                status: WellBeing::Warning,
                subject: format!("state file {file}"),
                what: what.clone(),
                todo: Some(todo.to_owned()),
            };
            files.iter().map(finding).collect::<Vec<_>>()
        });
        findings.collect()
    }
}
