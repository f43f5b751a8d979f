//! The due times of an open loop: fixed in advance, independently of the target.

use crate::generator::random::Random;
use crate::load::profile::Arrivals;
use std::cell::{Cell, RefCell};

/// The due times of requests, in nanoseconds of the environment's clock.
pub(crate) struct Schedule {
    rate: f64,
    arrivals: Arrivals,
    began_ns: u64,
    gap_ns: f64,
    random: RefCell<Random>,
    claimed: Cell<u64>,
    /// The next due time, relative to the beginning.
    next_ns: Cell<f64>,
    /// Claimed requests in the window, and those of them that were overdue.
    in_window: Cell<u64>,
    overdue: Cell<u64>,
}

impl Schedule {
    pub(crate) fn new(rate: f64, arrivals: Arrivals, began_ns: u64, seed: u64) -> Schedule {
        let schedule = Schedule {
            rate,
            arrivals,
            began_ns,
            gap_ns: 1e9 / rate,
            random: RefCell::new(Random::new(seed ^ 0x5CED_01E5)),
            claimed: Cell::new(0),
            next_ns: Cell::new(0.0),
            in_window: Cell::new(0),
            overdue: Cell::new(0),
        };
        if arrivals == Arrivals::Poisson {
            schedule.advance();
        }
        schedule
    }

    fn advance(&self) {
        self.next_ns.set(match self.arrivals {
            // Without summation, since the rounding error of the gap would accumulate.
            Arrivals::Fixed => self.claimed.get() as f64 * self.gap_ns,
            Arrivals::Poisson => {
                self.next_ns.get() + self.random.borrow_mut().exponential(self.gap_ns)
            }
        });
    }

    /// The due time of the next request, which the caller's outstanding I/O claims.
    pub(crate) fn claim(&self, now_ns: u64, window_start_ns: u64) -> u64 {
        let due_ns = self.due_ns();
        self.claimed.set(self.claimed.get() + 1);
        self.advance();
        if due_ns >= window_start_ns {
            self.in_window.set(self.in_window.get() + 1);
            self.overdue.set(self.overdue.get() + u64::from(due_ns < now_ns));
        }
        due_ns
    }

    /// The due time of the next unclaimed request.
    pub(crate) fn due_ns(&self) -> u64 {
        self.began_ns.saturating_add(self.next_ns.get().round() as u64)
    }

    /// Requests a second.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// The distribution of arrivals.
    pub(crate) fn arrivals(&self) -> Arrivals {
        self.arrivals
    }

    /// The percentage of requests in the window that waited because all outstanding I/Os were busy.
    pub(crate) fn overdue_percent(&self) -> f64 {
        self.overdue.get() as f64 * 100.0 / self.in_window.get().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_arrivals_do_not_drift() {
        let schedule = Schedule::new(3.0, Arrivals::Fixed, 1000, 1);
        let due: Vec<u64> = (0..7).map(|_| schedule.claim(0, 0)).collect();
        assert_eq!(due[..4], [1000, 333_334_333, 666_667_667, 1_000_001_000]);
        assert_eq!(due[6], 2_000_001_000);
    }

    #[test]
    fn poisson_arrivals_have_exponential_gaps_of_the_right_mean() {
        let schedule = Schedule::new(1000.0, Arrivals::Poisson, 0, 1);
        let due: Vec<u64> = (0..100_000).map(|_| schedule.claim(0, 0)).collect();
        let mean = due[99_999] as f64 / 1e5;
        assert!((mean / 1e6 - 1.0).abs() < 4.0 / 1e5_f64.sqrt(), "{mean}");
        let long = due.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000).count() as f64 / 1e5;
        assert!((long - (-1.0_f64).exp()).abs() < 0.006, "{long}");
    }

    #[test]
    fn requests_that_found_nobody_free_are_counted_in_the_window() {
        let schedule = Schedule::new(1000.0, Arrivals::Fixed, 0, 1);
        for now_ms in [0, 1, 5, 5, 5, 5, 6, 7] {
            schedule.claim(now_ms * 1_000_000, 2_000_000);
        }
        // Due at 2, 3 and 4 ms and claimed at 5 ms; those of 5, 6 and 7 ms were claimed in time.
        assert_eq!(schedule.overdue_percent(), 50.0);
    }
}
