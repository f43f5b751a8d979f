//! What a read of a plan met on its drive, and what follows from that before the commit.

use crate::members::is_gone;
use crate::stripe::Stripes;
use crate::stripe::trouble::Trouble;
use plan::Read;
use platform::{IoError, IoErrorKind, Member};
use std::rc::Rc;
use units::ByteRange;

/// Whether a plan that could not be read for is made again.
pub(super) enum Fault {
    PlanAgain,
    Hopeless(IoError),
}

impl Stripes {
    /// A read failed before the commit: what is known now, and whether planning again can help.
    pub(super) fn read_fault(
        self: &Rc<Self>,
        read: &Read,
        member: Option<&Rc<Member>>,
        error: IoError,
        trouble: &mut Trouble,
    ) -> Fault {
        if error.kind == IoErrorKind::Invalid {
            tracing::error!(drive = read.drive.0, "a drive refused a read as invalid: {error}");
            return Fault::Hopeless(error);
        }
        if member.is_some_and(|member| !self.members.is_in_slot(read.drive, member)) {
            return Fault::PlanAgain; // Another drive has the slot now.
        }
        if error.kind == IoErrorKind::Late {
            trouble.late.insert(read.drive);
            return Fault::PlanAgain;
        }
        if is_gone(&error) {
            self.fail_drive(read.drive, error, "read");
        } else if error.is_of_blocks() {
            trouble.places.push((read.drive, ByteRange::new(read.offset, read.len)));
        } else {
            let (volume, drive) = (self.name(), read.drive.0);
            tracing::debug!(volume = %volume, drive, "a read is served without a drive: {error}");
            trouble.unread = Some(error);
        }
        trouble.drives.insert(read.drive);
        Fault::PlanAgain
    }
}
