//! What a life is to be, and how it is to end: drawn before it begins, and a function of the seed and its number.

use crate::life::Plan;
use crate::setup::Setup;
use platform_sim::Rng;

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The process is killed.
    Kill,
    /// The power is cut.
    PowerCut,
}

/// Where a life is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Nowhere: it comes to its own end, and ends so after that.
    Never,
    /// So many events after it began: while it starts, recovers, is looked at.
    AtEvent(u64),
    /// So many events after it began to send that request.
    AtRequest(u64, u64),
}

/// See the [module](self).
pub(crate) struct Script {
    pub plan: Plan,
    pub cut: Cut,
    pub fate: Fate,
    /// What else is drawn for this life.
    pub rng: Rng,
}

impl Script {
    pub fn draw(setup: &Setup, life: u64) -> Script {
        let mut rng = Rng::new(setup.seed, "life", &life.to_string());
        // Lives that are cut off early send nothing: the others send more.
        let share = setup.ops / (setup.lives + 1);
        let ops = rng.between(share / 4, share * 7 / 2);
        // Some lives end while they begin, some while they work; a few come to their own end.
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
        let fate = if rng.chance(1, 2) { Fate::PowerCut } else { Fate::Kill };
        Script { plan, cut, fate, rng }
    }
}
