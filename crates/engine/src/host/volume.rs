//! A volume as one shard serves it to hosts: requests are checked and counted. They are
//! [direct](crate::host::direct), run as one stripe request in the caller's task, or as several
//! ([`split`]).

use crate::attachment::Attachment;
use crate::cache::{Cache, request_tag};
use crate::host::ahead::ReadingAhead;
use crate::host::direct::{self, Direct, Finished};
use crate::host::split::{self, Whole};
use crate::host::state::{Begun, Entered, Taskless, Volume};
use crate::host::stripe_write::StripeWrite;
use crate::host::way::{self, Facts, Kind, Redundancy, Spread, Way};
use crate::host::{Exchange, Moving, moving, stripe_request};
use crate::members::Drives;
use crate::messages::{StripeOutcome, StripeRequest, StripeWork};
use crate::recovery::Recovery;
use crate::shard::Resources;
use crate::stripe::Stripes;
use crate::volume::ALIGNMENT;
use ::block_cache::RequestTag;
use platform::{
    Buf, Durability, IoError, IoErrorKind, IoRequest, Operation, Receiver, Slice, StatusExtent,
    Timed,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

impl Volume {
    pub(crate) fn attach(
        shard: &Resources,
        exchange: &Rc<Exchange>,
        attachment: &Attachment,
    ) -> platform::Result<Rc<Volume>> {
        let drives = Drives::attach(shard, attachment)?;
        let cache = Cache::new(Recovery::new(Stripes::new(drives, attachment)?), attachment);
        let ahead = ReadingAhead::new(shard.env(), &cache, exchange);
        Ok(Rc::new(Volume {
            cache,
            exchange: exchange.clone(),
            hidden: Cell::new(attachment.hidden),
            told: attachment.told.clone(),
            requests: Cell::new(0),
            traffic: attachment.meter.traffic.join(),
            meter: shard.hosts().join(attachment.spec.id),
            ahead,
            taskless: Rc::default(),
            moving: RefCell::default(),
        }))
    }

    /// Checks the invariants of the engine's layers, which hold between any two steps. An error
    /// describes a defect of the engine, never of a drive.
    ///
    /// # Errors
    /// The message.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_drives()?;
        self.check_stripes()?;
        self.check_lines()?;
        self.shard.clean().check()
    }

    /// A tag for the next request.
    fn next_tag(&self) -> RequestTag {
        self.requests.set(self.requests.get() + 1);
        request_tag(self.shard.index(), self.requests.get())
    }

    /// Whether it is hidden from hosts: it is being fully initialised, or another volume represents
    /// it.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden.get()
    }

    /// Hides it from hosts, or shows it.
    pub(super) fn hide(&self, hidden: bool) {
        self.hidden.set(hidden);
    }

    /// Its reshape, if one is in progress.
    pub(crate) fn moving(&self) -> Option<Rc<Moving>> {
        self.moving.borrow().clone()
    }

    /// The capacity for hosts: that of its new layout after a reshape, and the smaller of both
    /// during one.
    pub(super) fn capacity(&self) -> ByteCount {
        let Some(moving) = self.moving() else { return self.spec.capacity };
        moving.successor().map_or(self.spec.capacity.min(moving.most()), |next| next.capacity())
    }

    /// The shard that serves it.
    pub fn shard(&self) -> &Resources {
        &self.shard
    }

    /// A host's request begins. `None`: it is not from a host.
    pub(super) fn note_request(&self, operation: Operation) -> Option<Timed> {
        if self.is_hidden() {
            return None;
        }
        // Tasks yield to hosts that wait for data.
        if operation != Operation::Trim {
            self.shard.hosts().note_request();
        }
        Some(Timed::start(&self.traffic, operation, self.shard.env().executor().tick()))
    }

    /// A host's request has ended.
    pub(super) fn note_end<T>(
        &self,
        timed: Option<Timed>,
        len: ByteCount,
        result: &Result<T, IoError>,
    ) {
        if let Some(timed) = timed {
            let now = self.shard.env().executor().tick();
            timed.end(&self.traffic, now, result.is_ok().then_some(len.0));
            if timed.operation != Operation::Trim {
                let rotate = self.members.rotate();
                self.shard.hosts().note_end(&self.meter, rotate, timed.since, now);
            }
        }
    }

    fn check(&self, range: ByteRange) -> Result<(), IoError> {
        let end = range.start.checked_add(range.len);
        if end.is_some_and(|end| end.0 <= self.capacity().0) {
            Ok(())
        } else {
            Err(IoError::new(IoErrorKind::Invalid))
        }
    }

    fn is_aligned(&self, range: ByteRange) -> bool {
        range.is_aligned(self.spec.sector.bytes())
    }

    /// Reads `range` into `buf`, which has its length. Returns the buffer, unless a drive keeps it
    /// after a timeout. Any byte range is valid; whole sectors are faster.
    ///
    /// # Errors
    /// `Invalid` past the end, `Medium` where data cannot be restored, `Gone` when the volume is
    /// detached.
    pub async fn read(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let _user = match self.check(range).and_then(|()| self.enter()) {
            Ok(user) => user,
            Err(error) => return (Err(error), Some(buf)),
        };
        let timed = self.note_request(Operation::Read);
        let (result, buf) = match self.moving() {
            None => self.read_entered(range, buf).await,
            Some(moving) => Box::pin(moving::read(self, &moving, range, buf)).await,
        };
        self.note_end(timed, range.len, &result);
        (result, buf)
    }

    /// Reads by this layout, after the caller has entered it.
    ///
    /// # Errors
    /// Those of [`Volume::read`].
    pub(crate) async fn read_entered(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let is_for_read_cache = self.is_for_read_cache(range);
        self.follow_read(range, buf.is_hollow());
        let facts = RequestFacts { volume: self, range, is_for_read_cache };
        let by_stripes = match way::classify(Kind::Read, &facts).way {
            Way::Nothing => return (Ok(()), Some(buf)),
            Way::Sectors => return Box::pin(self.read_unaligned(range, buf)).await,
            Way::Direct => match Box::pin(self.read_directly(range, buf)).await {
                Finished::Done(buf) => return (Ok(()), buf),
                Finished::Failed(error) => return (Err(error), None),
                Finished::ByStripes(buf) => buf,
            },
            Way::Copies | Way::Stripe | Way::Stripes => Some(buf),
        };
        self.read_by_stripes(range, by_stripes).await
    }

    /// Begins a request, unless it needs a task: then nothing has happened, and it is returned. The
    /// receiver may get the outcome before this returns.
    pub fn begin(
        self: &Rc<Self>,
        request: IoRequest,
        receiver: Receiver,
    ) -> Option<(IoRequest, Receiver)> {
        Taskless::begin(self, request, receiver)
    }

    async fn read_directly(self: &Rc<Self>, range: ByteRange, buf: Buf) -> Finished {
        let spare = &self.taskless.spare;
        let Some(mut direct) = Direct::read(self, spare, range) else {
            return Finished::ByStripes(Some(buf));
        };
        let requests = direct.reads(self, buf);
        direct.run(self, spare, requests).await
    }

    async fn write_directly(
        self: &Rc<Self>,
        way: Way,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Finished {
        let Some(mut direct) = self.map_write(way, range) else {
            return Finished::ByStripes(None);
        };
        direct.note_written(&data, durability);
        let requests = direct.writes(self);
        direct.run(self, &self.taskless.spare, requests).await
    }

    /// A host's read that is direct, mapped; the host has entered the volume. `None`: it is not
    /// direct, and nothing has happened.
    pub(super) fn enter_read(
        self: &Rc<Self>,
        range: ByteRange,
        is_hollow: bool,
    ) -> Option<(Box<Direct>, Entered)> {
        if self.moving.borrow().is_some() || self.check(range).is_err() {
            return None;
        }
        let is_for_read_cache = self.is_for_read_cache(range);
        let facts = RequestFacts { volume: self, range, is_for_read_cache };
        if way::classify(Kind::Read, &facts).way != Way::Direct {
            return None;
        }
        let (user, direct) = (self.enter().ok()?, Direct::read(self, &self.taskless.spare, range)?);
        let timed = self.note_request(Operation::Read);
        self.follow_read(range, is_hollow);
        Some((direct, Entered { user, timed }))
    }

    /// The same for a write that needs no task.
    pub(super) fn enter_write(
        self: &Rc<Self>,
        range: ByteRange,
        data: &Slice,
        durability: Durability,
    ) -> Option<(Begun, Entered)> {
        if self.moving.borrow().is_some() || self.is_unfenced() || self.check(range).is_err() {
            return None;
        }
        let way = self.way_of_write(range, data);
        let user = self.enter().ok()?;
        let begun = match way {
            Way::Stripe => Begun::Stripe(StripeWrite::plan(self, range, data, durability)?),
            way => Begun::Direct(self.map_write(way, range)?),
        };
        Some((begun, Entered { user, timed: self.note_write(range) }))
    }

    /// Writes to one stripe by its plan, after the caller has entered this layout. `None`: the
    /// stripe is in use, and nothing was done.
    async fn write_operation(
        self: &Rc<Self>,
        range: ByteRange,
        data: &Slice,
        durability: Durability,
    ) -> Option<Result<(), IoError>> {
        let write = StripeWrite::plan(self, range, data, durability)?;
        let (io, completion) = self.shard.env().start_operation(None);
        Taskless::begin_stripe(self, write, None, Receiver::Completion(completion));
        Some(io.await.result.map(drop))
    }

    /// A write of this way, mapped. `None`: it needs plans.
    fn map_write(&self, way: Way, range: ByteRange) -> Option<Box<Direct>> {
        match way {
            Way::Direct => Direct::write(self, &self.taskless.spare, range),
            Way::Copies => Direct::copies(self, &self.taskless.spare, range),
            Way::Nothing | Way::Sectors | Way::Stripe | Way::Stripes => None,
        }
    }

    /// A host's request has ended; without `entered`, its caller ends it.
    pub(super) fn leave<T>(
        &self,
        entered: Option<Entered>,
        len: ByteCount,
        result: &Result<T, IoError>,
    ) {
        let Some(Entered { user, timed }) = entered else { return };
        self.note_end(timed, len, result);
        drop(user);
    }

    /// Reads whole sectors by plans, after the caller has entered this layout. Without a buffer: a
    /// drive kept that after a timeout.
    ///
    /// # Errors
    /// Those of [`Volume::read`].
    pub(super) async fn read_by_stripes(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Option<Buf>,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let buf = buf.unwrap_or_else(|| self.shard.env().pool().take_reserved(range.len));
        self.read_sectors(range, buf).await
    }

    /// Reads whole sectors by this layout for a task that has entered it: by plans, a stripe at a
    /// time, without stream tracking.
    ///
    /// # Errors
    /// Those of [`Volume::read`].
    pub(crate) async fn read_to_copy(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        assert!(!range.is_empty() && self.is_aligned(range), "{range:?} is not whole sectors");
        self.read_sectors(range, buf).await
    }

    /// Whether the read cache has bytes of a read, or is to be filled by it. The owner of another
    /// shard's stripe decides that.
    fn is_for_read_cache(&self, range: ByteRange) -> bool {
        self.follows_reads()
            && self
                .only_stripe(range)
                .is_none_or(|(stripe, within)| self.wants_read(stripe, within))
    }

    /// Tracks the stream of a host's read, whatever its way, and reads ahead. The owner of another
    /// shard's stripe tracks its reads.
    fn follow_read(&self, range: ByteRange, is_hollow: bool) {
        if !self.follows_reads() {
            return;
        }
        let whole = range.align_out(self.spec.sector.bytes());
        if let Some((stripe, within)) = self.only_stripe(whole).filter(|_| !range.is_empty()) {
            self.ahead.follow(self, stripe, within, self.next_tag(), is_hollow);
        }
    }

    /// Partial sectors: reads the sectors around them and copies.
    async fn read_unaligned(
        self: &Rc<Self>,
        range: ByteRange,
        mut buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        let whole = range.align_out(self.spec.sector.bytes());
        let _edges = self.shard.reserve_read_edges(whole.len).await;
        let sectors = self.take_scratch(whole.len, buf.is_hollow());
        let (result, sectors) = self.read_sectors(whole, sectors).await;
        if let (Ok(()), Some(sectors)) = (&result, sectors)
            && !buf.is_hollow()
        {
            let skip = (range.start - whole.start).as_usize();
            buf.bytes_mut().copy_from_slice(&sectors.bytes()[skip..skip + range.len.as_usize()]);
        }
        (result, Some(buf))
    }

    /// Reads whole sectors on the normal path.
    async fn read_sectors(
        self: &Rc<Self>,
        range: ByteRange,
        buf: Buf,
    ) -> (Result<(), IoError>, Option<Buf>) {
        match self.only_stripe(range) {
            Some((stripe, within)) => Box::pin(self.read_cached(stripe, within, buf)).await,
            None => Box::pin(split::run(self, range, Whole::Read(buf), self.next_tag())).await,
        }
    }

    /// The stripe of a range, and its bytes of it, if it is in one stripe of this shard: then the
    /// caller's task serves it.
    fn only_stripe(&self, range: ByteRange) -> Option<(StripeIndex, ByteRange)> {
        let (stripe, within) = self.geometry().stripe_of(range.start);
        let is_one = within + range.len <= self.geometry().stripe_bytes();
        let within = ByteRange::new(ByteOffset(within.0), range.len);
        (is_one && self.is_mine(stripe)).then_some((stripe, within))
    }

    /// Runs a stripe request of another shard, or of a split request.
    pub(crate) async fn run(&self, request: StripeRequest) -> StripeOutcome {
        match &request.work {
            StripeWork::ReadAhead { window, is_hollow } => {
                return self.ahead.go_on(self, request.stripe, request.within, *window, *is_hollow);
            }
            StripeWork::Read(buf) if self.follows_reads() => {
                self.ahead.follow(
                    self,
                    request.stripe,
                    request.within,
                    request.of,
                    buf.is_hollow(),
                );
            }
            _ => {}
        }
        stripe_request::run(self, request).await
    }

    /// Stops read-ahead and drops cached reads: the volume is being detached.
    pub(crate) fn close_reads(&self) {
        self.ahead.close();
        self.forget_reads();
    }

    /// Writes `data`, as long as `range`. Any byte range is valid; whole sectors are faster.
    ///
    /// # Errors
    /// `Invalid` past the end, `Gone` when the volume is detached or too many drives have failed,
    /// `OutOfSpace` when the file system below a file drive is full. After an error the range holds
    /// old data, new data or both.
    pub async fn write(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        self.check(range)?;
        let _user = self.enter()?;
        let timed = self.note_write(range);
        let result = match self.moving() {
            None => self.write_entered(range, data, durability).await,
            Some(moving) => Box::pin(moving::write(self, &moving, range, data, durability)).await,
        };
        let result = match result {
            Ok(()) => self.outlasts_restored(range).await,
            failed => failed,
        };
        self.note_end(timed, range.len, &result);
        result
    }

    /// Writes by this layout, after the caller has entered it.
    ///
    /// # Errors
    /// Those of [`Volume::write`].
    pub(crate) async fn write_entered(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        let done = match self.way_of_write(range, &data) {
            Way::Nothing => Some(Ok(())),
            Way::Stripe => self.write_operation(range, &data, durability).await,
            way @ (Way::Direct | Way::Copies) => {
                match Box::pin(self.write_directly(way, range, data.clone(), durability)).await {
                    Finished::Done(_) => Some(Ok(())),
                    Finished::Failed(error) => Some(Err(error)),
                    Finished::ByStripes(_) => None,
                }
            }
            Way::Sectors | Way::Stripes => None,
        };
        match done {
            Some(result) => result,
            None => self.write_by_stripes(range, data, durability).await,
        }
    }

    fn way_of_write(&self, range: ByteRange, data: &Slice) -> Way {
        let kind = if data.is_zero() { Kind::WriteZeroes } else { Kind::Write };
        way::classify(kind, &RequestFacts { volume: self, range, is_for_read_cache: false }).way
    }

    /// A host's write begins. `None`: it is not from a host.
    fn note_write(&self, range: ByteRange) -> Option<Timed> {
        let timed = self.note_request(Operation::Write)?;
        if !range.is_aligned(ALIGNMENT) {
            self.count(|counters| counters.unaligned_writes += 1);
        }
        Some(timed)
    }

    /// Writes by plans, after the caller has entered this layout.
    ///
    /// # Errors
    /// Those of [`Volume::write`].
    pub(super) async fn write_by_stripes(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        let of = self.next_tag();
        match self.only_stripe(range) {
            Some((stripe, within)) => {
                Box::pin(stripe_request::write(self, stripe, within, data, durability, of)).await
            }
            None => {
                let whole = Whole::Write(data, durability);
                Box::pin(split::run(self, range, whole, of)).await.0
            }
        }
    }

    /// Initialises whole stripes of this layout, after the caller has entered it. A normal write
    /// that is split for the journal would use redundancy that does not agree yet.
    ///
    /// # Errors
    /// Those of [`Volume::write`].
    pub(crate) async fn lay_entered(
        self: &Rc<Self>,
        range: ByteRange,
        data: Slice,
    ) -> Result<(), IoError> {
        Box::pin(split::run(self, range, Whole::Lay(data), self.next_tag())).await.0
    }

    /// Makes `range` read as zeroes.
    ///
    /// # Errors
    /// Those of [`Volume::write`].
    pub async fn write_zeroes(
        self: &Rc<Self>,
        range: ByteRange,
        durability: Durability,
    ) -> Result<(), IoError> {
        self.write(range, Slice::zero(range.len), durability).await
    }

    /// Discards the content of `range`. Where redundancy could not follow (parts of stripes of
    /// redundant levels), it has no effect: rule (g) of `ARCHITECTURE.md`.
    ///
    /// # Errors
    /// Those of [`Volume::write`].
    pub async fn trim(self: &Rc<Self>, range: ByteRange) -> Result<(), IoError> {
        self.check(range)?;
        let _user = self.enter()?;
        if range.is_empty() {
            return Ok(());
        }
        let timed = self.note_request(Operation::Trim);
        let result = match self.moving() {
            None => self.trim_entered(range).await,
            Some(moving) => Box::pin(moving::trim(self, &moving, range)).await,
        };
        let result = match result {
            Ok(()) => self.outlasts_restored(range).await,
            failed => failed,
        };
        self.note_end(timed, range.len, &result);
        result
    }

    /// Trims by this layout, after the caller has entered it.
    ///
    /// # Errors
    /// Those of [`Volume::trim`].
    pub(super) async fn trim_entered(self: &Rc<Self>, range: ByteRange) -> Result<(), IoError> {
        match self.only_stripe(range) {
            Some((stripe, within)) => Box::pin(stripe_request::trim(self, stripe, within)).await,
            None => Box::pin(split::run(self, range, Whole::Trim, self.next_tag())).await.0,
        }
    }

    /// Done when all writes acknowledged before the call are durable: dirty data is in the data log
    /// or destaged, and every drive in use with unflushed writes has been flushed.
    ///
    /// # Errors
    /// When dirty data can be neither logged nor destaged, or a drive cannot flush.
    pub async fn flush(self: &Rc<Self>) -> Result<(), IoError> {
        let _user = self.enter()?;
        let timed = self.note_request(Operation::Flush);
        let result = match self.moving() {
            None => self.make_durable().await,
            Some(moving) => Box::pin(moving::flush(self, &moving)).await,
        };
        self.note_end(timed, ByteCount::ZERO, &result);
        result
    }

    /// Makes acknowledged writes of this layout durable.
    ///
    /// # Errors
    /// Those of [`Volume::flush`].
    pub(crate) async fn make_durable(self: &Rc<Self>) -> Result<(), IoError> {
        if self.answers_flushes() {
            return Ok(());
        }
        // With a data log, each shard flushes drives itself, which is seldom necessary.
        let flushes = !self.answers_by_log();
        if self.uses_write_back() {
            Box::pin(split::secure(self, self.next_tag(), flushes)).await?;
        }
        match flushes {
            true => self.flush_destaged().await,
            false => Ok(()),
        }
    }

    /// Which parts of `range` hold data, from its start on. The reply may cover less, but at least
    /// one sector. Unknown blocks are data. Nothing is destaged.
    ///
    /// # Errors
    /// `Invalid` past the end, `Gone` when the volume is detached.
    pub async fn status(self: &Rc<Self>, range: ByteRange) -> Result<Vec<StatusExtent>, IoError> {
        self.check(range)?;
        let _user = self.enter()?;
        match self.moving() {
            None => self.status_entered(range).await,
            Some(moving) => Box::pin(moving::status(self, &moving, range)).await,
        }
    }

    /// The same by this layout, after the caller has entered it.
    ///
    /// # Errors
    /// Those of [`Volume::status`].
    pub(super) async fn status_entered(
        self: &Rc<Self>,
        range: ByteRange,
    ) -> Result<Vec<StatusExtent>, IoError> {
        split::status(self, range, self.next_tag()).await
    }
}

/// What this shard knows of the bytes of a request.
struct RequestFacts<'a> {
    volume: &'a Volume,
    range: ByteRange,
    is_for_read_cache: bool,
}

impl Facts for RequestFacts<'_> {
    fn spread(&self) -> Spread {
        Spread::of(self.volume.geometry(), self.range)
    }

    fn redundancy(&self) -> Redundancy {
        Redundancy::of(self.volume.geometry())
    }

    fn is_aligned(&self) -> bool {
        self.volume.is_aligned(self.range)
    }

    fn is_write_back(&self) -> bool {
        self.volume.uses_write_back()
    }

    fn may_be_dirty(&self) -> bool {
        self.volume.may_be_dirty(self.range)
    }

    fn is_for_read_cache(&self) -> bool {
        self.is_for_read_cache
    }

    fn is_well(&self) -> bool {
        direct::is_well(self.volume, self.range)
    }

    fn may_go_to_copies(&self) -> bool {
        let (stripe, within) = self.volume.geometry().stripe_of(self.range.start);
        let within = ByteRange::new(ByteOffset(within.0), self.range.len);
        self.volume.is_mine(stripe) && self.volume.may_go_to_copies(stripe, within)
    }

    fn may_be_operation(&self) -> bool {
        let (stripe, at) = self.volume.geometry().stripe_of(self.range.start);
        let region = self.volume.region_of(stripe);
        at.0 > 0
            && at + self.range.len < self.volume.geometry().stripe_bytes()
            && self.volume.is_mine(stripe)
            && self.volume.may_be_operation(stripe, region)
    }

    fn is_shown(&self) -> bool {
        !self.volume.is_hidden()
    }
}
