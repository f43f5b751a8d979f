//! A simulated drive from the outside: what a test does to it, and what it really holds.

use super::ageing::{Stray, StrayOrder};
use super::content::Content;
use super::faults::{Fault, FaultKind};
use super::{DriveCell, Ordered, Pacer, Presence, State};
use crate::core::{Action, Core};
use crate::options::DriveFaults;
use crate::trace::TraceEvent;
use platform::{HealthScript, IoErrorKind, IoRequest};
use std::cell::RefMut;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// What a drive has done so far. Operations count when they return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveStats {
    /// Operations it was given.
    pub started: u64,
    /// Reads returned.
    pub reads: u64,
    /// Writes, zeroes included, returned.
    pub writes: u64,
    /// Flushes returned.
    pub flushes: u64,
    /// Trims returned.
    pub trims: u64,
    /// Writes that were lost or misdirected, and acknowledged.
    pub strayed: u64,
    /// Operations that failed, of whatever kind.
    pub failed: u64,
    /// Bytes asked for by reads.
    pub read_bytes: u64,
    /// Bytes given by writes.
    pub written_bytes: u64,
}

impl DriveStats {
    pub(super) fn count(&mut self, request: &IoRequest) {
        match request {
            IoRequest::Read { .. } => {
                self.reads += 1;
                self.read_bytes += request.range().len.0;
            }
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } => {
                self.writes += 1;
                self.written_bytes += request.range().len.0;
            }
            IoRequest::Flush => self.flushes += 1,
            IoRequest::Trim { .. } => self.trims += 1,
            IoRequest::Status { .. }
            | IoRequest::Health
            | IoRequest::Locate { .. }
            | IoRequest::WriteCache { .. } => {}
        }
    }
}

/// A write that was acknowledged and not carried out in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StrayWrite {
    /// Its place, which says what it said before.
    pub missed: ByteRange,
    /// Where it was carried out instead, if anywhere.
    pub landed: Option<ByteRange>,
}

/// What a drive held at some time: content, cache and faults. Cheap: it shares what did not change since.
/// It may go to another simulation, on another thread.
#[derive(Clone)]
pub struct DriveImage {
    content: Content,
    size: ByteCount,
    /// How long it is for whoever opens it.
    length: ByteCount,
    /// So much is left of a file that was truncated.
    cut: Option<ByteCount>,
}

impl DriveImage {
    /// The drive's capacity.
    pub fn size(&self) -> ByteCount {
        self.size
    }

    /// The truth at `start` as of the last completed write. Panics past the end.
    pub fn read(&self, start: ByteOffset, len: ByteCount) -> Vec<u8> {
        let mut bytes = vec![0; len.as_usize()];
        self.content.read_true(start, &mut bytes);
        bytes
    }
}

/// A simulated drive, for tests: does things to it that nobody above the seam can, and looks inside.
#[derive(Clone)]
pub struct SimDrive {
    pub(crate) core: Rc<Core>,
    pub(crate) cell: Rc<DriveCell>,
}

impl SimDrive {
    /// Its first name.
    pub fn name(&self) -> &str {
        &self.cell.name
    }

    /// Its capacity.
    pub fn size(&self) -> ByteCount {
        self.cell.options.size
    }

    /// How long it is for whoever opens it from now on, as [`set_length`](Self::set_length) left it.
    pub fn length(&self) -> ByteCount {
        self.cell.state.borrow().length
    }

    /// What it has done so far.
    pub fn stats(&self) -> DriveStats {
        self.cell.state.borrow().stats
    }

    /// Its state, with everything come that comes by itself.
    fn state(&self) -> RefMut<'_, State> {
        let mut state = self.cell.state.borrow_mut();
        state.age(&self.core, &self.cell);
        state
    }

    /// How many operations it has not returned.
    pub fn in_flight(&self) -> usize {
        let state = self.cell.state.borrow();
        state.slots.len() - state.free.len()
    }

    fn note(&self, name: &str) {
        self.core.trace(TraceEvent::Drive { drive: &self.cell.name, name });
    }

    // What it holds.

    /// The truth of `len` bytes that a power cut cannot change. Faults do not show.
    pub fn read_durable(&self, start: ByteOffset, len: ByteCount) -> Vec<u8> {
        let mut bytes = vec![0; len.as_usize()];
        self.cell.state.borrow().content.read_durable(start, &mut bytes);
        bytes
    }

    /// The truth of `len` bytes as of the last completed write. Faults do not show.
    pub fn read_true(&self, start: ByteOffset, len: ByteCount) -> Vec<u8> {
        let mut bytes = vec![0; len.as_usize()];
        self.cell.state.borrow().content.read_true(start, &mut bytes);
        bytes
    }

    /// What a read would return now, without latency: `None` is a medium error; rot shows.
    pub fn peek(&self, start: ByteOffset, len: ByteCount) -> Option<Vec<u8>> {
        let state = self.state();
        if state.content.is_unreadable(ByteRange::new(start, len)) {
            return None;
        }
        let mut bytes = vec![0; len.as_usize()];
        state.content.read(start, &mut bytes);
        Some(bytes)
    }

    /// Puts `bytes` on the drive at once and durably, as if they had always been there.
    pub fn poke(&self, start: ByteOffset, bytes: &[u8]) {
        let range = ByteRange::new(start, ByteCount::of(bytes));
        assert!(range.end().0 <= self.size().0, "{range:?} is past the end of {}", self.name());
        let sector = self.cell.options.logical_sector.bytes();
        assert!(range.is_aligned(sector), "{range:?} is not whole sectors of {sector}");
        let fill = super::Fill::Bytes(Arc::new(bytes.to_vec()));
        self.state().content.write(super::Written { range, fill, durable: true, lost: false });
    }

    /// The faults that lie over what it holds now, neighbouring sectors of one kind together.
    pub fn faults(&self) -> Vec<(ByteRange, FaultKind)> {
        self.state().content.faults()
    }

    /// Whether `range` holds something that a power cut may take back.
    pub fn is_unflushed(&self, range: ByteRange) -> bool {
        self.cell.state.borrow().content.is_unflushed(range)
    }

    /// How many completed writes wait for a flush.
    pub fn unflushed_writes(&self) -> usize {
        self.cell.state.borrow().content.unflushed_writes()
    }

    /// What it holds now, to be kept or put into another simulation.
    pub fn snapshot(&self) -> DriveImage {
        let state = self.state();
        DriveImage { content: state.content.clone(), size: self.size(), length: state.length, cut: state.cut }
    }

    /// Makes it hold what `image` holds, which must be of a drive of the same nature.
    pub fn restore(&self, image: &DriveImage) {
        assert_eq!(image.size, self.size(), "an image fits a drive of its own size");
        let mut state = self.cell.state.borrow_mut();
        (state.content, state.length, state.cut) = (image.content.clone(), image.length, image.cut);
    }

    // What is done to it.

    /// Cuts its power alone: operations in flight return as gone, the cache is lost as a power cut loses it.
    /// It is back at once; whoever has it open keeps it.
    pub fn power_cut(&self) {
        self.note("power cut");
        self.cell.power_cut(&self.core);
    }

    /// It dies for good: everything returns as gone, what was in flight may have landed.
    pub fn fail_now(&self) {
        self.note("fails");
        self.depart(Presence::Failed);
    }

    /// It is pulled out with its content, cache included. Attachments from before stay dead.
    pub fn vanish(&self) {
        self.note("vanishes");
        self.depart(Presence::Away);
    }

    /// From now on it can be attached so many times, and then no more; `None`: as often as one likes.
    pub fn allow_attachments(&self, count: Option<u64>) {
        self.note("can be attached so often");
        self.cell.state.borrow_mut().attachments = count;
    }

    /// Its file is deleted. Whoever has it open goes on as if nothing were, until he looks; nobody opens it again.
    pub fn delete_file(&self) {
        self.note("file deleted");
        self.cell.state.borrow_mut().presence = Presence::Deleted;
    }

    /// Whether its file was deleted.
    pub fn is_deleted(&self) -> bool {
        self.cell.state.borrow().presence == Presence::Deleted
    }

    /// Its file is truncated: what lies past `len`, a multiple of 4096 bytes, is gone, and so is its end.
    pub fn truncate_file(&self, len: ByteCount) {
        self.note("file truncated");
        self.cell.state.borrow_mut().cut = Some(len.align_down(ByteCount(4096)));
    }

    /// Its file is made longer or, before anybody used it, shorter: whoever opens it from now on has so much of it, which is no more than it was made with.
    pub fn set_length(&self, len: ByteCount) {
        self.note("has another length");
        self.cell.state.borrow_mut().length = len.min(self.size()).align_down(ByteCount(4096));
    }

    fn depart(&self, presence: Presence) {
        self.cell.interrupt(&self.core, None);
        let mut state = self.cell.state.borrow_mut();
        state.presence = presence;
        state.epoch += 1;
        state.lease = Weak::new();
    }

    /// It comes back (even from death: somebody repaired it), to be opened again.
    pub fn come_back(&self) {
        self.note("comes back");
        let mut state = self.cell.state.borrow_mut();
        (state.presence, state.cut) = (Presence::Present, None);
    }

    /// Whether it is there, with all that it held.
    pub fn is_present(&self) -> bool {
        let state = self.cell.state.borrow();
        state.presence == Presence::Present && state.cut.is_none()
    }

    /// Whether it is there, though it may be a file that was truncated, and is a smaller drive for whoever opens it now.
    pub fn can_be_opened(&self) -> bool {
        self.cell.state.borrow().presence == Presence::Present
    }

    /// Keeps operations that are due until [`SimDrive::release`]: their waiters see time limits pass.
    pub fn hold(&self) {
        self.note("holds");
        self.cell.state.borrow_mut().holding = true;
    }

    /// Lets go of what was held, each after a new latency.
    pub fn release(&self) {
        self.note("lets go");
        let mut state = self.cell.state.borrow_mut();
        let state = &mut *state;
        state.holding = false;
        for (slot, generation) in state.kept.drain(..) {
            let delay = self.cell.options.latency.draw(&mut state.latency).saturating_mul(state.slowness);
            self.core.schedule(delay, Action::Drive { drive: self.cell.clone(), slot, generation });
        }
    }

    /// The next `count` operations take `longer` more.
    pub fn stall_next(&self, count: u64, longer: Duration) {
        self.note("stalls");
        self.cell.state.borrow_mut().stalls = (count, longer);
    }

    /// The next `count` operations that return fail with `kind`; with `operation` ("read", "write", "flush",
    /// ...), only those.
    pub fn fail_next(&self, count: u64, operation: Option<&'static str>, kind: IoErrorKind) {
        self.note("will fail operations");
        if count > 0 {
            self.cell.state.borrow_mut().ordered.push(Ordered { operation, kind, count });
        }
    }

    /// Failures that were ordered and have not happened yet will not happen, nor will writes go astray that were to.
    pub fn cancel_failures(&self) {
        self.note("will fail nothing");
        let mut state = self.cell.state.borrow_mut();
        state.ordered.clear();
        state.ageing.orders.clear();
    }

    /// The sectors of `range` cannot be read until they are rewritten.
    pub fn make_unreadable(&self, range: ByteRange) {
        self.note("medium error");
        self.state().content.lay(range, &Fault::Unreadable);
    }

    /// The sectors of `range` cannot be read, and writes to them are acknowledged without repairing them: so many more of each, or
    /// (`None`) all of them.
    pub fn make_stuck(&self, range: ByteRange, writes: Option<u32>) {
        self.note("medium error that writes do not repair");
        self.state().content.lay(range, &Fault::Stuck(writes));
    }

    /// Whether it has sectors that [`SimDrive::make_stuck`] left unreadable, now or after a power cut.
    pub fn has_stuck_sectors(&self) -> bool {
        self.cell.state.borrow().content.has_stuck()
    }

    /// The sectors of `range` read as something else, without an error, until they are rewritten.
    pub fn rot(&self, range: ByteRange) {
        self.note("rots");
        let mut state = self.state();
        let mask = state.fault.between(1, 255) as u8;
        state.content.lay(range, &Fault::Rot(mask));
    }

    /// Lifts medium errors and rot of `range`: the truth was there all the time.
    pub fn heal(&self, range: ByteRange) {
        self.note("heals");
        self.state().content.heal(range);
    }

    /// Lifts medium errors of `range`; what reads as something else goes on doing so.
    pub fn heal_unreadable(&self, range: ByteRange) {
        self.note("heals medium errors");
        self.state().content.heal_unreadable(range);
    }

    /// The writes that went astray since this was last asked.
    pub fn take_strays(&self) -> Vec<StrayWrite> {
        std::mem::take(&mut self.cell.state.borrow_mut().ageing.strayed)
    }

    /// Writes that touch `range` fail with a medium error, until [`SimDrive::clear_write_errors`].
    pub fn refuse_writes(&self, range: ByteRange) {
        self.note("write error");
        self.cell.state.borrow_mut().write_errors.push(range);
    }

    /// Writes succeed everywhere again.
    pub fn clear_write_errors(&self) {
        self.note("no write errors");
        self.cell.state.borrow_mut().write_errors.clear();
    }

    /// The next `count` writes (those that touch `within`, if given) are acknowledged and not carried out: their
    /// place reads as before. What is true has changed all the same.
    pub fn lose_writes(&self, count: u64, within: Option<ByteRange>) {
        self.note("will lose writes");
        self.order_strays(Stray::Lost, count, within);
    }

    /// The next `count` writes (those that touch `within`, if given) are acknowledged and land somewhere else:
    /// their place reads as before, and some other place reads as what they wrote.
    pub fn misdirect_writes(&self, count: u64, within: Option<ByteRange>) {
        self.note("will misdirect writes");
        self.order_strays(Stray::Misdirected, count, within);
    }

    /// Writes land where they belong again; what went astray by now stays so.
    pub fn keep_writes(&self) {
        self.note("loses and misdirects no more writes");
        self.cell.state.borrow_mut().ageing.orders.clear();
    }

    fn order_strays(&self, stray: Stray, count: u64, within: Option<ByteRange>) {
        if count > 0 {
            self.cell.state.borrow_mut().ageing.orders.push(StrayOrder { stray, within, count });
        }
    }

    /// Other faults come by themselves from now on; those there are stay, but for blocks that could not be
    /// written.
    pub fn set_faults(&self, faults: DriveFaults) {
        self.note("ages otherwise");
        self.state().ageing.set(faults, self.core.now());
    }

    /// Every operation takes so many times as long from now on; one is as usual.
    pub fn slow_down(&self, times: u32) {
        self.note("slows down or not");
        self.cell.state.borrow_mut().slowness = times.max(1);
    }

    /// How long operations take is said by somebody else from now on.
    pub fn pace_by(&self, pacer: Rc<dyn Pacer>) {
        self.note("is paced by a model");
        self.cell.state.borrow_mut().pacer = Some(pacer);
    }

    /// What it tells of its health from now on; `None`: nothing.
    pub fn set_health(&self, health: Option<HealthScript>) {
        self.note("tells another health");
        self.cell.state.borrow_mut().health = health;
    }

    /// Whether its light is on.
    pub fn is_located(&self) -> bool {
        self.cell.state.borrow().located
    }

    /// Whether its write cache is on.
    pub fn has_write_cache(&self) -> bool {
        self.cell.state.borrow().has_cache
    }

    /// A drive that lies: flushes succeed and do nothing. To prove that tests notice.
    pub fn ignore_flush(&self, ignore: bool) {
        self.note("ignores flushes or not");
        self.cell.state.borrow_mut().ignore_flush = ignore;
    }

    /// A drive that lies: durable writes (FUA) are merely cached. To prove that tests notice.
    pub fn ignore_durable(&self, ignore: bool) {
        self.note("ignores FUA or not");
        self.cell.state.borrow_mut().ignore_durable = ignore;
    }
}
