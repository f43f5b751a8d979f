//! What a port offers as the exports of an NBD server.

use crate::protocol::Offer;
use ::nbd::{BlockSizes, ExportEntry, ExportFlags, ExportInfo, Exports};
use env::{BlockTarget, Targets};
use units::ByteCount;

/// Every target that is served now.
pub(super) struct Offered<'a, S>(pub &'a Offer<S>);

impl<S: Targets> Exports for Offered<'_, S> {
    fn list(&self) -> Vec<ExportEntry> {
        let entry = |target: &S::Target| ExportEntry {
            name: target.name().to_string(),
            description: target.description(),
        };
        self.0.targets().iter().map(|target| entry(target)).collect()
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        if !name.is_empty() {
            return Some(self.info(&*self.0.find(name)?));
        }
        match self.0.targets().as_slice() {
            [only] => Some(self.info(only)),
            _ => None,
        }
    }
}

impl<S: Targets> Offered<'_, S> {
    pub(super) fn info(&self, target: &S::Target) -> ExportInfo {
        let geometry = target.geometry();
        ExportInfo {
            name: target.name().to_string(),
            description: target.description(),
            size_bytes: geometry.capacity.0,
            flags: ExportFlags {
                read_only: self.0.is_read_only(target),
                flush: true,
                fua: true,
                rotational: geometry.rotational,
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
                preferred_bytes: geometry.minimum_io.max(ByteCount(4096)).0 as u32,
                maximum_bytes: self.0.longest_transfer().0 as u32,
            },
            base_allocation: true,
        }
    }
}

/// Nothing, for who is turned away.
pub(super) struct NoExports;

impl Exports for NoExports {
    fn list(&self) -> Vec<ExportEntry> {
        Vec::new()
    }

    fn find(&self, _: &str) -> Option<ExportInfo> {
        None
    }
}
