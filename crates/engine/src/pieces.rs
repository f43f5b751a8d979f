//! One piece of a request: bytes of one stripe, from the lock to the acknowledgement.

use crate::attempt::{Attempt, Ended, Patience};
use crate::dirty::begin_write;
use crate::execute::Host;
use crate::faults::{Places, Trouble};
use crate::messages::{Piece, PieceKind, PieceOutcome, ReportKind};
use crate::repair::Mend;
use crate::volume::Volume;
use env::locks::Mode;
use env::{Durability, IoError, IoErrorKind, IoRequest, Slice};
use plan::Request;
use smallvec::SmallVec;
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveSet, StripeIndex};

impl Volume {
    /// Runs a piece on the shard that owns its stripe.
    pub(crate) async fn run_piece(self: &Rc<Self>, piece: Piece) -> PieceOutcome {
        let Ok(_user) = self.enter() else {
            return PieceOutcome {
                result: Err(IoError::new(IoErrorKind::Gone)),
                buffer: piece.kind.into_buffer(),
            };
        };
        let Piece { stripe, within, kind, .. } = piece;
        match kind {
            PieceKind::Read(buf) => {
                let (result, buffer) = self.read_piece(stripe, within, buf).await;
                PieceOutcome { result, buffer }
            }
            PieceKind::Write(data, durability) => {
                let result = self.write_piece(stripe, within, data, durability).await;
                PieceOutcome { result, buffer: None }
            }
            PieceKind::Trim => {
                let result = Box::pin(self.trim_piece(stripe, within)).await;
                PieceOutcome { result, buffer: None }
            }
        }
    }

    async fn write_piece(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        let aligned = within.align_out(self.spec.sector.bytes());
        let unaligned = aligned != within;
        if !self.is_redundant() && !unaligned {
            // Beside others of its kind, but not beside one that reads a sector to complete it.
            let _guard = self.lock(stripe, Mode::Shared, within).await;
            return self.write_planned(stripe, within, data, durability).await;
        }
        // Before the lock: whoever waits for this memory must not hold what its holders wait for.
        let _edges = match unaligned {
            true => Some(self.shard.reserve_write_edges(aligned.len).await),
            false => None,
        };
        let _guard = self.lock_to_write(stripe, aligned).await;
        let _writing = match self.is_redundant() {
            true => Some(begin_write(self, self.region_of(stripe)).await?),
            false => None,
        };
        let data = match unaligned {
            true => Box::pin(self.complete_sectors(stripe, within, aligned, &data)).await?,
            false => data,
        };
        for part in self.parts_to_keep(aligned) {
            let of_part = data.cut(part.start - aligned.start, part.len);
            self.write_planned(stripe, part, of_part, durability).await?;
        }
        Ok(())
    }

    /// Holds what a write to a stripe must hold, as soon as the stripe may be written.
    async fn lock_to_write(self: &Rc<Self>, stripe: StripeIndex, within: ByteRange) -> env::locks::Guard {
        let mut may_settle = true;
        loop {
            let guard = self.lock(stripe, Mode::Exclusive, within).await;
            let is_gated = self.is_gated(stripe);
            let settle = may_settle && self.is_doubtful(stripe);
            if !is_gated && !settle {
                return guard;
            }
            drop(guard);
            if is_gated {
                Box::pin(self.pass_gate(stripe)).await;
            } else {
                may_settle = false;
                Box::pin(self.settle_before_write(stripe)).await;
            }
        }
    }

    /// Rule (h) of the promises: bytes that are not whole sectors are completed to sectors under the lock.
    async fn complete_sectors(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        aligned: ByteRange,
        data: &Slice,
    ) -> Result<Slice, IoError> {
        let missing = IoError::new(IoErrorKind::OutOfSpace);
        let mut whole = self.take_scratch(aligned.len, data.is_hollow());
        let sector = self.spec.sector.bytes();
        let first = ByteRange::new(aligned.start, sector);
        let last = ByteRange::new(aligned.end() - sector, sector);
        for edge in [first, last] {
            if within.contains(edge) || (edge == last && last == first && edge != aligned) {
                continue;
            }
            let old = self.take_scratch(sector, data.is_hollow());
            let mut places = Places::new();
            let (result, old) = self.read_held(stripe, edge, old, &mut places).await;
            if !places.is_empty() {
                self.repair_later(stripe, places);
            }
            result?;
            let old = old.ok_or(missing)?;
            if !whole.is_hollow() {
                let at = (edge.start - aligned.start).as_usize();
                whole.bytes_mut()[at..at + sector.as_usize()].copy_from_slice(old.bytes());
            }
        }
        if !whole.is_hollow() {
            let at = (within.start - aligned.start).as_usize();
            data.copy_to(&mut whole.bytes_mut()[at..at + within.len.as_usize()]);
        }
        Ok(whole.freeze())
    }

    pub(crate) async fn write_planned(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        let request = match data.is_zero() {
            true => Request::WriteZeroes { range: within },
            false => Request::Write { range: within },
        };
        let host = Host::Payload(data.into(), durability);
        let skipped = self.write_mending(stripe, within, request, host).await?;
        // Rule (a): what was skipped is durably known to have failed before the write is acknowledged.
        if skipped.is_empty() {
            return Ok(());
        }
        Box::pin(self.recorded(&skipped)).await
    }

    /// Plans and executes until it is done. What cannot be read and stands in the way is repaired first; what of it
    /// nothing can give back is given up for lost, where redundancy could not be kept otherwise: one
    /// unreadable block must not keep others from being written.
    async fn write_mending(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        request: Request<'_>,
        mut host: Host,
    ) -> Result<DriveSet, IoError> {
        const STEPS: [(Patience, Option<Mend>); 3] = [
            (Patience::Repair, Some(Mend::Look)),
            (Patience::PlanAround, Some(Mend::GiveUp)),
            (Patience::PlanAround, None),
        ];
        for (patience, then) in STEPS {
            // What is written is not lost any more. That is durable with the write, or the next start would call
            // lost what was acknowledged; and not before it, or a power cut would pass zeroes off as what is lost.
            let healed = self.lost_within(stripe, within);
            if let (false, Host::Payload(_, durability)) = (healed.is_empty(), &mut host) {
                *durability = Durability::Durable;
            }
            let mut trouble = Trouble::default();
            let how = Attempt::HELD.with(patience);
            let (ended, back) = self.attempt(stripe, request, host, &mut trouble, how).await;
            host = back;
            match (ended, then) {
                (Ended::Done { skipped, .. }, _) => {
                    if !healed.is_empty() {
                        Box::pin(self.healed_by_host(&healed)).await?;
                    }
                    return Ok(skipped);
                }
                (Ended::Failed(error), _) => return Err(error),
                (Ended::Lost | Ended::NeedsLock, Some(mend)) if !trouble.is_empty() => {
                    Box::pin(self.mend(stripe, &trouble.places, mend)).await?;
                }
                (Ended::Lost | Ended::NeedsLock, _) => break,
            }
        }
        Err(IoError::new(IoErrorKind::Medium))
    }

    /// Gives up the content of bytes of one stripe, where redundancy can follow: on levels without any, each
    /// drive is told; on others whole stripes become zeroes on every drive, which every level's redundancy
    /// agrees with; parts of stripes are left as they are.
    async fn trim_piece(self: &Rc<Self>, stripe: StripeIndex, within: ByteRange) -> Result<(), IoError> {
        if !self.members.being_replaced().is_empty() {
            return Ok(()); // A drive that is being filled could not follow for certain.
        }
        let whole = within.len == self.geometry().stripe_bytes();
        if self.is_redundant() && !(whole && self.all_well.get()) {
            return Ok(());
        }
        let within = match self.is_redundant() {
            true => within,
            false => self.whole_sectors(within),
        };
        if within.is_empty() {
            return Ok(());
        }
        let _guard = self.lock_to_write(stripe, within).await;
        let _writing = match self.is_redundant() {
            true => Some(begin_write(self, self.region_of(stripe)).await?),
            false => None,
        };
        self.silence(stripe).await?;
        let mut plan = self.take_plan();
        let health = self.stripe_health(stripe, &DriveSet::EMPTY);
        let request = Request::WriteZeroes { range: within };
        let planned = plan::plan_into(&mut plan, self.geometry(), stripe, request, &health);
        let mut trims: SmallVec<[_; 8]> = SmallVec::new();
        if planned.is_ok() && plan.reads().is_empty() {
            for write in plan.writes() {
                let range = ByteRange::new(self.raw(write.offset), write.len);
                let request = match self.is_redundant() {
                    true => IoRequest::WriteZeroes { range, may_unmap: true, durability: Durability::Cached },
                    false => IoRequest::Trim { range },
                };
                let started = self.member(write.drive).map(|member| (member.start(request), member));
                trims.push((write.drive, started));
            }
        }
        let mut skipped = self.left_out(&plan);
        self.put_plan(plan);
        let mut unsure = false;
        for (drive, trim) in trims {
            let result = match trim {
                Ok((trim, member)) => match trim.await.result {
                    // The one that has the slot now is not current in any region that is being written.
                    Err(_) if !self.members.is_in_slot(drive, &member) => continue,
                    result => result,
                },
                Err(error) => Err(error),
            };
            match result {
                Ok(_) => {}
                Err(error) if error.kind == IoErrorKind::NotSupported => unsure = true,
                Err(error) if crate::faults::is_gone(&error) => {
                    self.fail_drive(drive, error, "trim");
                    skipped.insert(drive);
                }
                Err(_) => unsure = true,
            }
        }
        if unsure && self.is_redundant() {
            // Some drives gave the stripe up and some did not: write real zeroes to all.
            return self.write_planned(stripe, within, Slice::zero(within.len), Durability::Cached).await;
        }
        if self.is_redundant() {
            self.note_whole_stripe(stripe);
        }
        // Rule (a) holds for trims as it does for writes.
        self.recorded(&skipped).await
    }

    fn whole_sectors(&self, within: ByteRange) -> ByteRange {
        let sector = self.spec.sector.bytes();
        let (start, end) = (within.start.align_up(sector), within.end().align_down(sector));
        if start < end { ByteRange::from_to(start, end) } else { ByteRange::default() }
    }

    /// Some of the stripe was not written as planned: its region must be resynced before it is trusted, on every
    /// shard, and after the next start as well. Done when the controller knows.
    pub(crate) async fn distrust(self: &Rc<Self>, stripe: StripeIndex) {
        let region = self.region_of(stripe);
        let was_synced = self.dirty.is_synced(region);
        self.set_unsynced(&region.into());
        self.shard.report_unsynced(self, region).await;
        if was_synced {
            self.shard.env().spawn("resync after a failed write", crate::window::resync(self.clone()));
        }
    }

    /// The most memory that one stripe of the volume can need.
    pub(crate) fn worst_scratch(&self) -> ByteCount {
        let geometry = self.geometry();
        let cells = u64::from(geometry.drives().0) + u64::from(geometry.parity_strips()) + 1;
        geometry.strip().bytes() * cells
    }

    /// Tells the controller that a region is resynced.
    pub(crate) fn report_synced(self: &Rc<Self>, region: crate::RegionIndex) {
        let volume = self.clone();
        self.shard.env().spawn("report what is synced", async move {
            // It may be distrusted by the time there is room for a report: that must not be taken back.
            let still = || volume.dirty.is_synced(region);
            volume.shard.report_if(volume.spec.id, ReportKind::Synced(region.into()), still).await;
        });
    }
}
