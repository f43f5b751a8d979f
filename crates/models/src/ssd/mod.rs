//! A flash drive: dies behind channels, a processor, a write buffer.
//!
//! ```text
//! command ─► processor ─► read:  each page: die reads ─► channel ─► all complete: done
//!                      └► write: buffer has space: done ─► combined to programs, die by die:
//!                                                   channel ─► die programs ─► space is free
//! ```
//!
//! - The processor takes time for each command and for each of its mapping units, to look up or
//!   update the mapping. Sequential streams are looked up ahead, and take less.
//! - Pages are distributed over the dies in turn. A die executes one operation at a time: host
//!   reads first, except for one program or erasure every [`MAX_WAIT_NS`]. Reads and writes
//!   therefore both make progress under any load.
//! - Small writes are combined to whole programs. Partial mapping units need a read of the rest
//!   first.
//! - Host writes cause garbage collection ([`collection`]). Moved data are read by all planes of a
//!   die at once and programmed on the same dies, and blocks are erased.
//! - The buffer survives a power cut (capacitors): a flush is a no-op, and a durable write
//!   completes when it is in the buffer. Without the write cache, every write completes when it is
//!   programmed.

mod collection;

pub(crate) use collection::moved_in_steady_state;

use crate::catalog::SsdSpec;
use crate::device::{Command, Device, Done, Kind, SECTOR};
use crate::link::transfer_ns;
use crate::resource::Resource;
use platform::Instant;
use platform_sim::{Actor, SimHandle};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// An operation that has waited this long since its die's last program or erasure precedes host
/// reads once.
const MAX_WAIT_NS: u64 = 2_000_000;

/// The number of streams that are detected.
const STREAMS: usize = 32;
/// An end that no command continues.
const NOWHERE: u64 = 1 << 63;
/// The maximum gap within a stream, in sectors.
const STREAM_GAP: u64 = 2048;

/// Event tokens, in the highest bits: the kind of operation that ends.
const PROCESSED: u64 = 0;
const DIE_DONE: u64 = 1;
const LOADED: u64 = 2;
const KIND_SHIFT: u32 = 56;
/// An operation without a waiting command.
const NO_COMMAND: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// A page, for a command or for none.
    Read {
        slot: u32,
    },
    /// Data that collection moves, the size of a program: all planes read at once.
    Gather,
    /// Whole pages, and the space that they use in the buffer.
    Program {
        slot: u32,
        room: u64,
    },
    Erase,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    work: Work,
    since_ns: u64,
}

#[derive(Default)]
struct Die {
    /// Reads for hosts.
    reads: VecDeque<Operation>,
    /// Operations for writes, in order: programs, erasures, and reads for them.
    others: VecDeque<Operation>,
    current: Option<Work>,
    /// The end of the latest program or erasure.
    other_done_ns: u64,
    programs: u64,
    busy_ns: u64,
    busy_since_ns: u64,
}

/// A command in the drive.
#[derive(Clone, Copy, Debug)]
struct Slot {
    command: Command,
    /// Pages or programs that are not complete.
    left: u32,
}

struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The slots of writes that wait for space in the buffer.
    blocked: VecDeque<u32>,
    room: u64,
    dies: Vec<Die>,
    /// Bytes collected for the next program.
    gathered: u64,
    next_die: usize,
    /// Outstanding work of collection, in thousandths of a program.
    debt_permille: u64,
    /// The next die that collection reads.
    next_moved: usize,
    /// The ends of the latest commands: a command that begins there, or a little later, continues a
    /// stream.
    ends: [u64; STREAMS],
    /// The entry that is replaced next.
    oldest_end: usize,
}

/// See the [module](self).
pub(crate) struct Ssd {
    me: Weak<Ssd>,
    sim: SimHandle,
    port: Weak<dyn Done>,
    spec: SsdSpec,
    write_cache: bool,
    page: u64,
    unit: u64,
    program: u64,
    moved_permille: u64,
    processor: Resource,
    channels: Vec<Resource>,
    state: RefCell<State>,
}

impl Ssd {
    /// `moved_permille`: the units that collection moves per thousand host-written units.
    pub fn new(
        sim: &SimHandle,
        name: &str,
        spec: &SsdSpec,
        write_cache: bool,
        moved_permille: u64,
        port: Weak<dyn Done>,
    ) -> Rc<Ssd> {
        let dies = (spec.channels * spec.dies_per_channel) as usize;
        let mut rng = sim.rng("dies", name);
        let state = State {
            slots: Vec::new(),
            free: Vec::new(),
            blocked: VecDeque::new(),
            room: spec.write_buffer_kib * 1024,
            dies: (0..dies).map(|_| Die::default()).collect(),
            gathered: 0,
            next_die: rng.below(dies as u64) as usize,
            debt_permille: 0,
            next_moved: rng.below(dies as u64) as usize,
            ends: [NOWHERE; STREAMS],
            oldest_end: 0,
        };
        Rc::new_cyclic(|me| Ssd {
            me: me.clone(),
            sim: sim.clone(),
            port,
            spec: spec.clone(),
            write_cache,
            page: spec.page_kib * 1024,
            unit: spec.mapping_kib * 1024,
            program: spec.program_kib * 1024,
            moved_permille,
            processor: Resource::default(),
            channels: (0..spec.channels).map(|_| Resource::default()).collect(),
            state: RefCell::new(state),
        })
    }

    fn now_ns(&self) -> u64 {
        self.sim.now().ns
    }

    fn at(&self, ns: u64, kind: u64, value: u64) {
        if let Some(me) = self.me.upgrade() {
            self.sim.at(Instant { ns }, me, kind << KIND_SHIFT | value);
        }
    }

    fn done(&self, tag: u32) {
        if let Some(port) = self.port.upgrade() {
            port.done(tag);
        }
    }

    fn channel(&self, die: usize) -> &Resource {
        &self.channels[die % self.channels.len()]
    }

    fn transfer_ns(&self, bytes: u64) -> u64 {
        transfer_ns(bytes, self.spec.channel_mb_s * 1_000_000)
    }

    fn put(&self, state: &mut State, die: usize, work: Work) {
        let operation = Operation { work, since_ns: self.now_ns() };
        match work {
            Work::Read { slot } if slot != NO_COMMAND => state.dies[die].reads.push_back(operation),
            _ => state.dies[die].others.push_back(operation),
        }
        self.kick(state, die);
    }

    /// Starts the next operation of an idle die.
    fn kick(&self, state: &mut State, index: usize) {
        let now_ns = self.now_ns();
        let die = &mut state.dies[index];
        if die.current.is_some() {
            return;
        }
        let since_ns = |waiting: &Operation| waiting.since_ns.max(die.other_done_ns);
        let impatient =
            die.others.front().is_some_and(|waiting| now_ns - since_ns(waiting) >= MAX_WAIT_NS);
        let next = if impatient { None } else { die.reads.pop_front() };
        let Some(Operation { work, .. }) = next.or_else(|| die.others.pop_front()) else { return };
        die.current = Some(work);
        die.busy_since_ns = now_ns;
        let ends_ns = match work {
            Work::Read { .. } | Work::Gather => now_ns + self.spec.read_us * 1000,
            Work::Program { .. } => {
                let loaded = self.channel(index).book(now_ns, self.transfer_ns(self.program));
                loaded + self.spec.program_us * 1000
            }
            Work::Erase => now_ns + self.spec.erase_us * 1000,
        };
        self.at(ends_ns, DIE_DONE, index as u64);
    }

    /// Ends a die's operation. Returns the command that this completes.
    fn free_die(&self, state: &mut State, index: usize) -> Option<u32> {
        let now_ns = self.now_ns();
        let die = &mut state.dies[index];
        die.busy_ns += now_ns - die.busy_since_ns;
        let work = die.current.take();
        if matches!(work, Some(Work::Program { .. } | Work::Erase)) {
            die.other_done_ns = now_ns;
        }
        let slot = match work {
            Some(Work::Read { slot }) => slot,
            Some(Work::Program { slot, room }) => {
                die.programs += 1;
                if die.programs.is_multiple_of(self.spec.programs_per_block) {
                    die.others.push_back(Operation { work: Work::Erase, since_ns: now_ns });
                }
                state.room += room;
                slot
            }
            _ => NO_COMMAND,
        };
        self.kick(state, index);
        if slot == NO_COMMAND {
            return None;
        }
        let waiting = &mut state.slots[slot as usize];
        waiting.left -= 1;
        (waiting.left == 0).then(|| self.release(state, slot))
    }

    fn release(&self, state: &mut State, slot: u32) -> u32 {
        state.free.push(slot);
        state.slots[slot as usize].command.tag
    }

    /// Executes a command after its processor time: on the dies, or in the buffer.
    fn begin(&self, state: &mut State, slot: u32) -> Option<u32> {
        let Command { kind, start, sectors, .. } = state.slots[slot as usize].command;
        match kind {
            Kind::Read if sectors > 0 => {
                let (first, last) =
                    (start * SECTOR / self.page, ((start + sectors) * SECTOR - 1) / self.page);
                state.slots[slot as usize].left = (last - first + 1) as u32;
                for page in first..=last {
                    let die = (page % state.dies.len() as u64) as usize;
                    self.put(state, die, Work::Read { slot });
                }
                None
            }
            Kind::Write { .. } if sectors > 0 => {
                state.blocked.push_back(slot);
                None
            }
            _ => Some(self.release(state, slot)),
        }
    }

    /// The processor time of a command.
    fn processing_ns(&self, state: &mut State, command: &Command) -> u64 {
        if command.sectors == 0 {
            return self.spec.command_ns;
        }
        // A mirror's stream skips the data that the other half reads.
        let continues = continued(&state.ends, command.start);
        let at = continues.unwrap_or(state.oldest_end);
        state.ends[at] = command.end();
        if continues.is_none() {
            state.oldest_end = (at + 1) % STREAMS;
        }
        let each = match command.kind {
            _ if continues.is_some() => self.spec.stream_ns,
            Kind::Read => self.spec.lookup_ns,
            _ => self.spec.update_ns,
        };
        self.spec.command_ns + each * (self.covers(command).0 / self.unit)
    }

    /// A write's space in the buffer, and its number of partial mapping units.
    fn covers(&self, command: &Command) -> (u64, u64) {
        let (start, end) = (command.start * SECTOR, command.end() * SECTOR);
        let (first, last) = (start / self.unit, end.div_ceil(self.unit));
        let torn_start = !start.is_multiple_of(self.unit);
        let torn_end = !end.is_multiple_of(self.unit) && (last - first > 1 || !torn_start);
        ((last - first) * self.unit, u64::from(torn_start) + u64::from(torn_end))
    }

    /// Accepts the next write that waits for space, if possible. Returns its tag, if that completes
    /// it.
    fn admit(&self, state: &mut State) -> Option<Option<u32>> {
        let slot = *state.blocked.front()?;
        let command = state.slots[slot as usize].command;
        let (bytes, torn) = self.covers(&command);
        // A write larger than the buffer is accepted if the buffer is empty.
        let all = self.spec.write_buffer_kib * 1024;
        if state.room < bytes.min(all) {
            return None;
        }
        state.blocked.pop_front();
        state.room = state.room.saturating_sub(bytes);
        for i in 0..torn {
            let page = (command.start * SECTOR + i * command.sectors * SECTOR) / self.page;
            let die = (page % state.dies.len() as u64) as usize;
            self.put(state, die, Work::Read { slot: NO_COMMAND });
        }
        state.gathered += bytes;
        let through = !self.write_cache;
        let mut programs = state.gathered / self.program;
        if through && !state.gathered.is_multiple_of(self.program) {
            programs += 1; // The rest of the program stays empty.
            state.gathered = programs * self.program;
        }
        state.gathered -= programs * self.program;
        let waiter = if through { slot } else { NO_COMMAND };
        state.slots[slot as usize].left = programs as u32;
        for _ in 0..programs {
            let room = self.program;
            self.program_next(state, Work::Program { slot: waiter, room });
        }
        // Data in the buffer are durable; a write-through write waits for its own programs.
        Some((!through || programs == 0).then(|| self.release(state, slot)))
    }

    /// Programs the next die in turn, and performs the collection for it.
    fn program_next(&self, state: &mut State, work: Work) {
        let dies = state.dies.len();
        let die = state.next_die;
        state.next_die = (die + 1) % dies;
        self.put(state, die, work);
        state.debt_permille += self.moved_permille;
        while state.debt_permille >= 1000 {
            state.debt_permille -= 1000;
            state.next_moved = (state.next_moved + 1) % dies;
            self.put(state, state.next_moved, Work::Gather);
            let die = state.next_die;
            state.next_die = (die + 1) % dies;
            self.put(state, die, Work::Program { slot: NO_COMMAND, room: 0 });
        }
    }

    /// Completes finished commands, and accepts writes that now have space.
    fn go_on(&self, first: Option<u32>) {
        if let Some(tag) = first {
            self.done(tag);
        }
        loop {
            let admitted = self.admit(&mut self.state.borrow_mut());
            match admitted {
                None => break,
                Some(None) => {}
                Some(Some(tag)) => self.done(tag),
            }
        }
    }
}

/// The stream that continues at `start`. Comparing all entries is faster than an early exit.
fn continued(ends: &[u64; STREAMS], start: u64) -> Option<usize> {
    const { assert!(STREAMS <= u32::BITS as usize, "a bit for each") };
    let mut found = 0_u32;
    for (at, end) in ends.iter().enumerate() {
        found |= u32::from(start.wrapping_sub(*end) <= STREAM_GAP) << at;
    }
    (found != 0).then_some(found.trailing_zeros() as usize)
}

impl Device for Ssd {
    fn submit(&self, command: Command) {
        let mut state = self.state.borrow_mut();
        let slot = Slot { command, left: 0 };
        let index = match state.free.pop() {
            Some(index) => {
                state.slots[index as usize] = slot;
                index
            }
            None => {
                state.slots.push(slot);
                state.slots.len() as u32 - 1
            }
        };
        let processing_ns = self.processing_ns(&mut state, &command);
        let processed = self.processor.book(self.now_ns(), processing_ns);
        self.at(processed + self.spec.latency_us * 1000, PROCESSED, u64::from(index));
    }

    fn busy(&self, now_ns: u64) -> Vec<(&'static str, u64)> {
        let state = self.state.borrow();
        let of = |die: &Die| {
            die.busy_ns + if die.current.is_some() { now_ns - die.busy_since_ns } else { 0 }
        };
        let dies: u64 = state.dies.iter().map(of).sum::<u64>() / state.dies.len() as u64;
        let channels: u64 = self.channels.iter().map(|channel| channel.busy_ns(now_ns)).sum();
        vec![
            ("dies", dies),
            ("channels", channels / self.channels.len() as u64),
            ("drive processor", self.processor.busy_ns(now_ns)),
        ]
    }
}

impl Actor for Ssd {
    fn act(self: Rc<Self>, token: u64) {
        let (kind, value) = (token >> KIND_SHIFT, token & ((1 << KIND_SHIFT) - 1));
        let done = {
            let mut state = self.state.borrow_mut();
            match kind {
                PROCESSED => self.begin(&mut state, value as u32),
                DIE_DONE => {
                    let die = value as usize;
                    match state.dies[die].current {
                        Some(work @ (Work::Read { .. } | Work::Gather)) => {
                            let bytes = if work == Work::Gather { self.program } else { self.page };
                            let loaded =
                                self.channel(die).book(self.now_ns(), self.transfer_ns(bytes));
                            self.at(loaded, LOADED, value);
                            return;
                        }
                        _ => self.free_die(&mut state, die),
                    }
                }
                _ => self.free_die(&mut state, value as usize),
            }
        };
        self.go_on(done);
    }
}
