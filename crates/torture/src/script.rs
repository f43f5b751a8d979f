//! The script of a life and its end: drawn before it begins, a function of the seed and the life's
//! number.

use crate::life::Plan;
use crate::setup::Setup;
use platform_sim::Rng;

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LifeEnd {
    /// The process is killed.
    Kill,
    /// The power is cut.
    PowerCut,
}

/// Where a life is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Not at all: it ends by itself.
    Never,
    /// After this number of events: during start, recovery or checks.
    AtEvent(u64),
    /// After this number of events since that request.
    AtRequest(u64, u64),
}

/// See the [module](self).
pub(crate) struct Script {
    pub plan: Plan,
    pub cut: Cut,
    pub fate: LifeEnd,
    /// The random stream for other draws of this life.
    pub rng: Rng,
}

impl Script {
    pub fn draw(setup: &Setup, life: u64) -> Script {
        let mut rng = Rng::new(setup.seed, "life", &life.to_string());
        // Lives that are cut off early send no requests: the others send more.
        let share = setup.ops / (setup.lives + 1);
        let ops = rng.between(share / 4, share * 7 / 2);
        // Some lives end at their begin, some during requests; a few end by themselves.
        let cut = match rng.below(8) {
            0 => Cut::AtEvent(rng.between(1, 600)),
            1 => Cut::AtEvent(rng.between(1, 5000)),
            2 => Cut::AtEvent(1 << rng.below(16)),
            3..=5 => Cut::AtRequest(rng.below(ops.max(1)), rng.below(400)),
            _ => Cut::Never,
        };
        let plan = Plan {
            look_first: rng.chance(2, 3),
            wait_for_resync: rng.chance(1, 3),
            bring_back: rng.chance(1, 2),
            replace: rng.chance(1, 2),
            ops,
            cut_at: match cut {
                Cut::AtRequest(request, events) => Some((request, events)),
                _ => None,
            },
            shut_down: rng.chance(1, 2),
            ..Plan::default()
        };
        let fate = if rng.chance(1, 2) { LifeEnd::PowerCut } else { LifeEnd::Kill };
        Script { plan, cut, fate, rng }
    }
}
