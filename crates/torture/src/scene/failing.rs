//! When a request may fail.

use super::Scene;
use units::DriveSet;

impl Scene {
    /// Whether a request may fail now: more is lost than the level survives, or the system refuses operations for now. Where parity may not agree with
    /// data after a crash, any fault is more, but for drives of which an operator forced what parity says. The operator's word is about what such
    /// a drive had missed, and not about blocks of it that were current, and cannot be read since.
    pub fn may_fail(&self) -> bool {
        self.is_too_much_lost() || self.array.faults.borrow().is_busy()
    }

    pub(super) fn is_too_much_lost(&self) -> bool {
        let bad = self.array.unaccepted(&DriveSet::EMPTY);
        let unknown_parity = self.parity_may_lie() && !self.synced.get();
        let unaccepted = self.array.unaccepted(&self.forced.get());
        !self.survives(&bad) || (unknown_parity && !unaccepted.is_empty())
    }
}
