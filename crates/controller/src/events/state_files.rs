//! State files that cannot be read or stored: one event at the first failure and one at the
//! recovery, however many attempts fail between them.

use super::{EventCode, Events};
use crate::append_log::AppendLog;
use crate::interface::{Error, ErrorKind, Finding, Result, WellBeing};
use crate::statefile::{Loaded, StateFile, Trouble};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Files with trouble, by name, each with the text of its event.
#[derive(Default)]
pub(super) struct StateTroubles {
    unreadable: RefCell<BTreeMap<String, String>>,
    unstored: RefCell<BTreeMap<String, String>>,
}

impl StateTroubles {
    /// Updates the lists from an event of a state file; other events are ignored.
    pub(super) fn hear(&self, code: EventCode, subject: &str, text: &str) {
        let (file, text) = (subject.to_owned(), text.to_owned());
        match code {
            EventCode::ControllerStateUnreadable => {
                drop(self.unreadable.borrow_mut().insert(file, text))
            }
            EventCode::ControllerStateNotStored => {
                drop(self.unstored.borrow_mut().insert(file, text))
            }
            EventCode::ControllerStateStored => drop(self.unstored.borrow_mut().remove(&file)),
            EventCode::ControllerStateRepaired => drop(self.unreadable.borrow_mut().remove(&file)),
            _ => {}
        }
    }
}

impl Events {
    /// Loads a state file, and reports an event if that fails; `lost`: the effect if no version of
    /// it can be read.
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

    /// Reports that a state file cannot be read.
    pub(crate) fn report_state(&self, trouble: &Trouble, lost: &str) {
        let effect = match (trouble.from_previous, trouble.is_complete) {
            (true, true) => "nothing of it is lost",
            (true, false) => "the last stored changes may be missing",
            (false, _) => lost,
        };
        let text = format!("{}: {effect}", trouble.sentence());
        self.report(EventCode::ControllerStateUnreadable, trouble.file, &trouble.why, effect, text);
    }

    /// Stores a value in a state file.
    ///
    /// # Errors If it cannot be stored: a sentence.
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
                let effect = "changes survive a restart again";
                self.report(
                    EventCode::ControllerStateStored,
                    name,
                    "the state folder is writable again",
                    effect,
                    text,
                );
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(why) => {
                let sentence = format!(
                    "{about} ({name}) cannot be stored in the state folder: {why}; free space \
                    there, then try again"
                );
                if !was_unstored {
                    let effect = "commands that depend on it are refused";
                    self.report(
                        EventCode::ControllerStateNotStored,
                        name,
                        &why,
                        effect,
                        sentence.clone(),
                    );
                }
                Err(Error::new(ErrorKind::Failed, sentence))
            }
        }
    }

    /// Reports that lines of a log cannot be stored. `effect`: the consequence.
    pub(crate) fn log_is_not_stored(&self, log: &AppendLog, why: &str, effect: &str) {
        let (name, about) = (log.name(), log.about());
        if !self.is_unstored(name) {
            let text = format!(
                "{about} ({name}) cannot be stored in the state folder: {why}; {effect}; free \
                space there"
            );
            self.report(EventCode::ControllerStateNotStored, name, why, effect, text);
        }
    }

    /// Reports that all lines of a log are stored again.
    pub(crate) fn log_is_stored(&self, log: &AppendLog) {
        let (name, about) = (log.name(), log.about());
        if self.is_unstored(name) {
            let text =
                format!("{about} ({name}) can be stored again: the waiting entries are stored");
            let effect = "the waiting entries are stored";
            self.report(
                EventCode::ControllerStateStored,
                name,
                "the state folder is writable again",
                effect,
                text,
            );
        }
    }

    /// Ignores a failure: the file is stored again later, and `health` reports it meanwhile.
    pub(crate) fn leave_to_health(&self, stored: Result<()>) {
        if let Err(error) = stored {
            tracing::debug!("{error}");
        }
    }

    /// Whether the last attempt to store a state file failed.
    pub(crate) fn is_unstored(&self, file: &str) -> bool {
        self.state_files.unstored.borrow().contains_key(file)
    }

    /// Waits for a file that could not be stored. Returns false if the events are closed before.
    pub(crate) async fn wait_for_unstored(&self) -> bool {
        let has_one = || !self.state_files.unstored.borrow().is_empty();
        self.changed.wait_until(&self.env, || has_one() || self.closed.get()).await;
        !self.closed.get()
    }

    /// Findings for state files that cannot be stored, or could not be read since the start.
    pub(crate) fn state_findings(&self) -> Vec<Finding> {
        let all = [
            (
                &self.state_files.unstored,
                "free space in the state folder, or make it writable for its owner",
            ),
            (&self.state_files.unreadable, "softroc events"),
        ];
        let findings = all.into_iter().flat_map(|(files, todo)| {
            let files = files.borrow();
            let finding = |(file, what): (&String, &String)| Finding {
                status: WellBeing::Warning,
                subject: format!("state file {file}"),
                what: what.clone(),
                todo: Some(todo.to_owned()),
                causes: Vec::new(),
            };
            files.iter().map(finding).collect::<Vec<_>>()
        });
        findings.collect()
    }
}
