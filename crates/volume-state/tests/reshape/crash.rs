//! The state after a crash, and the next start.

use super::drives::{Cell, bits};
use super::run::{is_in, read, save_of};
use super::{BLOCK, HostAccess, MEMBER, ROWS, Setup, State, StepProgress, blocks_of};
use volume_state::{Moved, Mover};

/// Every set of at most `most` lost drives that includes these.
fn sets(setup: &Setup, failed: u8, most: u32) -> impl Iterator<Item = u8> {
    (0..=setup.all()).filter(move |set| set & failed == failed && set.count_ones() <= most)
}

impl State {
    /// All states that a crash now may leave, after the following start.
    ///
    /// # Errors
    /// The violated property.
    pub(super) fn crashes(&self, setup: &Setup) -> Result<Vec<(String, State)>, String> {
        let mut left = Vec::new();
        for lost in sets(setup, self.failed, setup.tolerance()) {
            let mut kill = self.clone();
            bits(lost).for_each(|drive| kill.lose(drive));
            kill.failed = lost;
            let kill = kill.restarted(setup);
            for (is_cut, cells) in std::iter::once((false, kill.cells))
                .chain(cuts(&kill.cells).map(|cells| (true, cells)))
            {
                let mut state = State { cells, ..kill.clone() };
                let what = if is_cut { "power cut" } else { "kill" };
                let label =
                    format!("{what}, drives lost: {:?}", bits(lost).collect::<Vec<usize>>());
                state.look(setup, is_cut).map_err(|wrong| format!("{label}: {wrong}"))?;
                left.push((label, state));
            }
        }
        Ok(left)
    }

    fn lose(&mut self, drive: usize) {
        self.labels[drive] = (0, Moved::default());
        self.cells[drive * ROWS..(drive + 1) * ROWS].fill(Cell::of(0));
    }

    /// A start uses the newest label. Any label would do, since no step continues before a record
    /// is on every drive.
    fn restarted(&self, setup: &Setup) -> State {
        let alive = bits(setup.all() & !self.failed).map(|drive| self.labels[drive]);
        let (generation, moved) =
            alive.max_by_key(|(generation, _)| *generation).unwrap_or_default();
        State {
            generation,
            mover: Mover::new(setup.reshape(), moved),
            doing: StepProgress::Nothing,
            door: HostAccess::start(setup, moved),
            in_flight: None,
            fails: 0,
            failing_steps: 0,
            crashes: self.crashes - 1,
            ..self.clone()
        }
    }

    /// Reads all blocks as the label says, and takes one possible result of the power cut as the
    /// truth.
    fn look(&mut self, setup: &Setup, is_cut: bool) -> Result<(), String> {
        if is_cut {
            self.dirty = None;
        }
        let moved = self.mover.recorded();
        if !setup.reshape().allows(moved) {
            return Err(format!("the label says {moved:?}"));
        }
        let save = save_of(setup);
        let reshape = setup.reshape();
        let (by_new, saved) =
            (blocks_of(reshape.by_new(moved.bytes)), blocks_of(reshape.saved_range(moved)));
        for block in 0..setup.blocks {
            let value = match block {
                _ if is_in(by_new, block) => read(&setup.to, 0, block, &self.cells, self.failed),
                _ if is_in(saved, block) => {
                    read(&save, MEMBER, block - saved.0, &self.cells, self.failed)
                }
                _ => read(&setup.from, 0, block, &self.cells, self.failed),
            };
            let is_dirty = self.dirty.is_some_and(|(at, _)| at == block);
            let allowed =
                if is_cut || is_dirty { self.sure[block] } else { 1 << self.truth[block] };
            match value {
                Some(value) if allowed >> value & 1 == 1 => {
                    if is_cut {
                        self.truth[block] = value;
                    }
                }
                value => {
                    return Err(format!(
                        "by {moved:?} block {block} reads as {value:?}, and {:?} was written",
                        self.truth[block]
                    ));
                }
            }
        }
        self.look_behind(setup, moved)
    }

    /// Before the first move the reshape can be cancelled: blocks past the volume's end are
    /// unchanged.
    fn look_behind(&self, setup: &Setup, moved: Moved) -> Result<(), String> {
        let all =
            if moved == Moved::default() { (setup.from.capacity().0 / BLOCK) as usize } else { 0 };
        for block in setup.blocks..all {
            let value = read(&setup.from, 0, block, &self.cells, self.failed);
            if value != Some(0) {
                return Err(format!(
                    "nothing has moved, and block {block}, behind the last one, reads as {value:?}"
                ));
            }
        }
        Ok(())
    }

    /// After the last move the volume has the redundancy of the new level.
    ///
    /// # Errors
    /// The missing redundancy.
    pub(super) fn look_at_end(&self, setup: &Setup) -> Result<(), String> {
        let most = u32::from(setup.to.survives().at_least.0).min(setup.to.drives().0.into());
        for lost in sets(setup, self.failed, most) {
            for block in 0..setup.blocks {
                let value = read(&setup.to, 0, block, &self.cells, lost);
                if value != Some(self.truth[block]) {
                    return Err(format!(
                        "all is moved, and without drives {lost:b} block {block} reads as {value:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// All states that a power cut may leave on the drives.
fn cuts(cells: &[Cell]) -> impl Iterator<Item = [Cell; super::DRIVES * ROWS]> + use<> {
    let mut ways: Vec<[Cell; super::DRIVES * ROWS]> = vec![std::array::from_fn(|at| cells[at])];
    for at in 0..cells.len() {
        if cells[at].may.count_ones() > 1 {
            let values = (0..16).filter(|value| cells[at].may >> value & 1 == 1);
            ways = values
                .flat_map(|value| {
                    ways.iter().map(move |way| {
                        let mut cut = *way;
                        cut[at] = Cell::of(value);
                        cut
                    })
                })
                .collect();
        }
    }
    ways.into_iter()
}
