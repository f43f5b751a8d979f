//! When hosts of a volume are told that their writes are done, and the memory that the cache has for that.
//!
//! The memory outlives the process, and not the machine's power ([`platform::KeptMemory`]). It is made when the first volume wants it, and
//! found again by the next process.
//!
//! # The order of things
//! - *A volume begins to be answered from the cache.* What older lives of the volume left in the memory is forgotten. The memory
//!   gets the volume's place. Then the label names the memory and the start of the machine: from then on programs that know nothing of
//!   this refuse it. Then all shards go by the cache, and only then the first of them answers. Killed in between: the label names a
//!   memory in which nothing is.
//! - *It ends.* No shard answers any more, and each destages. When nothing is dirty on any, they need not go by the cache. Then the
//!   label names no memory; then its place is free. Killed in between: what is left is found, and destaged.
//! - *A start.* Where the label names this memory, and this start of the machine, what is in the memory is taken up before hosts
//!   see the volume. Where it names an earlier start of the machine, a power cut took what was not flushed. Where the memory is not
//!   there though the machine was not started anew: `lost_memory`.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::arrays::data_log::{FoundOnLog, RESTORES};
use crate::arrays::lost_memory::needs_memory;
use crate::arrays::volume::Volume;
use crate::events::EventCode;
use crate::interface::modes;
use crate::interface::{Error, ErrorKind, Result};
use engine::{Absorb, CELL, CacheMemory, CacheTerms, CellShare, FoundCell, Marks, ShardMessage};
use ondisk::{KeptLabel, Uuid, VolumeLabel, WriteMode};
use platform::{KeptSize, Words};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, ByteRange};
use write_log::memory::{MemoryHead, VOLUMES, halves, volume_words};

/// What the memory is called in its world.
pub(super) const NAME: &str = "cache";

/// How long an operator waits who has ended write-back, and how often it is looked whether that is done.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// How long until what could not be destaged is tried again, where a volume is no longer to be answered from the cache, or by a log.
pub(super) const AGAIN: Duration = Duration::from_secs(10);

/// The cache's memory.
#[derive(Debug, Default)]
pub(super) enum Memory {
    /// Nobody has wanted it.
    #[default]
    None,
    /// There is none to be had: why.
    Unusable(String),
    /// It is dealt out to the shards.
    Open(Open),
}

#[derive(Debug)]
pub(super) struct Open {
    id: Uuid,
    words: Words,
    /// The volumes that have a place in it.
    volumes: BTreeMap<u32, Uuid>,
    /// What was found of them, until their shards have it.
    found: BTreeMap<u32, Arc<Vec<FoundCell>>>,
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

/// When hosts of a volume are told, as it is and not as it is wished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InEffect {
    pub(crate) mode: WriteMode,
    /// Why it is not what is wished.
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
    /// Opens the memory that an earlier process left, if it did. The drives have been opened: nothing that process asked of them is
    /// under way any more.
    pub(crate) async fn open_memory(&self) {
        self.load_memories().await;
        let kept = match self.env.world().kept_memory(NAME, None).await {
            Ok(None) => return,
            Ok(Some(kept)) => CacheMemory::read(kept),
            Err(error) => Err(error.to_string()),
        };
        let memory = match kept {
            // Of whatever size: labels may name it.
            Ok(memory) => self.deal_out(memory),
            Err(why) => Memory::Unusable(why),
        };
        *self.memory.borrow_mut() = memory;
    }

    /// Gives the memory up, when nothing of any volume is in it: the next process makes one of the size that it is told.
    pub(crate) async fn close_memory(&self) {
        let is_empty = match &*self.memory.borrow() {
            Memory::Open(open) => open.is_empty(),
            Memory::None | Memory::Unusable(_) => false,
        };
        if is_empty && let Err(error) = self.env.world().forget_kept_memory(NAME).await {
            tracing::warn!("the cache's memory is still there: {error}");
        }
    }

    /// Gives the shards what is free, in equal parts.
    fn deal_out(&self, memory: CacheMemory) -> Memory {
        let sequence = memory.sequence();
        let CacheMemory { id, words, volumes, found, mut free } = memory;
        let shards = self.shards.len();
        let share = free.len().div_ceil(shards);
        for shard in &self.shards {
            let rest = free.split_off(share.min(free.len()));
            let share =
                CellShare { words: words.clone(), free: std::mem::replace(&mut free, rest), sequence };
            if shard.send(ShardMessage::Cells(share)).is_err() {
                tracing::error!("a shard does not take its part of the cache's memory");
            }
        }
        let mut by_volume: BTreeMap<u32, Vec<FoundCell>> = BTreeMap::new();
        for cell in found {
            by_volume.entry(cell.descriptor.bytes.volume).or_default().push(cell);
        }
        let found: BTreeMap<_, _> =
            by_volume.into_iter().map(|(place, cells)| (place, Arc::new(cells))).collect();
        // A volume of which nothing is there has its place still: its label may name this memory.
        let volumes = volumes.into_iter().map(|(place, id)| (place, Uuid(id))).collect();
        Memory::Open(Open { id: Uuid(id), words, volumes, found })
    }

    /// Makes the memory, if there is none.
    ///
    /// # Errors
    /// Why there is none to be had: a sentence.
    async fn want_memory(&self) -> std::result::Result<(), String> {
        let _turn = self.memory_turn.take(1).await;
        let cells = u32::try_from(self.cache_size.0 / CELL.0).unwrap_or(u32::MAX);
        // Also where an earlier process left some: that is to become empty.
        if cells == 0 {
            return Err(
                "the controller was started without a cache; start 'softroc serve' with --cache SIZE"
                    .to_owned(),
            );
        }
        match &*self.memory.borrow() {
            Memory::Open(_) => return Ok(()),
            Memory::Unusable(why) => return Err(why.clone()),
            Memory::None => {}
        }
        let size = KeptSize { words: MemoryHead::words(cells), bytes: MemoryHead::bytes(cells) };
        let kept = self.env.world().kept_memory(NAME, Some(size)).await.map_err(|error| error.to_string())?;
        let kept = kept.ok_or("the machine has no memory for it")?;
        let memory = CacheMemory::make(kept, self.new_uuid().0, cells)?;
        let id = Uuid(memory.id);
        *self.memory.borrow_mut() = self.deal_out(memory);
        self.remember_memory(id, cells.into()).await;
        Ok(())
    }

    pub(super) fn boot(&self) -> Uuid {
        Uuid(self.env.world().boot_id().to_be_bytes())
    }

    /// What a label says while the cache may have something of its volume: this memory, this start of the machine.
    pub(super) fn named(&self) -> Option<KeptLabel> {
        match &*self.memory.borrow() {
            Memory::Open(open) => Some(KeptLabel { memory: open.id, boot: self.boot() }),
            Memory::None | Memory::Unusable(_) => None,
        }
    }

    /// Whether the memory is here that a label names.
    pub(super) fn is_in_memory(&self, kept: Option<KeptLabel>) -> bool {
        kept.is_some() && kept == self.named()
    }

    /// What a volume has of the cache, and of a data log, when it is given to the shards.
    ///
    /// # Errors
    /// When what its hosts were told is written is in memory that is not here.
    pub(super) async fn cache_terms(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
    ) -> Result<(CacheTerms, FoundOnLog)> {
        let label = volume.label();
        // What is to become zeroes has nothing that counts: it must not come over them.
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
            // It has no place in the memory: a label that names it would say that it has everything.
            return Ok((
                CacheTerms { index: None, absorb: Absorb::NoMore, found, gauge, marks: Marks::default() },
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
            _ if is_named => Absorb::NoMore, // What it was answered from may have something still.
            _ => Absorb::Nothing,
        };
        let mode = wished.as_ref().ok().and_then(|of| *of).map_or(WriteMode::default(), |(mode, _)| mode);
        self.note_mode(volume, mode, wished.err());
        let gauge = Some(volume.gauge(self.shards.len()));
        Ok((CacheTerms { index: place, absorb, found, gauge, marks: Marks::default() }, on_log))
    }

    /// Forgets what is in the memory of a volume whose label does not name it.
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
        let share = CellShare { words, free, sequence: 0 };
        if self.shards[place as usize % self.shards.len()].send(ShardMessage::Cells(share)).is_err() {
            tracing::error!("a shard does not take what is free of the cache's memory");
        }
        let told = self.tell_shards(|done| ShardMessage::DiscardCells(place, done)).await;
        told.map_err(|why| Error::new(ErrorKind::Failed, why))?;
        if let Memory::Open(open) = &mut *self.memory.borrow_mut() {
            open.free_place(volume.uuid());
        }
        Ok(())
    }

    /// Gives a volume a place in the memory, and has its label say so.
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
        let place = place.ok_or_else(|| format!("the cache has no more than {VOLUMES} volumes"))?;
        let named = self.named();
        if volume.label().kept != named && needs_memory(&volume.label()) {
            let name = |label: &mut VolumeLabel| label.kept = named;
            self.relabel(array, volume, name).await.map_err(|error| error.message)?;
        }
        Ok(place)
    }

    pub(super) fn note_mode(&self, volume: &Volume, mode: WriteMode, why: Option<String>) {
        let before = volume.mode_in_effect();
        let has_changed = before.as_ref().is_none_or(|before| before.mode != mode || before.why != why);
        if !has_changed {
            return;
        }
        let name = volume.name();
        if let Some(why) = &why {
            let text = format!("'{name}' is write-through, and is configured for more: {why}");
            let effect = "writes are answered when the drives have them";
            self.events.report(EventCode::VolumeNotCached, &name, why, effect, text);
        }
        volume.set_mode_in_effect(InEffect { mode, why, since_unix_s: self.env.unix_time() });
    }

    /// The shards have a volume, and what was found of it. What it is answered from no more is destaged.
    pub(super) fn cache_taken_up(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) {
        if let Memory::Open(open) = &mut *self.memory.borrow_mut()
            && let Some(place) = open.place_of(volume.uuid())
        {
            open.found.remove(&place);
        }
        let is_left = volume.label().kept.is_some();
        if is_left && volume.mode_in_effect().is_some_and(|now| now.mode == WriteMode::WriteThrough) {
            let end = self.clone().end_later(array.clone(), volume.clone(), Rc::default());
            self.env.spawn("end write-back", end);
        }
        self.keep_data_log(array, volume);
    }

    /// `volume set --write-mode`. What is worth knowing about it.
    ///
    /// # Errors
    /// When it cannot be as asked, with what to do.
    pub(crate) async fn set_write_mode(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Rc<Volume>,
        mode: WriteMode,
    ) -> Result<Vec<String>> {
        let starting = array.starting_turn().await;
        let name = volume.name();
        self.check_can_record(array, &name)?;
        // A label that says so means that the log has every acknowledged write.
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
            self.events.report(EventCode::VolumeWriteMode, &name, "an operator changed it", effect, text);
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
        // The others promise nothing.
        if mode != WriteMode::AlwaysWriteBack {
            self.begin_data_log(array, volume).await;
        } else {
            self.end_data_log(array, volume).await?;
        }
        Ok(Vec::new())
    }

    /// Has writes answered as the mode says; whether flushes are answered by a log is left as it is. Why not, if it stays
    /// write-through. The caller has the starting turn.
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

    /// Begins to end write-back, and waits a while for that.
    async fn end_write_back(self: &Rc<Self>, array: &Rc<Array>, volume: &Rc<Volume>) -> Vec<String> {
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
            0 => (ByteCount(info.dirty_bytes), "is still to be written to its drives, which goes on"),
            _ => (ByteCount(info.dirty_bytes), "cannot be written to its drives yet, and is tried again"),
        };
        let what = format!("{left} that hosts wrote to '{name}' {how}");
        vec![format!("{what}; 'softroc volume show {name}' says how much is left")]
    }

    /// Has the shards answer nothing of a volume any more, destage what is dirty, and forget the cache. Again and again until that is
    /// done, or nobody wants it any more. While it takes its time, hosts and everything else go on.
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
                    // The mode may have changed twice since. With nothing dirty on any shard, none has to look into the cache.
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
            "{left} that hosts wrote to '{name}' cannot be written to its drives yet: {}",
            error.message
        );
        let effect = "the cache keeps it, and it is read from there";
        self.events.report(EventCode::VolumeCachePinned, &name, &error.message, effect, text);
    }

    /// Nothing of a volume is in the memory any more: its label says so, and its place is free.
    async fn forget_memory_of(self: &Rc<Self>, array: &Rc<Array>, volume: &Volume) -> Result<()> {
        if volume.label().kept.is_some() {
            self.relabel(array, volume, |label| label.kept = None).await?;
        }
        if let Memory::Open(open) = &mut *self.memory.borrow_mut() {
            open.free_place(volume.uuid());
        }
        Ok(())
    }

    /// A volume was taken from the shards. `is_clean`: nothing of it is dirty.
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
            tracing::warn!("'{}' is still said to have data on a log: {error}", volume.name());
            return;
        }
        if label.kept.is_some() && !is_named {
            return;
        }
        if let Err(error) = self.forget_memory_of(array, volume).await {
            tracing::warn!("'{}' is still said to have data in the cache: {error}", volume.name());
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
        let stopped = || format!("'{name}' is not started; first run 'softroc volume start {name}'");
        let id = volume.id().ok_or_else(|| refused(ErrorKind::WrongState, stopped()))?;
        let left = |why| {
            format!(
                "not all of '{name}' could be written to its drives: {why}; 'softroc volume show {name}' says what is left"
            )
        };
        let drained = self.tell_shards(|done| ShardMessage::Drain(id, done)).await;
        drained.map_err(|why| refused(ErrorKind::Failed, left(why)))?;
        Ok((array, volume, Vec::new()))
    }

    /// What an earlier process left of a volume that was not started since.
    pub(crate) fn found_bytes(&self, volume: &Volume) -> ByteCount {
        ByteCount(self.found_ranges(volume).iter().map(|range| range.len.0).sum())
    }

    /// The same, as runs of the volume's bytes.
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
