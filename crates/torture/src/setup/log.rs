//! The draws of log devices, from a separate stream: other draws do not change.

use super::Setup;
use crate::options::{Lie, Log, Options};
use platform_sim::{DriveOptions, Latency, Rng, Unwritten};
use units::{ByteCount, SectorSize};

/// The number of possible log devices.
const DRIVES: usize = 4;

/// The log devices of a run.
#[derive(Clone, Debug)]
pub struct LogSetup {
    /// The possible log devices. They are too small for other uses.
    pub drives: Vec<DriveOptions>,
    /// The number of devices at the controller's first start; 0 if an operator adds them later.
    pub at_first: usize,
}

impl LogSetup {
    /// The devices' names.
    pub fn names(&self) -> Vec<String> {
        (0..self.drives.len()).map(|index| format!("l{index}")).collect()
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        let sizes: Vec<String> = self.drives.iter().map(|drive| drive.size.to_string()).collect();
        let cache = self.drives[0].cache;
        format!(
            "drives for logs of {}, cache {cache}, {} at first",
            sizes.join(", "),
            self.at_first
        )
    }
}

/// Adds log devices to a machine, in some runs.
pub(super) fn draw(first: &Setup, options: &Options) -> Option<LogSetup> {
    let mut rng = Rng::new(first.seed, "log devices", "");
    let drawn = rng.chance(1, 4) && first.has_parity();
    let is_there = match options.log {
        Log::Never => false,
        Log::Drawn => drawn,
        Log::Always => true,
    };
    if !is_there || options.lie != Lie::None {
        return None;
    }
    let at_first = rng.below(3) as usize;
    let latency =
        [Latency::range_us(20, 60), Latency::range_us(50, 500), Latency::range_us(10, 5000)]
            [rng.below(3) as usize];
    let cached = rng.chance(2, 3);
    let drives = (0..DRIVES).map(|_| DriveOptions {
        size: ByteCount(rng.between(7, 24) << 20),
        logical_sector: if rng.chance(1, 4) { SectorSize::B4096 } else { SectorSize::B512 },
        cache: if cached { ByteCount(4096 << rng.below(12)) } else { ByteCount::ZERO },
        unwritten: if rng.chance(1, 2) { Unwritten::Noise } else { Unwritten::Zeroes },
        latency,
        ..DriveOptions::default()
    });
    Some(LogSetup { drives: drives.collect(), at_first })
}
