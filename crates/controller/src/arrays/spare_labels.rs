//! Labels of spares: their arrays and volumes, and drives that become spares again.

use super::Arrays;
use super::array::Array;
use crate::events::EventCode;
use crate::inventory::Drive;
use ondisk::{SpareLabel, SpareScope, StandIn, Uuid};
use std::rc::Rc;

/// The names of an array's volumes.
pub(crate) fn volume_names(array: &Array) -> Vec<String> {
    array.known_volumes().iter().map(|volume| volume.name()).collect()
}

impl Arrays {
    /// An active hot spare is free again: it is a spare, if it was one and its label says so.
    pub(super) async fn spare_again(&self, drive: &Rc<Drive>, stood_in: Option<StandIn>) {
        let Some(StandIn { scope: Some(scope), revertible: true, .. }) = stood_in else { return };
        if self.inventory.suspicion_of(drive).is_some() {
            return;
        }
        let enclosure = drive.enclosure();
        let (uuid, since_unix_s) = (self.new_uuid(), self.env.unix_time());
        let what = self.describe_scope(&scope, enclosure.as_deref());
        let label = SpareLabel { drive: uuid, scope, enclosure, revertible: true, since_unix_s };
        match self.inventory.write_spare_label(drive, label).await {
            Ok(()) => {
                let text = format!("drive {} is a hot spare for {what} again", drive.name);
                let effect = format!("it is ready for {what}");
                self.events.report(
                    EventCode::SpareRestored,
                    &drive.name,
                    "the failed drive that the spare replaced has been replaced by a new drive",
                    &effect,
                    text,
                );
            }
            Err(error) => {
                let text = format!("{}; run 'softroc spare add' to try again", error.message);
                self.events.report(
                    EventCode::SpareNotRestored,
                    &drive.name,
                    &error.message,
                    "it is no longer a spare",
                    text,
                );
            }
        }
        self.attention.look_after();
    }

    /// The volumes of an array, by name; for a missing array its UUID.
    pub(crate) fn names_of(&self, array: Uuid) -> Vec<String> {
        match self.by_uuid.borrow().get(&array) {
            Some(array) => volume_names(array),
            None => vec![array.to_string()],
        }
    }

    pub(crate) fn describe_scope(&self, scope: &SpareScope, enclosure: Option<&str>) -> String {
        match scope {
            SpareScope::Global => "all arrays".to_owned(),
            SpareScope::Enclosure => {
                format!("arrays in enclosure {}", enclosure.unwrap_or("unknown"))
            }
            SpareScope::Arrays(arrays) => {
                let names: Vec<String> =
                    arrays.iter().flat_map(|array| self.names_of(*array)).collect();
                format!("'{}'", names.join("', '"))
            }
        }
    }
}
