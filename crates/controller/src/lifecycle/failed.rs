//! `drive clear-failed`: makes a failed drive usable again.

use crate::arrays::array::Array;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, ForeignArray, Result};
use crate::inventory::Drive;
use crate::lifecycle::{Lifecycle, OfDrive};
use ondisk::FailedDrive;
use std::rc::Rc;

/// Why a failed drive is refused, and what an operator can do.
pub(crate) fn refuse_failed(name: &str, failure: &FailedDrive) -> Error {
    let sentence = format!(
        "drive {name} failed at {} ({}); replace it; or, if it was repaired, run 'softroc drive \
            clear-failed {name}'",
        units::utc(failure.at_unix_s),
        failure.why
    );
    Error::new(ErrorKind::WrongState, sentence)
}

/// Why a member of another system's array is refused, and what an operator can do.
pub(crate) fn foreign_member(name: &str, array: &ForeignArray) -> Error {
    let sentence = format!(
        "drive {name} is a member of the array {} of another system ({}); run 'softroc foreign \
            list'",
        array.name, array.format
    );
    Error::new(ErrorKind::WrongState, sentence)
}

impl Lifecycle {
    /// `drive clear-failed`.
    pub(crate) async fn clear_failed(&self, text: &str) -> Result<OfDrive> {
        let drive = self.arrays.find_drive(text)?;
        self.check_has_left(text, &drive)?;
        let Some(failure) = self.inventory.failure_of(&drive) else {
            let sentence =
                format!("drive {text} is not recorded as failed; run 'softroc drive list'");
            return Err(Error::new(ErrorKind::WrongState, sentence));
        };
        self.forget_failure(&failure).await?;
        let text = format!(
            "the failure of drive {} was cleared: it had failed ({})",
            drive.name, failure.why
        );
        self.events.report(
            EventCode::DriveTrusted,
            &drive.name,
            "an operator cleared its failure",
            "it can be used",
            text,
        );
        self.attention.look_after();
        Ok((drive, Vec::new()))
    }

    /// Refuses a drive that is out of service and still has its slot: there it returns by `drive
    /// online`, and a cleared failure changes nothing.
    fn check_has_left(&self, text: &str, drive: &Drive) -> Result<()> {
        let is_out = |(array, slot): &(Rc<Array>, usize)| {
            array.is_running()
                && array.label().member.get(*slot).is_some_and(|member| !member.is_online())
        };
        let Some((array, slot)) = self.arrays.place_of(drive).filter(is_out) else { return Ok(()) };
        let sentence = format!(
            "drive {text} still has slot {slot} of {}; run 'softroc drive online {}' to rebuild it \
                there",
            array.names(),
            drive.name
        );
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Removes a failure from the labels of all arrays and from the state folder.
    ///
    /// # Errors
    /// When a label that records it cannot be changed: the failure would return from there.
    pub(crate) async fn forget_failure(&self, failure: &FailedDrive) -> Result<()> {
        // If the state cannot be stored, the labels stay unchanged.
        self.inventory.store_failed().await?;
        let is_it = |one: &FailedDrive| one.is_of_the_same(failure);
        for array in self.arrays.all() {
            if !array.label().failed.iter().any(is_it) {
                continue;
            }
            let name = array.name();
            if !array.is_running() {
                let sentence = format!(
                    "the label of {} records the failure, and {0} is not started; first run \
                    'softroc volume start {name}'",
                    array.names()
                );
                return Err(Error::new(ErrorKind::WrongState, sentence));
            }
            let _turn = array.metadata_turn().await;
            self.arrays.check_can_record(&array, &name)?;
            let mut next = array.label();
            next.failed.retain(|one| !is_it(one));
            if !self.arrays.commit(&array, next, Vec::new()).await {
                let sentence =
                    format!("the change could not be recorded; run 'softroc volume show {name}'");
                return Err(Error::new(ErrorKind::Failed, sentence));
            }
        }
        self.inventory.clear_failed(failure).await
    }
}
