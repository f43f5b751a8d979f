//! The log devices of a journal, or of a cache: a record is on all of them that serve.
//!
//! # Invariants
//! - A device that could not take something is out of use on this shard from then on: it is never asked again.
//! - Nothing is answered that a device lacks before the members say that it is out: after a crash its records would be taken for all
//!   that there are (docs/develop/design/log.md). The controller sees to that; whoever writes waits for it.
//! - Where none is left, that answer comes with another journal ([`Stripes::lose_journal`]). Until then the records of the last one count,
//!   whether it failed or does not answer: what they promised may be nowhere else. So first no shard promises anything by them any more
//!   ([`Devices::hold`]), then the drives are flushed, and only then the members say that it is out.

use crate::attachment::LogDevice;
use crate::messages::ReportKind;
use crate::stripe::Stripes;
use crate::volume::VolumeSpec;
use ondisk::Uuid;
use platform::sync::Signal;
use platform::{Durability, Env, Io, IoError, IoErrorKind, Member, Slices};
use smallvec::SmallVec;
use std::cell::Cell;
use std::rc::Rc;
use units::ByteOffset;

/// How a device stands with the journal.
#[derive(Clone, Copy)]
enum Standing {
    Serves,
    /// It failed, and the controller is being told.
    Failed,
    /// Another shard found that it failed: nothing is promised by it here, and the members do not say so yet.
    Held,
    /// The members say that it is out.
    Out,
    /// That could not be recorded.
    Unrecorded(IoError),
}

struct Device {
    id: Uuid,
    member: Member,
    standing: Cell<Standing>,
}

impl Device {
    fn serves(&self) -> bool {
        matches!(self.standing.get(), Standing::Serves)
    }
}

/// The devices of a journal, as one shard reaches them.
pub(crate) struct Devices {
    all: SmallVec<[Rc<Device>; 2]>,
    changed: Signal,
}

impl Devices {
    pub(crate) fn attach(
        env: &Env,
        spec: &VolumeSpec,
        devices: &[LogDevice],
    ) -> platform::Result<Rc<Devices>> {
        let attach = |device: &LogDevice| {
            let member = Member::attach(env, device.source.as_ref(), &spec.policy.limits)?;
            Ok(Rc::new(Device { id: device.id, member, standing: Cell::new(Standing::Serves) }))
        };
        let all = devices.iter().map(attach).collect::<platform::Result<_>>()?;
        Ok(Rc::new(Devices { all, changed: Signal::default() }))
    }

    /// Nothing is promised by a device any more, as another shard found that it failed: whoever writes waits until the members say so
    /// ([`Devices::leave`]), or that could not be recorded ([`Devices::take_back`]).
    pub(super) fn hold(&self, device: Uuid) {
        let held = self.all.iter().filter(|other| other.id == device && other.serves());
        held.for_each(|held| held.standing.set(Standing::Held));
    }

    /// That a device is out could not be recorded: it is asked as before.
    pub(super) fn take_back(&self, env: &Env, device: Uuid) {
        self.end_hold(env, device, Standing::Serves);
    }

    fn end_hold(&self, env: &Env, device: Uuid, then: Standing) {
        let is_held =
            |other: &&Rc<Device>| other.id == device && matches!(other.standing.get(), Standing::Held);
        self.all.iter().filter(is_held).for_each(|held| held.standing.set(then));
        self.changed.notify(env);
    }

    /// Which there are.
    pub(super) fn ids(&self) -> impl Iterator<Item = Uuid> {
        self.all.iter().map(|device| device.id)
    }

    /// How many there are that serve.
    pub(super) fn serving(&self) -> usize {
        self.all.iter().filter(|device| device.serves()).count()
    }

    /// The members say that a device is out, as another volume or shard found: it is never asked again.
    pub(super) fn leave(&self, env: &Env, device: Uuid) {
        self.hold(device);
        self.end_hold(env, device, Standing::Out);
    }

    /// Done when of every device that failed the members say so.
    ///
    /// # Errors
    /// When that could not be recorded.
    async fn failures_are_recorded(&self, env: &Env) -> Result<(), IoError> {
        let is_open =
            |device: &Rc<Device>| matches!(device.standing.get(), Standing::Failed | Standing::Held);
        self.changed.wait_until(env, || !self.all.iter().any(is_open)).await;
        let refused = self.all.iter().find_map(|device| match device.standing.get() {
            Standing::Unrecorded(error) => Some(error),
            Standing::Serves | Standing::Failed | Standing::Held | Standing::Out => None,
        });
        refused.map_or(Ok(()), Err)
    }
}

impl Stripes {
    /// Writes the same, durably, to all devices that serve.
    ///
    /// # Errors
    /// When none of them has it, or that one of them lacks it could not be recorded; when one that is fine could not take it.
    pub(crate) async fn write_to_devices(
        self: &Rc<Self>,
        devices: &Rc<Devices>,
        at: ByteOffset,
        slices: &Slices,
    ) -> Result<(), IoError> {
        if devices.serving() == 0 {
            // The last one may be taken back.
            devices.failures_are_recorded(self.shard.env()).await?;
        }
        let serving = devices.all.iter().filter(|device| device.serves());
        let write = |device: &Rc<Device>| device.member.write(at, slices.clone(), Durability::Durable);
        let started: SmallVec<[(Rc<Device>, Io); 2]> =
            serving.map(|device| (device.clone(), write(device))).collect();
        let (mut has_it, mut failure, mut spared) = (false, IoError::new(IoErrorKind::Gone), None);
        for (device, io) in started {
            match io.await.result {
                Ok(_) => has_it = true,
                // The device is fine: it serves on, and what it lacks is kept nowhere.
                Err(error) if error.kind == IoErrorKind::Busy => spared = Some(error),
                Err(error) => {
                    failure = error;
                    self.log_device_failed(devices, &device, error);
                }
            }
        }
        devices.failures_are_recorded(self.shard.env()).await?;
        match spared {
            None if has_it => Ok(()),
            spared => Err(spared.unwrap_or(failure)),
        }
    }

    /// Has the controller record that a device failed, once.
    fn log_device_failed(self: &Rc<Self>, devices: &Rc<Devices>, device: &Rc<Device>, error: IoError) {
        if !device.serves() {
            return;
        }
        device.standing.set(Standing::Failed);
        let (volume, devices, device) = (self.clone(), devices.clone(), device.clone());
        self.shard.env().spawn("a log device failed", async move {
            let report = ReportKind::LogFailed { device: device.id, error };
            let recorded = volume.shard.report(volume.spec().id, report).await;
            device.standing.set(recorded.map_or_else(Standing::Unrecorded, |()| Standing::Out));
            devices.changed.notify(volume.shard.env());
        });
    }
}
