//! One io_uring and the table of its operations.
//!
//! # Fault model and invariants
//! - The kernel completes every entry exactly once, in any order, at any time. Short transfers and
//!   interrupted calls are ordinary results; the operation continues from there.
//! - All memory that an entry uses (buffers, vectors, message headers) is in the operation's slot,
//!   or owned by it, until its completion; only then the slot is reused.
//! - A temporarily refused operation keeps its slot during a pause: a timer in the ring, whose
//!   completion has [`PAUSE_OVER`] with the slot's index, restarts it. A closing ring restarts
//!   none.
//! - A file stays open while a slot has an operation on it: the slot holds a reference.
//! - Entries reach the kernel in order, so that a cancellation of slot *n* never hits a later
//!   operation in that slot.
//! - One thread: the ring has a single issuer, and nothing here is `Send`.

use crate::op::{Memory, Op, Step};
use crate::parking::Parking;
use crate::wait::{WaitFor, Waiter};
use io_uring::{IoUring, opcode, squeue, types};
use platform::{BufferPool, Error, ErrorKind, Executor, IoError, IoErrorKind, Result};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Entries of the submission queue: a longer batch is submitted in parts.
const SUBMISSIONS: u32 = 512;
/// Entries of the completion queue; further completions wait in the kernel.
const COMPLETIONS: u32 = 4096;
/// The maximum number of drives registered with the ring; further ones are used unregistered.
const REGISTERED_FILES: u32 = 256;
/// A timer in the ring ends longer waits. It stays over many waits, and may end some early. With a
/// limit on the wait itself, the kernel sets and cancels a timer each time: 12 % fewer requests
/// with one outstanding request to a file in memory, and a p99 of 9.4 µs instead of 5.5. A timer in
/// the ring costs an entry and a completion: too much for shorter waits.
const SHORTEST_TIMER: Duration = Duration::from_millis(10);
/// The user data of entries whose completion is ignored (cancellations).
const IGNORED: u64 = u64::MAX;
/// Marks the completion of a pause, combined with the slot's index.
const PAUSE_OVER: u64 = 1 << 32;
/// How long a closing ring waits for the kernel before it leaks the memory that the kernel may
/// still write to.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

struct Slot {
    op: Op,
    memory: Box<Memory>,
}

/// A timer in the ring.
struct Timer {
    due: platform::Instant,
    slot: u32,
    waiter: Rc<Waiter>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// A shard's ring. See the [module](self).
pub(crate) struct Ring {
    uring: RefCell<Option<IoUring>>,
    slots: RefCell<Slots>,
    /// Entries that did not fit into the submission queue, in order.
    backlog: RefCell<VecDeque<squeue::Entry>>,
    /// Free indexes of the registered file table.
    free_files: RefCell<Vec<u32>>,
    /// The latest timer in the ring.
    timer: RefCell<Option<Timer>>,
    closing: Cell<bool>,
    executor: Rc<Executor>,
    parking: Arc<Parking>,
    pool: BufferPool,
}

fn unavailable(error: io::Error) -> Error {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .filter(|level| *level > 0);
    let what = what_is_missing(disabled, error.raw_os_error());
    Error::new(ErrorKind::System, what).caused_by(error)
}

/// Why io_uring is not available, and what to do. `disabled`: the kernel's setting, if not zero.
fn what_is_missing(disabled: Option<u32>, errno: Option<i32>) -> String {
    match (disabled, errno) {
        (Some(1), Some(libc::EPERM)) => {
            "io_uring is switched off for users without privileges \
                (/proc/sys/kernel/io_uring_disabled is 1); run it as root, or run 'sysctl \
                kernel.io_uring_disabled=0' as root"
        }
        (Some(_), Some(libc::EPERM)) => {
            "io_uring is switched off (/proc/sys/kernel/io_uring_disabled is 2); run 'sysctl \
                kernel.io_uring_disabled=0' as root"
        }
        (_, Some(libc::EPERM)) => {
            "io_uring is blocked by the system call filter of a container or service; for a \
                container, run it with '--security-opt seccomp=unconfined' or a profile that \
                allows io_uring_setup, io_uring_enter and io_uring_register; for a service, set \
                'SystemCallFilter=@system-service'"
        }
        (_, Some(libc::ENOMEM)) => {
            "io_uring cannot lock memory; run 'ulimit -l unlimited' first, or for a service set \
                'LimitMEMLOCK=infinity'"
        }
        _ => {
            "Linux 6.1 or newer with io_uring is needed; 'uname -r' prints the version (a \
            container's system call filter has the same symptom)"
        }
    }
    .to_owned()
}

fn set_up() -> io::Result<IoUring> {
    let refused = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    let deferred = IoUring::builder()
        .setup_clamp()
        .setup_cqsize(COMPLETIONS)
        .setup_submit_all()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(SUBMISSIONS);
    match deferred {
        // The kernel lacks deferred task runs: use a ring without them, which is a little slower.
        Err(error) if refused(&error) => {
            IoUring::builder().setup_clamp().setup_cqsize(COMPLETIONS).build(SUBMISSIONS)
        }
        other => other,
    }
}

impl Ring {
    /// A ring for the calling thread, whose completions wake tasks of `executor`.
    pub(crate) fn new(
        executor: &Rc<Executor>,
        parking: &Arc<Parking>,
        pool: &BufferPool,
    ) -> Result<Rc<Ring>> {
        let uring = set_up().map_err(unavailable)?;
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(unavailable(io::Error::from_raw_os_error(libc::ENOSYS)));
        }
        let registered = uring.submitter().register_files_sparse(REGISTERED_FILES).is_ok();
        let files = if registered { (0..REGISTERED_FILES).rev().collect() } else { Vec::new() };
        let ring = Rc::new(Ring {
            uring: RefCell::new(Some(uring)),
            slots: RefCell::default(),
            backlog: RefCell::default(),
            free_files: RefCell::new(files),
            timer: RefCell::default(),
            closing: Cell::new(false),
            executor: executor.clone(),
            parking: parking.clone(),
            pool: pool.clone(),
        });
        ring.start(Op::Wakeup { parking: parking.clone() });
        Ok(ring)
    }

    /// The executor whose tasks this ring wakes.
    pub(crate) fn executor(&self) -> &Rc<Executor> {
        &self.executor
    }

    /// The shard's memory for data.
    pub(crate) fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// Wakes this ring's thread.
    pub(crate) fn parking(&self) -> &Arc<Parking> {
        &self.parking
    }

    /// Starts an operation with the next submission. Returns its slot, for cancellation; `None` if
    /// it completed at once.
    pub(crate) fn start(&self, op: Op) -> Option<u32> {
        if self.closing.get() {
            op.finish(Err(IoError::new(IoErrorKind::Gone)), &self.executor);
            return None;
        }
        let mut slots = self.slots.borrow_mut();
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot { op: Op::Free, memory: Box::default() });
            slots.slots.len() as u32 - 1
        });
        let slot = &mut slots.slots[index as usize];
        slot.op = op;
        let entry = slot.op.entry(&mut slot.memory).user_data(u64::from(index));
        drop(slots);
        self.push(entry);
        Some(index)
    }

    /// Requests the cancellation of the operation in that slot.
    pub(crate) fn cancel(&self, index: u32) {
        self.push(opcode::AsyncCancel::new(u64::from(index)).build().user_data(IGNORED));
    }

    /// Requests the cancellation of all operations on that file.
    pub(crate) fn cancel_file(&self, fd: RawFd) {
        let these = types::CancelBuilder::fd(types::Fd(fd)).all();
        self.push(opcode::AsyncCancel2::new(these).build().user_data(IGNORED));
    }

    fn push(&self, entry: squeue::Entry) {
        if !self.backlog.borrow().is_empty() || !self.try_push(&entry) {
            self.backlog.borrow_mut().push_back(entry);
            self.submit();
        }
    }

    fn try_push(&self, entry: &squeue::Entry) -> bool {
        let mut uring = self.uring.borrow_mut();
        let Some(uring) = uring.as_mut() else { return true };
        // SAFETY: all memory of the entry is in its slot until its completion (module invariant).
        unsafe { uring.submission().push(entry) }.is_ok()
    }

    fn push_backlog(&self) {
        let mut backlog = self.backlog.borrow_mut();
        while backlog.front().is_some_and(|entry| self.try_push(entry)) {
            backlog.pop_front();
        }
    }

    /// Whether a kernel call is due: to submit entries, or to run the kernel's deferred work.
    pub(crate) fn needs_enter(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let Some(uring) = uring.as_mut() else { return false };
        let queue = uring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Whether there are completions to reap.
    pub(crate) fn has_answers(&self) -> bool {
        self.uring.borrow_mut().as_mut().is_some_and(|uring| !uring.completion().is_empty())
    }

    /// Submits queued entries and runs the kernel's deferred work, without waiting.
    pub(crate) fn submit(&self) {
        let mut uring = self.uring.borrow_mut();
        let Some(uring) = uring.as_mut() else { return };
        let queued = uring.submission().len() as u32;
        let flags = io_uring::EnterFlags::GETEVENTS.bits();
        // SAFETY: no argument is passed, and the slots keep the entries' memory.
        let entered = unsafe { uring.submitter().enter::<libc::sigset_t>(queued, 0, flags, None) };
        check_entered(entered);
    }

    /// Submits queued entries and waits for a completion, at most until `until`. `now` is the
    /// current time.
    pub(crate) fn submit_and_wait(&self, now: platform::Instant, until: Option<platform::Instant>) {
        match until {
            Some(until) if !self.timer_ends_by(until, now) => self.enter(Some(until.since(now))),
            _ => self.enter(None),
        }
    }

    /// Whether the timer in the ring ends a wait by `until`. Sets one if it is not due soon,
    /// replacing a later one.
    fn timer_ends_by(&self, until: platform::Instant, now: platform::Instant) -> bool {
        let pending = self.timer.take().filter(|timer| !timer.waiter.is_over());
        let left = until.since(now);
        let timer = match pending {
            Some(timer) if timer.due <= until || left < SHORTEST_TIMER => Some(timer),
            None if left < SHORTEST_TIMER => None,
            later => {
                later.into_iter().for_each(|later| self.cancel(later.slot));
                let waiter = Waiter::new(WaitFor::Pause(left));
                let slot = self.start(Op::Wait(waiter.clone()));
                slot.map(|slot| Timer { due: until, slot, waiter })
            }
        };
        let is_timed = timer.as_ref().is_some_and(|timer| timer.due <= until);
        self.timer.replace(timer);
        is_timed
    }

    /// Submits queued entries and waits for a completion, at most for `limit`.
    fn enter(&self, limit: Option<Duration>) {
        self.push_backlog();
        let mut uring = self.uring.borrow_mut();
        let Some(uring) = uring.as_mut() else { return };
        let entered = match limit {
            Some(limit) => {
                let timespec = types::Timespec::from(limit);
                uring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&timespec))
            }
            None => uring.submitter().submit_and_wait(1),
        };
        check_entered(entered);
    }

    /// Handles all available completions.
    pub(crate) fn reap(&self) {
        while let Some((user_data, result)) = self.next_answer() {
            self.returned(user_data, result);
        }
        if !self.backlog.borrow().is_empty() {
            self.push_backlog();
        }
    }

    fn next_answer(&self) -> Option<(u64, i32)> {
        let mut uring = self.uring.borrow_mut();
        let entry = uring.as_mut()?.completion().next()?;
        Some((entry.user_data(), entry.result()))
    }

    fn returned(&self, user_data: u64, result: i32) {
        if user_data == IGNORED {
            return;
        }
        let index = user_data as u32;
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots.slots[index as usize];
        let is_pause_over = user_data & PAUSE_OVER != 0;
        let step = if is_pause_over { Step::Again } else { slot.op.returned(result) };
        let outcome = match step {
            Step::Again if !self.closing.get() => {
                let entry = slot.op.entry(&mut slot.memory).user_data(u64::from(index));
                drop(slots);
                return self.push(entry);
            }
            Step::AgainAfter(pause) if !self.closing.get() => {
                let entry = Op::pause_entry(&mut slot.memory, pause);
                drop(slots);
                return self.push(entry.user_data(PAUSE_OVER | u64::from(index)));
            }
            Step::Again | Step::AgainAfter(_) => Err(IoError::new(IoErrorKind::Gone)),
            Step::Done(outcome) => outcome,
        };
        let op = std::mem::replace(&mut slot.op, Op::Free);
        slots.free.push(index);
        drop(slots);
        op.finish(outcome, &self.executor);
    }

    /// Registers a file with the ring, which saves a lookup per operation; `None` if the table is
    /// full or the kernel refuses.
    pub(crate) fn register_file(&self, fd: RawFd) -> Option<u32> {
        let index = self.free_files.borrow_mut().pop()?;
        let uring = self.uring.borrow();
        let registered =
            uring.as_ref().map(|uring| uring.submitter().register_files_update(index, &[fd]));
        if matches!(registered, Some(Ok(_))) {
            return Some(index);
        }
        self.free_files.borrow_mut().push(index);
        None
    }

    /// Removes a registration.
    pub(crate) fn unregister_file(&self, index: u32) {
        if let Some(uring) = self.uring.borrow().as_ref()
            && uring.submitter().register_files_update(index, &[-1]).is_ok()
        {
            self.free_files.borrow_mut().push(index);
        }
    }

    /// Closes the ring: cancels operations that may wait forever (streams, accepts), and waits for
    /// those of drives. Memory of operations that have not returned by [`DRAIN_LIMIT`] is leaked,
    /// because the kernel may still write to it.
    pub(crate) fn close(&self) {
        if self.closing.replace(true) {
            return;
        }
        let waiting: Vec<u32> = {
            let slots = self.slots.borrow();
            let waits =
                slots.slots.iter().enumerate().filter(|(_, slot)| slot.op.waits_for_the_outside());
            waits.map(|(index, _)| index as u32).collect()
        };
        waiting.into_iter().for_each(|index| self.cancel(index));
        let limit = Instant::now() + DRAIN_LIMIT;
        while self.in_flight() > 0 && Instant::now() < limit {
            self.enter(Some(Duration::from_millis(100)));
            self.reap();
        }
        if self.in_flight() > 0 {
            std::mem::forget(std::mem::take(&mut *self.slots.borrow_mut()));
        }
        // Closing the file ends the remaining operations.
        drop(self.uring.borrow_mut().take());
    }

    fn in_flight(&self) -> usize {
        let slots = self.slots.borrow();
        let ends = slots.slots.iter().filter(|slot| slot.op.ends_with_the_ring()).count();
        slots.slots.len() - slots.free.len() - ends
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.close();
    }
}

/// A call into the ring may be interrupted, time out, or be refused temporarily. Any other error is
/// a defect of this module.
fn check_entered(entered: io::Result<usize>) {
    if let Err(error) = entered {
        let expected = [libc::EINTR, libc::ETIME, libc::EBUSY, libc::EAGAIN, libc::ENOMEM];
        assert!(
            error.raw_os_error().is_some_and(|errno| expected.contains(&errno)),
            "io_uring_enter failed: {error}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_drive::tests::read_of_zeros;
    use crate::shard::{Settings, Shard, ring_of};
    use units::ByteCount;

    /// A shard whose ring gets this error for a read that the kernel never received.
    fn refused(errno: i32) -> (Shard, Rc<Ring>, platform::Io) {
        let shard = Shard::new(&Settings::with_memory(ByteCount(1 << 20))).expect("io_uring");
        let ring = ring_of(shard.env()).expect("a ring");
        let (op, waits) = read_of_zeros(shard.env());
        let index = {
            let mut slots = ring.slots.borrow_mut();
            slots.slots.push(Slot { op, memory: Box::default() });
            slots.slots.len() - 1
        };
        ring.returned(index as u64, -errno);
        (shard, ring, waits)
    }

    #[test]
    fn what_the_system_refuses_for_now_is_begun_again_after_a_pause() {
        for errno in [libc::ENOMEM, libc::EBUSY, libc::EAGAIN] {
            let (shard, _, waits) = refused(errno);
            let result = shard.run(async move { waits.await.result });
            assert_eq!(result, Ok(4096), "{errno}");
        }
    }

    #[test]
    fn a_ring_that_closes_begins_nothing_again() {
        let (shard, ring, waits) = refused(libc::ENOMEM);
        let gone = Rc::new(Cell::new(None));
        let told = gone.clone();
        shard.env().spawn("waits", async move { told.set(Some(waits.await.result)) });
        ring.close();
        ring.executor().run_ready(100);
        let kind = gone.take().map(|result| result.map_err(|error| error.kind));
        assert_eq!(kind, Some(Err(IoErrorKind::Gone)));
    }

    #[test]
    fn what_keeps_io_uring_away_is_told_with_what_mends_it() {
        for (disabled, errno, mends) in [
            (Some(2), libc::EPERM, "sysctl kernel.io_uring_disabled=0"),
            (Some(1), libc::EPERM, "run it as root"),
            (None, libc::EPERM, "--security-opt seccomp"),
            (None, libc::ENOMEM, "LimitMEMLOCK=infinity"),
            (None, libc::ENOSYS, "uname -r"),
        ] {
            let said = what_is_missing(disabled, Some(errno));
            assert!(said.contains(mends), "{said}");
        }
    }
}
