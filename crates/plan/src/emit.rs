//! Putting steps into a plan, band by band; what touches on a drive becomes one I/O.

use crate::bands::Mask;
use crate::steps::Run;
use crate::{Bands, Compute, ComputeKind, Plan, Read, ReadPart, ReadSlot, Source, Target, Write, WritePart};
use layout::{Cell, Role};
use units::{ByteCount, ByteOffset};

impl Plan {
    /// Reads the bands in `wanted` from a cell; those in `to_host` go to the host's buffer, the others into
    /// the reads' own. `index` is the data strip's, or the number of data strips for P.
    pub(crate) fn emit_reads(&mut self, cell: Cell, role: Role, index: u16, wanted: Mask, to_host: Mask) {
        for run in Bands::runs(wanted) {
            let slot = ReadSlot(self.reads.len() as u16);
            let start = self.bands.all()[run.start].start;
            let first_part = self.read_parts.len();
            let mut len = 0;
            for b in run {
                let band = self.bands.all()[b];
                self.brought_by[3 * usize::from(index) + b] = slot.0;
                let into = if to_host >> b & 1 == 1 {
                    Target::Host { at: ByteOffset(self.bands.host_at(index, band.start)) }
                } else {
                    Target::Read { slot, at: ByteOffset(len) }
                };
                self.push_read_part(first_part, into, ByteCount(band.len));
                len += band.len;
            }
            self.reads.push(Read {
                drive: cell.drive,
                offset: cell.offset + ByteCount(start),
                within: ByteCount(start),
                len: ByteCount(len),
                role,
                parts: Run { start: first_part as u32, end: self.read_parts.len() as u32 },
            });
        }
    }

    fn push_read_part(&mut self, first_part: usize, into: Target, len: ByteCount) {
        if let Some(previous) = self.read_parts[first_part..].last_mut()
            && previous.into.as_source().advance(previous.len) == into.as_source()
        {
            previous.len += len;
            return;
        }
        self.read_parts.push(ReadPart { into, len });
    }

    /// Where the plan's reads have put band `b` of a strip.
    pub(crate) fn brought(&self, index: u16, b: usize) -> Source {
        let slot = self.brought_by[3 * usize::from(index) + b];
        let read = &self.reads[usize::from(slot)];
        Source::Read { slot: ReadSlot(slot), at: ByteOffset(self.bands.all()[b].start - read.within.0) }
    }

    /// Where band `b` of a strip is in the host's buffer.
    pub(crate) fn in_host(&self, index: u16, b: usize) -> Source {
        Source::Host { at: ByteOffset(self.bands.host_at(index, self.bands.all()[b].start)) }
    }

    /// Adds a computation on band `b` of all sources pushed since there were `first_source` of them.
    pub(crate) fn emit_compute(&mut self, kind: ComputeKind, b: usize, first_source: usize) {
        let band = self.bands.all()[b];
        self.computes.push(Compute {
            kind,
            len: ByteCount(band.len),
            within: ByteCount(band.start),
            sources: Run { start: first_source as u32, end: self.sources.len() as u32 },
        });
    }

    /// Writes the bands in `wanted` to a cell; `from` says where each band comes from.
    pub(crate) fn emit_writes(
        &mut self,
        cell: Cell,
        role: Role,
        wanted: Mask,
        from: impl Fn(&Plan, usize) -> Source,
    ) {
        for run in Bands::runs(wanted) {
            let start = self.bands.all()[run.start].start;
            let first_part = self.write_parts.len();
            let mut len = 0;
            for b in run {
                let source = from(self, b);
                let band_len = self.bands.all()[b].len;
                self.push_write_part(first_part, source, ByteCount(band_len));
                len += band_len;
            }
            self.writes.push(Write {
                drive: cell.drive,
                offset: cell.offset + ByteCount(start),
                within: ByteCount(start),
                len: ByteCount(len),
                role,
                parts: Run { start: first_part as u32, end: self.write_parts.len() as u32 },
            });
        }
    }

    fn push_write_part(&mut self, first_part: usize, from: Source, len: ByteCount) {
        if let Some(previous) = self.write_parts[first_part..].last_mut()
            && previous.from.advance(previous.len) == from
        {
            previous.len += len;
            return;
        }
        self.write_parts.push(WritePart { from, len });
    }
}
