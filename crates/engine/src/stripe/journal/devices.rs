//! The log devices of a journal or data log: a record is on every device in service.
//!
//! # Invariants
//! - A device that failed a write is not used again by this shard.
//! - A write that a device lacks is acknowledged only after the members record the device as
//!   failed. Otherwise a replay would take that device's records as complete
//!   (docs/develop/design/log.md). The controller makes the record; writers wait for it.
//! - If no device is left, the record comes with another journal ([`Stripes::lose_journal`]). Until
//!   then the records of the last device stay live, because they may be the only durable copy. So
//!   all shards first stop relying on its records ([`Devices::hold`]). Then the drives are flushed,
//!   and only then the members record the failure.

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

/// The state of a device in the journal.
#[derive(Clone, Copy)]
enum Standing {
    Serves,
    /// The device failed; a report to the controller is in progress.
    Failed,
    /// Another shard reported a failure: no write relies on the device. The members do not record
    /// it yet.
    Held,
    /// The members record the device as failed.
    Out,
    /// The failure could not be recorded.
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

/// The log devices of a journal, attached to one shard.
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

    /// Stops relying on a device that failed on another shard. Writers wait until the members
    /// record the failure ([`Devices::leave`]), or the record fails ([`Devices::take_back`]).
    pub(super) fn hold(&self, device: Uuid) {
        let held = self.all.iter().filter(|other| other.id == device && other.serves());
        held.for_each(|held| held.standing.set(Standing::Held));
    }

    /// Returns a device to service: its failure could not be recorded.
    pub(super) fn take_back(&self, env: &Env, device: Uuid) {
        self.end_hold(env, device, Standing::Serves);
    }

    fn end_hold(&self, env: &Env, device: Uuid, then: Standing) {
        let is_held = |other: &&Rc<Device>| {
            other.id == device && matches!(other.standing.get(), Standing::Held)
        };
        self.all.iter().filter(is_held).for_each(|held| held.standing.set(then));
        self.changed.notify(env);
    }

    /// The identities of all devices.
    pub(super) fn ids(&self) -> impl Iterator<Item = Uuid> {
        self.all.iter().map(|device| device.id)
    }

    /// The number of devices in service.
    pub(super) fn serving(&self) -> usize {
        self.all.iter().filter(|device| device.serves()).count()
    }

    /// Removes a device from service: the members record its failure on another volume or shard.
    pub(super) fn leave(&self, env: &Env, device: Uuid) {
        self.hold(device);
        self.end_hold(env, device, Standing::Out);
    }

    /// Waits until the members record all failures.
    ///
    /// # Errors
    /// When a failure could not be recorded.
    async fn failures_are_recorded(&self, env: &Env) -> Result<(), IoError> {
        let is_open = |device: &Rc<Device>| {
            matches!(device.standing.get(), Standing::Failed | Standing::Held)
        };
        self.changed.wait_until(env, || !self.all.iter().any(is_open)).await;
        let refused = self.all.iter().find_map(|device| match device.standing.get() {
            Standing::Unrecorded(error) => Some(error),
            Standing::Serves | Standing::Failed | Standing::Held | Standing::Out => None,
        });
        refused.map_or(Ok(()), Err)
    }
}

impl Stripes {
    /// Writes the same data, durably, to all devices in service.
    ///
    /// # Errors
    /// When no device has it; when a failure could not be recorded; when a sound device is busy.
    pub(crate) async fn write_to_devices(
        self: &Rc<Self>,
        devices: &Rc<Devices>,
        at: ByteOffset,
        slices: &Slices,
    ) -> Result<(), IoError> {
        if devices.serving() == 0 {
            // The last device may return to service.
            devices.failures_are_recorded(self.shard.env()).await?;
        }
        let serving = devices.all.iter().filter(|device| device.serves());
        let write =
            |device: &Rc<Device>| device.member.write(at, slices.clone(), Durability::Durable);
        let started: SmallVec<[(Rc<Device>, Io); 2]> =
            serving.map(|device| (device.clone(), write(device))).collect();
        let (mut has_it, mut failure, mut spared) = (false, IoError::new(IoErrorKind::Gone), None);
        for (device, io) in started {
            match io.await.result {
                Ok(_) => has_it = true,
                // A busy device stays in service; the write fails, so no record relies on it.
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

    /// Reports a device failure to the controller, once.
    fn log_device_failed(
        self: &Rc<Self>,
        devices: &Rc<Devices>,
        device: &Rc<Device>,
        error: IoError,
    ) {
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
