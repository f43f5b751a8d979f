//! The log devices of a journal or data log: a record is on every device in service.
//!
//! # Invariants
//! - A device that failed a write is not used again by this shard.
//! - A write that a device lacks is acknowledged only after the members record the device as
//!   failed. Otherwise a replay would take that device's records as complete
//!   (docs/develop/design/log.md). The controller makes the record; writers wait for it.
//! - If no device is left, the record comes with another journal
//!   ([`Stripes::lose_journal`](crate::stripe::Stripes::lose_journal)). Until then the records of
//!   the last device stay live, because they may be the only durable copy. So all shards first stop
//!   relying on its records ([`Devices::hold`]). Then the drives are flushed, and only then the
//!   members record the failure.

use crate::attachment::LogDevice;
use crate::volume::VolumeSpec;
use ondisk::Uuid;
use platform::sync::Signal;
use platform::{Env, IoError, Member};
use smallvec::SmallVec;
use std::cell::Cell;
use std::rc::Rc;

/// The state of a device in the journal.
#[derive(Clone, Copy)]
pub(super) enum Standing {
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

pub(super) struct Device {
    pub(super) id: Uuid,
    pub(super) member: Member,
    pub(super) standing: Cell<Standing>,
}

impl Device {
    pub(super) fn serves(&self) -> bool {
        matches!(self.standing.get(), Standing::Serves)
    }
}

/// The log devices of a journal, attached to one shard.
pub(crate) struct Devices {
    pub(super) all: SmallVec<[Rc<Device>; 2]>,
    pub(super) changed: Signal,
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
    pub(super) async fn failures_are_recorded(&self, env: &Env) -> Result<(), IoError> {
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
