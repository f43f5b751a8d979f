//! Initialisation of stripes on drives with arbitrary earlier content.
//!
//! # Invariants
//! - A stripe that is not initialised reads as zeros without a drive access. Tasks skip it.
//! - The first write to a stripe writes all of it under a lock of the whole stripe, with zeros
//!   around the host's data. The steps are: record the failures of drives that did not take it,
//!   flush the drives, record the stripe as initialised on each drive in use, acknowledge. After a
//!   crash before that record the stripe reads as zeros; so no journal record is needed.
//! - Writes that wait for a step share it: one flush and one record serve all of them.
//! - If the record has no space for a partly initialised region, the rest of the region is
//!   initialised first.
//!
//! See [`volume_state::Initialisation`].

use crate::messages::ReportKind;
use crate::stripe::attempt::{Attempt, Ended};
use crate::stripe::memory::Host;
use crate::stripe::payload::{Payload, cut_all};
use crate::stripe::trouble::Trouble;
use crate::stripe::{Stripes, begin_write};
use plan::{FirstWrite, Request, first_write, known_zeros};
use platform::locks::{ALL_COLUMNS, Guard, Mode};
use platform::{Durability, IoError, IoErrorKind, Slice, Slices};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteRange, DriveSet, StripeIndex};
use volume_state::{Change, RegionIndex, StripeSet};

/// The retry interval for a stripe that a write holds while its region is initialised.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The ranges of a stripe's data that a host writes.
fn written_by<'a>(request: &'a Request<'_>) -> &'a [ByteRange] {
    match request {
        Request::Write { range } | Request::WriteZeroes { range } => std::slice::from_ref(range),
        Request::WriteExtents { extents, .. } => extents,
        other => panic!("{other:?} is not a host write"),
    }
}

impl Stripes {
    /// Handles a request to a stripe that is not initialised. For a write the caller holds the
    /// whole stripe.
    pub(super) async fn attempt_uninitialised(
        self: &Rc<Self>,
        stripe: StripeIndex,
        request: Request<'_>,
        host: Host,
        trouble: &mut Trouble,
        how: &Attempt,
    ) -> (Ended, Host) {
        let done = Ended::Done { skipped: DriveSet::EMPTY, mismatch: None };
        match host {
            Host::Buffer(mut buf) => {
                if !buf.is_hollow() {
                    buf.bytes_mut().fill(0);
                }
                (done, Host::Buffer(buf))
            }
            // A write of zeros falls through: the stripe reads as zeros already.
            Host::Payload(payload, durability) if !payload.is_zero() => {
                let _changing = self.begin_change(stripe, self.whole_stripe());
                let is_well = self.is_well(self.region_of(stripe));
                let ended = match first_write(self.geometry(), written_by(&request), is_well) {
                    FirstWrite::OverZeros => {
                        self.write_over_zeros(stripe, &payload, &request, trouble, how).await
                    }
                    FirstWrite::Whole => {
                        self.write_with_zeros(stripe, &payload, &request, trouble, how).await
                    }
                };
                let ended = match ended {
                    Ended::Done { skipped, mismatch } => {
                        match self.initialised(&[stripe], &skipped).await {
                            Ok(()) => Ended::Done { skipped, mismatch },
                            Err(error) => Ended::Failed(error),
                        }
                    }
                    other => other,
                };
                (ended, Host::Payload(payload, durability))
            }
            // There is nothing to check, rebuild or move.
            host => (done, host),
        }
    }

    /// Writes a whole stripe at once.
    async fn write_with_zeros(
        self: &Rc<Self>,
        stripe: StripeIndex,
        payload: &Payload,
        request: &Request<'_>,
        trouble: &mut Trouble,
        how: &Attempt,
    ) -> Ended {
        let mut own = Host::Payload(self.with_zeros_around(payload, request), Durability::Cached);
        let request = Request::Write { range: self.whole_stripe() };
        self.attempt_by_plans(stripe, &request, &mut own, trouble, how).await
    }

    /// Writes zeros to a whole stripe and then the host's data: the old content is then known,
    /// without a read.
    async fn write_over_zeros(
        self: &Rc<Self>,
        stripe: StripeIndex,
        payload: &Payload,
        request: &Request<'_>,
        trouble: &mut Trouble,
        how: &Attempt,
    ) -> Ended {
        let zeroed = match self.write_zeros_to(stripe).await {
            Ok(skipped) => skipped,
            Err(error) => return Ended::Failed(error),
        };
        let known = known_zeros(self.geometry());
        let zeros = known
            .iter()
            .map(|known| (known.role, known.columns.start, Slice::zero(known.columns.len)));
        let mut own = Host::Payload(payload.clone().with_cached(zeros), Durability::Cached);
        let request = Request::WriteExtents { extents: written_by(request), cached: &known };
        match self.attempt_by_plans(stripe, &request, &mut own, trouble, how).await {
            Ended::Done { skipped, mismatch } => {
                Ended::Done { skipped: skipped.union(&zeroed), mismatch }
            }
            other => other,
        }
    }

    /// The payload of a whole stripe: the host's data with zeros around it.
    fn with_zeros_around(&self, payload: &Payload, request: &Request<'_>) -> Payload {
        let written = written_by(request);
        let (mut slices, mut at, mut taken) = (Slices::new(), 0, 0);
        let zeros = |slices: &mut Slices, until: u64, from: u64| {
            if until > from {
                slices.push(Slice::zero(ByteCount(until - from)));
            }
        };
        for range in written {
            zeros(&mut slices, range.start.0, at);
            let is_all =
                cut_all(payload.parts(taken, range.len.0), range.len, &mut slices).is_some();
            assert!(is_all, "the payload is what the request writes");
            (at, taken) = (range.end().0, taken + range.len.0);
        }
        zeros(&mut slices, self.geometry().stripe_bytes().0, at);
        Payload::of(slices)
    }

    /// Records fully written stripes, which the caller holds, as initialised. Drives in `skipped`
    /// were not written. Returns when the record is durable.
    ///
    /// # Errors
    /// When the record cannot be made durable: then the stripes read as zeros.
    pub(super) async fn initialised(
        self: &Rc<Self>,
        stripes: &[StripeIndex],
        skipped: &DriveSet,
    ) -> Result<(), IoError> {
        self.recorded(skipped).await?;
        let of = &self.initialising;
        let batch = of.next.borrow().clone();
        batch.stripes.borrow_mut().extend_from_slice(stripes);
        of.changed.notify(self.shard.env());
        loop {
            let is_over = || batch.outcome.get().is_some() || !of.running.get();
            of.changed.wait_until(self.shard.env(), is_over).await;
            if let Some(outcome) = batch.outcome.get() {
                return outcome;
            }
            of.running.set(true);
            let batch = of.next.take();
            // The batch is closed to further writes.
            let stripes = batch.stripes.take();
            let outcome = self.record_initialised(&stripes).await;
            batch.outcome.set(Some(outcome));
            of.running.set(false);
            of.changed.notify(self.shard.env());
        }
    }

    /// Flushes the drives and records stripes as initialised.
    async fn record_initialised(self: &Rc<Self>, stripes: &[StripeIndex]) -> Result<(), IoError> {
        self.flush_once().await?;
        let mut by_region: BTreeMap<RegionIndex, StripeSet> = BTreeMap::new();
        for stripe in stripes {
            let region = self.region_of(*stripe);
            by_region.entry(region).or_default().insert(self.nth_of_region(region, *stripe));
        }
        let record = |(region, stripes)| {
            let this = self.clone();
            let record = async move { this.record_in_region(region, stripes).await };
            self.shard.env().spawn("stripes are recorded as initialised", record)
        };
        let records: Vec<_> = by_region.into_iter().map(record).collect();
        let mut outcome = Ok(());
        for record in records {
            outcome = record.await.and(outcome);
        }
        outcome
    }

    async fn record_in_region(
        self: &Rc<Self>,
        region: RegionIndex,
        stripes: StripeSet,
    ) -> Result<(), IoError> {
        let mut all = stripes.clone();
        self.state().initialised_in(region).into_iter().for_each(|known| all.insert_all(known));
        let range = self.regions.stripes_of(region);
        let end = range.end.min(self.geometry().stripes().0);
        let completes = (range.start..end).all(|stripe| all.contains(stripe - range.start));
        let kind = ReportKind::StripesInitialised { region, stripes: stripes.clone(), completes };
        let recorded = match self.shard.report(self.spec.id, kind).await {
            Err(error) if error.kind == IoErrorKind::NotSupported => self
                .initialise_rest_of(region, &stripes)
                .await
                .map(|()| Change::Initialised(region.into())),
            Ok(()) if completes => Ok(Change::Initialised(region.into())),
            Ok(()) => Ok(Change::StripesInitialised { region, stripes }),
            Err(error) => Err(error),
        };
        let change = match recorded {
            Ok(change) => change,
            Err(error) => {
                // A drive may already record these stripes as initialised, and their next write has
                // no record.
                self.distrust(StripeIndex(range.start)).await;
                return Err(error);
            }
        };
        self.apply(&change);
        Ok(())
    }

    /// Initialises the rest of a region, because the record has no space for a part of it.
    /// `written`: its written and flushed stripes, whose writes wait for this. Stripes that wait
    /// for the next record are written as well. All remaining stripes are locked until the region
    /// is recorded.
    async fn initialise_rest_of(
        self: &Rc<Self>,
        region: RegionIndex,
        written: &StripeSet,
    ) -> Result<(), IoError> {
        let mut held: Vec<Guard> = Vec::new();
        for stripe in self.stripes_of(region).map(StripeIndex) {
            let nth = self.nth_of_region(region, stripe);
            loop {
                let waits = || self.initialising.next.borrow().stripes.borrow().contains(&stripe);
                if written.contains(nth) || self.is_initialised(stripe) || waits() {
                    break;
                }
                let key = self.lock_key(stripe);
                if let Some(guard) =
                    self.shard.locks().try_lock_columns(key, Mode::Exclusive, ALL_COLUMNS)
                {
                    held.push(guard);
                    let skipped = self.write_zeros_to(stripe).await?;
                    self.recorded(&skipped).await?;
                    break;
                }
                self.shard.env().sleep(LOOK_AGAIN).await;
            }
        }
        self.flush_once().await?;
        let range = self.regions.stripes_of(region);
        let stripes = StripeSet::first(range.end.min(self.geometry().stripes().0) - range.start);
        let kind = ReportKind::StripesInitialised { region, stripes, completes: true };
        self.shard.report(self.spec.id, kind).await
    }

    /// Initialises stripes of a region, which the caller holds, with zeros. Skips initialised
    /// stripes.
    ///
    /// # Errors
    /// When they cannot be written or recorded.
    pub(crate) async fn initialise_with_zeros(
        self: &Rc<Self>,
        stripes: &[StripeIndex],
    ) -> Result<(), IoError> {
        let is_left = |stripe: &StripeIndex| self.is_live(*stripe) && !self.is_initialised(*stripe);
        let left: Vec<StripeIndex> = stripes.iter().copied().filter(is_left).collect();
        let Some(first) = left.first() else { return Ok(()) };
        let _writing = begin_write(self, self.region_of(*first)).await?;
        let whole = self.whole_stripe();
        let zeros = Slice::zero(whole.len * left.len() as u64);
        let (request, payload) =
            (Request::WriteZeroes { range: whole }, (&zeros, Durability::Cached));
        if let Some(done) =
            self.attempt_together(&left, request, Some(payload), &Attempt::HELD).await
        {
            return done.map(drop);
        }
        let mut skipped = DriveSet::EMPTY;
        for stripe in &left {
            skipped = skipped.union(&self.write_zeros_to(*stripe).await?);
        }
        self.initialised(&left, &skipped).await
    }

    /// Writes zeros to a whole uninitialised stripe. Returns the drives that were not written.
    async fn write_zeros_to(self: &Rc<Self>, stripe: StripeIndex) -> Result<DriveSet, IoError> {
        let whole = self.whole_stripe();
        let _changing = self.begin_change(stripe, whole);
        let mut host = Host::Payload(Slice::zero(whole.len).into(), Durability::Cached);
        let (request, mut trouble) = (Request::WriteZeroes { range: whole }, Trouble::default());
        let ended =
            self.attempt_by_plans(stripe, &request, &mut host, &mut trouble, &Attempt::HELD).await;
        match ended {
            Ended::Done { skipped, .. } => Ok(skipped),
            Ended::Failed(error) => Err(error),
            Ended::Lost | Ended::NeedsLock => Err(IoError::new(IoErrorKind::Medium)),
        }
    }
}
