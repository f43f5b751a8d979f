//! Interrupted imports, found by undo logs on drives: completed or undone when labels are read.

use crate::events::EventCode;
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use crate::lifecycle::Lifecycle;
use ondisk::{Phase, Undo, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A drive, and its undo log.
type Kept = (Rc<Drive>, Rc<Undo>);

/// The state of an import, as one drive with an undo log shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImportState {
    /// It carries the label of the new array, which exists.
    Made,
    /// It carries a label from before the array existed.
    Creating,
    /// It carries no label of the new array yet.
    NotYet,
    /// It has been used for something else since.
    Other,
}

impl Lifecycle {
    /// Settles interrupted imports. If no drive's label says that the array exists, the drives are
    /// restored; otherwise the array exists. Nothing is done if missing drives make that unclear.
    pub(super) async fn settle_imports(&self) {
        let drives: Vec<Rc<Drive>> = self.inventory.drives();
        let mut imports: BTreeMap<Uuid, Vec<Kept>> = BTreeMap::new();
        for drive in drives
            .into_iter()
            .filter(|drive| drive.access().is_some() && !self.arrays.is_in_use(drive))
        {
            let undo = drive.undo();
            if let Some(undo) = undo {
                imports.entry(undo.array).or_default().push((drive, undo));
            }
        }
        for (array, drives) in imports {
            self.settle_import(array, drives).await;
        }
    }

    async fn settle_import(&self, array: Uuid, drives: Vec<Kept>) {
        let mut states = Vec::new();
        let mut creating = BTreeSet::new();
        let mut members = usize::MAX;
        for (drive, undo) in &drives {
            let state = import_state(drive, undo).await;
            if let (ImportState::Creating, Some(label)) = (state, drive.member_label()) {
                members = label.online();
                creating.insert(label.drive);
            }
            states.push(state);
        }
        let exists = states.contains(&ImportState::Made)
            || self.inventory.drives().iter().any(|drive| is_made(drive, array));
        let is_undone =
            !exists && (states.contains(&ImportState::NotYet) || creating.len() >= members);
        for ((drive, undo), state) in drives.iter().zip(states) {
            let Some(access) = drive.access() else { continue };
            let is_left = exists || state == ImportState::Other;
            let done = match is_undone && !is_left {
                true => access.undo(undo).await,
                false if is_left => access.forget_undo().await,
                false => {
                    drive.set_problem(Some(unsettled(drive)));
                    continue;
                }
            };
            match done {
                Ok(()) => self.report_settled(drive, is_left).await,
                Err(error) => {
                    tracing::error!(
                        "drive {}: its import can be neither finished nor undone: {error}",
                        drive.name
                    );
                    drive.set_problem(Some(unsettled(drive)));
                }
            }
        }
    }

    async fn report_settled(&self, drive: &Rc<Drive>, is_left: bool) {
        drive.look(&self.env).await;
        if is_left {
            return;
        }
        let name = &drive.name;
        let text = format!("the import of drive {name} was interrupted and undone");
        self.events.report(
            EventCode::DriveImportUndone,
            name,
            "its import was interrupted",
            "it has its previous content",
            text,
        );
    }
}

fn unsettled(drive: &Drive) -> crate::interface::Error {
    let sentence = format!(
        "drive {} belongs to an array whose import was interrupted; register the other drives of \
            that array to finish or undo it",
        drive.name
    );
    crate::interface::Error::new(crate::interface::ErrorKind::WrongState, sentence)
}

fn is_made(drive: &Drive, array: Uuid) -> bool {
    drive.member_label().is_some_and(|label| label.array == array && label.phase != Phase::Creating)
}

async fn import_state(drive: &Drive, undo: &Undo) -> ImportState {
    match drive.label() {
        LabelSeen::Sound(_) if is_made(drive, undo.array) => ImportState::Made,
        LabelSeen::Sound(_) => match drive.array() == Some(undo.array) {
            true => ImportState::Creating,
            false => ImportState::Other,
        },
        LabelSeen::Log(_) => ImportState::Other,
        // The old metadata are removed, and the label is not written yet.
        LabelSeen::Blank => ImportState::NotYet,
        LabelSeen::Foreign(_) | LabelSeen::Headless(_) | LabelSeen::Bad(_) => {
            let Some(access) = drive.access() else { return ImportState::Other };
            if access.is_as_kept(undo).await { ImportState::NotYet } else { ImportState::Other }
        }
    }
}
