//! `log discard`: what hosts were told is written, and what would finish interrupted writes, is given up by order.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use ondisk::VolumeLabel;
use std::rc::Rc;
use units::ByteCount;

impl Arrays {
    /// A volume is gone for good: what the cache has of it is forgotten.
    pub(crate) async fn forget_cached(&self, volume: &Volume) {
        if let Err(error) = self.forget_older_lives(volume).await {
            tracing::warn!("what the cache has of '{}' is kept: {error}", volume.name());
        }
    }

    /// Gives up what the cache has of a volume, and what a log device that is not here has.
    ///
    /// # Errors
    /// When there is nothing to be given up, or that cannot be recorded.
    pub(crate) async fn discard_log(
        self: &Rc<Self>,
        name: &str,
    ) -> Result<(Rc<Array>, Rc<Volume>, Vec<String>)> {
        let (array, volume) = self.find_volume(name)?;
        let name = volume.name();
        let _starting = array.starting_turn().await;
        let mut lacking = array.with_parts(&volume);
        lacking.retain(|volume| self.check_log_is_here(&array, volume).is_err());
        let (is_cached, lacks_log) = (volume.label().kept.is_some(), !lacking.is_empty());
        let is_promised = volume.label().data_log.is_some() && !volume.has_data_log.get();
        if !is_cached && !lacks_log && !is_promised {
            let sentence =
                format!("the cache has nothing of '{name}', and no log device that is missing has");
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        if lacks_log && !array.is_running() && self.check_can_record(&array, &name).is_err() {
            return Ok(self.discard_until_the_start(array, volume, &lacking));
        }
        self.check_can_record(&array, &name)?;
        let was_served = volume.is_served();
        self.withdraw(&array, &volume).await;
        let mut notes = Vec::new();
        if is_cached {
            notes.push(self.discard_cached(&array, &volume).await?);
        }
        if is_promised {
            // Nor does the journal tell any more what was interrupted: whole stripes that this log had are not in it.
            let given_up = |label: &mut VolumeLabel| {
                label.data_log = None;
                label.journal.iter_mut().for_each(|journal| journal.tells_all = false);
            };
            self.relabel(&array, &volume, given_up).await?;
        }
        if lacks_log {
            notes.push(self.discard_records(&array, &name, &lacking).await?);
        }
        match was_served {
            true => self.attach(&array, &volume).await?,
            false => notes.push(format!("run 'softroc volume start {name}'")),
        }
        Ok((array, volume, notes))
    }

    /// Of a volume that lacks drives as well: what a log has is given up, and its next start records that. Nothing is recorded
    /// before, as those drives would not know of it. What the cache has stays.
    fn discard_until_the_start(
        &self,
        array: Rc<Array>,
        volume: Rc<Volume>,
        lacking: &[Rc<Volume>],
    ) -> (Rc<Array>, Rc<Volume>, Vec<String>) {
        // The journals of its other parts are here, and finish what was interrupted.
        for volume in lacking {
            volume.given_up_log.set(volume.label().journal.and_then(|journal| journal.id));
            volume.given_up_data_log.set(volume.label().data_log.map(|log| log.id));
            array.forget_journal(volume);
        }
        let name = volume.name();
        let notes = vec![
            self.report_discarded_records(&name),
            format!(
                "drives of '{name}' are missing: it is recorded when the volume is started; run 'softroc volume start {name}' before the controller is stopped"
            ),
        ];
        (array, volume, notes)
    }

    async fn discard_cached(self: &Rc<Self>, array: &Rc<Array>, volume: &Volume) -> Result<String> {
        let name = volume.name();
        let lost = self.found_bytes(volume) + ByteCount(volume.cache_info().dirty_bytes);
        self.relabel(array, volume, |label| label.kept = None).await?;
        self.forget_older_lives(volume).await?;
        volume.forget_gauge();
        let text = match lost {
            ByteCount::ZERO => {
                format!("what the cache had of '{name}' was given up: how much that was is not known")
            }
            lost => format!("{lost} that hosts wrote to '{name}' were given up"),
        };
        let effect = "blocks that hosts wrote last may be old; check what is on the volume";
        self.events.report(
            EventCode::VolumeCacheDiscarded,
            &name,
            "an operator discarded it",
            effect,
            text.clone(),
        );
        Ok(text)
    }

    /// `lacking`: a volume whose records are not here, and those of its parts whose are not.
    async fn discard_records(
        self: &Rc<Self>,
        array: &Rc<Array>,
        name: &str,
        lacking: &[Rc<Volume>],
    ) -> Result<String> {
        let gone = |label: &mut VolumeLabel| {
            if let Some(journal) = &mut label.journal {
                (journal.id, journal.tells_all, journal.log) = (None, false, None);
            }
        };
        for volume in lacking {
            self.relabel(array, volume, gone).await?;
        }
        Ok(self.report_discarded_records(name))
    }

    fn report_discarded_records(&self, name: &str) -> String {
        let text = format!(
            "the journal of '{name}' on a log device that is missing was given up: regions that were being written are resynced"
        );
        let effect = "writes that were acknowledged last may be old; check what is on the volume";
        self.events.report(
            EventCode::VolumeLogDiscarded,
            name,
            "an operator discarded it",
            effect,
            text.clone(),
        );
        text
    }
}
