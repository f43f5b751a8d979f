//! A drive as the engine uses it: behind a controller's port, with its queue and its link.
//!
//! A command waits for a slot in the drive's queue, takes processor time of the controller, and
//! transfers its data over the link: before the drive for a write, after it for a read.

use crate::device::{Command, Device, Done, Kind, SECTOR};
use crate::link::Link;
use crate::server::{Core, find_port};
use crate::slots::Slots;
use platform::{
    BlockStatus, Completion, Drive, DriveHealth, DriveInfo, DriveSource, Durability, Env, Instant,
    IoError, IoErrorKind, IoOutcome, IoRequest, StatusExtent,
};
use platform_sim::{Actor, Paced, Pacer, SimId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use units::ByteCount;

/// Event tokens: the command reaches the drive; with [`RETURNED`], its completion reaches the
/// engine.
const RETURNED: u64 = 1 << 32;

struct Slot {
    request: IoRequest,
    waits: Receiver,
}

/// The receiver of a command's completion.
enum Receiver {
    /// The engine, which uses this drive.
    Engine(Completion),
    /// A simulated drive with content, which uses this drive's timing.
    Drive(Paced),
}

#[derive(Default)]
struct State {
    slots: Slots<Slot>,
    waiting: VecDeque<u32>,
    in_drive: u64,
}

/// See the [module](self).
pub(crate) struct DrivePort {
    me: Weak<DrivePort>,
    core: Rc<Core>,
    pub info: DriveInfo,
    pub link: Link,
    queue_depth: u64,
    pub device: Rc<dyn Device>,
    state: RefCell<State>,
}

impl DrivePort {
    /// A port with the drive that `device` creates.
    pub fn new<D: Device + 'static>(
        core: &Rc<Core>,
        info: DriveInfo,
        link: Link,
        queue_depth: u64,
        device: impl FnOnce(Weak<dyn Done>) -> Rc<D>,
    ) -> Rc<DrivePort> {
        Rc::new_cyclic(|me: &Weak<DrivePort>| DrivePort {
            me: me.clone(),
            core: core.clone(),
            info,
            link,
            queue_depth,
            device: device(me.clone()),
            state: RefCell::default(),
        })
    }

    fn at(&self, ns: u64, token: u64) {
        if let Some(me) = self.me.upgrade() {
            self.core.sim.at(Instant { ns }, me, token);
        }
    }

    /// Sends a command to the drive: first processor and link.
    fn send(&self, state: &mut State, tag: u32) {
        state.in_drive += 1;
        let Some(slot) = state.slots.get(tag) else { return };
        let written = match &slot.request {
            IoRequest::Write { .. } => slot.request.range().len.0,
            _ => 0,
        };
        let now_ns = self.core.sim.now().ns;
        let mut at_ns = self.core.drive_command(now_ns);
        if written > 0 {
            at_ns = self.core.carry_down(&self.link, at_ns, written);
        }
        self.at(at_ns, u64::from(tag));
    }

    /// The completion has reached the engine: wakes the waiting task, which runs after this event.
    fn finish(&self, state: &mut State, tag: u32) {
        match state.slots.take(tag) {
            Some(Slot { request, waits: Receiver::Engine(completion) }) => {
                completion.complete(outcome(request))
            }
            Some(Slot { waits: Receiver::Drive(paced), .. }) => paced.end(&self.core.sim),
            None => {}
        }
    }

    /// Accepts a command, and sends it when the drive's queue has a free slot.
    fn take_in(&self, slot: Slot) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let tag = state.slots.put(slot);
        if state.in_drive < self.queue_depth {
            self.send(state, tag);
        } else {
            state.waiting.push_back(tag);
        }
    }
}

fn command(tag: u32, request: &IoRequest) -> Command {
    let kind = match request {
        IoRequest::Read { .. } => Kind::Read,
        IoRequest::Write { durability, .. } | IoRequest::WriteZeroes { durability, .. } => {
            Kind::Write { durable: *durability == Durability::Durable }
        }
        IoRequest::Flush => Kind::Flush,
        IoRequest::Trim { .. }
        | IoRequest::Status { .. }
        | IoRequest::Health
        | IoRequest::Locate { .. }
        | IoRequest::WriteCache { .. } => Kind::Ask,
    };
    let range = request.range();
    Command { tag, kind, start: range.start.0 / SECTOR, sectors: range.len.0 / SECTOR }
}

/// The outcome of a request after its modelled time. No content is stored: reads return zeros.
pub(crate) fn outcome(request: IoRequest) -> IoOutcome {
    let len = request.range().len.0;
    match request {
        IoRequest::Read { mut buffers, .. } => {
            buffers
                .iter_mut()
                .filter(|buf| !buf.is_hollow())
                .for_each(|buf| buf.bytes_mut().fill(0));
            IoOutcome::done(len).with_buffers(buffers)
        }
        IoRequest::Status { range } => IoOutcome {
            extents: vec![StatusExtent { len: range.len, status: BlockStatus::Data }],
            ..IoOutcome::done(len)
        },
        IoRequest::Health => IoOutcome::with_health(DriveHealth::default()),
        IoRequest::Locate { .. } | IoRequest::WriteCache { .. } => {
            IoOutcome::failed(IoError::new(IoErrorKind::NotSupported))
        }
        IoRequest::Write { .. }
        | IoRequest::WriteZeroes { .. }
        | IoRequest::Trim { .. }
        | IoRequest::Flush => IoOutcome::done(len),
    }
}

impl Drive for DrivePort {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        self.take_in(Slot { request, waits: Receiver::Engine(completion) });
    }
}

impl Pacer for DrivePort {
    fn begin(&self, request: IoRequest, paced: Paced) {
        self.take_in(Slot { request, waits: Receiver::Drive(paced) });
    }
}

impl Done for DrivePort {
    fn done(&self, tag: u32) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let read = match state.slots.get(tag) {
            Some(Slot { request: request @ IoRequest::Read { .. }, .. }) => request.range().len.0,
            _ => 0,
        };
        match read {
            // A completion without data takes no time on the link.
            0 => self.finish(state, tag),
            read => {
                let at_ns = self.core.carry_up(&self.link, self.core.sim.now().ns, read);
                self.at(at_ns, RETURNED | u64::from(tag));
            }
        }
        state.in_drive -= 1;
        if let Some(next) = state.waiting.pop_front() {
            self.send(state, next);
        }
    }
}

impl Actor for DrivePort {
    fn act(self: Rc<Self>, token: u64) {
        if token & RETURNED != 0 {
            return self.finish(&mut self.state.borrow_mut(), token as u32);
        }
        let tag = token as u32;
        let command = self.state.borrow().slots.get(tag).map(|slot| command(tag, &slot.request));
        if let Some(command) = command {
            self.device.submit(command);
        }
    }
}

/// A drive of a server for any shard, identified by its simulation and number.
pub(crate) struct Source {
    pub sim: SimId,
    pub server: u64,
    pub index: usize,
    pub info: DriveInfo,
}

impl DriveSource for Source {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn attach(&self, _: &Env) -> platform::Result<Rc<dyn Drive>> {
        find_port(self.sim, self.server, self.index).map(|port| port as Rc<dyn Drive>).ok_or_else(
            || {
                platform::Error::new(
                    platform::ErrorKind::NotFound,
                    format!(
                        "the model {} belongs to a simulation that is over or elsewhere",
                        self.info.name
                    ),
                )
            },
        )
    }
}

impl Source {
    pub fn shared(self) -> Arc<dyn DriveSource> {
        Arc::new(self)
    }
}

/// The drive's description.
pub(crate) fn info(name: String, spec: &crate::catalog::DriveSpec) -> DriveInfo {
    let sector = |bytes| units::SectorSize::from_bytes(bytes).unwrap_or(units::SectorSize::B512);
    let (logical, physical) =
        (sector(spec.logical_sector_bytes), sector(spec.physical_sector_bytes));
    DriveInfo {
        identity: platform::DriveIdentity(name.clone()),
        name,
        kind: platform::DriveKind::Model,
        size: ByteCount(spec.capacity_bytes).align_down(physical.bytes()),
        logical_sector: logical,
        physical_sector: physical,
        rotational: spec.is_rotating(),
        read_only: false,
        exclusive: true,
        hardware: platform::Hardware {
            model: Some(spec.model.clone()),
            ..platform::Hardware::default()
        },
    }
}
