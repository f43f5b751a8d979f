//! Imports that were interrupted, as undo logs on drives tell: finished or taken back when labels are read.

use crate::events::EventCode;
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use crate::lifecycle::Lifecycle;
use ondisk::{Phase, Undo, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A drive, and its undo log.
type Kept = (Rc<Drive>, Rc<Undo>);

/// What a drive that has an undo log tells of its import.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImportState {
    /// It carries the label of the array that was to be, and that array exists.
    Made,
    /// It carries a label of it that was written before it existed.
    Creating,
    /// It carries no label of it: no drive was told that the array exists.
    NotYet,
    /// It was given to somebody else since.
    Other,
}

impl Lifecycle {
    /// Ends imports that were interrupted: where no drive was told that the array exists, the drives become what they
    /// were; where one was, the array exists. Where that cannot be told, since drives are not here, nothing is done.
    pub(super) async fn settle_imports(&self) {
        let drives: Vec<Rc<Drive>> = self.inventory.drives();
        let mut imports: BTreeMap<Uuid, Vec<Kept>> = BTreeMap::new();
        for drive in
            drives.into_iter().filter(|drive| drive.access().is_some() && !self.arrays.is_in_use(drive))
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
        let is_undone = !exists && (states.contains(&ImportState::NotYet) || creating.len() >= members);
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
                    tracing::error!("drive {}: its import cannot be settled: {error}", drive.name);
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
        let text = format!("the import of drive {name} was interrupted: it is what it was before");
        self.events.report(
            EventCode::DriveImportUndone,
            name,
            "its import was interrupted",
            "it is what it was before",
            text,
        );
    }
}

fn unsettled(drive: &Drive) -> crate::interface::Error {
    let sentence = format!(
        "drive {} belongs to an array whose import was interrupted; register the other drives of that array to finish or undo it",
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
        // The old metadata are removed, and the label is not there yet.
        LabelSeen::Blank => ImportState::NotYet,
        LabelSeen::Foreign(_) | LabelSeen::Headless(_) | LabelSeen::Bad(_) => {
            let Some(access) = drive.access() else { return ImportState::Other };
            if access.is_as_kept(undo).await { ImportState::NotYet } else { ImportState::Other }
        }
    }
}
