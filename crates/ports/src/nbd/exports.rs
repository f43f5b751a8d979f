//! The targets of a port as exports of an NBD server.

use crate::access::{ClientIdentity, Rights};
use crate::protocol::Offer;
use ::nbd::{BlockSizes, ExportEntry, ExportFlags, ExportInfo, Exports};
use platform::{BlockTarget, Targets};
use std::rc::Rc;
use units::ByteCount;

/// All current targets that the client may use.
pub(super) struct Offered<'a, S> {
    pub offer: &'a Offer<S>,
    pub visitor: &'a ClientIdentity,
}

impl<S: Targets> Exports for Offered<'_, S> {
    fn list(&self) -> Vec<ExportEntry> {
        let entry = |target: &S::Target| ExportEntry {
            name: target.name().to_string(),
            description: target.description(),
        };
        self.usable().iter().map(|(target, _)| entry(target)).collect()
    }

    fn find(&self, name: &str) -> Option<ExportInfo> {
        if !name.is_empty() {
            let target = self.offer.find(name)?;
            let rights = self.offer.rights(self.visitor, &target)?;
            return Some(info(self.offer, &target, rights.read_only));
        }
        match self.usable().as_slice() {
            [(only, rights)] => Some(info(self.offer, only, rights.read_only)),
            _ => None,
        }
    }
}

impl<S: Targets> Offered<'_, S> {
    fn usable(&self) -> Vec<(Rc<S::Target>, Rights)> {
        let targets = self.offer.targets().into_iter();
        targets
            .filter_map(|target| {
                self.offer.rights(self.visitor, &target).map(|rights| (target, rights))
            })
            .collect()
    }
}

/// A target as an export.
pub(super) fn info<S: Targets>(
    offer: &Offer<S>,
    target: &S::Target,
    read_only: bool,
) -> ExportInfo {
    let geometry = target.geometry();
    ExportInfo {
        name: target.name().to_string(),
        description: target.description(),
        size_bytes: geometry.capacity.0,
        flags: ExportFlags {
            read_only,
            flush: true,
            fua: true,
            rotational: geometry.rotational,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            cache: true,
            // A flush covers acknowledged writes of all connections.
            multi_conn: true,
            df: true,
        },
        block_sizes: BlockSizes {
            minimum_bytes: geometry.smallest_request.0 as u32,
            preferred_bytes: geometry.minimum_io.max(ByteCount(4096)).0 as u32,
            maximum_bytes: offer.longest_transfer().0 as u32,
        },
        base_allocation: true,
    }
}

/// No exports: for rejected clients.
pub(super) struct NoExports;

impl Exports for NoExports {
    fn list(&self) -> Vec<ExportEntry> {
        Vec::new()
    }

    fn find(&self, _: &str) -> Option<ExportInfo> {
        None
    }
}
