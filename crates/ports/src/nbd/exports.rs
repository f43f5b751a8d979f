//! The volumes of a shard as the exports of an NBD server.

use ::nbd::{BlockSizes, ExportEntry, ExportFlags, ExportInfo, Exports};
use engine::{Shard, Volume};
use units::ByteCount;

/// Longest read or write that is offered where memory allows: what every client must be ready for.
const LONGEST_TRANSFER: ByteCount = ByteCount(32 << 20);

/// The volumes that a shard serves now.
pub(super) struct ShardExports<'a> {
    pub shard: &'a Shard,
    pub read_only: bool,
}

impl Exports for ShardExports<'_> {
    fn list(&self) -> Vec<ExportEntry> {
        let entry = |volume: &Volume| ExportEntry {
            name: volume.spec().name.clone(),
            description: description(volume),
        };
        self.shard.volumes().iter().map(|volume| entry(volume)).collect()
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        if !name.is_empty() {
            return Some(self.info(&*self.shard.volume_named(name)?));
        }
        match self.shard.volumes().as_slice() {
            [only] => Some(self.info(only)),
            _ => None,
        }
    }
}

impl ShardExports<'_> {
    fn info(&self, volume: &Volume) -> ExportInfo {
        let spec = volume.spec();
        let drives = || spec.geometry.drives().indexes().filter_map(|drive| volume.drive_info(drive));
        let sector = drives().map(|info| info.physical_sector.bytes().0).max().unwrap_or(0);
        ExportInfo {
            name: spec.name.clone(),
            description: description(volume),
            size_bytes: spec.capacity.0,
            flags: ExportFlags {
                read_only: self.read_only,
                flush: true,
                fua: true,
                rotational: drives().any(|info| info.rotational),
                trim: true,
                write_zeroes: true,
                fast_zero: true,
                cache: true,
                // Rule (c) of the promises: a flush covers what any connection was told is written.
                multi_conn: true,
                df: true,
            },
            block_sizes: BlockSizes {
                minimum_bytes: 1,
                preferred_bytes: sector.max(spec.sector.bytes().0).max(4096) as u32,
                maximum_bytes: longest_transfer(self.shard).0 as u32,
            },
            base_allocation: true,
        }
    }
}

fn description(volume: &Volume) -> String {
    let geometry = &volume.spec().geometry;
    format!("{}, {} drives", geometry.level(), geometry.drives().0)
}

/// The longest read or write: a power of two of which the shard's memory for payloads (half its pool) holds
/// two, so that one such request does not stop all others.
pub(super) fn longest_transfer(shard: &Shard) -> ByteCount {
    let share = (shard.env().pool().limit().0 / 4).max(4096);
    ByteCount(1 << share.ilog2()).min(LONGEST_TRANSFER)
}
