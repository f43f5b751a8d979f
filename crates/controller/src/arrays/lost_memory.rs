//! Cache memory that a volume's label names and that is missing, although the computer was not
//! restarted.
//!
//! # Order of steps
//! - Such a volume is not started: its acknowledged writes may be in the memory of another state or
//!   cache folder.
//! - An operator discards the memory (`log discard`). From then on it is as after a power cut:
//!   records of the data log are replayed, and their data is not lost.
//! - With `logged-write-back` the log or the drives have every acknowledged write: the volume
//!   starts automatically. While it has no data log, its label names no memory at all
//!   ([`needs_memory`]).
//! - The state folder stores the length of each memory (`cache.toml`): it limits the number of
//!   blocks that can be lost with it.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::cache::Memory;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use crate::statefile::StateFile;
use engine::CELL;
use ondisk::{KeptLabel, Uuid, VolumeLabel, WriteMode};
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use units::{ByteRange, counted};

/// The file that stores the lengths of memories.
const FILE: StateFile<Memories> =
    StateFile::toml("cache.toml", "the list of memories of the cache");

/// The maximum number of stored memories, the latest ones.
const MOST_MEMORIES: usize = 64;

/// The maximum number of lost byte ranges in a list.
const MOST_LISTED: usize = 16;

/// The stored list of cache memories.
#[derive(Serialize, Deserialize, Default, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct Memories {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    memory: Vec<Remembered>,
}

/// A cache memory.
#[derive(Serialize, Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Remembered {
    id: Uuid,
    /// Its length in blocks of 4 KiB.
    blocks: u64,
}

impl Arrays {
    /// Stores the length of a memory.
    pub(super) async fn remember_memory(&self, id: Uuid, blocks: u64) {
        self.load_memories().await;
        let mut memories = self.memories.borrow().clone();
        if memories.memory.iter().any(|memory| memory.id == id) {
            return;
        }
        memories.memory.push(Remembered { id, blocks });
        let old = memories.memory.len().saturating_sub(MOST_MEMORIES);
        memories.memory.drain(..old);
        if let Err(error) = self.events.store_state(&FILE, &memories).await {
            // The reported loss is less exact then.
            tracing::debug!("{error}");
        }
        *self.memories.borrow_mut() = memories;
    }

    /// Retries the store where it failed before.
    pub(super) async fn store_memories_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            let memories = self.memories.borrow().clone();
            self.events.leave_to_health(self.events.store_state(&FILE, &memories).await);
        }
    }

    /// Loads the stored list.
    pub(super) async fn load_memories(&self) {
        let lost = "if cache memory is removed, the report of the lost data is less precise";
        if let Some(memories) = self.events.load_state(&FILE, lost).await.value {
            *self.memories.borrow_mut() = memories;
        }
    }

    /// The memory of this boot that a label names and that is missing, unless an operator has
    /// discarded it.
    pub(super) fn lacks_memory(&self, volume: &Volume) -> Option<KeptLabel> {
        let is_elsewhere =
            |kept: &KeptLabel| kept.boot == self.boot() && !self.is_in_memory(Some(*kept));
        let kept = volume.label().kept.filter(is_elsewhere)?;
        (volume.given_up_memory.get() != Some(kept)).then_some(kept)
    }

    /// Whether a present log, or the drives, have every acknowledged write of a volume.
    fn logs_every_write(&self, volume: &Volume, label: &VolumeLabel) -> bool {
        let Some(log) = &label.data_log else { return false };
        label.write_mode == WriteMode::LoggedWriteBack
            && volume.given_up_data_log.get() != Some(log.id)
            && !self.ways_to_log(&log.devices).is_empty()
    }

    /// Checks whether a volume may be started with regard to the cache's memory: its data there is
    /// present, or nothing is lost without it.
    ///
    /// # Errors
    /// What to do.
    pub(crate) fn check_memory_is_here(&self, volume: &Volume) -> Result<()> {
        let label = volume.label();
        let Some(kept) = self.lacks_memory(volume).filter(|_| !(self.hides)(volume.uuid())) else {
            return Ok(());
        };
        if self.logs_every_write(volume, &label) {
            return Ok(());
        }
        let name = volume.name();
        let why = match &*self.memory.borrow() {
            Memory::Unusable(why) => format!(": {why}"),
            Memory::None | Memory::Open(_) => String::new(),
        };
        let loss = self.lost_with_memory(volume, kept);
        let sentence = format!(
            "'{name}' cannot be started: acknowledged writes of it are in the cache memory of \
            another 'softroc serve' on this host, which is missing{why}. Start 'softroc serve' \
            with its previous --state and --cache-folder; or, if that memory is permanently lost, \
            run 'softroc log discard {name} --yes' ({loss})"
        );
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Whether the label names this memory, so that its data counts.
    pub(super) fn check_named(&self, volume: &Volume, label: &VolumeLabel) -> Result<bool> {
        let Some(kept) = label.kept else { return Ok(false) };
        if self.is_in_memory(Some(kept)) {
            return Ok(true);
        }
        self.check_memory_is_here(volume)?;
        let name = volume.name();
        if kept.boot != self.boot() {
            let text = format!(
                "'{name}' was not stopped before the host lost power or was rebooted: unflushed \
                writes that the drives did not have are lost"
            );
            let effect = "flushed data is present; unflushed blocks may have their old content";
            self.events.report(
                EventCode::VolumeCacheLost,
                &name,
                "the power was cut",
                effect,
                text,
            );
        } else if volume.given_up_memory.get() != Some(kept) {
            let text = format!(
                "the cache memory of '{name}' is lost: its log device has every acknowledged write"
            );
            let effect = "no acknowledged write is lost";
            self.events.report(
                EventCode::VolumeCacheLost,
                &name,
                "the cache's memory is lost",
                effect,
                text,
            );
        }
        Ok(false)
    }

    /// Removes missing memory from a label, once no other source must be read because of it.
    ///
    /// # Errors
    /// When that cannot be recorded.
    pub(super) async fn leave_lost_memory(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<()> {
        let kept = volume.label().kept;
        if kept.is_none() || self.is_in_memory(kept) {
            return Ok(());
        }
        self.relabel(array, volume, |label| label.kept = None).await
    }

    /// The data that is lost with missing memory.
    pub(super) fn lost_with_memory(&self, volume: &Volume, kept: KeptLabel) -> String {
        let label = volume.label();
        let of_volume = label.capacity_bytes.div_ceil(CELL.0);
        let memories = self.memories.borrow();
        let of_memory = memories.memory.iter().find(|memory| memory.id == kept.memory);
        let most = of_memory.map_or(of_volume, |memory| memory.blocks.min(of_volume));
        let what = match (label.write_mode, &label.data_log) {
            (WriteMode::AlwaysWriteBack, _) => "acknowledged writes, flushed ones too",
            (_, Some(_)) => {
                "acknowledged writes that hosts had not flushed; flushed writes are replayed from \
                the log"
            }
            _ => "acknowledged writes that hosts had not flushed",
        };
        format!("lost: at most {} of 4 KiB ({what})", counted(most as usize, "block"))
    }

    /// The data that is lost when a volume's data in this memory is discarded.
    pub(super) fn lost_with_found(&self, volume: &Volume) -> String {
        let mut ranges = self.found_ranges(volume);
        let blocks: usize = ranges.iter().map(|range| blocks_of(*range)).sum();
        let more = ranges.split_off(ranges.len().min(MOST_LISTED)).len();
        let mut listed: Vec<String> =
            ranges.iter().map(|range| format!("{} to {}", range.start.0, range.end().0)).collect();
        if more > 0 {
            listed.push(format!("{more} more runs"));
        }
        match blocks {
            0 => {
                format!(
                    "lost: {} that only the cache has",
                    units::ByteCount(volume.cache_info().dirty_bytes)
                )
            }
            blocks => {
                format!("lost: {} of 4 KiB, bytes {}", counted(blocks, "block"), listed.join(", "))
            }
        }
    }
}

/// Whether the label of a cached volume must name the memory. With `logged-write-back` the drives
/// have every acknowledged write until a data log begins, and the data log names the memory.
pub(super) fn needs_memory(label: &VolumeLabel) -> bool {
    label.write_mode != WriteMode::LoggedWriteBack
        || label.data_log.is_some()
        || label.kept.is_some()
}

/// The number of cache blocks that a byte range touches.
fn blocks_of(range: ByteRange) -> usize {
    (range.align_out(CELL).len.0 / CELL.0) as usize
}
