//! The draws of the read cache, from a separate stream: other draws do not change.

use crate::options::{Lie, Options, Reads};
use controller::{CacheMode, ReadMode};
use platform_sim::Rng;
use units::ByteCount;

/// The read cache of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadsSetup {
    /// The memory of each shard for it: from always full to never full.
    pub room: ByteCount,
    /// Whether the volume reads ahead from the beginning.
    pub read_mode: ReadMode,
    /// Whether the volume caches reads from the beginning.
    pub cache_mode: CacheMode,
}

impl ReadsSetup {
    /// A random combination of the two modes.
    pub fn draw(rng: &mut Rng) -> (ReadMode, CacheMode) {
        let read_mode = if rng.chance(1, 2) { ReadMode::ReadAhead } else { ReadMode::NoReadAhead };
        (read_mode, if rng.chance(2, 3) { CacheMode::Cached } else { CacheMode::Direct })
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        format!("{}, {}, read cache {}", self.read_mode.name(), self.cache_mode.name(), self.room)
    }
}

/// Adds a read cache, in some runs. Not with a lying drive: the cache would hide the lie.
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
