//! When writes to a volume are acknowledged, and the cache's memory for that.
//!
//! The memory survives the process, but no power cut ([`platform::KeptMemory`]). The first volume
//! that needs it creates it; the next process finds it again.
//!
//! # Order of steps
//! - *A volume starts to use the cache.* Data of earlier uses of the volume is dropped from the
//!   memory, and the volume gets its place there. Then the label names the memory and the boot:
//!   from then on programs that do not know this refuse the volume. Then all shards consult the
//!   cache, and only then the first one acknowledges from it. After a crash in between, the label
//!   names a memory without data.
//! - *A volume stops to use it.* All shards stop acknowledging from the cache and destage. When no
//!   shard has dirty data, they stop consulting the cache. Then the label names no memory; then its
//!   place is free. After a crash in between, the rest is found and destaged.
//! - *A start.* Where the label names this memory and this boot, the cached data is taken up before
//!   hosts see the volume. Where it names an earlier boot, a power cut lost the unflushed data.
//!   Where the memory is missing within the same boot: `lost_memory`.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::cache_growth::Growth;
use crate::arrays::data_log::{FoundOnLog, RESTORES};
use crate::arrays::lost_memory::needs_memory;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::modes;
use crate::interface::{Error, ErrorKind, Result};
use engine::{Absorb, CELL, CacheMemory, CacheTerms, CellShare, FoundCell, Marks, ShardMessage};
use ondisk::{KeptLabel, Uuid, VolumeLabel, WriteMode};
use platform::{KeptSize, Words, mailbox};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, ByteRange};
use write_log::memory::{MemoryHead, VOLUMES, halves, volume_words};

/// The name of the memory in its environment.
pub(super) const NAME: &str = "cache";

/// How long a command that ends write-back waits, and how often it polls for completion.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// Delay before a failed destage is retried, where a volume stops to use the cache or a log.
pub(super) const AGAIN: Duration = Duration::from_secs(10);

/// The cache's memory.
#[derive(Debug, Default)]
pub(super) enum Memory {
    /// No volume has needed it.
    #[default]
    None,
    /// It cannot be created: the reason.
    Unusable(String),
    /// It is divided among the shards.
    Open(Open),
}

#[derive(Debug)]
pub(super) struct Open {
    id: Uuid,
    pub(super) words: Words,
    /// The bytes of all of its blocks.
    pub(super) size: ByteCount,
    /// Those of them that have memory.
    pub(super) reserved: ByteCount,
    /// The volumes that have a place in it.
    volumes: BTreeMap<u32, Uuid>,
    /// Blocks found of each volume, until its shards have them.
    found: BTreeMap<u32, Arc<Vec<FoundCell>>>,
    /// The blocks without memory. `None`: there are none, or a step is in progress.
    pub(super) growth: Option<Growth>,
}

impl Open {
    /// Whether no volume has a place in it.
    pub(super) fn is_empty(&self) -> bool {
        self.volumes.is_empty()
    }

    fn place_of(&self, volume: Uuid) -> Option<u32> {
        self.volumes.iter().find(|(_, of)| **of == volume).map(|(place, _)| *place)
    }

    /// A place for a volume. `None`: there is none left.
    fn give_place(&mut self, volume: Uuid) -> Option<u32> {
        if let Some(place) = self.place_of(volume) {
            return Some(place);
        }
        let place = (0..VOLUMES as u32).find(|place| !self.volumes.contains_key(place))?;
        let ([first, second], [low, high]) = (volume_words(place), halves(&volume.0));
        self.words.store(second, high);
        self.words.store(first, low);
        self.volumes.insert(place, volume);
        Some(place)
    }

    fn free_place(&mut self, volume: Uuid) {
        if let Some(place) = self.place_of(volume) {
            self.words.store(volume_words(place)[0], 0);
            self.volumes.remove(&place);
            self.found.remove(&place);
        }
    }
}

/// The write mode in effect, which may differ from the configured one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InEffect {
    pub(crate) mode: WriteMode,
    /// Why it differs from the configured mode.
    pub(crate) why: Option<String>,
    pub(crate) since_unix_s: u64,
}

fn absorb_of(mode: WriteMode) -> Absorb {
    match mode {
        WriteMode::WriteThrough => Absorb::Nothing,
        WriteMode::LoggedWriteBack => Absorb::Logged,
        WriteMode::WriteBack => Absorb::Unflushed,
        WriteMode::AlwaysWriteBack => Absorb::All,
    }
}

impl Arrays {
    /// Opens the memory that an earlier process left, if any. The drives are open: no operation of
    /// that process is outstanding any more.
    pub(crate) async fn open_memory(self: &Rc<Self>) {
        self.load_memories().await;
        let kept = match self.env.world().kept_memory(NAME, None).await {
            Ok(None) => return,
            Ok(Some(kept)) => CacheMemory::read(kept).await,
            Err(error) => Err(error.to_string()),
        };
        let memory = match kept {
            // Any size is accepted: labels may name it.
            Ok(memory) => self.deal_out(memory),
            Err(why) => Memory::Unusable(why),
        };
        *self.memory.borrow_mut() = memory;
    }

    /// Removes the memory when it has no data of any volume: the next process creates it with its
    /// configured size.
    pub(crate) async fn close_memory(&self) {
        let is_empty = match &*self.memory.borrow() {
            Memory::Open(open) => open.is_empty(),
            Memory::None | Memory::Unusable(_) => false,
        };
        if is_empty && let Err(error) = self.env.world().forget_kept_memory(NAME).await {
            tracing::warn!("the cache's memory could not be removed: {error}");
        }
    }

    /// Divides the free blocks, and the blocks without memory, equally among the shards.
    fn deal_out(self: &Rc<Self>, memory: CacheMemory) -> Memory {
        let sequence = memory.sequence();
        let CacheMemory { id, words, volumes, found, mut free, unreserved } = memory;
        let reserved = ByteCount((found.len() + free.len()) as u64 * CELL.0);
        let size = reserved + ByteCount(unreserved.cells() * CELL.0);
        let shards = self.shards.len();
        let share = free.len().div_ceil(shards);
        let parts: Vec<_> = (0..shards)
            .map(|_| {
                let rest = free.split_off(share.min(free.len()));
                std::mem::replace(&mut free, rest)
            })
            .collect();
        // A shard has one unanswered request at most, and a second one after a renewed offer.
        let (sender, requests) = mailbox::mailbox(&self.env, 2 * shards);
        let has: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
        let growth = Growth::new(unreserved, &has, sender);
        for (number, (shard, free)) in self.shards.iter().zip(parts).enumerate() {
            let more = growth.as_ref().map(|growth| growth.more(number));
            let share = CellShare { words: words.clone(), free, sequence, more };
            if shard.send(ShardMessage::Cells(share)).is_err() {
                tracing::error!("a thread of SoftROC did not accept its part of the cache memory");
            }
        }
        if growth.is_some() {
            self.env.spawn("reserve cache memory", self.clone().grow_cache(requests));
        }
        let mut by_volume: BTreeMap<u32, Vec<FoundCell>> = BTreeMap::new();
        for cell in found {
            by_volume.entry(cell.descriptor.bytes.volume).or_default().push(cell);
        }
        let found: BTreeMap<_, _> =
            by_volume.into_iter().map(|(place, cells)| (place, Arc::new(cells))).collect();
        // A volume without data in it still has its place: its label may name this memory.
        let volumes = volumes.into_iter().map(|(place, id)| (place, Uuid(id))).collect();
        Memory::Open(Open { id: Uuid(id), words, size, reserved, volumes, found, growth })
    }

    /// Creates the memory, if there is none.
    ///
    /// # Errors
    /// Why it cannot be created: a sentence.
    async fn want_memory(self: &Rc<Self>) -> std::result::Result<(), String> {
        let _turn = self.memory_turn.take(1).await;
        let cells = u32::try_from(self.cache_size.0 / CELL.0).unwrap_or(u32::MAX);
        // Also where an earlier process left some: that memory is to become empty.
        if cells == 0 {
            return Err(
                "the controller was started without a cache; start 'softroc serve' with --cache \
                    SIZE"
                    .to_owned(),
            );
        }
        match &*self.memory.borrow() {
            Memory::Open(_) => return Ok(()),
            Memory::Unusable(why) => return Err(why.clone()),
            Memory::None => {}
        }
        let whole = KeptSize::whole(MemoryHead::words(cells), MemoryHead::bytes(cells));
        let first =
            ByteCount(self.cache_step.0.saturating_mul(self.shards.len() as u64) / CELL.0 * CELL.0);
        let size = match first {
            ByteCount::ZERO => whole,
            first => KeptSize { reserved: first.min(whole.bytes), ..whole },
        };
        let kept = self
            .env
            .world()
            .kept_memory(NAME, Some(size))
            .await
            .map_err(|error| error.to_string())?;
        let kept = kept.ok_or("this host has too little free memory for it")?;
        let memory = CacheMemory::make(kept, self.new_uuid().0, cells).await?;
        let id = Uuid(memory.id);
        *self.memory.borrow_mut() = self.deal_out(memory);
        self.remember_memory(id, cells.into()).await;
        Ok(())
    }

    pub(super) fn boot(&self) -> Uuid {
        Uuid(self.env.world().boot_id().to_be_bytes())
    }

    /// The content of a label while the cache may have data of its volume: this memory, this boot.
    pub(super) fn named(&self) -> Option<KeptLabel> {
        match &*self.memory.borrow() {
            Memory::Open(open) => Some(KeptLabel { memory: open.id, boot: self.boot() }),
            Memory::None | Memory::Unusable(_) => None,
        }
    }

    /// Whether the memory that a label names is present.
    pub(super) fn is_in_memory(&self, kept: Option<KeptLabel>) -> bool {
        kept.is_some() && kept == self.named()
    }

    /// The cached and logged data of a volume that is being attached to the shards.
    ///
    /// # Errors
    /// When acknowledged writes of the volume are in memory that is missing.
    pub(super) async fn cache_terms(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<(CacheTerms, FoundOnLog)> {
        let label = volume.label();
        // A volume that is being zeroed has no valid data: cached data must not overwrite the
        // zeros.
        let is_hidden = (self.hides)(volume.uuid());
        let is_named = self.check_named(volume, &label)? && !is_hidden;
        if !is_named {
            self.forget_older_lives(volume).await?;
        }
        let on_log = self.find_data_log(array, volume, is_named, is_hidden).await?;
        self.leave_lost_memory(array, volume).await?;
        if volume.restores.get() {
            let why = (label.write_mode != WriteMode::WriteThrough).then(|| RESTORES.to_owned());
            self.note_mode(volume, WriteMode::WriteThrough, why);
            let (gauge, found) = (Some(volume.gauge(self.shards.len())), Arc::default());
            // It has no place in the memory: a label that names the memory would claim that it is
            // complete.
            return Ok((
                CacheTerms {
                    index: None,
                    absorb: Absorb::NoMore,
                    found,
                    gauge,
                    marks: Marks::default(),
                },
                on_log,
            ));
        }
        let wished = match label.write_mode {
            WriteMode::WriteThrough => Ok(None),
            _ if array.is_to_move(volume) => Err(super::reshape::MOVES.to_owned()),
            mode => self.give_place(array, volume).await.map(|place| Some((mode, place))),
        };
        let (place, found) = match &*self.memory.borrow() {
            Memory::Open(open) => {
                let place = open.place_of(volume.uuid());
                (place, place.and_then(|place| open.found.get(&place).cloned()).unwrap_or_default())
            }
            Memory::None | Memory::Unusable(_) => (None, Arc::default()),
        };
        let absorb = match &wished {
            Ok(Some((mode, _))) => absorb_of(*mode),
            _ if is_named => Absorb::NoMore, // Its cache may still have data.
            _ => Absorb::Nothing,
        };
        let mode =
            wished.as_ref().ok().and_then(|of| *of).map_or(WriteMode::default(), |(mode, _)| mode);
        self.note_mode(volume, mode, wished.err());
        let gauge = Some(volume.gauge(self.shards.len()));
        Ok((CacheTerms { index: place, absorb, found, gauge, marks: Marks::default() }, on_log))
    }

    /// Drops the cached data of a volume whose label does not name the memory.
    pub(super) async fn forget_older_lives(&self, volume: &Volume) -> Result<()> {
        let (place, found, words) = match &mut *self.memory.borrow_mut() {
            Memory::Open(open) => {
                let Some(place) = open.place_of(volume.uuid()) else { return Ok(()) };
                (place, open.found.remove(&place), open.words.clone())
            }
            Memory::None | Memory::Unusable(_) => return Ok(()),
        };
        let mut free = Vec::new();
        for FoundCell { slot, bytes, .. } in found.into_iter().flat_map(Arc::unwrap_or_clone) {
            words.store(write_log::memory::descriptor_at(slot), 0);
            free.extend(bytes.try_unfreeze().ok().map(|bytes| (slot, bytes)));
        }
        let share = CellShare { words, free, sequence: 0, more: None };
        if self.shards[place as usize % self.shards.len()].send(ShardMessage::Cells(share)).is_err()
        {
            tracing::error!("a thread of SoftROC did not accept free cache memory");
        }
        let told = self.tell_shards(|done| ShardMessage::DiscardCells(place, done)).await;
        told.map_err(|why| Error::new(ErrorKind::Failed, why))?;
        if let Memory::Open(open) = &mut *self.memory.borrow_mut() {
            open.free_place(volume.uuid());
        }
        Ok(())
    }

    /// Gives a volume a place in the memory, and records that in its label.
    ///
    /// # Errors
    /// Why not: a sentence.
    async fn give_place(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> std::result::Result<u32, String> {
        if let Some(why) = self.held_back(volume.label().write_mode) {
            return Err(why);
        }
        self.want_memory().await?;
        let place = match &mut *self.memory.borrow_mut() {
            Memory::Open(open) => open.give_place(volume.uuid()),
            Memory::None | Memory::Unusable(_) => None,
        };
        let place = place.ok_or_else(|| format!("the cache supports at most {VOLUMES} volumes"))?;
        let named = self.named();
        if volume.label().kept != named && needs_memory(&volume.label()) {
            let name = |label: &mut VolumeLabel| label.kept = named;
            self.relabel(array, volume, name).await.map_err(|error| error.message)?;
        }
        Ok(place)
    }

    pub(super) fn note_mode(&self, volume: &Volume, mode: WriteMode, why: Option<String>) {
        let before = volume.mode_in_effect();
        let has_changed =
            before.as_ref().is_none_or(|before| before.mode != mode || before.why != why);
        if !has_changed {
            return;
        }
        let name = volume.name();
        if let Some(why) = &why {
            let text =
                format!("'{name}' is write-through instead of its configured write mode: {why}");
            let effect = "writes are acknowledged when the drives have them";
            self.events.report(EventCode::VolumeNotCached, &name, why, effect, text);
        }
        volume.set_mode_in_effect(InEffect { mode, why, since_unix_s: self.env.unix_time() });
    }

    /// The shards have taken up a volume and its found blocks. Data in a memory that is not used
    /// any more is destaged.
    pub(super) fn cache_taken_up(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        if let Memory::Open(open) = &mut *self.memory.borrow_mut()
            && let Some(place) = open.place_of(volume.uuid())
        {
            open.found.remove(&place);
        }
        let is_left = volume.label().kept.is_some();
        if is_left && volume.mode_in_effect().is_some_and(|now| now.mode == WriteMode::WriteThrough)
        {
            let end = self.clone().end_later(array.clone(), volume.clone(), Rc::default());
            self.env.spawn("end write-back", end);
        }
        self.keep_data_log(array, volume);
    }

    /// `volume set --write-mode`. Returns notes for the operator.
    ///
    /// # Errors
    /// When the mode cannot be set, with what to do.
    pub(crate) async fn set_write_mode(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        mode: WriteMode,
    ) -> Result<Vec<String>> {
        let starting = array.starting_turn().await;
        let name = volume.name();
        self.check_can_record(array, &name)?;
        // A label with this mode implies that the log has every acknowledged write.
        let is_served_for_less =
            |now: InEffect| matches!(now.mode, WriteMode::WriteBack | WriteMode::AlwaysWriteBack);
        if mode == WriteMode::LoggedWriteBack
            && volume.is_served()
            && volume.mode_in_effect().is_some_and(is_served_for_less)
        {
            self.take_up_mode(array, volume, mode).await?;
        }
        if volume.label().write_mode != mode {
            self.relabel(array, volume, |label| label.write_mode = mode).await?;
            let text = format!("'{name}' is configured for {}", mode.name());
            let effect = modes::meaning(mode);
            self.events.report(
                EventCode::VolumeWriteMode,
                &name,
                "an operator changed it",
                effect,
                text,
            );
        }
        if !volume.is_served() {
            return Ok(Vec::new());
        }
        if volume.restores.get() {
            return Ok(vec![format!("'{name}' stays write-through for now: {RESTORES}")]);
        }
        if let Some(why) = self.held_back(mode) {
            self.hold_back(array, volume, why.clone());
            return Ok(vec![format!("'{name}' is write-through for now: {why}")]);
        }
        match mode {
            WriteMode::WriteThrough => {
                self.note_mode(volume, WriteMode::WriteThrough, None);
                drop(starting);
                Ok(self.end_write_back(array, volume).await)
            }
            mode => self.begin_write_back(array, volume, mode).await,
        }
    }

    pub(super) async fn begin_write_back(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        mode: WriteMode,
    ) -> Result<Vec<String>> {
        if let Some(why) = self.take_up_mode(array, volume, mode).await? {
            return Ok(vec![format!("'{}' stays write-through for now: {why}", volume.name())]);
        }
        // In the other modes flushes are not acknowledged from the cache.
        if mode != WriteMode::AlwaysWriteBack {
            self.begin_data_log(array, volume).await;
        } else {
            self.end_data_log(array, volume).await?;
        }
        Ok(Vec::new())
    }

    /// Makes the shards acknowledge writes by the mode; flushes by a log are left as they are.
    /// Returns the reason if it stays write-through. The caller holds the starting lock.
    pub(super) async fn take_up_mode(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        mode: WriteMode,
    ) -> Result<Option<String>> {
        let place = match self.give_place(array, volume).await {
            Ok(place) => place,
            Err(why) => {
                self.note_mode(volume, WriteMode::WriteThrough, Some(why.clone()));
                return Ok(Some(why));
            }
        };
        if volume.mode_in_effect().is_none_or(|now| now.mode == WriteMode::WriteThrough) {
            self.absorb(volume, Absorb::NoMore, place).await?;
        }
        self.absorb(volume, absorb_of(mode), place).await?;
        self.note_mode(volume, mode, None);
        Ok(None)
    }

    /// Begins to end write-back, and waits up to a limit for that.
    async fn end_write_back(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Vec<String> {
        let ended = Rc::new(Cell::new(false));
        let end = self.clone().end_later(array.clone(), volume.clone(), ended.clone());
        self.env.spawn("end write-back", end);
        let latest = self.env.now() + PATIENCE;
        while !ended.get() && self.env.now() < latest {
            self.env.sleep(LOOK).await;
        }
        if ended.get() {
            return Vec::new();
        }
        let (name, info) = (volume.name(), volume.cache_info());
        let (left, how) = match info.pinned_bytes {
            0 => (ByteCount(info.dirty_bytes), "is still being written to its drives"),
            _ => (
                ByteCount(info.dirty_bytes),
                "cannot be written to its drives yet; SoftROC retries",
            ),
        };
        let what = format!("{left} of dirty data of '{name}' {how}");
        vec![format!("{what}; 'softroc volume show {name}' shows how much is left")]
    }

    /// Makes the shards stop acknowledging from the cache, destage dirty data and drop the cached
    /// data of a volume. Retries until that is done, or is no longer requested. Hosts and other
    /// work continue meanwhile.
    pub(super) async fn end_later(
        self: Rc<Self>,
        array: Rc<Array>,
        volume: Rc<Volume>,
        ended: Rc<Cell<bool>>,
    ) {
        let (id, mut is_told) = (volume.id(), false);
        let is_wanted = || {
            let is_without = volume.mode_in_effect().is_some_and(|now| now.why.is_some());
            let is_wished = volume.label().write_mode == WriteMode::WriteThrough;
            id.is_some() && volume.id() == id && (is_wished || is_without)
        };
        while is_wanted() {
            let place = match &*self.memory.borrow() {
                Memory::Open(open) => open.place_of(volume.uuid()),
                Memory::None | Memory::Unusable(_) => None,
            };
            let Some(place) = place else { break };
            match self.destage_all(&volume, place).await {
                Ok(()) => {
                    let _starting = array.starting_turn().await;
                    // The mode may have changed twice since. Without dirty data no shard has to
                    // consult the cache.
                    if is_wanted()
                        && self.destage_all(&volume, place).await.is_ok()
                        && self.end_data_log(&array, &volume).await.is_ok()
                        && self.absorb(&volume, Absorb::Nothing, place).await.is_ok()
                        && self.forget_memory_of(&array, &volume).await.is_ok()
                    {
                        break;
                    }
                }
                Err(error) if !is_told && is_wanted() => {
                    is_told = true;
                    self.report_pinned(&volume, &error);
                }
                Err(_) => {}
            }
            self.env.sleep(AGAIN).await;
        }
        ended.set(true);
    }

    fn report_pinned(&self, volume: &Volume, error: &Error) {
        let (name, left) = (volume.name(), ByteCount(volume.cache_info().dirty_bytes));
        let text = format!(
            "{left} of dirty data of '{name}' cannot be written to its drives yet: {}",
            error.message
        );
        let effect = "the cache keeps this data and serves reads from it";
        self.events.report(EventCode::VolumeCachePinned, &name, &error.message, effect, text);
    }

    /// The memory has no data of a volume any more: its label says so, and its place is free.
    async fn forget_memory_of(self: &Rc<Self>, array: &Rc<Array>, volume: &Volume) -> Result<()> {
        if volume.label().kept.is_some() {
            self.relabel(array, volume, |label| label.kept = None).await?;
        }
        if let Memory::Open(open) = &mut *self.memory.borrow_mut() {
            open.free_place(volume.uuid());
        }
        Ok(())
    }

    /// A volume was detached from the shards. `is_clean`: it has no dirty data.
    pub(super) async fn cache_given_back(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        is_clean: bool,
    ) {
        let label = volume.label();
        let is_named = self.is_in_memory(label.kept);
        volume.has_data_log.set(false);
        volume.restores.set(false);
        if !is_clean || self.check_can_record(array, &volume.name()).is_err() {
            return;
        }
        // Its shards have flushed the drives.
        if label.data_log.is_some()
            && let Err(error) = self.relabel(array, volume, |label| label.data_log = None).await
        {
            tracing::warn!(
                "the record that '{}' has data on a log could not be cleared: {error}",
                volume.name()
            );
            return;
        }
        if label.kept.is_some() && !is_named {
            return;
        }
        if let Err(error) = self.forget_memory_of(array, volume).await {
            tracing::warn!(
                "the record that '{}' has data in the cache could not be cleared: {error}",
                volume.name()
            );
        }
    }

    /// `volume flush`.
    ///
    /// # Errors
    /// When something cannot be written.
    pub(crate) async fn flush_volume(
        self: &Rc<Self>,
        name: &str,
    ) -> Result<(Rc<Array>, Rc<Volume>, Vec<String>)> {
        let (array, volume) = self.find_volume(name)?;
        let name = volume.name();
        let refused = |kind, sentence: String| Error::new(kind, sentence);
        let stopped =
            || format!("'{name}' is not started; first run 'softroc volume start {name}'");
        let id = volume.id().ok_or_else(|| refused(ErrorKind::WrongState, stopped()))?;
        let left = |why| {
            format!(
                "not all dirty data of '{name}' could be written to its drives: {why}; 'softroc \
                volume show {name}' shows how much is left"
            )
        };
        let drained = self.tell_shards(|done| ShardMessage::Drain(id, done)).await;
        drained.map_err(|why| refused(ErrorKind::Failed, left(why)))?;
        Ok((array, volume, Vec::new()))
    }

    /// Bytes that an earlier process left of a volume that was not started since.
    pub(crate) fn found_bytes(&self, volume: &Volume) -> ByteCount {
        ByteCount(self.found_ranges(volume).iter().map(|range| range.len.0).sum())
    }

    /// The same, as byte ranges of the volume.
    pub(super) fn found_ranges(&self, volume: &Volume) -> Vec<ByteRange> {
        let memory = self.memory.borrow();
        let Memory::Open(open) = &*memory else { return Vec::new() };
        let found = open.place_of(volume.uuid()).and_then(|place| open.found.get(&place));
        let cells = found.iter().flat_map(|found| found.iter());
        let mut ranges: Vec<ByteRange> = cells.map(|cell| cell.descriptor.bytes.range()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, last| {
            let follows = next.start <= last.end();
            if follows {
                last.len = last.end().max(next.end()) - last.start;
            }
            follows
        });
        ranges
    }
}
