//! How much of their upper limit tasks may use beside hosts: feedback from hosts' latency.
//!
//! For each volume, requests are counted that began while tasks worked, and those of them that were
//! [slow](crate::shard::meter). If too many were, the level is lowered, otherwise it is raised. All
//! steps are factors: any level is reached in a few cycles. The volume that suffers most decides,
//! because tasks and volumes share drives.

use crate::messages::HostRequests;
use crate::shard::cycle;
use crate::shard::meter::SLOW_ONE_IN;
use crate::volume::VolumeId;
use platform::Instant;
use std::time::Duration;

/// The level without a limit by feedback, in thousandths.
pub(crate) const FULL_LEVEL: u32 = 1000;

/// The level before anything is measured.
const START: u32 = FULL_LEVEL / 4;

/// The least level: below the floor of tasks it has no effect, and would only rise later.
const LEAST: u32 = FULL_LEVEL / 20;

/// The number of requests that decides. Of them, five may be slow.
const ENOUGH: u64 = 5 * SLOW_ONE_IN;

/// With fewer requests, those of this time decide, if there are some.
const LONG: Duration = Duration::from_secs(5);
const SOME: u64 = 20;

/// A volume is forgotten this long after its last request.
const FORGET_AFTER: Duration = Duration::from_secs(5);

/// The levels by the volumes whose hosts are active.
#[derive(Default)]
pub(crate) struct Levels {
    of: Vec<OfVolume>,
}

struct OfVolume {
    volume: VolumeId,
    level: u32,
    /// Requests since the level changed.
    all: u64,
    slow: u64,
    changed: Instant,
    heard: Instant,
}

impl Levels {
    /// The level of all tasks, in thousandths.
    pub(crate) fn level(&self) -> u32 {
        self.of.iter().map(|of| of.level).min().unwrap_or(START)
    }

    /// Adds what a shard has counted, and changes the levels of volumes with enough of it.
    pub(crate) fn hear(&mut self, requests: &[HostRequests], now: Instant) {
        self.of.retain(|of| now.since(of.heard) < FORGET_AFTER);
        for HostRequests { volume, all, slow } in requests {
            let index = match self.of.iter().position(|of| of.volume == *volume) {
                Some(index) => index,
                None => {
                    self.of.push(OfVolume::new(*volume, now));
                    self.of.len() - 1
                }
            };
            let of = &mut self.of[index];
            of.all += all;
            of.slow += slow;
            of.heard = now;
            of.change_if_due(now);
        }
    }
}

impl OfVolume {
    fn new(volume: VolumeId, now: Instant) -> OfVolume {
        OfVolume { volume, level: START, all: 0, slow: 0, changed: now, heard: now }
    }

    fn change_if_due(&mut self, now: Instant) {
        let time = now.since(self.changed);
        let is_enough = self.all >= ENOUGH || (time >= LONG && self.all >= SOME);
        if !is_enough || time < cycle::SHORTEST {
            return;
        }
        let permitted = (self.all / SLOW_ONE_IN).max(1);
        self.level = match self.slow {
            slow if slow > permitted * 2 => self.level / 2,
            slow if slow > permitted => self.level * 4 / 5,
            slow if slow > permitted * 3 / 4 => self.level,
            slow if slow > permitted / 4 => self.level * 5 / 4,
            _ => self.level * 3 / 2,
        };
        self.level = self.level.clamp(LEAST, FULL_LEVEL);
        (self.all, self.slow, self.changed) = (0, 0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(levels: &mut Levels, volume: u32, requests: (u64, u64), second: u64) -> u32 {
        let (all, slow) = requests;
        let requests = HostRequests { volume: VolumeId(volume), all, slow };
        levels.hear(&[requests], Instant { ns: second * 1_000_000_000 });
        levels.level()
    }

    #[test]
    fn a_level_follows_the_number_of_slow_requests() {
        let mut levels = Levels::default();
        assert_eq!(hear(&mut levels, 1, (1000, 0), 1), START, "less than a cycle");
        assert_eq!(hear(&mut levels, 1, (1000, 2), 2), START * 3 / 2);
        let before = levels.level();
        assert_eq!(hear(&mut levels, 1, (1000, 11), 3), before * 4 / 5);
        let before = levels.level();
        assert_eq!(hear(&mut levels, 1, (1000, 21), 4), before / 2);
        let before = levels.level();
        assert_eq!(hear(&mut levels, 1, (ENOUGH - 1, 0), 5), before, "too few");
        assert_eq!(hear(&mut levels, 1, (1000, 12), 6), before, "nearly too many");
        assert_eq!(hear(&mut levels, 1, (1000, 7), 7), before * 5 / 4);
        let before = levels.level();
        assert_eq!(hear(&mut levels, 1, (SOME / 2, 0), 10), before, "too few");
        assert_eq!(hear(&mut levels, 1, (SOME / 2, 3), 12), before / 2, "few, in a long time");
        for second in 13..45 {
            hear(&mut levels, 1, (1000, 5), second);
        }
        assert_eq!(levels.level(), FULL_LEVEL);
    }

    #[test]
    fn the_volume_that_suffers_most_decides_until_it_is_quiet() {
        let mut levels = Levels::default();
        for second in 1..30 {
            hear(&mut levels, 1, (1_000_000, 0), second);
            hear(&mut levels, 2, (100, 100), second);
        }
        assert_eq!(levels.level(), LEAST);
        let later: Vec<u32> = (30..40).map(|s| hear(&mut levels, 1, (1000, 0), s)).collect();
        assert_eq!((later[0], later[9]), (LEAST, FULL_LEVEL));
    }
}
