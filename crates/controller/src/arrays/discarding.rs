//! `log discard`: an operator discards the cache's memory or the records on log devices. One
//! command discards one of them and reports what is lost. Data that is present and intact is
//! discarded only if the command names it.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{DiscardLog, Discarded, Error, ErrorKind, Result};
use engine::CELL;
use ondisk::{DataLogLabel, VolumeLabel};
use std::rc::Rc;
use units::{ByteCount, counted};

/// Whether a label names log devices that have, or may have, records of its volume.
fn has_records(label: &VolumeLabel) -> bool {
    label.data_log.is_some() || label.journal.as_ref().is_some_and(|journal| journal.log.is_some())
}

impl Arrays {
    /// A volume is deleted for good: its cached data is dropped.
    pub(crate) async fn forget_cached(&self, volume: &Volume) {
        if let Err(error) = self.forget_older_lives(volume).await {
            tracing::warn!("cached data of '{}' could not be discarded: {error}", volume.name());
        }
        self.leave_empty_memory().await;
    }

    /// `log discard`: discards the cache's memory or the records on log devices, and nothing else.
    /// The notes report the loss.
    ///
    /// # Errors
    /// When there is nothing to discard, or the change cannot be recorded.
    pub(crate) async fn discard_log(
        self: &Rc<Self>,
        order: &DiscardLog,
    ) -> Result<(Rc<Array>, Rc<Volume>, Vec<String>)> {
        let (array, volume) = self.find_volume(&order.volume)?;
        let _starting = array.starting_turn().await;
        let what = match order.what {
            Some(what) => what,
            None => self.what_is_lacking(&array, &volume).await?,
        };
        let notes = match what {
            Discarded::Cache => self.give_up_memory(&array, &volume, order.dry_run).await?,
            Discarded::Records => self.give_up_records(&array, &volume, order.dry_run).await?,
        };
        Ok((array, volume, notes))
    }

    /// The missing part that a volume waits for, in the order in which its start checks: its log,
    /// then the cache's memory, then readable records.
    async fn what_is_lacking(&self, array: &Array, volume: &Rc<Volume>) -> Result<Discarded> {
        let lacks_log = |volume: &Rc<Volume>| self.check_log_is_here(array, volume).is_err();
        if array.with_parts(volume).iter().any(lacks_log) {
            return Ok(Discarded::Records);
        }
        if self.check_memory_is_here(volume).is_err() {
            return Ok(Discarded::Cache);
        }
        let (name, label) = (volume.name(), volume.label());
        if let Some(log) = self.unread_data_log(volume)
            && self.read_records(volume, &log).await.is_err()
        {
            return Ok(Discarded::Records);
        }
        let cached = self.found_bytes(volume) + ByteCount(volume.cache_info().dirty_bytes);
        let mut here = Vec::new();
        if !cached.is_zero() {
            here.push(format!(
                "the cache has {cached} of its dirty data (discard it with --cache)"
            ));
        }
        // Records of a served volume are in use, and are not discarded.
        if has_records(&label) && !volume.is_served() {
            here.push(
                "its log device has records of the volume (discard them with --records)".to_owned(),
            );
        }
        let here =
            if here.is_empty() { String::new() } else { format!("; {}", here.join(", and ")) };
        let sentence =
            format!("'{name}' waits neither for cache memory nor for a log device{here}");
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// An earlier data log, whose records the next start of the volume reads.
    fn unread_data_log(&self, volume: &Volume) -> Option<DataLogLabel> {
        let label = volume.label();
        let is_read = !volume.is_served() && !self.is_in_memory(label.kept);
        let is_given_up = |log: &DataLogLabel| volume.given_up_data_log.get() == Some(log.id);
        label.data_log.filter(|log| is_read && !is_given_up(log))
    }

    /// Discards the cached data of a volume, present or lost. For a missing memory the label change
    /// is all: where drives are missing, the next start records it.
    async fn give_up_memory(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        dry_run: bool,
    ) -> Result<Vec<String>> {
        let name = volume.name();
        let (Some(kept), gone) = (volume.label().kept, self.lacks_memory(volume)) else {
            let sentence = format!("the cache has no dirty data of '{name}'");
            return Err(Error::new(ErrorKind::WrongState, sentence));
        };
        let mut loss = match gone {
            Some(kept) => self.lost_with_memory(volume, kept),
            None => self.lost_with_found(volume),
        };
        if let Some(log) = self.unread_data_log(volume)
            && let Err(why) = self.read_records(volume, &log).await
        {
            loss = format!("{loss}; but its log {why}");
        }
        if dry_run {
            return Ok(vec![loss]);
        }
        let can_record = self.check_can_record(array, &name);
        if gone.is_some() && can_record.is_err() {
            volume.given_up_memory.set(Some(kept));
            let text = self.report_discarded_memory(&name, None, &loss);
            return Ok(vec![text, until_the_start(&name)]);
        }
        can_record?;
        let was_served = volume.is_served();
        self.withdraw(array, volume).await;
        let mut notes = vec![self.discard_cached(array, volume, &loss).await?];
        self.serve_again(array, volume, was_served, &mut notes).await?;
        Ok(notes)
    }

    /// Discards the records of a volume on log devices: of the parts that lack them, or of all if
    /// none does.
    async fn give_up_records(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        dry_run: bool,
    ) -> Result<Vec<String>> {
        let name = volume.name();
        let mut parts = array.with_parts(volume);
        parts.retain(|part| has_records(&part.label()));
        if parts.iter().any(|part| self.check_log_is_here(array, part).is_err()) {
            parts.retain(|part| self.check_log_is_here(array, part).is_err());
        }
        if parts.is_empty() || volume.is_served() {
            let why = if parts.is_empty() {
                "has no records on a log device"
            } else {
                "is served, and uses its log"
            };
            return Err(Error::new(
                ErrorKind::WrongState,
                format!("'{name}' {why}; nothing was discarded"),
            ));
        }
        let loss = self.lost_with_records(volume);
        if dry_run {
            return Ok(vec![loss]);
        }
        if !array.is_running() && self.check_can_record(array, &name).is_err() {
            // The journals of its other parts are present, and replay interrupted writes.
            for part in &parts {
                part.given_up_log.set(part.label().journal.and_then(|journal| journal.id));
                part.given_up_data_log.set(part.label().data_log.map(|log| log.id));
                array.forget_journal(part);
            }
            return Ok(vec![self.report_discarded_records(&name, &loss), until_the_start(&name)]);
        }
        self.check_can_record(array, &name)?;
        // The journal does not cover interrupted writes any more: it lacks the full stripes of the
        // data log.
        let gone = |label: &mut VolumeLabel| {
            label.data_log = None;
            if let Some(journal) = &mut label.journal {
                journal.tells_all = false;
                if journal.log.is_some() {
                    (journal.id, journal.log) = (None, None);
                }
            }
        };
        for part in &parts {
            self.relabel(array, part, gone).await?;
        }
        Ok(vec![
            self.report_discarded_records(&name, &loss),
            format!("run 'softroc volume start {name}'"),
        ])
    }

    async fn serve_again(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        was_served: bool,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        match was_served {
            true => self.attach(array, volume).await,
            false => {
                notes.push(format!("run 'softroc volume start {}'", volume.name()));
                Ok(())
            }
        }
    }

    /// The loss with the records of a volume on log devices. A FUA write in a journal record is
    /// only in the drives' caches until the record is retired (`engine::stripe::journal`).
    pub(super) fn lost_with_records(&self, volume: &Volume) -> String {
        let label = volume.label();
        let interrupted = "interrupted writes stay unfinished, and their regions are resynced";
        match label.data_log.filter(|_| !self.is_in_memory(label.kept)) {
            None => format!(
                "lost: no flushed data; the last acknowledged writes with FUA may be lost if the \
                drives lost power since; {interrupted}"
            ),
            Some(log) => {
                let most = log.len_bytes.min(label.capacity_bytes) / CELL.0;
                format!(
                    "lost: the last flushed data, at most {} of 4 KiB; {interrupted}",
                    counted(most, "block")
                )
            }
        }
    }

    async fn discard_cached(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        loss: &str,
    ) -> Result<String> {
        let name = volume.name();
        let lost = self.found_bytes(volume) + ByteCount(volume.cache_info().dirty_bytes);
        self.relabel(array, volume, |label| label.kept = None).await?;
        self.forget_older_lives(volume).await?;
        volume.forget_gauge();
        Ok(self.report_discarded_memory(&name, Some(lost).filter(|lost| !lost.is_zero()), loss))
    }

    fn report_discarded_memory(&self, name: &str, lost: Option<ByteCount>, loss: &str) -> String {
        let text = match lost {
            None => {
                format!("the cached data of '{name}' was discarded; its amount is unknown ({loss})")
            }
            Some(lost) => format!("{lost} of dirty data of '{name}' were discarded ({loss})"),
        };
        let effect =
            "the last written blocks may have their old content; check the data on the volume";
        self.events.report(
            EventCode::VolumeCacheDiscarded,
            name,
            "an operator discarded it",
            effect,
            text.clone(),
        );
        text
    }

    fn report_discarded_records(&self, name: &str, loss: &str) -> String {
        let text = format!(
            "the log records of '{name}' were discarded: regions with interrupted writes are \
            resynced ({loss})"
        );
        let effect = "the last acknowledged writes may be lost; check the data on the volume";
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

/// Nothing is recorded while drives are missing, as these would not have the change.
fn until_the_start(name: &str) -> String {
    format!(
        "drives of '{name}' are missing: the discarding is recorded when the volume is started; \
         run 'softroc volume start {name}' before the controller is stopped"
    )
}
