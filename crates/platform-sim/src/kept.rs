//! Memory that outlives processes: kept over kills, lost when the power goes.
//!
//! # Fault model
//! - A kill leaves what was stored at that moment. What tasks of the dead process store while they are dropped is not in it, nor
//!   what drives bring later: the next process views a copy. Drives that hang may view the old bytes as long as they like.
//! - Taking and forgetting take time. A process that dies meanwhile leaves whole memory or none.
//! - A power cut takes all memory of the machine, and the machine then has another boot. The machine is where the main process runs,
//!   the first and those that took its place; every other process is elsewhere, and its memory dies with it.
//! - There may be no room ([`crate::SimOptions::kept_space`]). What was forgotten takes room as long as somebody views it.

use crate::core::Core;
use crate::rng::Rng;
use crate::state::check;
use crate::trace::TraceEvent;
use platform::buffers::ALIGNMENT;
use platform::{Buf, Error, ErrorKind, KeptMemory, KeptSize, OtherMemory, Words};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::ByteCount;

/// An allocation that is looked at through this pointer alone, so that somebody else may have a `Buf` over it.
struct Bytes {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: it is an allocation, which nobody here borrows; it is read in `copy` alone, on the simulation's thread.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), ALIGNMENT).expect("memory of a model is far below isize::MAX")
    }

    fn zero(len: usize) -> Bytes {
        // SAFETY: the size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(Bytes::layout(len)) });
        Bytes { memory: memory.unwrap_or_else(|| handle_alloc_error(Bytes::layout(len))), len }
    }

    fn copy(&self) -> Bytes {
        let copy = Bytes::zero(self.len);
        // SAFETY: both have so many bytes, and are two allocations. Nobody writes meanwhile: whoever has the buffer is a task of
        // this simulation, which runs on this thread and not now.
        unsafe { self.memory.copy_to_nonoverlapping(copy.memory, self.len) };
        copy
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and every buffer over it held it.
        unsafe { dealloc(self.memory.as_ptr(), Bytes::layout(self.len)) };
    }
}

struct Memory {
    size: KeptSize,
    words: Vec<AtomicU64>,
    /// `None`: hollow.
    bytes: Option<Bytes>,
}

impl Memory {
    fn new(size: KeptSize, hollow: bool) -> Memory {
        let words = (0..size.words).map(|_| AtomicU64::new(0)).collect();
        Memory { size, words, bytes: (!hollow).then(|| Bytes::zero(size.bytes.as_usize())) }
    }

    fn copy(&self) -> Memory {
        let words =
            self.words.iter().map(|word| AtomicU64::new(word.load(std::sync::atomic::Ordering::Acquire)));
        Memory { size: self.size, words: words.collect(), bytes: self.bytes.as_ref().map(Bytes::copy) }
    }

    fn takes(&self) -> u64 {
        takes(self.size)
    }
}

fn takes(size: KeptSize) -> u64 {
    size.bytes.0.saturating_add(size.words as u64 * 8)
}

/// What every view holds.
struct Hold {
    memory: Arc<Memory>,
}

impl Hold {
    fn views(self: Arc<Hold>, was_there: bool) -> KeptMemory {
        let memory = &self.memory;
        let first = NonNull::from(memory.words.as_slice()).cast();
        // SAFETY: the words live as long as `Hold`, in one place, and are atomics to everybody.
        let words = unsafe { Words::over(first, memory.words.len(), self.clone()) };
        let bytes = match &memory.bytes {
            // SAFETY: the allocation lives as long as `Hold`. There is one `Hold` of a memory at a time (`Kept::take`), which
            // makes one buffer; `Bytes::copy` reads between the steps of whoever has it.
            Some(bytes) => unsafe { Buf::over(bytes.memory, memory.size.bytes, self.clone()) },
            None => Buf::hollow(memory.size.bytes),
        };
        KeptMemory { words, bytes, was_there }
    }
}

struct Named {
    memory: Arc<Memory>,
    hold: Weak<Hold>,
}

/// Whose memory: the machine's, or that of a process elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Machine,
    Elsewhere(u64),
}

/// All such memory, and which boot it is.
pub(crate) struct Kept {
    /// The process that runs on the machine.
    pub main_process: u64,
    named: BTreeMap<(Place, String), Named>,
    /// What was forgotten, and may still be viewed.
    forgotten: Vec<(Place, Weak<Memory>)>,
    seed: u64,
    boot: u128,
    boots: Rng,
    rng: Rng,
}

fn draw_boot(rng: &mut Rng) -> u128 {
    u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
}

/// Such memory of a machine on which nothing runs, and which boot it is.
pub struct KeptImage {
    named: BTreeMap<String, Memory>,
    boot: u128,
}

impl KeptImage {
    /// The same boot, and all of the memory was deleted.
    #[must_use]
    pub fn without_memory(&self) -> KeptImage {
        KeptImage { named: BTreeMap::new(), boot: self.boot }
    }
}

impl Kept {
    /// What the machine has.
    pub fn image(&self) -> KeptImage {
        let mine = self.named.iter().filter(|((place, _), _)| *place == Place::Machine);
        let named = mine.map(|((_, name), named)| (name.clone(), named.memory.copy())).collect();
        KeptImage { named, boot: self.boot }
    }

    /// The machine has this, and nothing else.
    pub fn restore(&mut self, image: &KeptImage) {
        self.lose(Place::Machine);
        for (name, memory) in &image.named {
            let named = Named { memory: Arc::new(memory.copy()), hold: Weak::new() };
            self.named.insert((Place::Machine, name.clone()), named);
        }
        self.boot = image.boot;
    }

    pub fn new(seed: u64) -> Kept {
        let mut boots = Rng::new(seed, "boot", "");
        Kept {
            main_process: 0,
            named: BTreeMap::new(),
            forgotten: Vec::new(),
            seed,
            boot: draw_boot(&mut boots),
            boots,
            rng: Rng::new(seed, "kept", ""),
        }
    }

    fn place(&self, process: u64) -> Place {
        if process == self.main_process { Place::Machine } else { Place::Elsewhere(process) }
    }

    pub fn boot_of(&self, process: u64) -> u128 {
        match self.place(process) {
            Place::Machine => self.boot,
            Place::Elsewhere(process) => draw_boot(&mut Rng::new(self.seed, "boot", &process.to_string())),
        }
    }

    /// A process died: what it viewed stays with it.
    pub fn process_died(&mut self, process: u64) {
        match self.place(process) {
            Place::Machine => {
                let mine = self.named.iter_mut().filter(|((place, _), _)| *place == Place::Machine);
                for (_, named) in mine.filter(|(_, named)| named.hold.strong_count() > 0) {
                    *named = Named { memory: Arc::new(named.memory.copy()), hold: Weak::new() };
                }
                self.forgotten.retain(|(place, _)| *place != Place::Machine);
            }
            place => self.lose(place),
        }
    }

    pub fn power_cut(&mut self) {
        self.lose(Place::Machine);
        self.boot = draw_boot(&mut self.boots);
    }

    fn lose(&mut self, lost: Place) {
        self.named.retain(|(place, _), _| *place != lost);
        self.forgotten.retain(|(place, _)| *place != lost);
    }

    fn used(&mut self, place: Place) -> u64 {
        self.forgotten.retain(|(_, memory)| memory.strong_count() > 0);
        let forgotten = self.forgotten.iter().filter(|(at, _)| *at == place);
        let forgotten = forgotten.filter_map(|(_, memory)| memory.upgrade()).map(|memory| memory.takes());
        let named =
            self.named.iter().filter(|((at, _), _)| *at == place).map(|(_, named)| named.memory.takes());
        forgotten.chain(named).fold(0, u64::saturating_add)
    }

    fn take(
        &mut self,
        core: &Core,
        process: u64,
        name: &str,
        size: Option<KeptSize>,
    ) -> platform::Result<Option<KeptMemory>> {
        let key = (self.place(process), name.to_owned());
        let was_there = self.named.contains_key(&key);
        if !was_there {
            let Some(size) = size else { return Ok(None) };
            let used = self.used(key.0);
            let space = core.options.kept_space.unwrap_or(ByteCount(u64::MAX));
            if used.saturating_add(takes(size)) > space.0 {
                let free = ByteCount(space.0.saturating_sub(used));
                return Err(Error::new(
                    ErrorKind::OutOfSpace,
                    format!(
                        "no room for kept memory '{name}': {} wanted, {free} free; give a smaller '--cache'",
                        ByteCount(takes(size))
                    ),
                ));
            }
            let memory = Arc::new(Memory::new(size, core.options.kept_hollow));
            self.named.insert(key.clone(), Named { memory, hold: Weak::new() });
        }
        let named = self.named.get_mut(&key).expect("it was there, or was made");
        if named.hold.strong_count() > 0 {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("kept memory '{name}' is in use; wait until whoever has it has ended"),
            ));
        }
        let hold = Arc::new(Hold { memory: named.memory.clone() });
        named.hold = Arc::downgrade(&hold);
        Ok(Some(hold.views(was_there)))
    }

    fn forget(&mut self, process: u64, name: &str) {
        let place = self.place(process);
        if let Some(named) = self.named.remove(&(place, name.to_owned())) {
            self.forgotten.push((place, Arc::downgrade(&named.memory)));
        }
    }

    /// What there is on the machine but the memory of that name, which is the main process's.
    pub fn others(&self, name: &str) -> Vec<OtherMemory> {
        let mine = self.named.iter().filter(|((place, of), _)| *place == Place::Machine && of != name);
        let other = mine.map(|((_, name), named)| {
            let words = named.memory.words.iter();
            let words = words.map(|word| word.load(std::sync::atomic::Ordering::Acquire)).collect();
            OtherMemory {
                name: name.clone(),
                len: ByteCount(named.memory.takes()),
                in_use: named.hold.strong_count() > 0,
                words: Ok(words),
            }
        });
        other.collect()
    }

    /// Half of the time that something takes: what happens, happens in the middle.
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
    let key = (Place::Machine, other.to_owned());
    match kept.named.get(&key).map(|named| named.hold.strong_count() > 0) {
        None => Err(Error::new(ErrorKind::NotFound, format!("there is no memory {other}"))),
        Some(true) => Err(Error::new(ErrorKind::InUse, format!("memory {other} is in use"))),
        Some(false) => {
            kept.named.remove(&key);
            Ok(())
        }
    }
}
