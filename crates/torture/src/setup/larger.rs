//! The draws of drives that become larger, from a separate stream: other draws do not change,
//! except for the maximum length of drives.

use super::{Setup, TAIL, VolumeRole};
use crate::options::{Larger, Lie, Options};
use layout::Level;
use platform_sim::Rng;
use units::ByteCount;

/// Drives that become larger.
#[derive(Clone, Debug)]
pub struct LargerSetup {
    /// The initial shortfall of each of the array's drives from its maximum length. Replacements
    /// have the maximum length.
    pub by: ByteCount,
    /// A first extension that is too small to move the metadata at the end. `None`: one extension
    /// to the maximum length.
    pub a_little: Option<ByteCount>,
}

impl LargerSetup {
    /// One line for people.
    pub fn describe(&self) -> String {
        let a_little = self.a_little.map(|by| format!(", by {by} first")).unwrap_or_default();
        format!("its drives may become {} larger{a_little}", self.by)
    }
}

/// Makes the first volume's drives larger, in some runs.
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
    let on_same = first.beside.iter_mut().filter(|other| other.place == VolumeRole::SameDrives);
    for other in on_same {
        other.drives.iter_mut().for_each(|drive| drive.size += by);
        other.larger = Some(larger.clone());
    }
    first.drives.iter_mut().chain(&mut first.replacements).for_each(|drive| drive.size += by);
    first.larger = Some(larger);
}
