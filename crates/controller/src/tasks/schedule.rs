//! Schedules: a period in days and a time of day. This module has no side effects; dates are
//! seconds since 1970, UTC.
//!
//! A task is first due at the next time of day after the schedule was set, then one period after
//! each start. A task missed while SoftROC was not running waits for the next time of day, since
//! the operator chose the hour.
//!
//! A task is due at most one period from now, even after a clock change. A stored time ahead of the
//! clock came from a wrong clock: [`Schedule::follow`] replaces it by the current time.

use serde::{Deserialize, Serialize};

const DAY_S: u64 = 86_400;

/// How late a task may begin; after that it counts as missed.
const GRACE_S: u64 = 3600;

/// A schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    /// Whether it is switched on.
    pub on: bool,
    /// The period in days, at least one.
    pub every_days: u32,
    /// The second of the day.
    pub at_s: u32,
    /// When it was set.
    pub set_unix_s: u64,
    /// When it last started a task.
    pub last_unix_s: Option<u64>,
}

impl Schedule {
    /// Replaces times later than now, after a correction of the clock. Returns whether anything
    /// changed.
    pub(super) fn follow(&mut self, now_unix_s: u64) -> bool {
        let before = *self;
        self.set_unix_s = self.set_unix_s.min(now_unix_s);
        self.last_unix_s = self.last_unix_s.map(|last| last.min(now_unix_s));
        *self != before
    }

    /// When it is due next, as of `now`; `None` if it is off.
    pub(super) fn due(&self, now_unix_s: u64) -> Option<u64> {
        if !self.on {
            return None;
        }
        let at = u64::from(self.at_s);
        let period = u64::from(self.every_days.max(1)) * DAY_S;
        let wished = match self.last_unix_s {
            None => at_or_after(self.set_unix_s, at),
            Some(last) => nearest(last.saturating_add(period), at),
        };
        let wished = wished.min(at_or_before(now_unix_s.saturating_add(period), at));
        let missed = wished.saturating_add(GRACE_S) < now_unix_s;
        Some(if missed { at_or_after(now_unix_s.saturating_sub(GRACE_S), at) } else { wished })
    }
}

/// The first time of day `at` at or after `time`.
fn at_or_after(time: u64, at: u64) -> u64 {
    let today = time / DAY_S * DAY_S + at;
    if today >= time { today } else { today + DAY_S }
}

/// The last time of day `at` at or before `time`, which is no earlier than the first.
fn at_or_before(time: u64, at: u64) -> u64 {
    let today = time / DAY_S * DAY_S + at;
    if today <= time { today } else { today.saturating_sub(DAY_S) }
}

/// The time of day `at` that is nearest to `time`, so that a late start does not delay the next
/// one.
fn nearest(time: u64, at: u64) -> u64 {
    at_or_after(time.saturating_sub(DAY_S / 2), at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MONDAY: u64 = 1_699_833_600; // 2023-11-13 00:00:00
    const TWO: u64 = 2 * 3600;

    fn weekly() -> Schedule {
        Schedule {
            on: true,
            every_days: 7,
            at_s: TWO as u32,
            set_unix_s: MONDAY + 100,
            last_unix_s: None,
        }
    }

    #[test]
    fn the_first_time_is_the_next_time_of_day() {
        assert_eq!(weekly().due(MONDAY + 100), Some(MONDAY + TWO));
        let set_late = Schedule { set_unix_s: MONDAY + TWO + 1, ..weekly() };
        assert_eq!(set_late.due(MONDAY + TWO + 1), Some(MONDAY + DAY_S + TWO));
    }

    #[test]
    fn a_late_start_does_not_move_the_next_one() {
        for late in [0, 5, 3599] {
            let began = Schedule { last_unix_s: Some(MONDAY + TWO + late), ..weekly() };
            assert_eq!(began.due(MONDAY + DAY_S), Some(MONDAY + 7 * DAY_S + TWO));
        }
    }

    #[test]
    fn what_was_missed_waits_for_the_chosen_hour() {
        let began = Schedule { last_unix_s: Some(MONDAY + TWO), ..weekly() };
        let in_three_weeks = MONDAY + 21 * DAY_S;
        assert_eq!(began.due(in_three_weeks + 12 * 3600), Some(in_three_weeks + DAY_S + TWO));
        assert_eq!(
            began.due(in_three_weeks + TWO + 60),
            Some(in_three_weeks + TWO),
            "not missed yet"
        );
    }

    #[test]
    fn what_is_off_is_never_due() {
        assert_eq!(Schedule { on: false, ..weekly() }.due(MONDAY), None);
    }

    /// The clock was 400 days ahead when the schedule was set, then was corrected: the check must
    /// not be due in 400 days.
    #[test]
    fn a_clock_that_was_ahead_delays_nothing_by_more_than_a_period() {
        let ahead = MONDAY + 400 * DAY_S;
        for last_unix_s in [None, Some(ahead + TWO)] {
            let mut schedule = Schedule { set_unix_s: ahead, last_unix_s, ..weekly() };
            let due = schedule.due(MONDAY).unwrap();
            assert!(due <= MONDAY + 7 * DAY_S, "it is told so before anything is changed: {due}");
            assert!(schedule.follow(MONDAY + 50_000) && !schedule.follow(MONDAY + 50_001));
            // The due time approaches as time passes.
            let due = schedule.due(MONDAY + 50_000).unwrap();
            assert!(due <= MONDAY + 50_000 + 7 * DAY_S, "{due}");
            assert_eq!(
                schedule.due(MONDAY + 2 * DAY_S),
                Some(due)
                    .filter(|due| *due >= MONDAY + 2 * DAY_S)
                    .or(Some(MONDAY + 2 * DAY_S + TWO))
            );
        }
        assert!(!weekly().follow(MONDAY + 101), "a clock that is right changes nothing");
    }

    proptest! {
        /// At any time: it is due at its time of day, at most a period (or a day, if that was
        /// missed) away. A task that began when it was due is not due again at once.
        #[test]
        fn it_is_due_at_its_hour_and_once(
            days in 1_u32..100,
            at in 0_u32..86_400,
            set in MONDAY..MONDAY * 2,
            later in 0_u64..1_000_000_000,
        ) {
            let schedule = Schedule {
                on: true,
                every_days: days,
                at_s: at,
                set_unix_s: set,
                last_unix_s: None,
            };
            let now = set + later;
            let due = schedule.due(now).unwrap();
            prop_assert_eq!(due % DAY_S, u64::from(at));
            prop_assert!(due + GRACE_S >= now && due <= now + DAY_S);
            let behind = Schedule { last_unix_s: Some(now + later), ..schedule };
            prop_assert!(behind.due(now).unwrap() <= now + u64::from(days) * DAY_S);
            let began = Schedule { last_unix_s: Some(due.max(now)), ..schedule };
            let next = began.due(due.max(now)).unwrap();
            prop_assert!(next >= due + u64::from(days) * DAY_S - DAY_S / 2, "{next} after {due}");
        }
    }
}
