//! Faults of the state folder and the clock between lives: a file is damaged and its copy must
//! replace it, the clock jumps.
//!
//! The draws have a separate stream: other draws do not change.

use crate::scene::Scene;
use crate::tally::Event;
use platform_sim::{Rng, Sim};

/// Files with a copy.
const FILES: [&str; 5] =
    ["drives.toml", "deleted-arrays.toml", "failed-drives.toml", "log.toml", "numbers.toml"];

/// The maximum clock error.
const MOST_DAYS: u64 = 400;

/// Damages at most one file, and sometimes lets the clock jump.
pub(crate) fn happen(sim: &mut Sim, scene: &Scene, life: u64) {
    let mut rng = Rng::new(scene.setup.seed, "state files", &life.to_string());
    if rng.chance(1, 4) {
        damage(sim, scene, &mut rng);
    }
    if rng.chance(1, 4) {
        let ahead = rng.below(2 * MOST_DAYS * 86_400) as i64 - (MOST_DAYS * 86_400) as i64;
        sim.set_clock_ahead(ahead);
        scene.did(Event::ClockJumps);
        scene.tell(|| format!("the clock jumps to {ahead} s ahead"));
    }
}

fn damage(sim: &mut Sim, scene: &Scene, rng: &mut Rng) {
    let file = FILES[rng.below(FILES.len() as u64) as usize];
    let way = rng.below(5);
    let Some(mut content) = sim.stored(file) else { return };
    let how = match way {
        0 => {
            content.clear();
            "empty"
        }
        1 => {
            content.truncate(content.len() - 1);
            "cut off"
        }
        2 => {
            content.fill(0);
            "zeros"
        }
        3 => {
            sim.put_stored(file, None);
            "missing"
        }
        _ => {
            sim.make_stored_unreadable(file, "is a directory");
            "a folder"
        }
    };
    if way < 3 {
        sim.put_stored(file, Some(content));
    }
    scene.did(Event::StateDamaged);
    scene.tell(|| format!("{file} of the state folder is now {how}"));
}
