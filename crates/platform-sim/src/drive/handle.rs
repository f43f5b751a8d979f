//! Control of a simulated drive by tests: faults, and inspection of its content.

use super::ageing::{InjectedStray, Stray};
use super::content::Content;
use super::faults::{Fault, FaultKind};
use super::{DriveCell, InjectedFailure, Pacer, Presence, State};
use crate::core::{Action, Core};
use crate::options::DriveFaults;
use crate::trace::TraceEvent;
use platform::{HealthScript, IoErrorKind, IoRequest};
use std::cell::RefMut;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// A drive's counters. Operations count when they return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveStats {
    /// Operations started.
    pub started: u64,
    /// Reads returned.
    pub reads: u64,
    /// Writes returned, zeroing included.
    pub writes: u64,
    /// Flushes returned.
    pub flushes: u64,
    /// Trims returned.
    pub trims: u64,
    /// Acknowledged writes that were lost or misdirected.
    pub strayed: u64,
    /// Failed operations of all kinds.
    pub failed: u64,
    /// Bytes requested by reads.
    pub read_bytes: u64,
    /// Bytes of writes.
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

/// An acknowledged write that was lost or misdirected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StrayWrite {
    /// Its range, which reads as before.
    pub missed: ByteRange,
    /// The range that was written instead, if any.
    pub landed: Option<ByteRange>,
}

/// A drive's state at a point in time: content, cache and faults. Cheap: it shares unchanged data.
/// It may move to another simulation, on another thread.
#[derive(Clone)]
pub struct DriveImage {
    content: Content,
    size: ByteCount,
    /// Its length for processes that open it.
    length: ByteCount,
    /// The remaining length of a truncated file.
    cut: Option<ByteCount>,
}

impl DriveImage {
    /// The drive's capacity.
    pub fn size(&self) -> ByteCount {
        self.size
    }

    /// The true content at `start` after the last completed write. Panics past the end.
    pub fn read(&self, start: ByteOffset, len: ByteCount) -> Vec<u8> {
        let mut bytes = vec![0; len.as_usize()];
        self.content.read_true(start, &mut bytes);
        bytes
    }
}

/// A simulated drive, for tests: injects faults and inspects the content.
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

    /// Its length for later opens, as set by [`set_length`](Self::set_length).
    pub fn length(&self) -> ByteCount {
        self.cell.state.borrow().length
    }

    /// Its counters.
    pub fn stats(&self) -> DriveStats {
        self.cell.state.borrow().stats
    }

    /// Its state, with all spontaneous faults up to now.
    fn state(&self) -> RefMut<'_, State> {
        let mut state = self.cell.state.borrow_mut();
        state.age(&self.core, &self.cell);
        state
    }

    /// The number of operations it has not returned.
    pub fn in_flight(&self) -> usize {
        let state = self.cell.state.borrow();
        state.slots.len() - state.free.len()
    }

    fn note(&self, name: &str) {
        self.core.trace(TraceEvent::Drive { drive: &self.cell.name, name });
    }

    // Inspection.

    /// `len` bytes of true content that survive a power cut. Faults are not visible.
    pub fn read_durable(&self, start: ByteOffset, len: ByteCount) -> Vec<u8> {
        let mut bytes = vec![0; len.as_usize()];
        self.cell.state.borrow().content.read_durable(start, &mut bytes);
        bytes
    }

    /// `len` bytes of true content after the last completed write. Faults are not visible.
    pub fn read_true(&self, start: ByteOffset, len: ByteCount) -> Vec<u8> {
        let mut bytes = vec![0; len.as_usize()];
        self.cell.state.borrow().content.read_true(start, &mut bytes);
        bytes
    }

    /// The result of a read now, without latency: `None` is a medium error; rot is visible.
    pub fn peek(&self, start: ByteOffset, len: ByteCount) -> Option<Vec<u8>> {
        let state = self.state();
        if state.content.is_unreadable(ByteRange::new(start, len)) {
            return None;
        }
        let mut bytes = vec![0; len.as_usize()];
        state.content.read(start, &mut bytes);
        Some(bytes)
    }

    /// Sets the true, durable content to `bytes` at once.
    pub fn poke(&self, start: ByteOffset, bytes: &[u8]) {
        let range = ByteRange::new(start, ByteCount::of(bytes));
        assert!(range.end().0 <= self.size().0, "{range:?} is past the end of {}", self.name());
        let sector = self.cell.options.logical_sector.bytes();
        assert!(range.is_aligned(sector), "{range:?} is not whole sectors of {sector}");
        let fill = super::Fill::Bytes(Arc::new(bytes.to_vec()));
        self.state().content.write(super::Written { range, fill, durable: true, lost: false });
    }

    /// The current faults; adjacent sectors of one kind are merged.
    pub fn faults(&self) -> Vec<(ByteRange, FaultKind)> {
        self.state().content.faults()
    }

    /// Whether a power cut may change `range`.
    pub fn is_unflushed(&self, range: ByteRange) -> bool {
        self.cell.state.borrow().content.is_unflushed(range)
    }

    /// The number of completed, unflushed writes.
    pub fn unflushed_writes(&self) -> usize {
        self.cell.state.borrow().content.unflushed_writes()
    }

    /// An image of its current state, for later or for another simulation.
    pub fn snapshot(&self) -> DriveImage {
        let state = self.state();
        DriveImage {
            content: state.content.clone(),
            size: self.size(),
            length: state.length,
            cut: state.cut,
        }
    }

    /// Replaces its content by `image`, which must be of a drive with the same options.
    pub fn restore(&self, image: &DriveImage) {
        assert_eq!(image.size, self.size(), "an image fits a drive of its own size");
        let mut state = self.cell.state.borrow_mut();
        (state.content, state.length, state.cut) = (image.content.clone(), image.length, image.cut);
    }

    // Fault injection.

    /// Cuts only this drive's power: operations in flight return as gone, and the cache is lost as
    /// in any power cut. Power returns at once; open handles stay valid.
    pub fn power_cut(&self) {
        self.note("power cut");
        self.cell.power_cut(&self.core);
    }

    /// Fails permanently: all operations return as gone; those in flight may have taken effect.
    pub fn fail_now(&self) {
        self.note("fails");
        self.depart(Presence::Failed);
    }

    /// Removes it with its content, cache included. Earlier attachments stay unusable.
    pub fn vanish(&self) {
        self.note("vanishes");
        self.depart(Presence::Away);
    }

    /// Limits the number of further attachments; `None`: unlimited.
    pub fn allow_attachments(&self, count: Option<u64>) {
        self.note("can be attached so often");
        self.cell.state.borrow_mut().attachments = count;
    }

    /// Deletes its file. Open handles work until they check the path; it cannot be opened again.
    pub fn delete_file(&self) {
        self.note("file deleted");
        self.cell.state.borrow_mut().presence = Presence::Deleted;
    }

    /// Whether its file was deleted.
    pub fn is_deleted(&self) -> bool {
        self.cell.state.borrow().presence == Presence::Deleted
    }

    /// Truncates its file to `len`, a multiple of 4096 bytes: later data is lost, and the drive is
    /// shorter.
    pub fn truncate_file(&self, len: ByteCount) {
        self.note("file truncated");
        self.cell.state.borrow_mut().cut = Some(len.align_down(ByteCount(4096)));
    }

    /// Lengthens its file or, before its first use, shortens it, up to its original size. Later
    /// opens see the new length.
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

    /// Reconnects it, even after a permanent failure (repaired), so that it can be opened again.
    pub fn come_back(&self) {
        self.note("comes back");
        let mut state = self.cell.state.borrow_mut();
        (state.presence, state.cut) = (Presence::Present, None);
    }

    /// Whether it is present with all its content.
    pub fn is_present(&self) -> bool {
        let state = self.cell.state.borrow();
        state.presence == Presence::Present && state.cut.is_none()
    }

    /// Whether it can be opened. It may be a truncated file, which is a smaller drive.
    pub fn can_be_opened(&self) -> bool {
        self.cell.state.borrow().presence == Presence::Present
    }

    /// Holds completed operations until [`SimDrive::release`]: their waiters may time out.
    pub fn hold(&self) {
        self.note("holds");
        self.cell.state.borrow_mut().holding = true;
    }

    /// Releases held operations, each after a new latency.
    pub fn release(&self) {
        self.note("lets go");
        let mut state = self.cell.state.borrow_mut();
        let state = &mut *state;
        state.holding = false;
        for (slot, generation) in state.kept.drain(..) {
            let delay =
                self.cell.options.latency.draw(&mut state.latency).saturating_mul(state.slowness);
            self.core.schedule(delay, Action::Drive { drive: self.cell.clone(), slot, generation });
        }
    }

    /// Delays the next `count` operations by `longer`.
    pub fn stall_next(&self, count: u64, longer: Duration) {
        self.note("stalls");
        self.cell.state.borrow_mut().stalls = (count, longer);
    }

    /// Fails the next `count` operations with `kind`; with `operation` ("read", "write", "flush",
    /// ...) only those.
    pub fn fail_next(&self, count: u64, operation: Option<&'static str>, kind: IoErrorKind) {
        self.note("will fail operations");
        if count > 0 {
            self.cell.state.borrow_mut().ordered.push(InjectedFailure { operation, kind, count });
        }
    }

    /// Cancels injected failures and stray writes that have not happened yet.
    pub fn cancel_failures(&self) {
        self.note("will fail nothing");
        let mut state = self.cell.state.borrow_mut();
        state.ordered.clear();
        state.ageing.orders.clear();
    }

    /// Makes sectors unreadable until they are rewritten.
    pub fn make_unreadable(&self, range: ByteRange) {
        self.note("medium error");
        self.state().content.lay(range, &Fault::Unreadable);
    }

    /// Makes sectors unreadable; writes to them are acknowledged without a repair: that many more
    /// of each, or (`None`) all.
    pub fn make_stuck(&self, range: ByteRange, writes: Option<u32>) {
        self.note("medium error that writes do not repair");
        self.state().content.lay(range, &Fault::Stuck(writes));
    }

    /// Whether sectors that [`SimDrive::make_stuck`] made unreadable are left, now or after a power
    /// cut.
    pub fn has_stuck_sectors(&self) -> bool {
        self.cell.state.borrow().content.has_stuck()
    }

    /// Makes sectors read as wrong data, without an error, until they are rewritten.
    pub fn rot(&self, range: ByteRange) {
        self.note("rots");
        let mut state = self.state();
        let mask = state.fault.between(1, 255) as u8;
        state.content.lay(range, &Fault::Rot(mask));
    }

    /// Removes medium errors and rot of `range`: the true content was never changed.
    pub fn heal(&self, range: ByteRange) {
        self.note("heals");
        self.state().content.heal(range);
    }

    /// Removes medium errors of `range`; wrong data stays.
    pub fn heal_unreadable(&self, range: ByteRange) {
        self.note("heals medium errors");
        self.state().content.heal_unreadable(range);
    }

    /// Takes the stray writes since the last call.
    pub fn take_strays(&self) -> Vec<StrayWrite> {
        std::mem::take(&mut self.cell.state.borrow_mut().ageing.strayed)
    }

    /// Fails writes that touch `range` with a medium error, until [`SimDrive::clear_write_errors`].
    pub fn refuse_writes(&self, range: ByteRange) {
        self.note("write error");
        self.cell.state.borrow_mut().write_errors.push(range);
    }

    /// Removes all injected write errors.
    pub fn clear_write_errors(&self) {
        self.note("no write errors");
        self.cell.state.borrow_mut().write_errors.clear();
    }

    /// Loses the next `count` writes (that touch `within`, if given): they are acknowledged, and
    /// their range reads as before. The true content still changes.
    pub fn lose_writes(&self, count: u64, within: Option<ByteRange>) {
        self.note("will lose writes");
        self.order_strays(Stray::Lost, count, within);
    }

    /// Misdirects the next `count` writes (that touch `within`, if given): they are acknowledged,
    /// their range reads as before, and another range reads as their data.
    pub fn misdirect_writes(&self, count: u64, within: Option<ByteRange>) {
        self.note("will misdirect writes");
        self.order_strays(Stray::Misdirected, count, within);
    }

    /// Ends lost and misdirected writes; earlier ones stay.
    pub fn keep_writes(&self) {
        self.note("loses and misdirects no more writes");
        self.cell.state.borrow_mut().ageing.orders.clear();
    }

    fn order_strays(&self, stray: Stray, count: u64, within: Option<ByteRange>) {
        if count > 0 {
            self.cell.state.borrow_mut().ageing.orders.push(InjectedStray { stray, within, count });
        }
    }

    /// Sets the rates of spontaneous faults. Existing faults stay, except unwritable blocks.
    pub fn set_faults(&self, faults: DriveFaults) {
        self.note("ages otherwise");
        self.state().ageing.set(faults, self.core.now());
    }

    /// Multiplies the duration of operations from now on; 1 is normal.
    pub fn slow_down(&self, times: u32) {
        self.note("slows down or not");
        self.cell.state.borrow_mut().slowness = times.max(1);
    }

    /// Sets a model of the duration of operations.
    pub fn pace_by(&self, pacer: Rc<dyn Pacer>) {
        self.note("is paced by a model");
        self.cell.state.borrow_mut().pacer = Some(pacer);
    }

    /// Sets its reported health from now on; `None`: not reported.
    pub fn set_health(&self, health: Option<HealthScript>) {
        self.note("tells another health");
        self.cell.state.borrow_mut().health = health;
    }

    /// Whether its locate light is on.
    pub fn is_located(&self) -> bool {
        self.cell.state.borrow().located
    }

    /// Whether its write cache is on.
    pub fn has_write_cache(&self) -> bool {
        self.cell.state.borrow().has_cache
    }

    /// A defective drive: flushes succeed without effect. Proves that tests detect it.
    pub fn ignore_flush(&self, ignore: bool) {
        self.note("ignores flushes or not");
        self.cell.state.borrow_mut().ignore_flush = ignore;
    }

    /// A defective drive: durable writes (FUA) are only cached. Proves that tests detect it.
    pub fn ignore_durable(&self, ignore: bool) {
        self.note("ignores FUA or not");
        self.cell.state.borrow_mut().ignore_durable = ignore;
    }
}
