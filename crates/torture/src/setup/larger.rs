//! What a seed draws of drives that become larger. The draws are its own: everything else is what it is without them, but for how long drives can be.

use super::{Place, Setup, TAIL};
use crate::options::{Larger, Lie, Options};
use layout::Level;
use platform_sim::Rng;
use units::ByteCount;

/// Drives that become larger.
#[derive(Clone, Debug)]
pub struct LargerSetup {
    /// By how much each of the array's drives is shorter at first than it can be. Others that take a place there are as long as they can be.
    pub by: ByteCount,
    /// By how much of that they become longer before: too little for what lies at their end to be moved. None if they become as long as they can be at once.
    pub a_little: Option<ByteCount>,
}

impl LargerSetup {
    /// One line for people.
    pub fn describe(&self) -> String {
        let a_little = self.a_little.map(|by| format!(", by {by} first")).unwrap_or_default();
        format!("its drives may become {} larger{a_little}", self.by)
    }
}

/// Has the drives of the first volume become larger, in some runs.
pub(super) fn draw(first: &mut Setup, options: &Options) {
    let mut rng = Rng::new(first.seed, "larger drives", "");
    let drawn = rng.chance(1, 3) && first.migrations.is_some();
    let is_there = match options.larger {
        Larger::Never => false,
        Larger::Drawn => drawn,
        Larger::Always => true,
    };
    let can = !matches!(first.level, Level::Jbod | Level::Raid1e) && !first.drives_are_made;
    if !is_there || !can || options.lie != Lie::None {
        return;
    }
    let by = TAIL + ByteCount(rng.below(3) * rng.below(512) * 4096);
    let a_little = rng.chance(1, 4).then(|| ByteCount(rng.between(1, TAIL.0 / 4096 - 1) * 4096));
    let larger = LargerSetup { by, a_little };
    let on_same = first.beside.iter_mut().filter(|other| other.place == Place::SameDrives);
    for other in on_same {
        other.drives.iter_mut().for_each(|drive| drive.size += by);
        other.larger = Some(larger.clone());
    }
    first.drives.iter_mut().chain(&mut first.replacements).for_each(|drive| drive.size += by);
    first.larger = Some(larger);
}
