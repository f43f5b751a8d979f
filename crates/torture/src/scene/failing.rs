//! When a request may fail.
//!
//! A request may fail only while more drives are lost than the level survives. Until parity is
//! consistent after a crash (`write-hole: resync`), any drive fault exceeds that on levels with
//! parity. A dirty, degraded volume with parity must not start by itself; the harness's operator
//! accepts its stale parity. Then sectors of the missing drive beside an interrupted write may have
//! any value, and no others: neither after a further drive failure, nor in reads without drives.
//! Requests must not fail because of that drive any more, nor because of a drive that an operator
//! removed without accepting a loss.

use super::Scene;
use units::DriveSet;

impl Scene {
    /// Whether a request may fail now: more drives are lost than the level survives, or the system
    /// refuses operations. While parity may be inconsistent after a crash, any fault suffices,
    /// except for drives with accepted stale parity. That consent covers data that such a drive had
    /// missed, but not current blocks that became unreadable later.
    pub fn may_fail(&self) -> bool {
        self.is_too_much_lost() || self.array.faults.borrow().is_busy()
    }

    /// Whether an unanswered order may have removed a drive whose data is in unreadable blocks
    /// elsewhere: the controller, which has not read them, carries out the order without data loss.
    pub(super) fn may_lack_copy(&self) -> bool {
        let faults = self.array.faults.borrow();
        let (ordered, unreadable) = (faults.ordered(), faults.unreadable());
        !ordered.is_empty()
            && !unreadable.is_empty()
            && !self.survives(&unreadable.union(&ordered).union(&self.array.out.get()))
    }

    pub(super) fn is_too_much_lost(&self) -> bool {
        let bad = self.array.unaccepted(&DriveSet::EMPTY);
        let unknown_parity = self.parity_may_lie() && !self.synced.get();
        let unaccepted = self.array.unaccepted(&self.forced.get());
        !self.survives(&bad) || (unknown_parity && !unaccepted.is_empty())
    }
}
