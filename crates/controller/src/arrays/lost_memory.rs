//! Memory of the cache that a volume's label names and that is not here, though the machine was not started anew.
//!
//! # The order of things
//! - Such a volume is not started: its acknowledged writes may lie in the memory of another state or cache folder.
//! - An operator gives the memory up (`log discard`). From then on it is as after a power cut: records of the data log are replayed,
//!   and nothing that they have is lost.
//! - With `logged-write-back` the log or the drives have every acknowledged write: the volume is started by itself. While it has no
//!   data log, its label names no memory at all ([`needs_memory`]).
//! - How long a memory is, is remembered in the state folder (`cache.toml`): no more blocks than that can be lost with it.

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

/// Where it is remembered how long memories are.
const FILE: StateFile<Memories> = StateFile::toml("cache.toml", "the list of memories of the cache");

/// Of so many memories, the latest.
const MOST_MEMORIES: usize = 64;

/// How many runs of bytes are listed that are lost.
const MOST_LISTED: usize = 16;

/// What is remembered of the cache's memories.
#[derive(Serialize, Deserialize, Default, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct Memories {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    memory: Vec<Remembered>,
}

/// A memory.
#[derive(Serialize, Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Remembered {
    id: Uuid,
    /// How many blocks of 4 KiB it has.
    blocks: u64,
}

impl Arrays {
    /// Remembers how long a memory is.
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
            // How much can be lost with it is said less exactly then.
            tracing::debug!("{error}");
        }
        *self.memories.borrow_mut() = memories;
    }

    /// Stores it where it could not be stored before.
    pub(super) async fn store_memories_again(&self) {
        if self.events.is_unstored(FILE.name()) {
            let memories = self.memories.borrow().clone();
            self.events.leave_to_health(self.events.store_state(&FILE, &memories).await);
        }
    }

    /// Reads what is remembered.
    pub(super) async fn load_memories(&self) {
        let lost = "how much was lost with a memory that is gone is said less exactly";
        if let Some(memories) = self.events.load_state(&FILE, lost).await.value {
            *self.memories.borrow_mut() = memories;
        }
    }

    /// Whether a label names memory of this start of the machine that is not here, and that no operator has given up.
    pub(super) fn lacks_memory(&self, volume: &Volume) -> Option<KeptLabel> {
        let is_elsewhere = |kept: &KeptLabel| kept.boot == self.boot() && !self.is_in_memory(Some(*kept));
        let kept = volume.label().kept.filter(is_elsewhere)?;
        (volume.given_up_memory.get() != Some(kept)).then_some(kept)
    }

    /// Whether a log that is here, or the drives, have every acknowledged write of a volume.
    fn logs_every_write(&self, volume: &Volume, label: &VolumeLabel) -> bool {
        let Some(log) = &label.data_log else { return false };
        label.write_mode == WriteMode::LoggedWriteBack
            && volume.given_up_data_log.get() != Some(log.id)
            && !self.ways_to_log(&log.devices).is_empty()
    }

    /// Whether a volume may be started as to the memory of the cache: what it has of the volume is here, or nothing is lost without.
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
            "'{name}' cannot be started: acknowledged writes of it are in the memory of another 'softroc serve' of this machine, which is not here{why}. Start it with the --state and --cache-folder that it had; or, if that memory is gone for good, run 'softroc log discard {name} --yes' ({loss})"
        );
        Err(Error::new(ErrorKind::WrongState, sentence))
    }

    /// Whether the label names this memory, so that what is in it counts.
    pub(super) fn check_named(&self, volume: &Volume, label: &VolumeLabel) -> Result<bool> {
        let Some(kept) = label.kept else { return Ok(false) };
        if self.is_in_memory(Some(kept)) {
            return Ok(true);
        }
        self.check_memory_is_here(volume)?;
        let name = volume.name();
        if kept.boot != self.boot() {
            let text = format!(
                "'{name}' was not stopped before the machine lost its power or was started anew: what hosts had written without a flush, and the drives did not have, is lost"
            );
            let effect = "what hosts had flushed is there; what they had not may be old";
            self.events.report(EventCode::VolumeCacheLost, &name, "the power was cut", effect, text);
        } else if volume.given_up_memory.get() != Some(kept) {
            let text = format!(
                "the memory that the cache had of '{name}' is gone: its log device has every acknowledged write"
            );
            let effect = "no acknowledged write is lost";
            self.events.report(EventCode::VolumeCacheLost, &name, "the cache's memory is gone", effect, text);
        }
        Ok(false)
    }

    /// A label goes on without memory that is not here, once nothing else is to be read for want of it.
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

    /// What is lost with memory that is not here.
    pub(super) fn lost_with_memory(&self, volume: &Volume, kept: KeptLabel) -> String {
        let label = volume.label();
        let of_volume = label.capacity_bytes.div_ceil(CELL.0);
        let memories = self.memories.borrow();
        let of_memory = memories.memory.iter().find(|memory| memory.id == kept.memory);
        let most = of_memory.map_or(of_volume, |memory| memory.blocks.min(of_volume));
        let what = match (label.write_mode, &label.data_log) {
            (WriteMode::AlwaysWriteBack, _) => "acknowledged writes, flushed ones too",
            (_, Some(_)) => {
                "acknowledged writes that hosts had not flushed; what they had flushed is replayed from the log"
            }
            _ => "acknowledged writes that hosts had not flushed",
        };
        format!("lost: {what}; how many is not known, at most {} of 4 KiB", counted(most as usize, "block"))
    }

    /// What is lost with what this memory has of a volume.
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
            0 => format!(
                "lost: {} that the cache alone has",
                units::ByteCount(volume.cache_info().dirty_bytes)
            ),
            blocks => format!("lost: {} of 4 KiB, bytes {}", counted(blocks, "block"), listed.join(", ")),
        }
    }
}

/// Whether a volume that is being cached has to have its label name the memory. With `logged-write-back` the drives have every
/// acknowledged write until a data log begins, and that names it.
pub(super) fn needs_memory(label: &VolumeLabel) -> bool {
    label.write_mode != WriteMode::LoggedWriteBack || label.data_log.is_some() || label.kept.is_some()
}

/// How many blocks of the cache a run of bytes touches.
fn blocks_of(range: ByteRange) -> usize {
    (range.align_out(CELL).len.0 / CELL.0) as usize
}
