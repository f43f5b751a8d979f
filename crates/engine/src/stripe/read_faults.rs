//! Failed reads of a plan, handled before the commit.

use crate::members::is_gone;
use crate::stripe::Stripes;
use crate::stripe::trouble::Trouble;
use plan::Read;
use platform::{IoError, IoErrorKind, Member};
use std::rc::Rc;
use units::ByteRange;

/// Whether a plan with a failed read is made again.
pub(super) enum Fault {
    PlanAgain,
    Hopeless(IoError),
}

impl Stripes {
    /// Handles a failed read before the commit. Returns whether planning again can help.
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
            tracing::debug!(volume = %volume, drive, "read without this drive: {error}");
            trouble.unread = Some(error);
        }
        trouble.drives.insert(read.drive);
        Fault::PlanAgain
    }
}
