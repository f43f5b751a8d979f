//! Writing records and notices to members, and having them retired.

use super::ring::{About, Ring};
use super::{Entry, Journal};
use crate::shard::Shard;
use crate::volume::{Volume, VolumeId};
use env::{Buf, Durability, Io, IoError, IoErrorKind, Member, Slice, Slices};
use ondisk::Tail;
use ondisk::journal::{BodyCrc, Change, Head};
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet, StripeIndex};

/// The most runs of memory that one record gathers.
const MOST_SLICES: usize = 256;

impl Journal {
    /// The most bytes that a record carries for one write.
    pub(super) fn most_bytes(&self) -> u64 {
        self.ring.borrow().most() - ondisk::BLOCK.0
    }

    /// Takes from those that wait what fits one record.
    fn take_batch(&self) -> Vec<Entry> {
        let mut waiting = self.waiting.borrow_mut();
        let most = self.ring.borrow().most();
        let (mut changes, mut slices, mut len, mut count) = (0, 0, 0, 0);
        for entry in waiting.iter() {
            changes += entry.changes.len();
            slices += entry.bytes.len();
            len += entry.len;
            let needs = Head::len(changes).0 + ByteCount(len).align_up(ondisk::BLOCK).0;
            if count > 0 && (needs > most || slices > MOST_SLICES) {
                break;
            }
            count += 1;
        }
        waiting.drain(..count).collect()
    }

    fn take_head(&self, len: ByteCount) -> Buf {
        let kept = self.head.take().filter(|buf| buf.len() == len);
        kept.unwrap_or_else(|| Buf::unpooled(len))
    }

    /// The drives among which copies of a record are: those of one span, any of which has more of them than it may lose.
    fn span(&self, volume: &Volume, number: u64) -> impl Iterator<Item = DriveIndex> + use<> {
        let geometry = volume.geometry();
        let width = geometry.drives_per_span().0;
        let spans = u64::from((geometry.drives().0 / width).max(1));
        let first = (number % spans) as u16 * width;
        let turn = (number.wrapping_mul(self.copies as u64) % u64::from(width)) as u16;
        (0..width).map(move |at| DriveIndex(first + (turn + at) % width))
    }
}

impl Volume {
    /// Writes what waits, as one record. One task at a time does.
    pub(super) async fn write_records(self: &Rc<Self>, journal: &Journal) {
        journal.busy.set(true);
        let batch = journal.take_batch();
        if !batch.is_empty() {
            let result = self.write_record(journal, &batch).await;
            batch.iter().for_each(|entry| entry.answer.set(Some(result)));
        }
        journal.busy.set(false);
        journal.changed.notify(self.shard.env());
        self.retire_in_time(journal);
    }

    async fn write_record(self: &Rc<Self>, journal: &Journal, batch: &[Entry]) -> Result<u64, IoError> {
        let changes: SmallVec<[Change; 32]> =
            batch.iter().flat_map(|entry| entry.changes.iter().copied()).collect();
        let carried = ByteCount(batch.iter().map(|entry| entry.len).sum());
        let body = carried.align_up(ondisk::BLOCK);
        let head_len = Head::len(changes.len());
        let place = self.room(journal, head_len.0 + body.0).await?;
        let mut slices: Slices = SmallVec::with_capacity(MOST_SLICES.min(2 + changes.len()));
        let mut crc = BodyCrc::default();
        slices.push(Slice::zero(ByteCount::ZERO));
        for slice in batch.iter().flat_map(|entry| &entry.bytes) {
            crc = slice.solid().map_or(crc, |bytes| crc.and(bytes));
            slices.push(slice.clone());
        }
        let pad = body - carried;
        if pad > ByteCount::ZERO {
            crc = crc.and(&env::buffers::zero_bytes()[..pad.as_usize()]);
            slices.push(Slice::zero(pad));
        }
        let stripes: SmallVec<[About; 8]> = batch.iter().map(|entry| entry.about).collect();
        let (sequence, tail) = journal.ring.borrow_mut().begin(place, head_len.0 + body.0, &stripes);
        let head =
            Head { id: journal.place.id, ring: journal.number, sequence, tail, place: journal.start + place };
        let mut buf = journal.take_head(head_len);
        head.encode(&changes, body, crc.value(), buf.bytes_mut());
        slices[0] = buf.freeze();
        let written = self.write_copies(journal, sequence, place, &slices).await;
        *journal.head.borrow_mut() = slices.swap_remove(0).try_unfreeze().ok();
        match written {
            Ok(()) => {
                journal.ring.borrow_mut().announced(tail);
                Ok(sequence)
            }
            Err(error) => {
                journal.ring.borrow_mut().fail(sequence);
                Err(error)
            }
        }
    }

    /// Writes the same to as many members as one more than a span may lose, or to all that are left of it.
    ///
    /// # Errors
    /// When members that are in use cannot take it.
    async fn write_copies(
        self: &Rc<Self>,
        journal: &Journal,
        number: u64,
        place: u64,
        slices: &Slices,
    ) -> Result<(), IoError> {
        let (mut done, mut refused) = (0, DriveSet::EMPTY);
        let (mut tried, mut failure) = (DriveSet::EMPTY, None);
        loop {
            let usable = self.health.usable().1;
            let span: SmallVec<[DriveIndex; 16]> = journal.span(self, number).collect();
            let next = span.iter().filter(|drive| usable.contains(**drive) && !tried.contains(**drive));
            let next: SmallVec<[DriveIndex; 4]> =
                next.take(journal.copies.saturating_sub(done)).copied().collect();
            if next.is_empty() {
                let all = done >= journal.copies || (done > 0 && refused.is_empty());
                return if all { Ok(()) } else { Err(failure.unwrap_or(IoError::new(IoErrorKind::Gone))) };
            }
            let mut started: SmallVec<[(DriveIndex, Rc<Member>, Io); 4]> = SmallVec::new();
            for drive in next {
                tried.insert(drive);
                let member = self.member(drive);
                let at = member.as_ref().ok().and_then(|member| journal_at(journal, member, place));
                match (member, at) {
                    (Ok(member), Some(at)) => {
                        let io = member.write(at, slices.clone(), Durability::Durable);
                        started.push((drive, member, io));
                    }
                    _ => refused.insert(drive),
                }
            }
            for (drive, member, io) in started {
                match io.await.result {
                    _ if !self.members.is_in_slot(drive, &member) => tried.remove(drive), // Another drive has the slot now.
                    Ok(_) => done += 1,
                    Err(error) => {
                        failure = Some(error);
                        if self.write_fault(drive, Some(&member), error).is_err() {
                            refused.insert(drive);
                        }
                    }
                }
            }
        }
    }

    /// Where a record of that length can go, once there is room.
    async fn room(self: &Rc<Self>, journal: &Journal, len: u64) -> Result<u64, IoError> {
        loop {
            let place = journal.ring.borrow().place_for(len);
            match place {
                Some(place) if !journal.ring.borrow().has_failed() => return Ok(place),
                _ => self.make_room(journal).await?,
            }
        }
    }

    /// Has records retired, and says so on the drives. The caller has the ring.
    async fn make_room(self: &Rc<Self>, journal: &Journal) -> Result<(), IoError> {
        let is_news = journal.ring.borrow().can_announce();
        if is_news {
            return self.announce(journal).await;
        }
        let settles = || journal.ring.borrow().can_retire() || journal.ring.borrow().can_announce();
        journal.changed.wait_until(self.shard.env(), settles).await;
        let is_retired = journal.ring.borrow().can_announce();
        match is_retired {
            true => Ok(()),
            false => self.retire(journal).await,
        }
    }

    /// Records that were settled before a flush began, which has succeeded.
    pub(crate) fn settled_records(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.ring.borrow().settled())
    }

    /// All drives were flushed since records before this one were settled.
    pub(crate) fn retire_records(&self, before: u64) {
        if let Some(journal) = &self.journal {
            journal.ring.borrow_mut().retire(before);
        }
    }

    async fn announce(self: &Rc<Self>, journal: &Journal) -> Result<(), IoError> {
        let (place, tail) = journal.ring.borrow_mut().begin_notice();
        let head = Head {
            id: journal.place.id,
            ring: journal.number,
            sequence: 0,
            tail,
            place: journal.start + place,
        };
        let mut buf = journal.take_head(Head::len(0));
        head.encode(&[], ByteCount::ZERO, 0, buf.bytes_mut());
        let slices: Slices = SmallVec::from_iter([buf.freeze()]);
        self.write_copies(journal, tail, place, &slices).await?;
        journal.ring.borrow_mut().announced(tail);
        Ok(())
    }

    /// Flushes the drives: what was settled before is retired then.
    async fn retire(self: &Rc<Self>, journal: &Journal) -> Result<(), IoError> {
        self.flush_once().await?;
        journal.changed.notify(self.shard.env());
        Ok(())
    }

    /// Has records retired in the background, before anybody has to wait for that.
    fn retire_in_time(self: &Rc<Self>, journal: &Journal) {
        let is_due = {
            let ring = journal.ring.borrow();
            ring.is_half_full() && ring.can_retire()
        };
        if !is_due || journal.retiring.get() {
            return;
        }
        let Ok(user) = self.enter() else { return };
        journal.retiring.set(true);
        let volume = self.clone();
        self.shard.env().spawn("retire records of the journal", async move {
            let _user = user;
            if let Some(journal) = &volume.journal {
                if let Err(error) = volume.retire(journal).await {
                    tracing::warn!(volume = %volume.spec.name, "records stay in the journal: {error}");
                }
                journal.retiring.set(false);
            }
        });
    }

    /// Done when no record that counts says anything of a stripe, whose columns the caller holds.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(crate) async fn silence(self: &Rc<Self>, stripe: StripeIndex) -> Result<(), IoError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        // What is said of it from now on is about columns of others.
        let before = journal.ring.borrow().next();
        self.forget_records(journal, |ring| !ring.says(stripe) || ring.counts_from() >= before).await
    }

    /// Done when no record of what was written before the call counts any more: what it is on may be lost from now on.
    ///
    /// # Errors
    /// When that cannot be made durable.
    pub(crate) async fn renew_journal(self: &Rc<Self>) -> Result<(), IoError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let before = journal.ring.borrow().next();
        self.forget_records(journal, |ring| ring.counts_from() >= before).await
    }

    async fn forget_records(
        self: &Rc<Self>,
        journal: &Journal,
        are_forgotten: impl Fn(&Ring) -> bool,
    ) -> Result<(), IoError> {
        let done = || are_forgotten(&journal.ring.borrow());
        loop {
            journal.changed.wait_until(self.shard.env(), || done() || !journal.busy.get()).await;
            // Somebody else may have seen to it meanwhile.
            if done() {
                return Ok(());
            }
            journal.busy.set(true);
            let made = self.make_room(journal).await;
            journal.busy.set(false);
            journal.changed.notify(self.shard.env());
            made?;
        }
    }
}

impl Shard {
    /// A drive has left a volume that records may lie on: has them renewed on those that are left.
    pub(crate) fn renew_journal(&self, id: VolumeId) {
        let Some(volume) = self.volume(id).filter(|volume| volume.journal.is_some()) else { return };
        let Ok(user) = volume.enter() else { return };
        self.env().spawn("renew the journal", async move {
            let _user = user;
            if let Err(error) = volume.renew_journal().await {
                tracing::warn!(volume = %volume.spec.name, "records of a drive that left still count: {error}");
            }
        });
    }
}

/// Where a place of the ring lies on a member.
fn journal_at(journal: &Journal, member: &Member, place: u64) -> Option<ByteOffset> {
    let room = Tail::of(member.info().size)?.journals();
    Some(room.start + ByteCount(journal.place.at.0 + journal.start + place))
}
