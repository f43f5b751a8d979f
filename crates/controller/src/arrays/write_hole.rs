//! Changes of a volume's write-hole policy while hosts use it.
//!
//! # Order of steps
//! - *A journal begins*: the label names its place and identity, and it does not cover all writes.
//!   Then the shards log their writes there, one shard after the other; each waits for its writes
//!   and flushes the drives first. Then it covers all writes, if all regions agree. After a crash
//!   in between, the crash is handled as without a journal, and the next start takes the journal
//!   up.
//! - *A journal ends*: the label records that it does not cover all writes. Then the shards retire
//!   its records and log nothing more. Then the label names none. After a crash in between, valid
//!   records are replayed, as their writes are durable; everything else is handled as without a
//!   journal.
//!
//! A journal that is requested again, or removed again, after one of these steps failed, repeats
//! all of them.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::journal::with_write_hole;
use crate::arrays::on_log::LogPlaced;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use engine::{JournalPlace, JournalTerms, ShardMessage};
use ondisk::{VolumeLabel, WriteHole};
use std::rc::Rc;
use units::ByteCount;

/// What an operator's change of the policy means, and its effect.
fn changed(volume: &Volume, asked: WriteHole) -> (String, &'static str) {
    let name = volume.name();
    match asked {
        WriteHole::Journal if volume.is_covered() => (
            format!("'{name}' has a journal now: a crash is repaired from it"),
            "the volume starts without an operator after a crash, even if it is degraded",
        ),
        WriteHole::Journal => (
            format!(
                "'{name}' has a journal now, which is used when the resync of '{name}' is complete"
            ),
            "when the resync is complete, the volume starts without an operator after a crash, \
             even if it is degraded",
        ),
        WriteHole::Resync => (
            format!(
                "'{name}' has no journal any more: after a crash, regions with interrupted \
                writes are resynced"
            ),
            "partial-stripe writes are faster; after a crash, a degraded volume waits until an \
             operator starts it",
        ),
    }
}

impl Arrays {
    /// `volume set --write-hole`. Returns notes for the operator.
    ///
    /// # Errors
    /// When the policy is impossible, with what to do.
    pub(crate) async fn set_write_hole(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        asked: WriteHole,
    ) -> Result<Vec<String>> {
        let name = volume.name();
        let wrong = |sentence: String| Err(Error::new(ErrorKind::WrongState, sentence));
        if !volume.has_parity() {
            let level = volume.label().level;
            let sentence =
                format!("'{name}' is {level}, which has no parity and therefore no write hole");
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        let _starting = array.starting_turn().await;
        if !volume.is_served() {
            return wrong(format!(
                "'{name}' is not started; first run 'softroc volume start {name}'"
            ));
        }
        self.check_can_record(array, &name)?;
        let is_kept = volume.journal_place(self.shards.len(), array.label().tail).is_some();
        let is_so = match asked {
            WriteHole::Journal => volume.label().write_hole == asked && is_kept,
            WriteHole::Resync => {
                volume.label().write_hole == asked && volume.label().journal.is_none()
            }
        };
        if is_so {
            return Ok(Vec::new());
        }
        match asked {
            WriteHole::Journal => {
                self.end_data_log(array, volume).await?;
                self.begin_journal(array, volume).await?;
                self.begin_data_log(array, volume).await;
            }
            WriteHole::Resync => self.end_journal(array, volume).await?,
        }
        let (text, effect) = changed(volume, asked);
        self.events.report(
            EventCode::VolumeWriteHole,
            &name,
            "an operator changed it",
            effect,
            text.clone(),
        );
        Ok(vec![text])
    }

    /// The use of a volume's journal for writes, if it is used.
    pub(crate) fn journal_terms(&self, array: &Array, volume: &Volume) -> Option<JournalTerms> {
        let place = volume.journal_place(self.shards.len(), array.label().tail)?;
        let (geometry, sector) = (engine::served(&volume.geometry), volume.label().sector().ok()?);
        JournalTerms::new(&geometry, sector, &place, self.shards.len() as u16)
    }

    async fn begin_journal(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        let name = volume.name();
        volume.journal_id.set(None);
        let id = self.new_uuid();
        let LogPlaced { on, devices } = self.place_on_log(volume).await;
        {
            let _turn = array.metadata.take(1).await;
            let mut next = array.label();
            // Its journal is too small for its shards, or was not taken up: another one replaces
            // it.
            let without =
                VolumeLabel { write_hole: WriteHole::Resync, journal: None, ..volume.label() };
            set_label(&mut next, &without);
            let with = with_write_hole(without, Some(WriteHole::Journal), Some(&next));
            let mut with = with.map_err(|_| no_room(array, &name))?;
            let Some(journal) = with.journal.as_mut() else { return Err(no_room(array, &name)) };
            let len = on.as_ref().map_or(journal.len_bytes, |on| on.len_bytes);
            (journal.id, journal.log) = (Some(id), on);
            if engine::ring_len(ByteCount(len), self.shards.len() as u16).is_none() {
                return Err(no_room(array, &name));
            }
            set_label(&mut next, &with);
            if !self.commit(array, next, Vec::new()).await {
                return Err(not_recorded(&name));
            }
        }
        volume.set_log_devices(devices);
        let place = volume.journal_place_as(id, self.shards.len(), array.label().tail);
        self.give_journal(volume, place).await?;
        if volume.label().journal.and_then(|journal| journal.id) != Some(id) {
            // Its log devices failed before all shards had it: the label names another one, which
            // some shards have by now.
            self.silence_journal(array, volume).await?;
            return Box::pin(self.begin_journal(array, volume)).await;
        }
        volume.journal_id.set(Some(id));
        self.cover_now(array, volume).await;
        Ok(())
    }

    async fn end_journal(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Result<()> {
        let name = volume.name();
        self.end_data_log(array, volume).await?;
        self.silence_journal(array, volume).await?;
        let gone =
            |label: &mut VolumeLabel| (label.journal, label.write_hole) = (None, WriteHole::Resync);
        self.relabel(array, volume, gone).await.map_err(|_| not_recorded(&name))?;
        self.free_on_log(volume.uuid()).await;
        Ok(())
    }

    /// A log comes into use or leaves it: starts the journal of a volume anew at its new place.
    ///
    /// # Errors
    /// When it stays where it was, or the volume has none meanwhile.
    pub(super) async fn move_journal(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let _starting = array.starting_turn().await;
        if !volume.is_served() || volume.label().journal.is_none() {
            return Ok(());
        }
        self.check_can_record(array, &volume.name())?;
        self.end_data_log(array, volume).await?;
        self.silence_journal(array, volume).await?;
        self.begin_journal(array, volume).await?;
        self.begin_data_log(array, volume).await;
        Ok(())
    }

    /// Records that a journal does not cover all writes, and invalidates its records.
    async fn silence_journal(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        // From now on no task makes it cover all writes again.
        volume.journal_id.set(None);
        let untold =
            |label: &mut VolumeLabel| label.journal.iter_mut().for_each(|of| of.tells_all = false);
        self.relabel(array, volume, untold).await?;
        self.give_journal(volume, None).await
    }

    pub(super) async fn relabel(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        change: impl FnMut(&mut VolumeLabel),
    ) -> Result<()> {
        let _turn = array.metadata.take(1).await;
        let mut next = array.label();
        next.volume_mut(volume.uuid()).into_iter().for_each(change);
        let is_recorded = self.commit(array, next, Vec::new()).await;
        if is_recorded { Ok(()) } else { Err(not_recorded(&volume.name())) }
    }

    /// Makes all shards log the writes of a volume there, or nowhere.
    async fn give_journal(&self, volume: &Volume, place: Option<JournalPlace>) -> Result<()> {
        let name = volume.name();
        let failed = |why: String| {
            let sentence = format!(
                "the journal of '{name}' could not be changed ({why}); run 'softroc volume show \
                    {name}' and try again"
            );
            Error::new(ErrorKind::Failed, sentence)
        };
        let id = volume.id().ok_or_else(|| failed("it is not served any more".to_owned()))?;
        self.tell_shards(|done| ShardMessage::SetJournal(id, place.clone(), done))
            .await
            .map_err(failed)
    }
}

fn set_label(of: &mut ondisk::Label, label: &VolumeLabel) {
    of.volume_mut(label.uuid).into_iter().for_each(|of| of.clone_from(label));
}

fn no_room(array: &Array, name: &str) -> Error {
    let others =
        array.label().volume.iter().filter(|of| of.journal.is_some() && of.name != name).count();
    let sentence = format!(
        "there is no space for a journal of '{name}': {} of the array have one; first disable one, \
        such as with 'softroc volume set NAME --write-hole resync'",
        units::counted(others, "other volume")
    );
    Error::new(ErrorKind::OutOfSpace, sentence)
}

fn not_recorded(name: &str) -> Error {
    let sentence = format!("the change could not be recorded; run 'softroc volume show {name}'");
    Error::new(ErrorKind::Failed, sentence)
}
