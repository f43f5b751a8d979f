//! The draws of the drives' time limits, from a separate stream: other draws do not change.

use platform::{LimitsByClass, TimeLimits};
use platform_sim::Rng;
use std::time::Duration;

/// The defaults of local drives, the defaults of remote drives, or random ones.
pub(super) fn draw(seed: u64) -> LimitsByClass {
    let mut rng = Rng::new(seed, "time limits", "");
    let usual = LimitsByClass::default();
    let mut any = || Duration::from_millis([2_000, 5_000, 10_000, 30_000][rng.below(4) as usize]);
    let drawn =
        TimeLimits { short_read: any(), read: any(), write: any(), flush: any(), discard: any() };
    let solid = match rng.below(6) {
        0..=2 => usual.solid,
        3..=4 => usual.remote,
        _ => drawn,
    };
    LimitsByClass { solid, ..usual }
}
