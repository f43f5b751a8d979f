//! The features and the configuration space of a guest's disk (a virtio block device).
//!
//! Numbers are from VIRTIO 1.2, section 5.2 (block devices) and section 6 (reserved feature bits).

use platform::TargetGeometry;
use units::ByteCount;

/// The unit of addresses and lengths in requests, independent of the disk's sector size.
pub(crate) const UNIT: u64 = 512;
/// The maximum number of descriptors of a queue.
pub const LARGEST_QUEUE: u16 = 1024;
/// Segments of a request. With header and status it fits into QEMU's default queue of 128.
const SEGMENTS: u32 = 126;
/// Ranges in a discard or write-zeroes request.
pub(crate) const RANGES: u32 = 32;
/// The maximum length of such a range, in units: 1 GiB.
const LONGEST_RANGE: u32 = (1 << 30) / UNIT as u32;
/// Size of the configuration space, with reserve for new fields; unknown fields are zero.
const SPACE: usize = 256;

/// The maximum length of a segment. It bounds a request's length, and so its duration.
const LONGEST_SEGMENT: u32 = 1 << 20;
/// The maximum length of a request in bytes.
pub(crate) const LONGEST_REQUEST: u64 = SEGMENTS as u64 * LONGEST_SEGMENT as u64;

const SIZE_MAX: u64 = 1 << 1;
const SEG_MAX: u64 = 1 << 2;
const RO: u64 = 1 << 5;
const BLK_SIZE: u64 = 1 << 6;
const FLUSH: u64 = 1 << 9;
const TOPOLOGY: u64 = 1 << 10;
const MQ: u64 = 1 << 12;
const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;
const INDIRECT_DESC: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
const VERSION_1: u64 = 1 << 32;

/// A target as a guest sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disk {
    /// The size, and the preferred request sizes.
    pub geometry: TargetGeometry,
    /// The disk rejects writes.
    pub read_only: bool,
}

/// The features that the guest accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiated {
    /// The guest sends flushes. A guest without flushes expects every write to be durable.
    pub flushes: bool,
    /// Both sides use event indexes to suppress kicks and calls.
    pub event_idx: bool,
}

impl Disk {
    /// Whether a guest can keep using the disk. Sector sizes and preferred sizes do not count: the
    /// device accepts any byte range, and preferred sizes change with the drives.
    pub fn is_same(&self, other: &Disk) -> bool {
        let shape = |disk: &Disk| {
            let TargetGeometry { capacity, sector, strip, optimal_io, .. } = disk.geometry;
            (capacity, sector, strip, optimal_io, disk.read_only)
        };
        shape(self) == shape(other)
    }

    /// The offered feature bits.
    pub fn features(&self) -> u64 {
        let always = SIZE_MAX
            | SEG_MAX
            | BLK_SIZE
            | FLUSH
            | TOPOLOGY
            | MQ
            | INDIRECT_DESC
            | EVENT_IDX
            | VERSION_1;
        always | if self.read_only { RO } else { DISCARD | WRITE_ZEROES }
    }

    /// The meaning of the accepted feature bits.
    pub fn negotiated(features: u64) -> Negotiated {
        Negotiated { flushes: features & FLUSH != 0, event_idx: features & EVENT_IDX != 0 }
    }

    /// `len` bytes of the configuration space from `offset`; `None` beyond its end.
    pub fn config(&self, queues: u16, offset: usize, len: usize) -> Option<Vec<u8>> {
        let TargetGeometry { capacity, host_sectors, strip, optimal_io, .. } = self.geometry;
        let (sector, physical) = (host_sectors.logical.bytes(), host_sectors.physical.bytes());
        let sectors = |bytes: ByteCount| bytes.0 / sector.0;
        let mut space = Space([0; SPACE]);
        space.put(0, &(capacity.0 / UNIT).to_le_bytes());
        space.put(8, &LONGEST_SEGMENT.to_le_bytes());
        space.put(12, &SEGMENTS.to_le_bytes());
        space.put(20, &u32::try_from(sector.0).unwrap_or(UNIT as u32).to_le_bytes());
        // Physical sectors as a power of two of logical sectors; then strip and stripe, in logical
        // sectors.
        space.put(24, &[sectors(physical).max(1).ilog2() as u8]);
        space.put(26, &u16::try_from(sectors(strip)).unwrap_or(0).to_le_bytes());
        space.put(28, &u32::try_from(sectors(optimal_io)).unwrap_or(0).to_le_bytes());
        // Write-back: writes may be in a cache until a flush.
        space.put(32, &[1]);
        space.put(34, &queues.to_le_bytes());
        for (at, number) in [(36, LONGEST_RANGE), (40, RANGES), (44, (sector.0 / UNIT) as u32)] {
            space.put(at, &number.to_le_bytes());
        }
        for (at, number) in [(48, LONGEST_RANGE), (52, RANGES)] {
            space.put(at, &number.to_le_bytes());
        }
        space.0.get(offset..offset.checked_add(len)?).map(<[u8]>::to_vec)
    }
}

struct Space([u8; SPACE]);

impl Space {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::HostSectors;
    use units::SectorSize;

    #[test]
    fn a_guest_hears_of_strip_and_stripe() {
        let geometry = TargetGeometry {
            capacity: ByteCount(1 << 30),
            sector: SectorSize::B512,
            host_sectors: HostSectors { logical: SectorSize::B512, physical: SectorSize::B4096 },
            smallest_request: ByteCount(1),
            minimum_io: ByteCount(4096),
            strip: ByteCount(64 << 10),
            optimal_io: ByteCount(192 << 10),
            rotational: false,
        };
        let disk = Disk { geometry, read_only: false };
        let config = disk.config(4, 0, 60).unwrap();
        let number = |at: usize, len: usize| {
            config[at..at + len].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        assert_eq!((number(0, 8), number(20, 4), number(24, 1)), (1 << 21, 512, 3));
        assert_eq!((number(26, 2), number(28, 4), number(34, 2)), (128, 384, 4));
        assert_eq!(disk.config(4, 26, 2).unwrap(), [128, 0], "any part of the space");
        assert_eq!(disk.config(4, 200, 100), None);
        assert_eq!(disk.features() & RO, 0);
        let read_only = Disk { read_only: true, ..disk };
        assert_eq!(read_only.features() & (RO | DISCARD | WRITE_ZEROES), RO);
    }
}
