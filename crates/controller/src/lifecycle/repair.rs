//! Repairs damaged structures: a copy from the drive's other copy, or both copies from the array's
//! other drives.

use crate::events::EventCode;
use crate::interface::{Error, ErrorKind};
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use crate::inventory::structures;
use crate::lifecycle::Lifecycle;
use ondisk::ddf::{self, CopyState, HeaderKind};
use ondisk::{Carried, Content, Headless, Label, restore};
use std::rc::Rc;

impl Lifecycle {
    /// Finds and repairs damaged structures of unused drives, as of the last probe at them.
    pub(super) async fn repair_structures(&self) {
        let drives: Vec<Rc<Drive>> = self.inventory.drives();
        for drive in
            drives.iter().filter(|drive| drive.access().is_some() && !self.arrays.is_in_use(drive))
        {
            match drive.label() {
                LabelSeen::Sound(carried) => {
                    if let Some(found) = carried.drive.as_ref().filter(|found| found.needs_repair())
                    {
                        self.repair_copy(drive, &carried.content, found).await;
                    }
                }
                LabelSeen::Headless(headless) => self.restore_label(drive, &headless),
                _ => {}
            }
        }
    }

    async fn repair_copy(&self, drive: &Rc<Drive>, content: &Content, found: &ddf::Drive) {
        let repaired = structures::repair(drive, content, found).await;
        let name = &drive.name;
        match (repaired, damage(found)) {
            (Ok(repaired), damage) => {
                let carried = Carried { content: content.clone(), drive: Some(repaired) };
                drive.set_label(LabelSeen::Sound(Rc::new(carried)));
                let Some(damage) = damage else {
                    return tracing::debug!("drive {name}: an interrupted update was completed");
                };
                let from = if found.has_sound_copy() { "its other copy" } else { "the label" };
                let text = format!(
                    "the metadata of drive {name} was damaged ({damage}) and repaired from {from}"
                );
                self.events.report(
                    EventCode::DriveMetadataRepaired,
                    name,
                    &damage,
                    &format!("repaired from {from}"),
                    text,
                );
            }
            (Err(error), _) => {
                let text = format!(
                    "one copy of the metadata of drive {name} is damaged, and cannot be repaired \
                    ({error}): replace the drive before the other copy is damaged"
                );
                self.events.report(
                    EventCode::DriveMetadataDamaged,
                    name,
                    &error.to_string(),
                    "one copy is left",
                    text,
                );
            }
        }
    }

    /// Restores a drive's label from other drives of its array, if possible.
    fn restore_label(&self, drive: &Rc<Drive>, headless: &Headless) {
        let others: Vec<Label> =
            self.inventory.drives().iter().filter_map(|other| other.member_label()).collect();
        let name = &drive.name;
        let label = match restore(headless, &others.iter().collect::<Vec<_>>()) {
            Ok(label) => label,
            Err(why) => {
                let sentence = format!(
                    "the metadata of drive {name} of the array {} is lost ({}), and {why}; \
                    register the other drives of that array, or reuse the drive with \
                    --destroy-data",
                    headless.array, headless.why
                );
                return drive.set_problem(Some(Error::new(ErrorKind::WrongState, sentence)));
            }
        };
        let text = format!(
            "both copies of the metadata of drive {name} are damaged ({}): the other drives of {} \
            restore them when the drive is used",
            headless.why,
            label.names()
        );
        self.events.report(
            EventCode::DriveMetadataRestored,
            name,
            &headless.why,
            "the other drives identify it",
            text,
        );
        drive.set_label(LabelSeen::Sound(Rc::new(Carried {
            content: Content::Member(Box::new(label)),
            drive: None,
        })));
        drive.set_problem(None);
    }
}

/// Damage beyond an interrupted update, for use within a sentence.
fn damage(found: &ddf::Drive) -> Option<String> {
    let copies = found.copies.iter().filter(|copy| copy.state == CopyState::Damaged);
    let mut told: Vec<String> = copies
        .map(|copy| {
            let flaw = copy.flaws.first().map_or("it does not agree", String::as_str);
            format!("{} copy: {flaw}", copy.kind.name())
        })
        .collect();
    if found.anchor.kind != HeaderKind::Anchor {
        told.push("the anchor is damaged".to_owned());
    }
    (!told.is_empty()).then(|| told.join("; "))
}
