//! Simulated drives.
//!
//! An operation takes effect when it *completes*. Writes in flight are not visible, and overlapping
//! ones apply in the order of completion, which is random by the latencies from the seed.
//! Operations in flight when the power, the process or the drive fails may have taken effect, per
//! sector; [`content`] defines the result of a power cut.

mod ageing;
mod attach;
mod chunks;
mod content;
mod faults;
mod handle;
mod pace;

pub(crate) use attach::Twin;
pub use faults::FaultKind;
pub use handle::{DriveImage, DriveStats, SimDrive, StrayWrite};
pub use pace::{Paced, Pacer};

use crate::core::{Action, Core};
use crate::options::{DriveOptions, Trimmed};
use crate::rng::Rng;
use crate::trace::TraceEvent;
use ageing::Ageing;
use chunks::Fill;
use content::{Content, Written};
use platform::{
    Buf, Completion, DriveHealth, DriveIdentity, DriveInfo, Durability, Error, ErrorKind,
    HealthScript, Instant, IoError, IoErrorKind, IoOutcome, IoRequest, Slice,
};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// The content of buffers after failed reads, which callers must not use.
const POISON: u8 = 0xDB;

/// The lock against a second controller: held as long as a source or an attachment has this.
struct Lease;

/// Whether a drive responds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    Present,
    /// Removed; may return.
    Away,
    /// Permanently failed.
    Failed,
    /// Its file was deleted: open handles write to a file that cannot be opened again.
    Deleted,
}

/// An operation in flight.
struct Operation {
    request: IoRequest,
    completion: Completion,
    process: u64,
    /// Whether its attachment is older than the drive's last removal, and so unusable.
    stale: bool,
    /// For a flush: the position up to which it covers the log.
    mark: u64,
}

struct Slot {
    generation: u32,
    operation: Option<Operation>,
}

/// An injected failure: the next `count` matching operations fail.
struct InjectedFailure {
    operation: Option<&'static str>,
    kind: IoErrorKind,
    count: u64,
}

struct State {
    content: Content,
    presence: Presence,
    /// The length after a truncation of its file.
    cut: Option<ByteCount>,
    /// The length for processes that open it.
    length: ByteCount,
    /// The number of removals: attachments from before one stay unusable.
    epoch: u64,
    /// The number of attachments left; `None`: unlimited.
    attachments: Option<u64>,
    lease: Weak<Lease>,
    /// The process that has the lease, if any.
    lease_of: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// While set, due operations are held in `kept` and not returned.
    holding: bool,
    kept: Vec<(u32, u32)>,
    /// The number of next operations to delay, and the delay.
    stalls: (u64, Duration),
    ordered: Vec<InjectedFailure>,
    write_errors: Vec<ByteRange>,
    ageing: Ageing,
    /// The factor on the duration of operations.
    slowness: u32,
    /// The model of the duration of operations, replacing the options' latency.
    pacer: Option<Rc<dyn Pacer>>,
    health: Option<HealthScript>,
    /// Whether its locate light is on.
    located: bool,
    /// Whether its write cache is on; switching it off lasts until a power cut.
    has_cache: bool,
    ignore_flush: bool,
    ignore_durable: bool,
    latency: Rng,
    fault: Rng,
    trim: Rng,
    stats: DriveStats,
}

/// A simulated drive, shared by all its handles.
pub(crate) struct DriveCell {
    pub name: String,
    /// The number of earlier drives of that name: a file that was removed and created again is
    /// another drive.
    incarnation: u64,
    options: DriveOptions,
    state: RefCell<State>,
}

fn is_write(request: &IoRequest) -> bool {
    matches!(
        request,
        IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } | IoRequest::Trim { .. }
    )
}

impl DriveCell {
    pub fn new(core: &Core, name: &str, mut options: DriveOptions) -> Rc<DriveCell> {
        options.size = options.size.align_down(options.logical_sector.bytes());
        let key = core.rng("noise", name).next_u64();
        let before = core.drives.borrow().get(name).cloned();
        let incarnation =
            before.filter(|drive| drive.name == name).map_or(0, |drive| drive.incarnation + 1);
        let state = State {
            content: Content::new(&options, key),
            presence: Presence::Present,
            cut: None,
            length: options.size,
            epoch: 0,
            attachments: None,
            lease: Weak::new(),
            lease_of: 0,
            slots: Vec::new(),
            free: Vec::new(),
            holding: false,
            kept: Vec::new(),
            stalls: (0, Duration::ZERO),
            ordered: Vec::new(),
            write_errors: Vec::new(),
            ageing: Ageing::new(core, name, options.faults),
            slowness: 1,
            pacer: None,
            health: options.health.clone(),
            located: false,
            has_cache: true,
            ignore_flush: false,
            ignore_durable: false,
            latency: core.rng("latency", name),
            fault: core.rng("fault", name),
            trim: core.rng("trim", name),
            stats: DriveStats::default(),
        };
        Rc::new(DriveCell {
            name: name.to_owned(),
            incarnation,
            options,
            state: RefCell::new(state),
        })
    }

    fn info(&self, name: &str) -> DriveInfo {
        DriveInfo {
            name: name.to_owned(),
            identity: DriveIdentity(match self.incarnation {
                0 => format!("sim:{}", self.name),
                incarnation => format!("sim:{}:{incarnation}", self.name),
            }),
            kind: self.options.kind,
            size: self.options.size,
            logical_sector: self.options.logical_sector,
            physical_sector: self.options.physical_sector,
            rotational: self.options.rotational,
            read_only: self.options.read_only,
            exclusive: true,
            hardware: self.options.hardware.clone(),
        }
    }

    /// Drops all its content.
    pub fn empty(&self) {
        let mut state = self.state.borrow_mut();
        state.content = Content::new(&self.options, 0);
        state.pacer = None;
    }

    fn start(
        self: &Rc<Self>,
        core: &Core,
        process: u64,
        epoch: u64,
        request: IoRequest,
        completion: Completion,
    ) {
        if !core.is_alive(process) {
            return;
        }
        core.trace(TraceEvent::Started {
            drive: &self.name,
            operation: request.name(),
            range: request.range(),
        });
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.stats.started += 1;
        state.age(core, self);
        let mut delay = match &state.pacer {
            Some(_) => Duration::ZERO,
            None => {
                let slowness = state.slowness.saturating_mul(state.ageing.slowness(core.now()));
                self.options.latency.draw(&mut state.latency).saturating_mul(slowness)
            }
        };
        if state.stalls.0 > 0 {
            state.stalls.0 -= 1;
            delay += state.stalls.1;
        }
        let paced = state.pacer.clone().map(|pacer| (pacer, pace::hollow(&request)));
        // An operation of a removed drive fails, but later, like any completion.
        let stale = epoch != state.epoch;
        let index = state.free.pop().unwrap_or_else(|| {
            state.slots.push(Slot { generation: 0, operation: None });
            state.slots.len() as u32 - 1
        });
        let slot = &mut state.slots[index as usize];
        slot.operation =
            Some(Operation { request, completion, process, stale, mark: state.content.mark() });
        let generation = slot.generation;
        match paced {
            Some((pacer, request)) => {
                pacer.begin(request, Paced::new(self, (index, generation), delay));
            }
            None => {
                core.schedule(delay, Action::Drive { drive: self.clone(), slot: index, generation })
            }
        }
    }

    /// Handles an operation that is due.
    pub fn due(self: &Rc<Self>, core: &Core, index: u32, generation: u32) {
        let (completion, outcome) = {
            let mut state = self.state.borrow_mut();
            if state.slots[index as usize].generation != generation {
                return;
            }
            if state.holding {
                state.kept.push((index, generation));
                return;
            }
            let Some(operation) = state.take(index) else { return };
            let Operation { mut request, completion, stale, mark, .. } = operation;
            let name = request.name();
            let range = request.range();
            state.age(core, self);
            let result = state.perform(core, self, stale, &mut request, mark);
            let traced = result.as_ref().map(|done| done.bytes).map_err(|error| error.kind);
            core.trace(TraceEvent::Returned {
                drive: &self.name,
                operation: name,
                range,
                result: traced,
            });
            (completion, outcome_of(request, result))
        };
        completion.complete(outcome);
    }

    /// Interrupts operations in flight of `process` (of all processes, if `None`): some take
    /// effect. They return as gone.
    fn interrupt(&self, core: &Core, process: Option<u64>) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.age(core, self);
        let mut dying = Vec::new();
        for index in 0..state.slots.len() {
            let of = state.slots[index].operation.as_ref().map(|operation| operation.process);
            if of.is_some_and(|of| process.is_none_or(|process| of == process)) {
                dying.extend(state.take(index as u32));
            }
        }
        let landing = state.unfinished_writes(&self.options, &dying);
        state.content.land_some(landing, &mut state.fault);
        return_gone(dying);
    }

    /// Handles the end of a process: its operations in flight may or may not take effect; the cache
    /// is unchanged.
    pub fn process_died(&self, core: &Core, process: u64) {
        self.interrupt(core, Some(process));
        self.break_lease(process);
    }

    /// Ends the lock of `process`, even if handles to it are left.
    pub fn break_lease(&self, process: u64) {
        let mut state = self.state.borrow_mut();
        if state.lease_of == process {
            state.lease = Weak::new();
        }
    }

    /// Handles a power cut: see [`content`].
    pub fn power_cut(&self, core: &Core) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        state.age(core, self);
        let dying: Vec<Operation> =
            (0..state.slots.len()).filter_map(|index| state.take(index as u32)).collect();
        let landing = state.unfinished_writes(&self.options, &dying);
        state.has_cache = true;
        state.content.power_cut(landing, &mut state.fault);
        return_gone(dying);
    }
}

/// Returns operations as gone. Completing wakes tasks and calls only code that starts no operation
/// ([`platform::OnReturn`]), so that a drive may be borrowed meanwhile.
fn return_gone(operations: Vec<Operation>) {
    for operation in operations {
        let gone = Err(IoError::new(IoErrorKind::Gone));
        operation.completion.complete(outcome_of(operation.request, gone));
    }
}

pub(crate) fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("drive file {name} does not exist"))
}

/// The result of a performed request.
#[derive(Default)]
struct Done {
    bytes: u64,
    extents: Vec<platform::StatusExtent>,
    health: Option<Box<DriveHealth>>,
}

type Performed = Result<Done, IoError>;

fn outcome_of(request: IoRequest, result: Performed) -> IoOutcome {
    let buffers = match request {
        IoRequest::Read { mut buffers, .. } => {
            if result.is_err() {
                buffers.iter_mut().for_each(|buf| buf.bytes_mut().fill(POISON));
            }
            buffers
        }
        _ => SmallVec::new(),
    };
    match result {
        Ok(Done { bytes, extents, health }) => {
            IoOutcome { result: Ok(bytes), buffers, extents, health }
        }
        Err(error) => IoOutcome { buffers, ..IoOutcome::failed(error) },
    }
}

impl State {
    fn take(&mut self, index: u32) -> Option<Operation> {
        let slot = &mut self.slots[index as usize];
        let operation = slot.operation.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(operation)
    }

    /// Applies spontaneous faults up to now.
    fn age(&mut self, core: &Core, drive: &DriveCell) {
        for name in self.ageing.come(&drive.options, &mut self.content, core.now()) {
            core.trace(TraceEvent::Drive { drive: &drive.name, name });
        }
    }

    /// The error of a request that is refused or fails before it takes effect.
    fn refusal(
        &mut self,
        options: &DriveOptions,
        stale: bool,
        request: &IoRequest,
    ) -> Option<IoErrorKind> {
        let is_gone = !matches!(self.presence, Presence::Present | Presence::Deleted) || stale;
        if is_gone {
            return Some(IoErrorKind::Gone);
        }
        let range = request.range();
        let is_past_the_cut = self.cut.is_some_and(|cut| range.end().0 > cut.0);
        let is_looked_at = matches!(request, IoRequest::Health);
        if is_past_the_cut
            || is_looked_at && (self.cut.is_some() || self.presence == Presence::Deleted)
        {
            return Some(IoErrorKind::Changed);
        }
        let in_bounds =
            range.start.checked_add(range.len).is_some_and(|end| end.0 <= options.size.0);
        if !in_bounds || !range.is_aligned(options.logical_sector.bytes()) {
            return Some(IoErrorKind::Invalid);
        }
        if options.read_only && is_write(request) {
            return Some(IoErrorKind::ReadOnly);
        }
        let name = request.name();
        if let Some(at) =
            self.ordered.iter().position(|order| order.operation.is_none_or(|op| op == name))
        {
            let order = &mut self.ordered[at];
            let kind = order.kind;
            order.count -= 1;
            if order.count == 0 {
                self.ordered.remove(at);
            }
            return Some(kind);
        }
        let broken = match request {
            IoRequest::Read { .. } => self.content.is_unreadable(range),
            IoRequest::Write { .. } | IoRequest::WriteZeroes { .. } => {
                self.write_errors.iter().any(|bad| bad.overlaps(range))
                    || self.ageing.is_unwritable(options, range)
            }
            _ => false,
        };
        broken.then_some(IoErrorKind::Medium)
    }

    fn perform(
        &mut self,
        core: &Core,
        drive: &DriveCell,
        stale: bool,
        request: &mut IoRequest,
        mark: u64,
    ) -> Performed {
        let options = &drive.options;
        self.stats.count(request);
        if let Some(kind) = self.refusal(options, stale, request) {
            self.stats.failed += 1;
            return Err(IoError::new(kind));
        }
        let mut done = Done { bytes: request.range().len.0, ..Done::default() };
        match request {
            IoRequest::Read { offset, buffers } => self.read(*offset, buffers),
            IoRequest::Flush if self.ignore_flush => {}
            IoRequest::Flush => self.content.flush(mark),
            IoRequest::Status { range } => done.extents = self.content.status(*range),
            IoRequest::Health => done.health = Some(Box::new(self.health(core.now()))),
            IoRequest::Locate { on } => self.located = *on,
            IoRequest::WriteCache { on } => {
                self.content.flush(mark);
                self.has_cache = *on;
            }
            write => self.write(core, drive, write),
        }
        Ok(done)
    }

    fn health(&self, now: Instant) -> DriveHealth {
        let written = ByteCount(self.stats.written_bytes);
        self.health.as_ref().map(|script| script.at(now, written)).unwrap_or_default()
    }

    /// Performs a write, unless it is lost or misdirected.
    fn write(&mut self, core: &Core, drive: &DriveCell, request: &IoRequest) {
        let options = &drive.options;
        let writes = self.writes(options, request);
        let stray = match request {
            IoRequest::Trim { .. } => None,
            _ => self.ageing.stray(request.range()),
        };
        let Some(stray) = stray else {
            return writes.into_iter().for_each(|written| self.content.write(written));
        };
        self.stats.strayed += 1;
        core.trace(TraceEvent::Drive { drive: &drive.name, name: stray.name() });
        for written in writes {
            self.ageing.carry_out(options, &mut self.content, stray, written);
        }
    }

    fn read(&self, offset: ByteOffset, buffers: &mut [Buf]) {
        let mut at = offset;
        for buf in buffers {
            self.content.read(at, buf.bytes_mut());
            at += buf.len();
        }
    }

    /// The writes to the content that a request makes.
    fn writes(&mut self, options: &DriveOptions, request: &IoRequest) -> SmallVec<[Written; 1]> {
        let range = request.range();
        let (has_cache, lies) = (self.has_cache, self.ignore_durable);
        let is_durable =
            |durability: &Durability| !has_cache || *durability == Durability::Durable && !lies;
        let mut written = SmallVec::new();
        if range.is_empty() {
            return written;
        }
        match request {
            IoRequest::Write { slices, durability, .. } => {
                let durable = is_durable(durability);
                match range.end() <= options.forgets_below {
                    true => {
                        written.push(Written { range, fill: Fill::Zeroes, durable, lost: false })
                    }
                    false => gather(range.start, slices, durable, &mut written),
                }
            }
            IoRequest::WriteZeroes { may_unmap, durability, .. } => {
                let fill = if *may_unmap { Fill::Hole } else { Fill::Zeroes };
                written.push(Written { range, fill, durable: is_durable(durability), lost: false });
            }
            IoRequest::Trim { .. } => {
                let fill = match options.trimmed {
                    Trimmed::Zeroes => Some(Fill::Hole),
                    Trimmed::Unchanged => None,
                    Trimmed::Anything => match self.trim.below(3) {
                        0 => Some(Fill::Hole),
                        1 => Some(Fill::Noise(self.trim.next_u64())),
                        _ => None,
                    },
                };
                written.extend(fill.map(|fill| Written {
                    range,
                    fill,
                    durable: !has_cache,
                    lost: false,
                }));
            }
            IoRequest::Read { .. }
            | IoRequest::Flush
            | IoRequest::Status { .. }
            | IoRequest::Health
            | IoRequest::Locate { .. }
            | IoRequest::WriteCache { .. } => {}
        }
        written
    }

    /// The writes of operations that will not complete.
    fn unfinished_writes(
        &mut self,
        options: &DriveOptions,
        operations: &[Operation],
    ) -> Vec<Written> {
        let present = matches!(self.presence, Presence::Present | Presence::Deleted);
        let cut = self.cut;
        let is_cut = |range: ByteRange| cut.is_some_and(|cut| range.end().0 > cut.0);
        let mut unfinished = Vec::new();
        for operation in
            operations.iter().filter(|operation| present && is_write(&operation.request))
        {
            let range = operation.request.range();
            let in_bounds =
                range.start.checked_add(range.len).is_some_and(|end| end.0 <= options.size.0);
            if !operation.stale
                && in_bounds
                && !is_cut(range)
                && range.is_aligned(options.logical_sector.bytes())
                && !options.read_only
            {
                unfinished.extend(self.writes(options, &operation.request));
            }
        }
        unfinished
    }
}

/// Converts slices to writes: one for bytes and zeros together, or one per slice if some are
/// data-less.
fn gather(
    start: ByteOffset,
    slices: &[Slice],
    durable: bool,
    written: &mut SmallVec<[Written; 1]>,
) {
    if !slices.iter().any(Slice::is_hollow) {
        let len: u64 = slices.iter().map(|slice| slice.len().0).sum();
        let range = ByteRange::new(start, ByteCount(len));
        return written.push(Written {
            range,
            fill: solid(slices, len as usize),
            durable,
            lost: false,
        });
    }
    let mut at = start;
    for slice in slices {
        let fill = match slice.is_hollow() {
            true => Fill::Hollow,
            false => solid(std::slice::from_ref(slice), slice.len().as_usize()),
        };
        written.push(Written {
            range: ByteRange::new(at, slice.len()),
            fill,
            durable,
            lost: false,
        });
        at += slice.len();
    }
}

/// The content of slices of `len` bytes in total, none of them data-less.
fn solid(slices: &[Slice], len: usize) -> Fill {
    if slices.iter().all(Slice::is_zero) {
        return Fill::Zeroes;
    }
    let mut bytes = Vec::with_capacity(len);
    for slice in slices {
        match slice.solid() {
            Some(part) => bytes.extend_from_slice(part),
            None => bytes.resize(bytes.len() + slice.len().as_usize(), 0),
        }
    }
    Fill::Bytes(Arc::new(bytes))
}
