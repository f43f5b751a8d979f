//! Persistent memory: survives kills, lost in a power cut.
//!
//! # Fault model
//! - A kill keeps the content of that moment. Stores by tasks of the killed process while they are
//!   dropped, and late transfers of drives, are not included: the next process views a copy. Stuck
//!   drives may use the old bytes forever.
//! - Taking and removing take time. A process that is killed meanwhile leaves complete memory or
//!   none.
//! - A power cut clears all memory of the machine and changes its boot number. The machine runs the
//!   main process: the first one and its successors. Every other process runs elsewhere; its memory
//!   ends with it.
//! - Space may be limited ([`crate::SimOptions::kept_space`]): only reserved bytes take it. Removed
//!   memory takes space until its last view is dropped.

use crate::core::Core;
use crate::rng::Rng;
use crate::state::check;
use crate::trace::TraceEvent;
use platform::buffers::ALIGNMENT;
use platform::{
    Buf, Error, ErrorKind, KeptMemory, KeptSize, KeptSpace, LocalFuture, OtherMemory, Words,
};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::ByteCount;

/// An allocation that is only accessed through this pointer, so that a `Buf` over it can exist
/// elsewhere.
struct Bytes {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: an allocation that this module never borrows; only `copy` reads it, on the simulation's
// thread.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), ALIGNMENT)
            .expect("memory of a model is far below isize::MAX")
    }

    fn zero(len: usize) -> Bytes {
        // SAFETY: the size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(Bytes::layout(len)) });
        Bytes { memory: memory.unwrap_or_else(|| handle_alloc_error(Bytes::layout(len))), len }
    }

    fn copy(&self) -> Bytes {
        let copy = Bytes::zero(self.len);
        // SAFETY: two separate allocations of the same length. No code writes meanwhile: the
        // buffer's owner is a task of this simulation, which runs on this thread and not now.
        unsafe { self.memory.copy_to_nonoverlapping(copy.memory, self.len) };
        copy
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and all buffers over it are dropped, because
        // they held it.
        unsafe { dealloc(self.memory.as_ptr(), Bytes::layout(self.len)) };
    }
}

struct Memory {
    size: KeptSize,
    /// The bytes that take space.
    reserved: AtomicU64,
    words: Vec<AtomicU64>,
    /// `None`: data-less.
    bytes: Option<Bytes>,
}

impl Memory {
    fn new(size: KeptSize, hollow: bool) -> Memory {
        let words = (0..size.words).map(|_| AtomicU64::new(0)).collect();
        let bytes = (!hollow).then(|| Bytes::zero(size.bytes.as_usize()));
        Memory { size, reserved: AtomicU64::new(size.reserved.0), words, bytes }
    }

    fn reserved(&self) -> ByteCount {
        ByteCount(self.reserved.load(Ordering::Acquire))
    }

    fn copy(&self) -> Memory {
        let words = self.words.iter().map(|word| AtomicU64::new(word.load(Ordering::Acquire)));
        Memory {
            size: self.size,
            reserved: AtomicU64::new(self.reserved().0),
            words: words.collect(),
            bytes: self.bytes.as_ref().map(Bytes::copy),
        }
    }

    fn takes(&self) -> u64 {
        takes(self.size.words, self.reserved())
    }
}

fn takes(words: usize, bytes: ByteCount) -> u64 {
    bytes.0.saturating_add(words as u64 * 8)
}

/// The memory that all views share.
struct SharedMemory {
    memory: Arc<Memory>,
}

impl SharedMemory {
    fn views(self: Arc<SharedMemory>, was_there: bool, space: Space) -> KeptMemory {
        let memory = &self.memory;
        let first = NonNull::from(memory.words.as_slice()).cast();
        // SAFETY: the words live as long as `SharedMemory`, do not move, and are only accessed as
        // atomics.
        let words = unsafe { Words::over(first, memory.words.len(), self.clone()) };
        let bytes = match &memory.bytes {
            // SAFETY: the allocation lives as long as `SharedMemory`. A memory has one of these at
            // a time (`PersistentMemories::take`), which makes one buffer; `Bytes::copy` reads
            // between the steps of its owner.
            Some(bytes) => unsafe { Buf::over(bytes.memory, memory.size.bytes, self.clone()) },
            None => Buf::hollow(memory.size.bytes),
        };
        KeptMemory { words, bytes, reserved: memory.reserved(), space: Rc::new(space), was_there }
    }
}

/// The space of a memory, while a process has it.
struct Space {
    core: Rc<Core>,
    place: MemoryOwner,
    name: String,
    memory: Weak<Memory>,
}

impl KeptSpace for Space {
    fn reserve(&self, len: ByteCount) -> LocalFuture<'_, platform::Result<()>> {
        Box::pin(async move {
            let half = self.core.kept.borrow_mut().half(&self.core);
            self.core.wait(half).await;
            let outcome = self.core.kept.borrow_mut().reserve(&self.core, self, len);
            self.core.trace(TraceEvent::Note {
                name: "kept memory reserved",
                a: len.0,
                b: outcome.is_ok().into(),
            });
            self.core.wait(half).await;
            outcome
        })
    }
}

struct Named {
    memory: Arc<Memory>,
    hold: Weak<SharedMemory>,
}

/// The owner of memory: the machine, or a process elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MemoryOwner {
    Machine,
    Elsewhere(u64),
}

/// All persistent memory, and the boot number.
pub(crate) struct PersistentMemories {
    /// The process that runs on the machine.
    pub main_process: u64,
    named: BTreeMap<(MemoryOwner, String), Named>,
    /// Removed memory that may still have views.
    forgotten: Vec<(MemoryOwner, Weak<Memory>)>,
    seed: u64,
    boot: u128,
    boots: Rng,
    rng: Rng,
}

fn draw_boot(rng: &mut Rng) -> u128 {
    u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
}

/// The persistent memory of a machine without processes, and its boot number.
pub struct KeptImage {
    named: BTreeMap<String, Memory>,
    boot: u128,
}

impl KeptImage {
    /// The same with another number of reserved bytes of a memory, as a process leaves it that uses
    /// bytes and does not record their reservation.
    #[must_use]
    pub fn with_reserved(&self, name: &str, reserved: ByteCount) -> KeptImage {
        let mut named: BTreeMap<String, Memory> =
            self.named.iter().map(|(name, memory)| (name.clone(), memory.copy())).collect();
        if let Some(memory) = named.get_mut(name) {
            memory.reserved = AtomicU64::new(reserved.0);
        }
        KeptImage { named, boot: self.boot }
    }

    /// The same boot number without the memory.
    #[must_use]
    pub fn without_memory(&self) -> KeptImage {
        KeptImage { named: BTreeMap::new(), boot: self.boot }
    }
}

impl PersistentMemories {
    /// The machine's memory.
    pub fn image(&self) -> KeptImage {
        let mine = self.named.iter().filter(|((place, _), _)| *place == MemoryOwner::Machine);
        let named = mine.map(|((_, name), named)| (name.clone(), named.memory.copy())).collect();
        KeptImage { named, boot: self.boot }
    }

    /// Replaces the machine's memory.
    pub fn restore(&mut self, image: &KeptImage) {
        self.lose(MemoryOwner::Machine);
        for (name, memory) in &image.named {
            let named = Named { memory: Arc::new(memory.copy()), hold: Weak::new() };
            self.named.insert((MemoryOwner::Machine, name.clone()), named);
        }
        self.boot = image.boot;
    }

    pub fn new(seed: u64) -> PersistentMemories {
        let mut boots = Rng::new(seed, "boot", "");
        PersistentMemories {
            main_process: 0,
            named: BTreeMap::new(),
            forgotten: Vec::new(),
            seed,
            boot: draw_boot(&mut boots),
            boots,
            rng: Rng::new(seed, "kept", ""),
        }
    }

    fn place(&self, process: u64) -> MemoryOwner {
        if process == self.main_process {
            MemoryOwner::Machine
        } else {
            MemoryOwner::Elsewhere(process)
        }
    }

    pub fn boot_of(&self, process: u64) -> u128 {
        match self.place(process) {
            MemoryOwner::Machine => self.boot,
            MemoryOwner::Elsewhere(process) => {
                draw_boot(&mut Rng::new(self.seed, "boot", &process.to_string()))
            }
        }
    }

    /// Handles the end of a process: its views keep their copy.
    pub fn process_died(&mut self, process: u64) {
        match self.place(process) {
            MemoryOwner::Machine => {
                let mine =
                    self.named.iter_mut().filter(|((place, _), _)| *place == MemoryOwner::Machine);
                for (_, named) in mine.filter(|(_, named)| named.hold.strong_count() > 0) {
                    *named = Named { memory: Arc::new(named.memory.copy()), hold: Weak::new() };
                }
                self.forgotten.retain(|(place, _)| *place != MemoryOwner::Machine);
            }
            place => self.lose(place),
        }
    }

    pub fn power_cut(&mut self) {
        self.lose(MemoryOwner::Machine);
        self.boot = draw_boot(&mut self.boots);
    }

    fn lose(&mut self, lost: MemoryOwner) {
        self.named.retain(|(place, _), _| *place != lost);
        self.forgotten.retain(|(place, _)| *place != lost);
    }

    fn used(&mut self, place: MemoryOwner) -> u64 {
        self.forgotten.retain(|(_, memory)| memory.strong_count() > 0);
        let forgotten = self.forgotten.iter().filter(|(at, _)| *at == place);
        let forgotten =
            forgotten.filter_map(|(_, memory)| memory.upgrade()).map(|memory| memory.takes());
        let named = self
            .named
            .iter()
            .filter(|((at, _), _)| *at == place)
            .map(|(_, named)| named.memory.takes());
        forgotten.chain(named).fold(0, u64::saturating_add)
    }

    /// Reserves space for the first `len` bytes of a memory.
    fn reserve(&mut self, core: &Core, space: &Space, len: ByteCount) -> platform::Result<()> {
        let Some(memory) = space.memory.upgrade() else { return Ok(()) };
        let (before, after) = (memory.reserved(), len.min(memory.size.bytes));
        let more = after.0.saturating_sub(before.0);
        if more > 0 {
            self.check_space(core, space.place, &space.name, ByteCount(more))?;
            memory.reserved.store(after.0, Ordering::Release);
        }
        Ok(())
    }

    fn check_space(
        &mut self,
        core: &Core,
        place: MemoryOwner,
        name: &str,
        more: ByteCount,
    ) -> platform::Result<()> {
        let used = self.used(place);
        let space = core.options.kept_space.unwrap_or(ByteCount(u64::MAX));
        if used.saturating_add(more.0) <= space.0 {
            return Ok(());
        }
        let free = ByteCount(space.0.saturating_sub(used));
        let sentence = format!(
            "no space for persistent memory '{name}': {more} needed, {free} free; give a smaller \
                '--cache'"
        );
        Err(Error::new(ErrorKind::OutOfSpace, sentence))
    }

    fn take(
        &mut self,
        core: &Rc<Core>,
        process: u64,
        name: &str,
        size: Option<KeptSize>,
    ) -> platform::Result<Option<KeptMemory>> {
        let key = (self.place(process), name.to_owned());
        let was_there = self.named.contains_key(&key);
        if !was_there {
            let Some(size) = size else { return Ok(None) };
            self.check_space(core, key.0, name, ByteCount(takes(size.words, size.reserved)))?;
            let memory = Arc::new(Memory::new(size, core.options.kept_hollow));
            self.named.insert(key.clone(), Named { memory, hold: Weak::new() });
        }
        let named = self.named.get_mut(&key).expect("it was there, or was made");
        if named.hold.strong_count() > 0 {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("persistent memory '{name}' is in use; stop the process that has it"),
            ));
        }
        let hold = Arc::new(SharedMemory { memory: named.memory.clone() });
        named.hold = Arc::downgrade(&hold);
        let memory = Arc::downgrade(&named.memory);
        let space = Space { core: core.clone(), place: key.0, name: key.1, memory };
        Ok(Some(hold.views(was_there, space)))
    }

    fn forget(&mut self, process: u64, name: &str) {
        let place = self.place(process);
        if let Some(named) = self.named.remove(&(place, name.to_owned())) {
            self.forgotten.push((place, Arc::downgrade(&named.memory)));
        }
    }

    /// The machine's memory except that of `name`, which belongs to the main process.
    pub fn others(&self, name: &str) -> Vec<OtherMemory> {
        let mine = self
            .named
            .iter()
            .filter(|((place, of), _)| *place == MemoryOwner::Machine && of != name);
        let other = mine.map(|((_, name), named)| {
            let words = named.memory.words.iter();
            let words = words.map(|word| word.load(Ordering::Acquire)).collect();
            OtherMemory {
                name: name.clone(),
                len: ByteCount(named.memory.takes()),
                in_use: named.hold.strong_count() > 0,
                words: Ok(words),
            }
        });
        other.collect()
    }

    /// Half the duration of an operation, which takes effect in the middle.
    fn half(&mut self, core: &Core) -> Duration {
        core.options.state_latency.draw(&mut self.rng) / 2
    }
}

/// See [`platform::World::kept_memory`].
pub(crate) async fn take(
    core: &Rc<Core>,
    process: u64,
    name: &str,
    size: Option<KeptSize>,
) -> platform::Result<Option<KeptMemory>> {
    check(name)?;
    let half = core.kept.borrow_mut().half(core);
    core.wait(half).await;
    let taken = core.kept.borrow_mut().take(core, process, name, size)?;
    let (words, bytes) =
        taken.as_ref().map_or((0, 0), |taken| (taken.words.len() as u64, taken.bytes.len().0));
    core.trace(TraceEvent::Note { name: "kept memory", a: words, b: bytes });
    core.wait(half).await;
    Ok(taken)
}

/// See [`platform::World::forget_kept_memory`].
pub(crate) async fn forget(core: &Rc<Core>, process: u64, name: &str) -> platform::Result<()> {
    check(name)?;
    let half = core.kept.borrow_mut().half(core);
    core.wait(half).await;
    core.kept.borrow_mut().forget(process, name);
    core.trace(TraceEvent::Note { name: "kept memory forgotten", a: process, b: 0 });
    core.wait(half).await;
    Ok(())
}

/// See [`platform::World::forget_other_memory`].
pub(crate) async fn forget_other(core: &Rc<Core>, other: &str) -> platform::Result<()> {
    let half = core.kept.borrow_mut().half(core);
    core.wait(half).await;
    let mut kept = core.kept.borrow_mut();
    let key = (MemoryOwner::Machine, other.to_owned());
    match kept.named.get(&key).map(|named| named.hold.strong_count() > 0) {
        None => Err(Error::new(ErrorKind::NotFound, format!("there is no memory {other}"))),
        Some(true) => Err(Error::new(ErrorKind::InUse, format!("memory {other} is in use"))),
        Some(false) => {
            kept.named.remove(&key);
            Ok(())
        }
    }
}
