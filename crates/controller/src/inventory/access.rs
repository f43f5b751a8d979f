//! Labels and maps on drives: reading, writing, erasing. Metadata always has content (no data-less
//! buffers), and is small and durable.
//!
//! A read or flush that fails with a temporary error of the system is retried for some time.
//! Otherwise a healthy drive would count as missing because its label was not read.

use crate::interface::ForeignArray;
use ondisk::ddf::{self, Site};
use ondisk::foreign::{self, Format, Glimpse};
use ondisk::{
    Area, BLOCK, BlockWrite, Carried, Copies, Found, Headless, LogLabel, RecordCopies, Tail,
    TailPlace, intent,
};
use platform::{
    Buf, DEFAULT_TIME_LIMIT, DriveInfo, DriveSource, Durability, Env, Io, IoError, IoErrorKind,
    LimitsByClass, Member, MeteredSource, Overseer, Slice, Traffic,
};
use smallvec::smallvec;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

/// The read size, supported by any drive.
const PIECE: ByteCount = ByteCount(128 << 10);

/// The time limits of the controller's own reads and writes: those of the slowest class for all
/// drives, unless the writes are [supervised](Access::watch_writes).
const LIMITS: LimitsByClass = LimitsByClass::uniform(DEFAULT_TIME_LIMIT);

/// The duration of retries, and the delay between them, after a temporary error of the system.
pub(crate) const ASK_AGAIN_FOR: Duration = Duration::from_secs(30);
pub(crate) const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// An open drive: its source for the shards, and the controller's own access.
#[derive(Clone)]
pub(crate) struct Access {
    env: Env,
    pub(crate) source: Arc<dyn DriveSource>,
    pub(crate) member: Member,
    /// The same for writes, whose outstanding I/O is counted separately from reads and flushes.
    writer: Member,
    /// The same for data writes of a replay.
    data_writer: Member,
    /// The location of its metadata area (tail): as found on it, or as about to be written.
    place: Rc<Cell<TailPlace>>,
    /// The last requested state of its write cache since it was opened, and the result.
    write_cache: Rc<Cell<Option<CacheWish>>>,
    /// The epoch of the drive, which every write raises: it invalidates the results of earlier
    /// probes.
    epoch: Rc<Cell<u64>>,
}

/// The requested state of a drive's write cache, and the result.
type CacheWish = (bool, Result<(), IoError>);

/// The content of the label area.
#[derive(Clone, Debug)]
pub(crate) enum LabelSeen {
    /// Nothing.
    Blank,
    /// A sound label.
    Sound(Rc<Carried>),
    /// The member's description of its array is lost.
    Headless(Rc<Headless>),
    /// The label of a log device.
    Log(Rc<LogLabel>),
    /// A DDF structure of another system.
    Foreign(Rc<ddf::Drive>),
    /// A damaged label of SoftROC: a sentence.
    Bad(String),
}

impl Access {
    fn of(
        env: &Env,
        source: Arc<dyn DriveSource>,
        member: Member,
        write_cache: Rc<Cell<Option<CacheWish>>>,
        epoch: Rc<Cell<u64>>,
    ) -> Access {
        let (writer, data_writer, place) = (member.beside(), member.beside(), Rc::default());
        Access { env: env.clone(), source, member, writer, data_writer, place, write_cache, epoch }
    }

    /// Runs an operation, and retries it while the system reports a temporary error.
    pub(crate) async fn until_not_busy<T>(
        &self,
        ask: impl AsyncFn() -> Result<T, IoError>,
    ) -> Result<T, IoError> {
        let until = self.env.now() + ASK_AGAIN_FOR;
        loop {
            match ask().await {
                Err(error) if error.kind == IoErrorKind::Busy && self.env.now() < until => {
                    self.env.sleep(ASK_AGAIN_AFTER).await;
                }
                result => return result,
            }
        }
    }

    /// Opens a drive. From now on, its I/O here and on all shards counts as `traffic`; each write
    /// of the controller raises its `epoch`.
    ///
    /// # Errors
    /// When it cannot be opened or attached.
    pub(crate) async fn open(
        env: &Env,
        name: &str,
        traffic: Traffic,
        epoch: Rc<Cell<u64>>,
    ) -> platform::Result<Access> {
        let source = Arc::new(MeteredSource::new(drives::open(env, name).await?, traffic));
        let member = Member::attach(env, source.as_ref(), &LIMITS)?;
        Ok(Access::of(env, source, member, Rc::default(), epoch))
    }

    /// The drive with the size that it had before it became larger.
    ///
    /// # Errors
    /// When it cannot be attached.
    pub(super) fn beginning(&self, env: &Env, size: ByteCount) -> platform::Result<Access> {
        let source = Arc::new(drives::Beginning::new(self.source.clone(), size));
        let member = Member::attach(env, source.as_ref(), &LIMITS)?;
        Ok(Access::of(env, source, member, self.write_cache.clone(), self.epoch.clone()))
    }

    /// The number of outstanding writes. Those that timed out may still land, even on data written
    /// now (rule (d)).
    pub(super) fn writes_under_way(&self) -> u32 {
        self.writer.outstanding() + self.data_writer.outstanding()
    }

    /// Supervises metadata writes with the time limits of the drive's class, until [supervision
    /// ends](Self::watch_writes_no_more).
    pub(crate) fn watch_writes(&self, overseer: Weak<dyn Overseer>, limits: &LimitsByClass) {
        self.writer.set_limits(limits);
        self.writer.watch(overseer);
    }

    /// Whether a metadata write exceeds its time limit and is still waited for.
    pub(crate) fn is_overdue(&self) -> bool {
        self.writer.is_overdue()
    }

    /// Ends the supervision: a metadata write fails at its time limit again.
    pub(crate) fn watch_writes_no_more(&self) {
        self.writer.watch_no_more();
        self.writer.set_limits(&LIMITS);
    }

    /// Stops waiting for these writes.
    pub(crate) fn give_up_writes(&self) {
        self.writer.give_up();
    }

    /// The number of outstanding metadata writes, without data writes: one volume's journal may be
    /// replayed while the label is written for another volume of the array.
    pub(super) fn metadata_writes_under_way(&self) -> u32 {
        self.writer.outstanding()
    }

    pub(crate) fn info(&self) -> &DriveInfo {
        self.source.info()
    }

    /// The last requested state of its write cache, and the result.
    pub(crate) fn write_cache(&self) -> Option<CacheWish> {
        self.write_cache.get()
    }

    /// Switches the drive's write cache.
    pub(crate) async fn set_write_cache(&self, on: bool) -> Result<(), IoError> {
        let result = self.member.write_cache(on).await.result.map(drop);
        self.write_cache.set(Some((on, result)));
        result
    }

    /// Its metadata area (tail); `None` if it is too small for one.
    pub(crate) fn tail(&self) -> Option<Tail> {
        Tail::at(self.info().size, self.place.get())
    }

    /// The location of its metadata area.
    pub(super) fn place(&self) -> TailPlace {
        self.place.get()
    }

    /// Sets the location of its metadata area, which is the same on all drives of an array.
    pub(crate) fn set_place(&self, place: TailPlace) {
        self.place.set(place);
    }

    /// The location of a structure on it; `None` if it is too small for one.
    pub(crate) fn site(&self) -> Option<Site> {
        self.tail()?.site(self.info().logical_sector)
    }

    pub(crate) async fn read(&self, range: ByteRange) -> Result<Vec<u8>, IoError> {
        self.until_not_busy(async || self.read_once(range).await).await
    }

    /// Starts a read of arbitrary data, to find out whether the drive responds.
    pub(crate) fn begin_to_read(&self) -> Io {
        self.member.read(ByteOffset::ZERO, smallvec![Buf::unpooled(BLOCK)])
    }

    async fn read_once(&self, range: ByteRange) -> Result<Vec<u8>, IoError> {
        let mut bytes = Vec::with_capacity(range.len.as_usize());
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end() {
            let len = PIECE.min(range.end() - at);
            pieces.push(self.member.read(at, smallvec![Buf::unpooled(len)]));
            at += len;
        }
        let mut failed = None;
        for piece in pieces {
            let outcome = piece.await;
            failed = failed.or(outcome.result.err());
            outcome.buffers.iter().for_each(|buf| bytes.extend_from_slice(buf.bytes()));
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if bytes.len() as u64 == range.len.0 {
            Ok(bytes)
        } else {
            Err(IoError::new(IoErrorKind::Medium))
        }
    }

    fn raise_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// Starts a durable write.
    pub(crate) fn write(&self, at: ByteOffset, bytes: &[u8]) -> Io {
        self.raise_epoch();
        self.writer.write(at, smallvec![Buf::copy_of(bytes).freeze()], Durability::Durable)
    }

    /// Starts a data write of a replay, which may stay in the drive's cache.
    pub(crate) fn write_data(&self, at: ByteOffset, data: Slice) -> Io {
        self.raise_epoch();
        self.data_writer.write(at, smallvec![data], Durability::Cached)
    }

    /// Writes data like a replay, with retries after a temporary error of the system.
    pub(crate) async fn put_data(&self, at: ByteOffset, data: &Slice) -> Result<(), IoError> {
        self.until_not_busy(async || self.write_data(at, data.clone()).await.result.map(drop)).await
    }

    /// Starts a durable write of consecutive blocks of a map or of the record of initialised
    /// stripes.
    pub(crate) fn write_blocks(&self, tail: &Tail, writes: &[BlockWrite]) -> Option<Io> {
        let first = writes.first()?;
        let bytes: Vec<u8> = writes.iter().flat_map(|write| write.bytes.iter().copied()).collect();
        Some(self.write(tail.blocks(first.area, first.copy, first.block, 1).start, &bytes))
    }

    /// Flushes the drive, so that its current content is durable. After a kill or an error, an
    /// interrupted durable write may exist only in the drive's cache. Without the flush, a power
    /// cut could revert it after decisions based on it are stored.
    async fn settle(&self) -> Result<(), IoError> {
        if self.info().read_only {
            return Ok(());
        }
        let flush = async || self.member.flush().await.result;
        match self.until_not_busy(flush).await {
            // Without a volatile cache there is nothing to flush.
            Err(error) if error.kind != IoErrorKind::NotSupported => Err(error),
            _ => Ok(()),
        }
    }

    /// Looks for a label. An unreadable copy counts as damaged while the other one is sound. The
    /// result is durable.
    ///
    /// # Errors
    /// When the label area cannot be read, so that the presence of a label is unknown; when the
    /// drive cannot be flushed.
    pub(super) async fn read_label(&self) -> Result<LabelSeen, IoError> {
        self.settle().await?;
        let (found, failed) = self.decode(ondisk::find).await;
        self.set_place(match &found {
            Found::Carried(carried) => carried.content.tail(),
            Found::Headless(headless) => headless.tail,
            Found::Foreign(drive) => drive.structure.place(),
            Found::Blank | Found::NotYet | Found::Log(_) | Found::Bad(_) => TailPlace::End,
        });
        match (found, failed) {
            (Found::Blank, Some(error)) => Err(error),
            (Found::Blank | Found::NotYet, _) => Ok(LabelSeen::Blank),
            (Found::Log(label), _) => Ok(LabelSeen::Log(Rc::from(label))),
            (Found::Carried(carried), _) => Ok(LabelSeen::Sound(Rc::new(carried))),
            (Found::Headless(headless), _) => Ok(LabelSeen::Headless(Rc::new(headless))),
            (Found::Foreign(drive), _) => Ok(LabelSeen::Foreign(Rc::from(drive))),
            (Found::Bad(error), _) => Ok(LabelSeen::Bad(error.to_string())),
        }
    }

    /// The same if the drive may have ended elsewhere: unreadable blocks in the label areas of
    /// other systems are ignored.
    ///
    /// # Errors
    /// When it cannot be read at its end.
    pub(super) async fn read_label_at_end(&self) -> Result<LabelSeen, IoError> {
        match self.read_label().await {
            Err(_) if self.is_blank_at_its_end().await => Ok(LabelSeen::Blank),
            read => read,
        }
    }

    /// Whether the drive certainly has no SoftROC metadata at its end, even if label areas of other
    /// systems are unreadable.
    async fn is_blank_at_its_end(&self) -> bool {
        let Some(tail) = Tail::of(self.info().size) else { return false };
        let (found, failed) = self.decode_all(ondisk::find).await;
        let is_at_end = |(range, _): &(ByteRange, IoError)| range.end().0 > tail.start().0;
        matches!(found, Found::Blank) && !failed.iter().any(is_at_end)
    }

    /// Reads the ranges that a decoder requests until it needs no more. Returns its result, and the
    /// first read error.
    pub(crate) async fn decode<T>(&self, decode: impl Fn(&Glimpse) -> T) -> (T, Option<IoError>) {
        let (found, failed) = self.decode_all(decode).await;
        (found, failed.first().map(|(_, error)| *error))
    }

    /// The same, with all unreadable ranges.
    async fn decode_all<T>(
        &self,
        decode: impl Fn(&Glimpse) -> T,
    ) -> (T, Vec<(ByteRange, IoError)>) {
        let serial = self.info().hardware.serial.clone();
        let mut glimpse = Glimpse::new(self.info().size).with_serial(serial);
        let mut failed = Vec::new();
        loop {
            let found = decode(&glimpse);
            let wanted = glimpse.wanted();
            if wanted.is_empty() {
                return (found, failed);
            }
            for range in self.in_sectors(wanted) {
                let bytes = self.read(range).await;
                failed.extend(bytes.as_ref().err().map(|error| (range, *error)));
                glimpse.put(range, bytes.ok());
            }
        }
    }

    /// The same ranges in whole sectors; adjacent ranges are merged.
    fn in_sectors(&self, ranges: Vec<ByteRange>) -> Vec<ByteRange> {
        let sector = self.info().logical_sector.bytes();
        let all = ByteRange::new(ByteOffset::ZERO, self.info().size);
        let mut whole: Vec<ByteRange> = Vec::new();
        for range in ranges {
            let range = range.align_out(sector).intersection(all);
            match whole.last_mut().filter(|last| last.end() >= range.start) {
                Some(last) => *last = ByteRange::from_to(last.start, last.end().max(range.end())),
                None => whole.push(range),
            }
        }
        whole
    }

    /// Both copies of the map of an array with that many regions. Unreadable blocks are left out.
    pub(crate) async fn read_map(&self, regions: u32) -> Copies {
        self.read_blocks(Area::WriteIntent, intent::blocks_for(regions)).await
    }

    /// Both copies of the record of initialised stripes of an array with that many regions, and a
    /// table of that many blocks.
    pub(crate) async fn read_record(&self, regions: u32, blocks: u32) -> RecordCopies {
        RecordCopies {
            regions: self.read_blocks(Area::Initialised, intent::blocks_for(regions)).await,
            table: self.read_blocks(Area::PartlyInitialised, blocks).await,
        }
    }

    async fn read_blocks(&self, area: Area, count: u32) -> Copies {
        let mut copies: Copies = Copies::default();
        let Some(tail) = self.tail() else { return copies };
        for (copy, blocks) in copies.iter_mut().enumerate() {
            match self.read(tail.blocks(area, copy, 0, count)).await {
                Ok(bytes) => {
                    blocks.extend(bytes.chunks(BLOCK.as_usize()).map(|block| Some(block.to_vec())))
                }
                Err(_) => {
                    for block in 0..count {
                        blocks.push(self.read(tail.blocks(area, copy, block, 1)).await.ok());
                    }
                }
            }
        }
        copies
    }

    /// Removes all SoftROC metadata from the drive, including the undo log of an import: the drive
    /// is then unused.
    ///
    /// # Errors
    /// When a write fails, or an earlier one is outstanding; some metadata may be left.
    pub(crate) async fn erase(&self) -> Result<(), IoError> {
        if self.writes_under_way() > 0 {
            return Err(IoError::new(IoErrorKind::TimedOut));
        }
        // A remaining log could restore the removed metadata.
        self.forget_undo().await?;
        self.erase_marks().await?;
        self.set_place(TailPlace::End);
        Ok(())
    }

    /// Removes all metadata that identifies the drive as one of SoftROC.
    ///
    /// # Errors
    /// When a write fails; some metadata may be left.
    pub(crate) async fn erase_marks(&self) -> Result<(), IoError> {
        let Some(tail) = self.tail() else { return Ok(()) };
        // The anchor goes first: without it the copies are not found.
        for place in tail.marks() {
            self.write(place.start, &vec![0; place.len.as_usize()]).await.result?;
        }
        Ok(())
    }

    /// The array of another system that the drive belongs to, according to this drive alone.
    /// Unreadable metadata names none.
    pub(super) async fn foreign_array(&self, label: &LabelSeen) -> Option<ForeignArray> {
        let (told, unnamed) = match label {
            LabelSeen::Blank => (self.decode(foreign::read).await.0, None),
            LabelSeen::Foreign(drive) => {
                let named = ForeignArray {
                    format: Format::Ddf.to_string(),
                    name: drive.structure.header.group.to_string(),
                };
                (ddf::tell(&[drive]).into_iter().next().unwrap_or_default(), Some(named))
            }
            LabelSeen::Sound(_)
            | LabelSeen::Headless(_)
            | LabelSeen::Log(_)
            | LabelSeen::Bad(_) => {
                return None;
            }
        };
        let newest =
            told.records.iter().map(|record| &record.volume).max_by_key(|of| of.created_unix_s);
        let named = newest.map(|volume| {
            let name = if volume.name.is_empty() { &volume.identity.text } else { &volume.name };
            ForeignArray { format: volume.format.to_string(), name: name.clone() }
        });
        named.or(unnamed)
    }

    /// The content of the drive besides its SoftROC label: for the operator, before it is
    /// overwritten.
    ///
    /// # Errors
    /// When its ends cannot be read.
    pub(super) async fn findings(&self, carries_label: bool) -> Result<Vec<String>, IoError> {
        let info = self.info();
        let len = signatures::INSPECTED.min(info.size);
        let first = self.read(ByteRange::new(ByteOffset::ZERO, len)).await?;
        let last = self.read(ByteRange::new(ByteOffset(info.size.0 - len.0), len)).await?;
        let ends = signatures::Ends::new(info.size, &first, &last);
        let own = self.site().filter(|_| carries_label).map(|site| site.anchor());
        let findings = signatures::inspect(&ends, &[]).into_iter();
        Ok(findings
            .filter(|found| Some(found.offset) != own)
            .map(|found| found.to_string())
            .collect())
    }
}

/// Operations on several drives, each with a number.
pub(crate) type Ios = Vec<(usize, Option<Io>)>;

/// Waits for all operations; returns the failed ones, by number.
pub(crate) async fn join(ios: Ios) -> BTreeMap<usize, IoError> {
    let mut failed = BTreeMap::new();
    for (number, io) in ios {
        let result = match io {
            Some(io) => io.await.result,
            None => Err(IoError::new(IoErrorKind::Gone)),
        };
        if let Err(error) = result {
            failed.insert(number, error);
        }
    }
    failed
}
