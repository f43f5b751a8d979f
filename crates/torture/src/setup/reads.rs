//! What a seed draws of the read cache. The draws are its own: everything else is what it is without them.

use crate::options::{Lie, Options, Reads};
use controller::{CacheMode, ReadMode};
use platform_sim::Rng;
use units::ByteCount;

/// What is kept of reads in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadsSetup {
    /// How much memory each shard has for it: from some that is always full to some that never is.
    pub room: ByteCount,
    /// Whether the volume reads ahead from the beginning.
    pub read_mode: ReadMode,
    /// Whether the volume keeps what was read from the beginning.
    pub cache_mode: CacheMode,
}

impl ReadsSetup {
    /// A way to read, of the four there are.
    pub fn draw(rng: &mut Rng) -> (ReadMode, CacheMode) {
        let read_mode = if rng.chance(1, 2) { ReadMode::ReadAhead } else { ReadMode::NoReadAhead };
        (read_mode, if rng.chance(2, 3) { CacheMode::Cached } else { CacheMode::Direct })
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        format!("{}, {}, {} for what is read", self.read_mode.name(), self.cache_mode.name(), self.room)
    }
}

/// Has a machine keep what was read, in some runs. Not where a drive lies: what is kept would hide it.
pub(super) fn draw(seed: u64, options: &Options) -> Option<ReadsSetup> {
    let mut rng = Rng::new(seed, "reads", "");
    let drawn = rng.chance(1, 2);
    let room = ByteCount([24 << 10, 128 << 10, 512 << 10, 8 << 20][rng.below(4) as usize]);
    let (read_mode, cache_mode) = ReadsSetup::draw(&mut rng);
    let is_there = match options.reads {
        Reads::Never => false,
        Reads::Drawn => drawn,
        Reads::Always => true,
    };
    (is_there && options.lie == Lie::None).then_some(ReadsSetup { room, read_mode, cache_mode })
}
