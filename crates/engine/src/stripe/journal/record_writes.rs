//! The writes of records and notices to members or log devices. See
//! [`records`](crate::stripe::records) and [`devices`](super::devices).

use super::devices::{Device, Devices, Standing};
use crate::messages::ReportKind;
use crate::stripe::records::{Medium, Record, RecordRing};
use crate::stripe::{DriveOp, DriveOps, Stripes};
use ondisk::Tail;
use platform::{Durability, Io, IoError, IoErrorKind, Member, Slices};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet};
use write_log::Head;

impl Stripes {
    /// Writes a record. Returns its number when it is durable.
    ///
    /// # Errors
    /// When it is not durable as often as it must be: it is to be invalidated.
    pub(crate) async fn write_record(
        self: &Rc<Self>,
        records: &RecordRing,
        record: Record,
    ) -> Result<u64, IoError> {
        let Record { begun, place, mut slices } = record;
        let written = self.write_copies(records, begun.sequence, place, &slices).await;
        records.put_head(slices.swap_remove(0));
        match written {
            Ok(()) => records.ring_mut().landed(&begun),
            Err(_) => records.ring_mut().fail(begun.sequence),
        }
        written.map(|()| begun.sequence)
    }

    /// Writes a notice of the live records. The caller holds `turn`.
    ///
    /// # Errors
    /// When it is not durable as often as it must be.
    pub(crate) async fn write_notice(self: &Rc<Self>, records: &RecordRing) -> Result<(), IoError> {
        let (place, begun) = records.ring().begin_notice();
        let mut buf = records.take_head(Head::len(0));
        records.head(&begun, place).encode(&[], ByteCount::ZERO, 0, buf.bytes_mut());
        let mut slices: Slices = SmallVec::from_iter([buf.freeze()]);
        self.write_copies(records, begun.tail, place, &slices).await?;
        records.put_head(slices.swap_remove(0));
        records.ring_mut().noticed(&begun);
        Ok(())
    }

    /// Writes the same data to all log devices, or to one member more than a span may lose, or to
    /// all remaining members of the span.
    ///
    /// # Errors
    /// When members in use cannot write it, or no log device has it.
    async fn write_copies(
        self: &Rc<Self>,
        records: &RecordRing,
        number: u64,
        place: u64,
        slices: &Slices,
    ) -> Result<(), IoError> {
        let copies = match &records.medium {
            Medium::Devices(at, devices) => {
                let at = *at + ByteCount(records.start + place);
                return Box::pin(self.write_to_devices(devices, at, slices)).await;
            }
            Medium::Members { copies, .. } => *copies,
        };
        let (mut done, mut refused) = (0, DriveSet::EMPTY);
        let (mut tried, mut failure) = (DriveSet::EMPTY, None);
        loop {
            let usable = self.in_service();
            let span: SmallVec<[DriveIndex; 16]> = span(self, number, copies).collect();
            let next =
                span.iter().filter(|drive| usable.contains(**drive) && !tried.contains(**drive));
            let next: SmallVec<[DriveIndex; 4]> =
                next.take(copies.saturating_sub(done)).copied().collect();
            if next.is_empty() {
                let all = done >= copies || (done > 0 && refused.is_empty());
                return if all {
                    Ok(())
                } else {
                    Err(failure.unwrap_or(IoError::new(IoErrorKind::Gone)))
                };
            }
            let mut ops = DriveOps::default();
            for slot in next {
                tried.insert(slot);
                let write = |at| {
                    move |member: &Rc<Member>| {
                        DriveOp::Io(member.write(at, slices.clone(), Durability::Durable))
                    }
                };
                let (now, filling) = (self.members.get(slot), self.members.replacement(slot));
                // A replacement may take the slot at any time: it gets the same records as the
                // slot's drive.
                if let Some(at) =
                    filling.and_then(|filling| at_member(records, &filling.member, place))
                {
                    ops.ask_replacement(self, slot, write(at));
                }
                match now.and_then(|member| at_member(records, &member, place)) {
                    Some(at) => ops.ask(self, slot, write(at)),
                    None => refused.insert(slot),
                }
            }
            let lacking = ops
                .finish(self, |answered| match answered.result {
                    _ if answered.is_swapped(self) => tried.remove(answered.slot),
                    Ok(()) => done += 1,
                    Err(error) => {
                        failure = Some(error);
                        if self.write_fault(answered.slot, answered.member.as_ref(), error).is_err()
                        {
                            refused.insert(answered.slot);
                        }
                    }
                })
                .await;
            lacking.settled(self).await?;
        }
    }

    /// Writes the same data, durably, to all devices in service.
    ///
    /// # Errors
    /// When no device has it; when a failure could not be recorded; when a sound device is busy.
    async fn write_to_devices(
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

/// The drives for the copies of a record, in order of preference.
fn span(volume: &Stripes, number: u64, copies: usize) -> impl Iterator<Item = DriveIndex> + use<> {
    let geometry = volume.geometry();
    write_log::span_of(number, copies, geometry.drives(), geometry.drives_per_span())
}

/// The offset of a place of the ring on a member.
fn at_member(records: &RecordRing, member: &Member, place: u64) -> Option<ByteOffset> {
    let Medium::Members { at, tail, .. } = records.medium else { return None };
    let room = Tail::at(member.info().size, tail)?.journals();
    Some(room.start + ByteCount(at.0 + records.start + place))
}
