//! One piece of a request: bytes of one stripe, from the lock to the acknowledgement.

use crate::dirty::begin_write;
use crate::execute::{Executed, Host, scratch_need};
use crate::messages::{Piece, PieceKind, PieceOutcome, ReportKind};
use crate::volume::Volume;
use env::locks::Mode;
use env::{Buf, Durability, IoError, IoErrorKind, IoRequest, Slice};
use plan::{CopyChoice, Method, Plan, Request, Unplannable};
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
            PieceKind::Trim => PieceOutcome { result: self.trim_piece(stripe, within).await, buffer: None },
        }
    }

    /// Reads: without the lock where data only has to be fetched, with it where it has to be computed.
    async fn read_piece(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let mut plan = self.take_plan();
        let mut host = Host::Buffer(buf);
        let mut unreadable = DriveSet::EMPTY;
        let mut guard = None;
        let result = loop {
            // The lane may have become unsynced meanwhile: then another copy is to be read.
            let request = self.read_request(stripe, within);
            let health = self.stripe_health(stripe, &unreadable);
            if let Err(lost) = plan::plan_into(&mut plan, self.geometry(), stripe, request, &health) {
                break Err(self.unplannable(&lost));
            }
            if plan.method() != Method::Direct && guard.is_none() {
                guard = Some(self.lock(stripe, Mode::Shared, within).await);
                continue; // The health may have changed while we waited.
            }
            let _scratch = self.shard.reserve_scratch(scratch_need(&plan)).await;
            match self.execute(&plan, host, &mut unreadable).await {
                Executed::Done { host: back, .. } => {
                    host = back;
                    break Ok(());
                }
                Executed::Again { host: back } => {
                    host = back;
                    self.count(|counters| counters.replans += 1);
                }
                Executed::Failed { host: back, error } => {
                    host = back;
                    break Err(error);
                }
            }
            if matches!(host, Host::None) {
                break Err(IoError::new(IoErrorKind::TimedOut));
            }
        };
        self.put_plan(plan);
        match host {
            Host::Buffer(buf) => (result, Some(buf)),
            Host::None | Host::Payload(..) => (result.and(Err(IoError::new(IoErrorKind::TimedOut))), None),
        }
    }

    /// A read of mirrors from the copies that are least busy.
    fn read_request(&self, stripe: StripeIndex, range: ByteRange) -> Request {
        Request::Read { range, prefer: CopyChoice::all(self.choose_copy(stripe)), split: false }
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
        let _guard = self.lock(stripe, Mode::Exclusive, aligned).await;
        let _writing = match self.is_redundant() {
            true => Some(begin_write(self, self.lane_of(stripe)).await?),
            false => None,
        };
        if !unaligned {
            return self.write_planned(stripe, within, data, durability).await;
        }
        let data = self.complete_sectors(stripe, within, aligned, &data).await?;
        self.write_planned(stripe, aligned, data, durability).await
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
            let (result, old) = self.read_locked(stripe, edge, old).await;
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

    /// Reads while the stripe is held by the caller.
    async fn read_locked(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let request = self.read_request(stripe, within);
        let (result, host) = self.run_request(stripe, request, Host::Buffer(buf)).await;
        match host {
            Host::Buffer(buf) => (result.map(drop), Some(buf)),
            Host::None | Host::Payload(..) => (result.map(drop), None),
        }
    }

    async fn write_planned(
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
        let (result, _) = self.run_request(stripe, request, Host::Payload(data, durability)).await;
        let skipped = result?;
        // Rule (a): what was skipped is durably known to have failed before the write is acknowledged.
        if skipped.is_empty() {
            return Ok(());
        }
        self.health.recorded(self.shard.env(), &skipped).await
    }

    /// Plans and executes until it is done: the caller holds what has to be held. Which drives of the array
    /// were not written although they should have been.
    pub(crate) async fn run_request(
        self: &Rc<Self>,
        stripe: StripeIndex,
        request: Request,
        mut host: Host,
    ) -> (Result<DriveSet, IoError>, Host) {
        let mut plan = self.take_plan();
        let mut unreadable = DriveSet::EMPTY;
        let result = loop {
            let health = self.stripe_health(stripe, &unreadable);
            if let Err(lost) = plan::plan_into(&mut plan, self.geometry(), stripe, request, &health) {
                break Err(self.unplannable(&lost));
            }
            if matches!(request, Request::Write { .. } | Request::WriteZeroes { .. }) {
                self.note_gap(&plan);
            }
            let _scratch = self.shard.reserve_scratch(scratch_need(&plan)).await;
            match self.execute(&plan, host, &mut unreadable).await {
                Executed::Done { host: back, skipped, mismatch } => {
                    host = back;
                    if let Some(mismatch) = mismatch {
                        self.shard.env().trace("mismatch", stripe.0, mismatch.columns.start.0);
                    }
                    break Ok(skipped.union(&self.unwritten(&plan)));
                }
                Executed::Again { host: back } => {
                    host = back;
                    self.count(|counters| counters.replans += 1);
                }
                Executed::Failed { host: back, error } => {
                    host = back;
                    break Err(error);
                }
            }
        };
        self.put_plan(plan);
        (result, host)
    }

    /// Takes note of a write that parity cannot follow: it does not agree with the data, and not all of these
    /// can be had to compute it anew.
    fn note_gap(&self, plan: &Plan) {
        let (health, drives) = (plan.health(), self.geometry().drives());
        let complete = health.readable.contains_first(drives) && health.writable.contains_first(drives);
        if self.geometry().parity_strips() > 0 && !health.parity_trusted && !complete {
            self.dirty.note_gap();
        }
    }

    /// Drives that the plan left out because they fail, whose failure is perhaps not durable yet.
    fn unwritten(&self, plan: &Plan) -> DriveSet {
        let all = DriveSet::first(self.geometry().drives());
        match plan.request() {
            Request::Read { .. } | Request::Verify { .. } => DriveSet::EMPTY,
            _ => all.minus(&plan.health().writable),
        }
    }

    fn unplannable(&self, lost: &Unplannable) -> IoError {
        tracing::debug!(volume = %self.spec.name, "{lost}");
        match lost.kind {
            plan::ErrorKind::DataLost | plan::ErrorKind::NothingToCompare => {
                IoError::new(IoErrorKind::Medium)
            }
            plan::ErrorKind::NothingWritable => IoError::new(IoErrorKind::Gone),
            plan::ErrorKind::OutOfRange | plan::ErrorKind::UnknownRequest => {
                IoError::new(IoErrorKind::Invalid)
            }
        }
    }

    /// Gives up the content of bytes of one stripe, where redundancy can follow: on levels without any, each
    /// drive is told; on others whole stripes become zeroes on every drive, which every level's redundancy
    /// agrees with; parts of stripes are left as they are.
    async fn trim_piece(self: &Rc<Self>, stripe: StripeIndex, within: ByteRange) -> Result<(), IoError> {
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
        let _guard = self.lock(stripe, Mode::Exclusive, within).await;
        let _writing = match self.is_redundant() {
            true => Some(begin_write(self, self.lane_of(stripe)).await?),
            false => None,
        };
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
                trims.push((write.drive, self.member(write.drive).map(|member| member.start(request))));
            }
        }
        let mut skipped = self.unwritten(&plan);
        self.put_plan(plan);
        let mut unsure = false;
        for (drive, trim) in trims {
            let result = match trim {
                Ok(trim) => trim.await.result,
                Err(error) => Err(error),
            };
            match result {
                Ok(_) => {}
                Err(error) if error.kind == IoErrorKind::NotSupported => unsure = true,
                Err(error) if crate::execute::is_gone(&error) => {
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
        // Rule (a) holds for trims as it does for writes.
        self.health.recorded(self.shard.env(), &skipped).await
    }

    fn whole_sectors(&self, within: ByteRange) -> ByteRange {
        let sector = self.spec.sector.bytes();
        let (start, end) = (within.start.align_up(sector), within.end().align_down(sector));
        if start < end { ByteRange::from_to(start, end) } else { ByteRange::default() }
    }

    /// Some of the stripe was not written as planned: its lane must be resynced before it is trusted, on every
    /// shard, and after the next start as well. Done when the controller knows.
    pub(crate) async fn distrust(self: &Rc<Self>, stripe: StripeIndex) {
        let lane = self.lane_of(stripe);
        let was_synced = self.dirty.is_synced(lane);
        self.set_unsynced(&lane.into());
        self.shard.report_unsynced(self, lane).await;
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

    /// Tells the controller that a lane is resynced.
    pub(crate) fn report_synced(self: &Rc<Self>, lane: crate::LaneIndex) {
        self.shard.report_later(self, ReportKind::Synced(lane.into()));
    }
}
