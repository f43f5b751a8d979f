//! Read-back before a host's write of unreadable blocks is acknowledged: it checks that the drives
//! kept the data.
//!
//! # Invariants
//! - A write of punctured blocks, or over blocks that its attempts could not read, is read back
//!   before it is acknowledged. A block that its drive did not keep is excluded, durably, and
//!   redundancy must have its content; otherwise the write fails.
//! - An exclusion is durable before the block leaves the punctured list: between the two it counts
//!   as zeros, and its region is marked.

use crate::members::{Places, is_gone};
use crate::recovery::{Mend, Recovery};
use crate::stripe::{Attempt, Ended, Host, Kept, Told, Trouble};
use layout::Role;
use plan::Request;
use platform::{Durability, IoError, IoErrorKind, Slice};
use smallvec::smallvec;
use std::rc::Rc;
use units::{ByteOffset, ByteRange, DriveIndex, StripeIndex};

impl Recovery {
    /// Reads back blocks of a stripe after a host's write: those that were punctured (`rewritten`)
    /// and those that its attempts could not read. The caller holds the stripe, or these columns,
    /// exclusively.
    ///
    /// # Errors
    /// When redundancy lacks the content of a block that its drive did not keep, or the block
    /// cannot be listed.
    pub(super) async fn confirm(
        self: &Rc<Self>,
        stripe: StripeIndex,
        rewritten: &Places,
        unreadable: &Places,
    ) -> Result<(), IoError> {
        let mut suspects = unreadable.clone();
        for (home, range) in rewritten {
            suspects.extend(self.copies_of(stripe, *home, *range));
        }
        let mut not_kept = Places::new();
        for (drive, range) in super::repair::merged(&suspects) {
            let Ok(member) = self.member(drive) else { continue };
            let Ok(runs) = self.probe(drive, &member, range).await else { continue };
            let runs: Vec<ByteRange> = runs.iter().map(|run| run.intersection(range)).collect();
            let runs: Vec<ByteRange> = runs.into_iter().filter(|run| !run.is_empty()).collect();
            not_kept.extend(runs.iter().map(|run| (drive, *run)));
            if self.is_redundant() {
                self.exclude(drive, &member, runs).await?;
            }
        }
        for (drive, range) in not_kept.iter().copied() {
            if !self.is_had(stripe, (drive, range), &not_kept).await {
                // Redundancy agrees with the written data. The block is given up, so that the
                // others of its columns are protected.
                for sector in self.sectors_of(range) {
                    let Some(located) = self.locate(drive, sector.start) else { continue };
                    let columns = ByteRange::new(ByteOffset(located.within.0), sector.len);
                    self.take_for_lost(stripe, columns, Mend::GiveUp).await?;
                }
                return Err(IoError::new(IoErrorKind::Medium));
            }
        }
        Ok(())
    }

    /// Handles a host's failed write: drives refused some of its blocks, and redundancy is needed
    /// for others. If the drives can read their old content, that counts again; otherwise the
    /// blocks are punctured, and count as zeros. So the other blocks of their columns keep their
    /// content. The caller holds the columns exclusively.
    ///
    /// The refused blocks are excluded, and until the old content is put back, parity includes the
    /// new content. The write's journal record is held until all of them are put back: after a
    /// crash, the replay punctures the blocks that are refused again. Then the record is revoked:
    /// its replay would overwrite the old content again. Putting back has no record of its own: the
    /// ring may be full of held records. A block is listed as punctured only after parity has been
    /// computed with zeros for it.
    ///
    /// # Errors
    /// When a block cannot be listed, or the record cannot be revoked. Then these blocks, and those
    /// that need them, cannot be read.
    pub(super) async fn put_back(
        self: &Rc<Self>,
        stripe: StripeIndex,
        mut refused: Trouble,
    ) -> Result<(), IoError> {
        let (unkept, mut record) = (std::mem::take(&mut refused.unkept), refused.record.take());
        let is_recorded = record.is_some();
        let done = self.put_all_back(stripe, unkept, &mut record).await;
        drop(record);
        match is_recorded {
            true => done.and(self.silence(stripe).await),
            false => done,
        }
    }

    /// The same; `record`: the record of the write.
    async fn put_all_back(
        self: &Rc<Self>,
        stripe: StripeIndex,
        unkept: Vec<Told>,
        record: &mut Option<Box<Kept>>,
    ) -> Result<(), IoError> {
        if self.geometry().parity_strips() == 0 {
            // No copy accepted it: the readable content is the old one.
            for Told { drive, range, .. } in unkept {
                let Ok(member) = self.member(drive) else { continue };
                self.include_what_is_kept(drive, &member, range).await;
            }
            return Ok(());
        }
        for told in unkept {
            let (drive, range) = (told.drive, told.range);
            let Some(located) = self.locate(drive, range.start) else { continue };
            let (Role::Data { index, .. }, Ok(member)) = (located.role, self.member(drive)) else {
                continue;
            };
            let outcome = member
                .read(self.raw(range.start), smallvec![platform::Buf::unpooled(range.len)])
                .await;
            let held = match outcome.result {
                Ok(_) => outcome.buffers.into_iter().next(),
                Err(error) if error.is_of_blocks() || is_gone(&error) => None,
                // Its content may be readable later: it is not given up, and stays in doubt.
                Err(_) => continue,
            };
            let is_held = held.is_some();
            let old = held.map_or(Slice::zero(range.len), platform::Buf::freeze);
            let start = self.geometry().strip().bytes().0 * u64::from(index.0) + located.within.0;
            let request = Request::Write { range: ByteRange::new(ByteOffset(start), range.len) };
            let host = Host::Payload(old.into(), Durability::Durable);
            let mut trouble =
                Trouble { told: Some(told), record: record.take(), ..Trouble::default() };
            let (ended, _) =
                self.attempt(stripe, request, host, &mut trouble, &Attempt::HELD).await;
            *record = trouble.record;
            match ended {
                Ended::Done { skipped, .. } => self.recorded(&skipped).await?,
                // They stay in doubt, with the blocks that need them.
                Ended::Lost | Ended::NeedsLock | Ended::Failed(_) => continue,
            }
            if is_held {
                self.include_what_is_kept(drive, &member, range).await;
            } else if let Some((home, named)) = self.home_of(drive, range) {
                self.list_lost(home, named).await?;
            }
        }
        Ok(())
    }

    /// The places of all copies of a part of a data strip, which its first copy identifies.
    fn copies_of(&self, stripe: StripeIndex, home: DriveIndex, range: ByteRange) -> Places {
        let Some(located) = self.geometry().locate(home, range.start) else { return Places::new() };
        let Role::Data { index: wanted, .. } = located.role else { return Places::new() };
        let cells = self.map(stripe).cells();
        let copies =
            cells.filter(|(_, role)| matches!(role, Role::Data { index, .. } if *index == wanted));
        copies
            .map(|(cell, _)| (cell.drive, ByteRange::new(cell.offset + located.within, range.len)))
            .collect()
    }

    /// Whether other drives can restore data that a drive did not keep. Parity is computed from
    /// data. Excluded blocks of these columns are not read, even if still punctured: punctured
    /// blocks count as zeros only until the write is acknowledged.
    async fn is_had(
        self: &Rc<Self>,
        stripe: StripeIndex,
        (drive, range): (DriveIndex, ByteRange),
        not_kept: &Places,
    ) -> bool {
        let Some(located) = self.locate(drive, range.start) else { return true };
        let Role::Data { index, .. } = located.role else { return true };
        let columns = ByteRange::new(ByteOffset(located.within.0), range.len);
        let is_beside = |(drive, range): &&(DriveIndex, ByteRange)| {
            let within =
                self.locate(*drive, range.start).map(|located| ByteOffset(located.within.0));
            within.is_some_and(|start| ByteRange::new(start, range.len).overlaps(columns))
        };
        let unbelieved = not_kept.iter().filter(is_beside).map(|(drive, _)| *drive).collect();
        let start = self.geometry().strip().bytes().0 * u64::from(index.0) + located.within.0;
        let request = self.read_request(stripe, ByteRange::new(ByteOffset(start), range.len));
        let buf = Host::Buffer(platform::Buf::unpooled(range.len));
        let how = Attempt { unbelieved, ..Attempt::HELD };
        let (ended, _) = self.attempt(stripe, request, buf, &mut Trouble::default(), &how).await;
        matches!(ended, Ended::Done { .. })
    }
}
