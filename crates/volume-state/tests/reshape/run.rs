//! Events while the machine runs.

use super::defects::Defect;
use super::drives::{Cell, Column, bits, lay};
use super::{
    BLOCK, Blocks, ClosedRead, HostAccess, MEMBER, ROWS, Setup, State, StepProgress, Write,
    blocks_of,
};
use layout::Geometry;
use units::{ByteCount, ByteOffset};
use volume_state::{Moved, Mover, Step, Window};

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The mover begins its next step, or ends one.
    Mover,
    /// The nth pending write reaches its drive.
    Write(usize),
    Flush(usize),
    Label(usize),
    /// A host write begins, ends, enters the cache, is destaged.
    Begin,
    End,
    Absorb,
    Destage,
    Fails(usize),
    /// The mover's step fails.
    StepFails,
}

/// Whether these contain a block.
pub(super) fn is_in((from, to): Blocks, block: usize) -> bool {
    (from..to).contains(&block)
}

impl State {
    /// All possible next events.
    pub(super) fn events(&self, setup: &Setup) -> Vec<Event> {
        let mut events = Vec::new();
        match &self.doing {
            StepProgress::Nothing if self.mover.step().is_some() => events.push(Event::Mover),
            StepProgress::Closing if self.is_quiet(setup) => events.push(Event::Mover),
            StepProgress::Writing(left, flushes) if left.is_empty() => {
                events.extend(bits(*flushes).next().map(Event::Flush))
            }
            StepProgress::Writing(left, _) => events.extend((0..left.len()).map(Event::Write)),
            StepProgress::Recording(_, left) => events.extend(bits(*left).map(Event::Label)),
            StepProgress::Nothing | StepProgress::Closing => {}
        }
        if self.in_flight.is_some() {
            events.push(Event::End);
        } else if let Some((block, _)) = setup.puts.get(self.put)
            && !is_in(self.door.closed, *block)
            && !self.door.is_start
        {
            let is_old = !is_in(self.door.by_new, *block);
            let may_absorb = setup.cached && is_old && self.dirty.is_none();
            events.push(if may_absorb { Event::Absorb } else { Event::Begin });
        }
        if let Some((block, _)) = self.dirty
            && (!is_in(self.door.closed, block)
                || self.doing == StepProgress::Closing
                || setup.defect == Defect::DirtyIgnored)
        {
            events.push(Event::Destage);
        }
        if self.fails > 0 && self.failed.count_ones() < setup.tolerance() {
            events.extend(bits(setup.all() & !self.failed).map(Event::Fails));
        }
        if self.failing_steps > 0 && self.doing != StepProgress::Nothing {
            events.push(Event::StepFails);
        }
        events
    }

    /// Whether no host write uses the closed blocks.
    fn is_quiet(&self, setup: &Setup) -> bool {
        let Some(Step::Close(window)) = self.mover.step() else { return true };
        let window = blocks_of(window.bytes);
        let writes = self.in_flight.is_some_and(|(block, ..)| is_in(window, block));
        let dirty = self.dirty.is_some_and(|(block, _)| is_in(window, block));
        !(writes && setup.defect != Defect::InFlightIgnored
            || dirty && setup.defect != Defect::DirtyIgnored)
    }

    pub(super) fn take(&mut self, setup: &Setup, event: Event) -> Result<(), String> {
        match event {
            Event::Mover => return self.go_on(setup),
            Event::StepFails => return self.give_up(setup),
            Event::Write(nth) => {
                let StepProgress::Writing(left, _) = &mut self.doing else { return Ok(()) };
                let (drive, row, value) = left.remove(nth);
                self.cells[drive * ROWS + row].write(value);
            }
            Event::Flush(drive) => {
                let StepProgress::Writing(_, flushes) = &mut self.doing else { return Ok(()) };
                *flushes &= !(1 << drive);
                self.cells[drive * ROWS..(drive + 1) * ROWS].iter_mut().for_each(Cell::flush);
            }
            Event::Label(drive) => {
                let StepProgress::Recording(moved, left) = &mut self.doing else { return Ok(()) };
                self.labels[drive] = (self.generation, *moved);
                *left &= !(1 << drive);
                if setup.defect == Defect::FewLabels {
                    *left = 0;
                }
            }
            Event::Fails(drive) => {
                self.fails -= 1;
                self.failed |= 1 << drive;
                self.forget(drive);
            }
            _ => return self.host(setup, event),
        }
        self.end_if_done();
        Ok(())
    }

    fn forget(&mut self, drive: usize) {
        self.labels[drive] = (0, Moved::default());
        self.cells[drive * ROWS..(drive + 1) * ROWS].fill(Cell::of(0));
        match &mut self.doing {
            StepProgress::Writing(left, flushes) => {
                left.retain(|(at, ..)| *at != drive);
                *flushes &= !(1 << drive);
            }
            StepProgress::Recording(_, left) => *left &= !(1 << drive),
            StepProgress::Nothing | StepProgress::Closing => {}
        }
    }

    /// A step fails halfway; its effects remain. Hosts do not wait until it restarts from the
    /// record.
    fn give_up(&mut self, setup: &Setup) -> Result<(), String> {
        let (recorded, step) = (self.mover.recorded(), self.mover.step());
        let is_saved = !recorded.saved.is_zero();
        let opens = setup.defect == Defect::SavedOpened;
        self.door = match step {
            Some(Step::Close(_) | Step::Save(_) | Step::Write { .. } | Step::Keep(_))
                if !is_saved || opens =>
            {
                HostAccess::open(setup, recorded.bytes)
            }
            Some(Step::Record(moved)) if !is_saved && moved.saved.is_zero() => {
                HostAccess { read: ClosedRead::ByOld, ..self.door }
            }
            _ if setup.defect == Defect::LeftReadByOld => {
                HostAccess { read: ClosedRead::ByOld, ..self.door }
            }
            _ => HostAccess { read: ClosedRead::WhereSaved, ..self.door },
        };
        self.failing_steps -= 1;
        self.doing = StepProgress::Nothing;
        self.mover = Mover::new(setup.reshape(), recorded);
        Ok(())
    }

    /// Open blocks read as acknowledged last.
    ///
    /// # Errors
    /// The block that does not.
    pub(super) fn look_now(&self, setup: &Setup) -> Result<(), String> {
        let save = save_of(setup);
        let closed = self.door.closed;
        for block in (0..setup.blocks).filter(|block| self.dirty.is_none_or(|(at, _)| at != *block))
        {
            let value = match self.door.read {
                _ if is_in(self.door.by_new, block) => {
                    read(&setup.to, 0, block, &self.cells, self.failed)
                }
                ClosedRead::Nowhere if is_in(closed, block) => continue,
                ClosedRead::WhereSaved if is_in(closed, block) => {
                    read(&save, MEMBER, block - closed.0, &self.cells, self.failed)
                }
                _ => read(&setup.from, 0, block, &self.cells, self.failed),
            };
            if value != Some(self.truth[block]) {
                return Err(format!(
                    "a host reads block {block} as {value:?}, and {} was written",
                    self.truth[block]
                ));
            }
        }
        Ok(())
    }

    fn end_if_done(&mut self) {
        let is_done = match &self.doing {
            StepProgress::Writing(left, flushes) => left.is_empty() && *flushes == 0,
            StepProgress::Recording(_, left) => *left == 0,
            StepProgress::Nothing | StepProgress::Closing => false,
        };
        if is_done {
            self.end_step();
        }
    }

    fn end_step(&mut self) {
        self.doing = StepProgress::Nothing;
        self.mover.done();
    }

    /// Copies the window to the save area.
    fn save_window(&mut self, setup: &Setup, window: &Window) -> Result<(), String> {
        if self.is_unsaved(setup) {
            self.end_step();
            return Ok(());
        }
        let save = save_of(setup);
        self.copy(setup, window, (&setup.from, 0, 0), (&save, MEMBER, window.stripes.start))
    }

    /// Copies the window to the new layout, from the old one or from the save area.
    fn write_window(
        &mut self,
        setup: &Setup,
        window: &Window,
        from_save: bool,
    ) -> Result<(), String> {
        let is_old = self.is_unsaved(setup) || setup.defect == Defect::SaveNotRead;
        let save = save_of(setup);
        let source = match from_save && !is_old {
            true => (&save, MEMBER, window.stripes.start),
            false => (&setup.from, 0, 0),
        };
        self.copy(setup, window, source, (&setup.to, 0, 0))
    }

    /// The mover begins its next step, or ends one without further work.
    fn go_on(&mut self, setup: &Setup) -> Result<(), String> {
        if self.doing == StepProgress::Closing {
            self.end_step();
            return Ok(());
        }
        let alive = setup.all() & !self.failed;
        if self.failed == 0 {
            self.mover.keep(ByteOffset(self.mover.recorded().bytes.0 + 4 * BLOCK));
        }
        match self.mover.step() {
            None => {}
            Some(Step::Keep(_)) if self.failed > 0 => {
                // The window is no longer intact.
                let recorded = self.mover.recorded();
                self.door = HostAccess::open(setup, recorded.bytes);
                self.mover = Mover::new(setup.reshape(), recorded);
            }
            Some(Step::Keep(_)) => self.doing = StepProgress::Writing(Vec::new(), alive),
            Some(Step::Close(window)) => {
                let closed = if setup.defect == Defect::NotClosed {
                    (0, 0)
                } else {
                    blocks_of(window.bytes)
                };
                self.door = HostAccess { closed, read: ClosedRead::Nowhere, ..self.door };
                self.doing = StepProgress::Closing;
            }
            Some(Step::Open(moved)) => {
                self.door = HostAccess::open(setup, moved);
                self.end_step();
            }
            Some(Step::Record(moved)) => {
                let is_left_out = self.is_left_out(setup, moved);
                if is_left_out {
                    self.end_step();
                } else {
                    self.generation += 1;
                    self.doing = StepProgress::Recording(moved, alive);
                }
            }
            Some(Step::Save(window)) => self.save_window(setup, &window)?,
            Some(Step::Write { window, from_save }) => {
                self.write_window(setup, &window, from_save)?
            }
        }
        Ok(())
    }

    /// Whether a defect omits a record.
    fn is_left_out(&self, setup: &Setup, moved: Moved) -> bool {
        match setup.defect {
            Defect::SaveUnrecorded => moved.saved.0 > 0,
            Defect::NeverSaved | Defect::BoundaryFree | Defect::BehindFree => {
                moved.saved.0 > 0 && self.is_unsaved(setup)
            }
            Defect::MoveUnrecorded => moved.saved.0 == 0 && moved.bytes.0 > 0,
            Defect::Unconfirmed => self.mover.recorded() == moved,
            _ => false,
        }
    }

    /// Whether a defect omits saving the window.
    fn is_unsaved(&self, setup: &Setup) -> bool {
        match setup.defect {
            Defect::NeverSaved => true,
            // The window overlaps no old row that is entirely ahead of the cursor.
            Defect::BoundaryFree => {
                self.is_over(setup, |cursor, row| match setup.reshape().is_down() {
                    true => cursor / row,
                    false => cursor.div_ceil(row),
                })
            }
            // The window overlaps no old row with bytes of the volume.
            Defect::BehindFree => {
                setup.reshape().is_down()
                    && self.is_over(setup, |_, row| setup.reshape().bytes().0.div_ceil(row))
            }
            _ => false,
        }
    }

    /// Whether all rows of the window are on the cursor's starting side of an old row.
    fn is_over(&self, setup: &Setup, row_at: impl Fn(u64, u64) -> u64) -> bool {
        let (reshape, moved) = (setup.reshape(), self.mover.recorded().bytes);
        let stripes = self.mover.step().and_then(|step| match step {
            Step::Save(window) | Step::Write { window, .. } => Some(window.stripes),
            _ => None,
        });
        let next = || reshape.next(moved, ByteCount(u64::MAX)).map(|(window, _)| window.stripes);
        let stripes = stripes.or_else(next).unwrap_or_default();
        let (row, new) = (setup.from.stripe_bytes().0, setup.to.strip().bytes().0);
        let cursor = if reshape.is_down() { reshape.bytes().0 - moved.0 } else { moved.0 };
        let old = row_at(cursor, row) * setup.from.strip().bytes().0;
        if reshape.is_down() { stripes.start * new >= old } else { stripes.end * new <= old }
    }

    /// Copies a window between layouts, each given by its start row and the first stripe there.
    fn copy(
        &mut self,
        setup: &Setup,
        window: &Window,
        (from, from_base, from_first): (&Geometry, usize, u64),
        (to, to_base, to_first): (&Geometry, usize, u64),
    ) -> Result<(), String> {
        let first_block =
            |geometry: &Geometry, first: u64| (geometry.stripe_bytes().0 * first / BLOCK) as usize;
        let (start, end) = blocks_of(window.bytes);
        let skipped = first_block(from, from_first);
        let mut data = Vec::new();
        for block in start..end {
            let value = read(from, from_base, block - skipped, &self.cells, self.failed);
            data.push(value.ok_or_else(|| format!("block {block} cannot be read to be moved"))?);
        }
        let whole = first_block(&setup.to, window.stripes.end - window.stripes.start);
        data.resize(whole, 0);
        let mut writes: Vec<Write> =
            lay(to, to_base, &data, start - first_block(to, to_first)).collect();
        if setup.defect == Defect::SavedThin && to_base > 0 {
            let is_data = |(drive, row, _): &Write| {
                let blocks = start - first_block(to, to_first)..;
                blocks.take(whole).any(|block| {
                    let (column, index) = Column::of(to, to_base, block);
                    column.laid(&vec![0; usize::from(to.data_strips())])[index].0 == *drive
                        && column.laid(&vec![0; usize::from(to.data_strips())])[index].1 == *row
                })
            };
            writes.retain(|write| is_data(write));
        }
        writes.retain(|(drive, ..)| self.failed >> *drive & 1 == 0);
        let is_unflushed = match to_base {
            0 => setup.defect == Defect::WriteUnflushed,
            _ => setup.defect == Defect::SaveUnflushed,
        };
        let flushes = if is_unflushed { 0 } else { setup.all() & !self.failed };
        self.doing = StepProgress::Writing(writes, flushes);
        self.end_if_done();
        Ok(())
    }

    fn host(&mut self, setup: &Setup, event: Event) -> Result<(), String> {
        match event {
            Event::Begin => {
                let (block, value) = setup.puts[self.put];
                let by_new = match setup.defect {
                    Defect::RoutedByOld => false,
                    Defect::RoutedByNew => true,
                    _ => is_in(self.door.by_new, block),
                };
                self.put += 1;
                self.in_flight = Some((block, value, by_new));
                Ok(())
            }
            Event::Absorb => {
                let (block, value) = setup.puts[self.put];
                self.put += 1;
                self.truth[block] = value;
                self.dirty = Some((block, value));
                Ok(())
            }
            Event::Destage => {
                let Some((block, value)) = self.dirty.take() else { return Ok(()) };
                self.put_block(setup, block, value, false)
            }
            _ => {
                let Some((block, value, by_new)) = self.in_flight.take() else { return Ok(()) };
                self.put_block(setup, block, value, by_new)
            }
        }
    }

    /// Writes a block, atomically and durably.
    pub(super) fn put_block(
        &mut self,
        setup: &Setup,
        block: usize,
        value: u8,
        by_new: bool,
    ) -> Result<(), String> {
        let geometry = if by_new { &setup.to } else { &setup.from };
        let (column, index) = Column::of(geometry, 0, block);
        let data = column.solve(&self.cells, self.failed);
        let mut data = data.ok_or_else(|| format!("block {block} cannot be written"))?;
        let before = column.laid(&data);
        data[index] = value;
        for (write, before) in column.laid(&data).into_iter().zip(before) {
            let (drive, row, value) = write;
            if write != before && self.failed >> drive & 1 == 0 {
                self.cells[drive * ROWS + row] = Cell::of(value);
            }
        }
        self.truth[block] = value;
        self.sure[block] = 1 << value;
        Ok(())
    }
}

/// The layout of the save area.
pub(super) fn save_of(setup: &Setup) -> Geometry {
    let rows = units::ByteCount(setup.save * BLOCK);
    setup.to.with_member_size(rows).expect("there is room to save a row")
}

/// A block of a layout, without lost drives.
pub(super) fn read(
    geometry: &Geometry,
    base: usize,
    block: usize,
    cells: &[Cell],
    lost: u8,
) -> Option<u8> {
    let (column, index) = Column::of(geometry, base, block);
    Some(column.solve(cells, lost)?[index])
}
