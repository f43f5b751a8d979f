//! Drives that are not what they were: a file that was truncated, deleted or replaced, a device that shrank.
//!
//! Reading past the end of what shrank tells at once. A file that was deleted goes on taking writes, into an inode that
//! nobody will find again; so every file is looked at every so often, and a device when it is asked for its health. A member
//! that changed goes out of service, with that reason. Drives that could not be opened are tried again as often.

use crate::arrays::failures::Failing;
use crate::inventory::Drive;
use crate::reconcile::Reconciler;
use crate::signals::wait_or;
use ondisk::Cause;
use platform::IoErrorKind;
use std::rc::Rc;
use std::time::Duration;

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(30);

impl Reconciler {
    /// Looks whether files are what they were, until the controller stops.
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

    /// Drives that are registered and could not be opened: one may answer now, and complete an array that is not started.
    async fn look_at_closed(&self) {
        let mut closed = self.inventory.drives();
        // Spares are looked at with the health of drives.
        let is_closed = |drive: &Rc<Drive>| drive.access().is_none() && drive.spare().is_none();
        closed.retain(|drive| is_closed(drive) && !self.arrays.is_in_use(drive) && !drive.is_volatile());
        self.inventory.look_at(closed.clone()).await;
        for drive in closed.iter().filter(|drive| drive.access().is_some()) {
            if self.inventory.keeps_given(drive).await {
                drive.note_late();
            }
        }
    }

    /// A drive is not what it was.
    pub(super) async fn put_changed_out(self: &Rc<Self>, drive: &Rc<Drive>) {
        let place = self.arrays.place_of(drive).filter(|(array, _)| array.is_running());
        let Some((array, slot)) = place else { return };
        let _turn = array.metadata_turn().await;
        let is_it = array.drive(slot).is_some_and(|other| Rc::ptr_eq(&other, drive));
        if is_it && array.in_use().contains(&slot) {
            let what = format!("a look at it: {}", platform::IoError::new(IoErrorKind::Changed));
            let failing = Failing { slot, cause: Cause::Error, what, is_lasting: false };
            self.arrays.put_out(&array, vec![failing]).await;
        }
    }
}
