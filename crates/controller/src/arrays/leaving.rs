//! Members that no volume uses any more, after a reshape to fewer drives.
//!
//! # Order of steps
//! 1. The label that names one volume again says how many members it uses. No shard sends requests
//!    to the others any more. After a crash here: the remaining steps follow the next start.
//! 2. The next label does not name those members, and lists their own labels for removal.
//! 3. Those labels are removed. After a crash before that, the next start with all drives removes
//!    them.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use ondisk::{Label, Member};
use std::rc::Rc;

/// The number of members that an array's volumes use, from the first one: all members while a
/// volume is reshaping or queued.
fn wanted(label: &Label) -> usize {
    let all = label.member.len();
    let is_moving =
        label.volume.iter().any(|of| of.reshape.is_some() || of.is_part() || of.follows.is_some());
    let most = label.volume.iter().map(|of| of.members.map_or(all, usize::from)).max();
    most.filter(|_| !is_moving).unwrap_or(all)
}

/// Removes the members that no volume uses from a label. Returns them.
fn split_rest(next: &mut Label) -> Vec<Member> {
    let gone = next.member.split_off(wanted(next));
    for member in &gone {
        let replacement = member.replacement.as_ref().map(|replacement| replacement.uuid);
        [Some(member.uuid), replacement]
            .into_iter()
            .flatten()
            .for_each(|uuid| next.remember_leaving(uuid));
    }
    if !gone.is_empty() {
        next.volume.iter_mut().for_each(|of| of.members = None);
        // The label may have been read from one of them.
        if next.slot().is_none() {
            next.drive = next.member.first().map_or(next.drive, |member| member.uuid);
        }
    }
    gone
}

impl Array {
    /// The number of members that its volumes use, from the first one: the others are about to
    /// leave.
    pub(crate) fn wanted_members(&self) -> usize {
        wanted(&self.label())
    }

    /// Checks that no member is about to leave.
    ///
    /// # Errors
    /// A sentence, when one is.
    pub(crate) fn check_all_stay(&self) -> Result<()> {
        if self.wanted_members() == self.label().member.len() {
            return Ok(());
        }
        let sentence = format!(
            "drives of {} are about to become unused; run 'softroc drive list', and try again when \
                they are",
            self.names()
        );
        Err(Error::new(ErrorKind::WrongState, sentence))
    }
}

impl Arrays {
    /// Steps 2 and 3. The caller holds the lock of operators' commands: no command concerns a slot
    /// that leaves.
    ///
    /// # Errors
    /// When it cannot be recorded: a sentence.
    pub(crate) async fn let_members_go(
        self: &Rc<Self>,
        array: &Rc<Array>,
    ) -> std::result::Result<(), String> {
        if array.check_all_stay().is_ok() {
            return Ok(());
        }
        let _starting = array.starting.take(1).await;
        let _turn = array.metadata.take(1).await;
        let mut next = array.label();
        let gone = split_rest(&mut next);
        let left = self.commit_fewer(array, next).await;
        let left = left.ok_or_else(|| {
            format!(
                "the removal of drives from {} cannot be recorded on the remaining ones",
                array.names()
            )
        })?;
        self.report_gone(array, &gone);
        for drive in left {
            self.take_left_label_off(array, &drive).await;
        }
        array.look_at_state(self.env.unix_time());
        Ok(())
    }

    fn report_gone(&self, array: &Array, gone: &[Member]) {
        for Member { name, .. } in gone {
            let (names, cause) = (array.names(), "a volume was reshaped to fewer drives");
            let text = format!("{names} does not use drive {name} any more: {cause}");
            self.events.report(EventCode::DriveRemoved, name, cause, "the drive is unused", text);
        }
    }
}
