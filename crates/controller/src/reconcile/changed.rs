//! Drives whose file or size changed: a file that was truncated, deleted or replaced, a device that
//! shrank.
//!
//! A read past the end of a shrunk drive fails at once. A deleted file continues to accept writes,
//! into an inode that can never be opened again. Files are therefore checked at intervals, and
//! devices with their health query. A changed member fails with that reason. Drives that could not
//! be opened are retried at the same interval.

use crate::arrays::failures::Failing;
use crate::inventory::Drive;
use crate::reconcile::Reconciler;
use crate::signals::wait_or;
use ondisk::Cause;
use platform::IoErrorKind;
use std::rc::Rc;
use std::time::Duration;

/// The interval of file checks.
const LOOK: Duration = Duration::from_secs(30);

impl Reconciler {
    /// Checks files for changes until the controller stops.
    pub(crate) async fn watch_changes(self: Rc<Self>) {
        loop {
            let stops = || self.attention.is_closing();
            if wait_or(&self.env, self.attention.changed(), stops, self.env.now() + LOOK).await {
                return;
            }
            for drive in self.inventory.changed(self.inventory.drives()).await {
                self.put_changed_out(&drive).await;
            }
            self.inventory.drop_newcomers();
            self.look_at_closed().await;
        }
    }

    /// Opens registered drives that could not be opened before: one of them may complete a stopped
    /// array.
    async fn look_at_closed(&self) {
        let mut closed = self.inventory.drives();
        // Spares are checked with the health of drives.
        let is_closed = |drive: &Rc<Drive>| drive.access().is_none() && drive.spare().is_none();
        closed.retain(|drive| {
            is_closed(drive) && !self.arrays.is_in_use(drive) && !drive.is_volatile()
        });
        self.inventory.look_at(closed.clone()).await;
        for drive in closed.iter().filter(|drive| drive.access().is_some()) {
            if self.inventory.keeps_given(drive).await {
                drive.note_late();
            }
        }
    }

    /// Fails a drive whose file or size changed.
    pub(super) async fn put_changed_out(self: &Rc<Self>, drive: &Rc<Drive>) {
        let place = self.arrays.place_of(drive).filter(|(array, _)| array.is_running());
        let Some((array, slot)) = place else { return };
        let _turn = array.metadata_turn().await;
        let is_it = array.drive(slot).is_some_and(|other| Rc::ptr_eq(&other, drive));
        if is_it && array.in_use().contains(&slot) {
            let what = format!("a check of it: {}", platform::IoError::new(IoErrorKind::Changed));
            let failing = Failing { slot, cause: Cause::Error, what, is_lasting: false };
            self.arrays.put_out(&array, vec![failing]).await;
        }
    }
}
