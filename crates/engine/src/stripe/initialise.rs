//! Initialisation: how a stripe comes to hold what hosts write, on drives that held anything before.
//!
//! # Invariants
//! - A stripe that is not initialised reads as zeros, and no drive is asked. Tasks pass it over.
//! - The first write to a stripe writes all of it, zeros where no host writes, under a lock of the whole stripe. Then, in this
//!   order: the failures of drives that did not take it are recorded, the drives are flushed, the stripe is recorded as
//!   initialised on every drive in use, and the write is acknowledged. A crash before the record leaves zeros, whatever the drives
//!   hold; so no record of a journal is needed.
//! - Writes that wait for the same step share it: one flush and one record serve all that come meanwhile.
//! - Where the record has no room for a region that is initialised in part, the rest of that region is initialised first.
//!
//! See [`volume_state::Initialisation`].

use crate::messages::ReportKind;
use crate::stripe::attempt::{Attempt, Ended};
use crate::stripe::execute::Host;
use crate::stripe::payload::{Payload, cut_all};
use crate::stripe::trouble::Trouble;
use crate::stripe::{Stripes, begin_write};
use plan::{FirstWrite, Request, first_write, known_zeros};
use platform::locks::{ALL_COLUMNS, Guard, Mode};
use platform::sync::Signal;
use platform::{Durability, IoError, IoErrorKind, Slice, Slices};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteRange, DriveSet, StripeIndex};
use volume_state::{Change, RegionIndex, StripeSet};

/// How often a region that is to be initialised as a whole looks again at a stripe that a write holds.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The bytes of a stripe's data that a host writes.
fn written_by<'a>(request: &'a Request<'_>) -> &'a [ByteRange] {
    match request {
        Request::Write { range } | Request::WriteZeroes { range } => std::slice::from_ref(range),
        Request::WriteExtents { extents, .. } => extents,
        other => panic!("no host writes by {other:?}"),
    }
}

/// Stripes that were written as a whole and wait to be recorded as initialised, together.
#[derive(Default)]
struct Batch {
    stripes: RefCell<Vec<StripeIndex>>,
    outcome: Cell<Option<Result<(), IoError>>>,
}

/// The stripes of a volume on one shard that are being initialised.
#[derive(Default)]
pub(crate) struct Initialising {
    next: RefCell<Rc<Batch>>,
    running: Cell<bool>,
    changed: Signal,
}

impl Stripes {
    /// A request to a stripe that is not initialised. The caller holds all of it where the request is a write.
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
            // What is to become zeros is zeros.
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
                    Ended::Done { skipped, mismatch } => match self.initialised(&[stripe], &skipped).await {
                        Ok(()) => Ended::Done { skipped, mismatch },
                        Err(error) => Ended::Failed(error),
                    },
                    other => other,
                };
                (ended, Host::Payload(payload, durability))
            }
            // Nothing of it is to be checked, rebuilt or moved.
            host => (done, host),
        }
    }

    /// Writes all of a stripe at once.
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

    /// Writes zeros to all of a stripe, and then what a host writes: what was there before is known, and nothing has to be read.
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
        let zeros =
            known.iter().map(|known| (known.role, known.columns.start, Slice::zero(known.columns.len)));
        let mut own = Host::Payload(payload.clone().with_cached(zeros), Durability::Cached);
        let request = Request::WriteExtents { extents: written_by(request), cached: &known };
        match self.attempt_by_plans(stripe, &request, &mut own, trouble, how).await {
            Ended::Done { skipped, mismatch } => Ended::Done { skipped: skipped.union(&zeroed), mismatch },
            other => other,
        }
    }

    /// A whole stripe that holds what a write writes to it, and zeros around that.
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
            let is_all = cut_all(payload.parts(taken, range.len.0), range.len, &mut slices).is_some();
            assert!(is_all, "the payload is what the request writes");
            (at, taken) = (range.end().0, taken + range.len.0);
        }
        zeros(&mut slices, self.geometry().stripe_bytes().0, at);
        Payload::of(slices)
    }

    /// These stripes, which the caller holds, were written as a whole; drives in `skipped` did not take their part. Done when they are
    /// recorded as initialised.
    ///
    /// # Errors
    /// When that cannot be made durable: then they read as zeros.
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
            // It is nobody's to add to any more.
            let stripes = batch.stripes.take();
            let outcome = self.record_initialised(&stripes).await;
            batch.outcome.set(Some(outcome));
            of.running.set(false);
            of.changed.notify(self.shard.env());
        }
    }

    /// Flushes the drives and has stripes recorded as initialised.
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
            Err(error) if error.kind == IoErrorKind::NotSupported => {
                self.initialise_rest_of(region, &stripes).await.map(|()| Change::Initialised(region.into()))
            }
            Ok(()) if completes => Ok(Change::Initialised(region.into())),
            Ok(()) => Ok(Change::StripesInitialised { region, stripes }),
            Err(error) => Err(error),
        };
        let change = match recorded {
            Ok(change) => change,
            Err(error) => {
                // Some drive may say that these stripes are initialised, and the next write to them is in no record.
                self.distrust(StripeIndex(range.start)).await;
                return Err(error);
            }
        };
        self.apply(&change);
        Ok(())
    }

    /// The record has no room for a part of a region: initialises all of it. `written`: its stripes that are written and flushed, which
    /// writes hold that wait for this. Others of them wait to be recorded next, and are written as well. All that is left is held
    /// until the region is recorded.
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
                if let Some(guard) = self.shard.locks().try_lock_columns(key, Mode::Exclusive, ALL_COLUMNS) {
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

    /// Initialises stripes of a region, which the caller holds, with zeros. What is initialised stays as it is.
    ///
    /// # Errors
    /// When they cannot be written, or not be recorded.
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
        let (request, payload) = (Request::WriteZeroes { range: whole }, (&zeros, Durability::Cached));
        if let Some(done) = self.attempt_together(&left, request, Some(payload), &Attempt::HELD).await {
            return done.map(drop);
        }
        let mut skipped = DriveSet::EMPTY;
        for stripe in &left {
            skipped = skipped.union(&self.write_zeros_to(*stripe).await?);
        }
        self.initialised(&left, &skipped).await
    }

    /// Writes zeros to a whole stripe that is not initialised. Which drives did not take them.
    async fn write_zeros_to(self: &Rc<Self>, stripe: StripeIndex) -> Result<DriveSet, IoError> {
        let whole = self.whole_stripe();
        let _changing = self.begin_change(stripe, whole);
        let mut host = Host::Payload(Slice::zero(whole.len).into(), Durability::Cached);
        let (request, mut trouble) = (Request::WriteZeroes { range: whole }, Trouble::default());
        let ended = self.attempt_by_plans(stripe, &request, &mut host, &mut trouble, &Attempt::HELD).await;
        match ended {
            Ended::Done { skipped, .. } => Ok(skipped),
            Ended::Failed(error) => Err(error),
            Ended::Lost | Ended::NeedsLock => Err(IoError::new(IoErrorKind::Medium)),
        }
    }
}
