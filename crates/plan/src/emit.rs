//! Adds steps to a plan, band by band; adjacent bytes on a drive become one I/O.

use crate::bands::Mask;
use crate::steps::Run;
use crate::survey::Survey;
use crate::{
    Bands, Compute, ComputeKind, Plan, Read, ReadPart, ReadSlot, ScratchSlot, Source, Target, Term,
    Write, WritePart,
};
use layout::{Cell, CopyIndex, DataIndex, Role};
use units::{ByteCount, ByteOffset};

impl Plan {
    /// Reads the bands in `wanted` from a cell: those in `to_host` into the host's buffer, others
    /// into the read's own. `index`: the data strip; for P the number of data strips; for Q one
    /// more.
    pub(crate) fn emit_reads(
        &mut self,
        cell: Cell,
        role: Role,
        index: u16,
        wanted: Mask,
        to_host: Mask,
    ) {
        for run in Bands::runs(wanted) {
            let slot = ReadSlot(self.reads.len() as u16);
            let start = self.bands.all()[run.start].start;
            let first_part = self.read_parts.len();
            let mut len = 0;
            for b in run {
                let band = self.bands.all()[b];
                self.set_old(index, b, Source::Read { slot, at: ByteOffset(len) });
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

    /// Records the location of the old bytes of band `b` of a strip.
    pub(crate) fn set_old(&mut self, index: u16, b: usize, from: Source) {
        let stride = self.bands.all().len();
        self.old[stride * usize::from(index) + b] = from;
    }

    /// Location of the old bytes of band `b` of a strip: read, cached or computed.
    pub(crate) fn brought(&self, index: u16, b: usize) -> Source {
        self.old[self.bands.all().len() * usize::from(index) + b]
    }

    /// Location of band `b` of a strip in the host's buffer.
    pub(crate) fn in_host(&self, index: u16, b: usize) -> Source {
        Source::Host { at: ByteOffset(self.bands.host_at(index, self.bands.all()[b].start)) }
    }

    /// Reads bands of a data strip without copies into a buffer of their own.
    pub(crate) fn emit_data_reads(&mut self, i: u16, wanted: Mask, to_host: Mask) {
        let (index, copy) = (DataIndex(i), CopyIndex(0));
        let cell = self.map.data_cell(index, copy);
        self.emit_reads(cell, Role::Data { index, copy }, i, wanted, to_host);
    }

    /// Reads bands of P (`bit` 0) or Q (1).
    pub(crate) fn emit_parity_reads(
        &mut self,
        survey: &Survey,
        bit: u16,
        role: Role,
        wanted: Mask,
    ) {
        let strips = self.geometry.data_strips();
        self.emit_reads(survey.parity[usize::from(bit)], role, strips + bit, wanted, 0);
    }

    /// Location of band `b` of P (`bit` 0) or Q (1) in the plan's reads.
    pub(crate) fn brought_parity(&self, bit: u16, b: usize) -> Source {
        self.brought(self.geometry.data_strips() + bit, b)
    }

    /// The exponent of 2 by which Q weighs a data strip; without Q the strip's index, which is
    /// unique too.
    pub(crate) fn exponent(&self, i: u16) -> u8 {
        if self.geometry.parity_strips() > 1 { self.map.q_exponent(DataIndex(i)) } else { i as u8 }
    }

    /// Adds a term of a computation: some bytes of a data strip.
    pub(crate) fn push_data_term(&mut self, i: u16, from: Source) {
        let role = Role::Data { index: DataIndex(i), copy: CopyIndex(0) };
        self.terms.push(Term { from, role, exponent: self.exponent(i) });
    }

    /// Adds a term of a computation: some bytes of P or Q, or of a copy.
    pub(crate) fn push_term(&mut self, role: Role, from: Source) {
        self.terms.push(Term { from, role, exponent: 0 });
    }

    /// A scratch buffer of `len` bytes.
    pub(crate) fn new_scratch(&mut self, len: u64) -> ScratchSlot {
        self.scratch.push(ByteCount(len));
        ScratchSlot((self.scratch.len() - 1) as u16)
    }

    /// Adds a computation on a run of bands, over all terms since `first_term`.
    pub(crate) fn emit_compute(
        &mut self,
        kind: ComputeKind,
        bands: std::ops::RangeInclusive<usize>,
        first_term: usize,
    ) {
        let all = self.bands.all();
        let (start, last) = (all[*bands.start()].start, all[*bands.end()]);
        self.computes.push(Compute {
            kind,
            len: ByteCount(last.start + last.len - start),
            within: ByteCount(start),
            terms: Run { start: first_term as u32, end: self.terms.len() as u32 },
        });
    }

    /// Writes the bands in `wanted` to a cell; `from` gives the source of each band.
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
