//! Members that no volume lies on any more: a volume has come to a layout on fewer drives.
//!
//! # The order of things
//! 1. The label that names one volume again says on how many members it lies. No shard asks the others for anything any more. Killed here: the
//!    rest follows the next start.
//! 2. The next label names those members no more, and remembers that their own labels are to come off.
//! 3. Those are taken off. Killed before that: the next start with all drives does it.

use crate::arrays::Arrays;
use crate::arrays::array::Array;
use crate::events::EventCode;
use crate::interface::{Error, ErrorKind, Result};
use ondisk::{Label, Member};
use std::rc::Rc;

/// On how many of an array's members, the first ones, its volumes lie: on all while one is on its way, or is to be.
fn wanted(label: &Label) -> usize {
    let all = label.member.len();
    let is_moving =
        label.volume.iter().any(|of| of.reshape.is_some() || of.is_part() || of.follows.is_some());
    let most = label.volume.iter().map(|of| of.members.map_or(all, usize::from)).max();
    most.filter(|_| !is_moving).unwrap_or(all)
}

/// Has a label name the members no more that no volume lies on. Which they were.
fn split_rest(next: &mut Label) -> Vec<Member> {
    let gone = next.member.split_off(wanted(next));
    for member in &gone {
        let replacement = member.replacement.as_ref().map(|replacement| replacement.uuid);
        [Some(member.uuid), replacement].into_iter().flatten().for_each(|uuid| next.remember_leaving(uuid));
    }
    if !gone.is_empty() {
        next.volume.iter_mut().for_each(|of| of.members = None);
        // It may have come from one of them.
        if next.slot().is_none() {
            next.drive = next.member.first().map_or(next.drive, |member| member.uuid);
        }
    }
    gone
}

impl Array {
    /// On how many of its members, the first ones, its volumes lie: the others are about to go.
    pub(crate) fn wanted_members(&self) -> usize {
        wanted(&self.label())
    }

    /// Looks that no member of it is about to go.
    ///
    /// # Errors
    /// A sentence, when one is.
    pub(crate) fn check_all_stay(&self) -> Result<()> {
        if self.wanted_members() == self.label().member.len() {
            return Ok(());
        }
        let sentence = format!(
            "drives of {} are about to become unused; run 'softroc drive list', and try again when they are",
            self.names()
        );
        Err(Error::new(ErrorKind::WrongState, sentence))
    }
}

impl Arrays {
    /// Steps 2 and 3. Whoever calls has the turn of operators' commands: none of them is about a slot that goes.
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
            format!("that drives of {} are members no more cannot be recorded on the others", array.names())
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
            let (names, cause) = (array.names(), "a volume has come to a layout on fewer drives");
            let text = format!("{names} does not use drive {name} any more: {cause}");
            self.events.report(EventCode::DriveRemoved, name, cause, "the drive is unused", text);
        }
    }
}
