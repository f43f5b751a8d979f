//! A volume as host ports see it.
//!
//! The traits are in [`platform`], so that ports do not import the engine; this module implements
//! them. Each call is the volume's own function, without an additional frame or allocation.

use crate::host::Volume;
use crate::members::Drives;
use platform::sync::Taken;
use platform::{
    BlockTarget, Buf, DriveInfo, Durability, HostSectors, IoError, IoRequest, Receiver, Slice,
    StatusExtent, TargetGeometry,
};
use std::rc::Rc;
use units::{ByteCount, ByteRange};

/// Properties that the drives of a volume report.
fn drives(volume: &Volume) -> impl Iterator<Item = DriveInfo> + '_ {
    volume.spec().geometry.drives().indexes().filter_map(|drive| volume.drive_info(drive))
}

impl BlockTarget for Volume {
    fn number(&self) -> u64 {
        self.spec().id.0.into()
    }

    fn name(&self) -> Rc<str> {
        Drives::name(self)
    }

    fn description(&self) -> String {
        let geometry = &self.spec().geometry;
        format!("{}, {} drives", geometry.level(), geometry.drives().0)
    }

    fn geometry(&self) -> TargetGeometry {
        let spec = self.spec();
        let physical = drives(self)
            .map(|info| info.physical_sector)
            .max()
            .unwrap_or_default()
            .max(spec.sector);
        let told = self.told.get();
        let of_drives = HostSectors { logical: spec.sector, physical };
        TargetGeometry {
            capacity: self.capacity(),
            sector: spec.sector,
            host_sectors: told.unwrap_or(of_drives),
            smallest_request: told.map_or(ByteCount(1), |told| told.logical.bytes()),
            minimum_io: physical.bytes(),
            strip: spec.geometry.strip().bytes(),
            optimal_io: spec.geometry.stripe_bytes(),
            rotational: drives(self).any(|info| info.rotational),
        }
    }

    fn is_read_only(&self) -> bool {
        let mut drives = drives(self).peekable();
        drives.peek().is_some() && drives.all(|info| info.read_only)
    }

    fn reserve_payload(&self, len: ByteCount) -> impl Future<Output = Taken> {
        self.shard().reserve_payload(len)
    }

    fn is_served(&self) -> bool {
        let is_here = !self.closing.get() && !self.shard().is_stopping();
        is_here
            && self
                .moving()
                .is_none_or(|moving| moving.successor().is_none_or(|next| next.is_served()))
    }

    fn begin(
        self: &Rc<Self>,
        request: IoRequest,
        receiver: Receiver,
    ) -> Option<(IoRequest, Receiver)> {
        Volume::begin(self, request, receiver)
    }

    fn read(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Buf,
    ) -> impl Future<Output = (Result<(), IoError>, Option<Buf>)> {
        Volume::read(self, range, buf)
    }

    fn write(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>> {
        Volume::write(self, range, data, durability)
    }

    fn write_zeroes(
        self: &Rc<Self>,
        range: ByteRange,
        durability: Durability,
    ) -> impl Future<Output = Result<(), IoError>> {
        Volume::write_zeroes(self, range, durability)
    }

    fn trim(self: &Rc<Self>, range: ByteRange) -> impl Future<Output = Result<(), IoError>> {
        Volume::trim(self, range)
    }

    fn flush(self: &Rc<Self>) -> impl Future<Output = Result<(), IoError>> {
        Volume::flush(self)
    }

    fn status(
        self: &Rc<Self>,
        range: ByteRange,
    ) -> impl Future<Output = Result<Vec<StatusExtent>, IoError>> {
        Volume::status(self, range)
    }
}
