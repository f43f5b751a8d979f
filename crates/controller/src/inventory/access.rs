//! Labels and maps on drives: reading, writing, erasing. Metadata is always solid, small and durable.
//!
//! A read or flush that the system refuses for now is asked for again for some time: a drive whose label is not read counts as missing, and
//! nothing is wrong with it.

use crate::interface::ForeignArray;
use ondisk::ddf::{self, Site};
use ondisk::foreign::{self, Format, Glimpse};
use ondisk::{
    Area, BLOCK, BlockWrite, Carried, Copies, Found, Headless, LogLabel, RecordCopies, Tail, TailPlace,
    intent,
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

/// Reads in pieces that any drive takes.
const PIECE: ByteCount = ByteCount(128 << 10);

/// How long a drive may take for what the controller reads and writes itself: whatever it is, as long as the slowest, unless somebody
/// [watches over](Access::watch_writes) that.
const LIMITS: LimitsByClass = LimitsByClass::uniform(DEFAULT_TIME_LIMIT);

/// How long, and how often, it is asked for again what the system refuses for now.
pub(crate) const ASK_AGAIN_FOR: Duration = Duration::from_secs(30);
pub(crate) const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A drive that is open: its source for the shards, and the controller's own way to it.
#[derive(Clone)]
pub(crate) struct Access {
    env: Env,
    pub(crate) source: Arc<dyn DriveSource>,
    pub(crate) member: Member,
    /// The same, for what is written: what of that has not returned is known apart from reads and flushes.
    writer: Member,
    /// The same for data that a replay carries out.
    data_writer: Member,
    /// Where its tail is: by what was found on it, or is about to be written to it.
    place: Rc<Cell<TailPlace>>,
    /// What was wished last of its own write cache since it was opened, and what came of it.
    write_cache: Rc<Cell<Option<CacheWish>>>,
    /// The epoch of the drive, which every write raises: what a probe read before the write counts no more.
    epoch: Rc<Cell<u64>>,
}

/// Whether a drive's own write cache is wished to be on, and what came of it.
type CacheWish = (bool, Result<(), IoError>);

/// What was found where labels lie.
#[derive(Clone, Debug)]
pub(crate) enum LabelSeen {
    /// Nothing.
    Blank,
    /// A label that is sound.
    Sound(Rc<Carried>),
    /// What a member said of its array is lost.
    Headless(Rc<Headless>),
    /// The label of a log device.
    Log(Rc<LogLabel>),
    /// A structure in DDF of somebody else.
    Foreign(Rc<ddf::Drive>),
    /// Something of ours that cannot be used: a sentence.
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

    /// Asks, and asks again while the system refuses it for now.
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

    /// Opens a drive. What is asked of it from now on, here and on all shards, counts as `traffic`; each write of the controller raises its `epoch`.
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

    /// The drive as large as it was before it became larger.
    ///
    /// # Errors
    /// When it cannot be attached.
    pub(super) fn beginning(&self, env: &Env, size: ByteCount) -> platform::Result<Access> {
        let source = Arc::new(drives::Beginning::new(self.source.clone(), size));
        let member = Member::attach(env, source.as_ref(), &LIMITS)?;
        Ok(Access::of(env, source, member, self.write_cache.clone(), self.epoch.clone()))
    }

    /// How many writes the drive has not returned. Where nobody waits for them any more they timed out, and may still land:
    /// on what is written now, were anything written now (rule (d)).
    pub(super) fn writes_under_way(&self) -> u32 {
        self.writer.outstanding() + self.data_writer.outstanding()
    }

    /// From now on somebody watches over what is written about the drive, which has the time limits of its class, until
    /// [nobody does any more](Self::watch_writes_no_more).
    pub(crate) fn watch_writes(&self, overseer: Weak<dyn Overseer>, limits: &LimitsByClass) {
        self.writer.set_limits(limits);
        self.writer.watch(overseer);
    }

    /// Whether something that is written about the drive takes too long, and is waited for.
    pub(crate) fn is_overdue(&self) -> bool {
        self.writer.is_overdue()
    }

    /// What is written about the drive has failed by its time limit from now on, as it did before.
    pub(crate) fn watch_writes_no_more(&self) {
        self.writer.watch_no_more();
        self.writer.set_limits(&LIMITS);
    }

    /// Nobody waits for that any longer.
    pub(crate) fn give_up_writes(&self) {
        self.writer.give_up();
    }

    /// How many of them are of what is written about the drive, and not of a volume's data: a journal of one volume of an array may be
    /// replayed while the label is written for another one.
    pub(super) fn metadata_writes_under_way(&self) -> u32 {
        self.writer.outstanding()
    }

    pub(crate) fn info(&self) -> &DriveInfo {
        self.source.info()
    }

    /// What was wished last of its own write cache, and what came of it.
    pub(crate) fn write_cache(&self) -> Option<CacheWish> {
        self.write_cache.get()
    }

    /// Switches its own write cache.
    pub(crate) async fn set_write_cache(&self, on: bool) -> Result<(), IoError> {
        let result = self.member.write_cache(on).await.result.map(drop);
        self.write_cache.set(Some((on, result)));
        result
    }

    /// Its tail; `None` where it is too small for one.
    pub(crate) fn tail(&self) -> Option<Tail> {
        Tail::at(self.info().size, self.place.get())
    }

    /// Where on it its tail is.
    pub(super) fn place(&self) -> TailPlace {
        self.place.get()
    }

    /// From now on its tail is there: it is to be a drive of an array whose drives have it there.
    pub(crate) fn set_place(&self, place: TailPlace) {
        self.place.set(place);
    }

    /// Where a structure is on it; `None` where it is too small for one.
    pub(crate) fn site(&self) -> Option<Site> {
        self.tail()?.site(self.info().logical_sector)
    }

    pub(crate) async fn read(&self, range: ByteRange) -> Result<Vec<u8>, IoError> {
        self.until_not_busy(async || self.read_once(range).await).await
    }

    /// Begins to read something, whatever it is: to find out whether the drive answers.
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
        if bytes.len() as u64 == range.len.0 { Ok(bytes) } else { Err(IoError::new(IoErrorKind::Medium)) }
    }

    fn raise_epoch(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// Starts a durable write.
    pub(crate) fn write(&self, at: ByteOffset, bytes: &[u8]) -> Io {
        self.raise_epoch();
        self.writer.write(at, smallvec![Buf::copy_of(bytes).freeze()], Durability::Durable)
    }

    /// Starts a write of data, into its cache: what a replay carries out.
    pub(crate) fn write_data(&self, at: ByteOffset, data: Slice) -> Io {
        self.raise_epoch();
        self.data_writer.write(at, smallvec![data], Durability::Cached)
    }

    /// Writes data as a replay does, and again for some time while the system refuses that for now.
    pub(crate) async fn put_data(&self, at: ByteOffset, data: &Slice) -> Result<(), IoError> {
        self.until_not_busy(async || self.write_data(at, data.clone()).await.result.map(drop)).await
    }

    /// Starts the durable write of blocks of a map or of the record that lie one after the other.
    pub(crate) fn write_blocks(&self, tail: &Tail, writes: &[BlockWrite]) -> Option<Io> {
        let first = writes.first()?;
        let bytes: Vec<u8> = writes.iter().flat_map(|write| write.bytes.iter().copied()).collect();
        Some(self.write(tail.blocks(first.area, first.copy, first.block, 1).start, &bytes))
    }

    /// Makes durable what the drive says now. A durable write that was cut off, by a kill or by its failure, may be in the
    /// drive's cache alone: it is read, and a power cut takes it back when what was concluded from it is long written.
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

    /// Looks for a label. What cannot be read counts as damaged while the other copy is sound. What is found is durable.
    ///
    /// # Errors
    /// When it cannot be read where a label would be, so that nobody can tell whether there is one; when the drive cannot
    /// be flushed.
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

    /// The same where the drive may end somewhere else: blocks that cannot be read where other systems have their labels say nothing of ours.
    ///
    /// # Errors
    /// When it cannot be read at its end.
    pub(super) async fn read_label_at_end(&self) -> Result<LabelSeen, IoError> {
        match self.read_label().await {
            Err(_) if self.is_blank_at_its_end().await => Ok(LabelSeen::Blank),
            read => read,
        }
    }

    /// Whether there is nothing of SoftROC's at its end for certain, though blocks elsewhere cannot be read where other systems have their labels.
    async fn is_blank_at_its_end(&self) -> bool {
        let Some(tail) = Tail::of(self.info().size) else { return false };
        let (found, failed) = self.decode_all(ondisk::find).await;
        let is_at_end = |(range, _): &(ByteRange, IoError)| range.end().0 > tail.start().0;
        matches!(found, Found::Blank) && !failed.iter().any(is_at_end)
    }

    /// Reads what a decoder asks for until it asks for nothing more. What it found, and the first error at reading.
    pub(crate) async fn decode<T>(&self, decode: impl Fn(&Glimpse) -> T) -> (T, Option<IoError>) {
        let (found, failed) = self.decode_all(decode).await;
        (found, failed.first().map(|(_, error)| *error))
    }

    /// The same, with all that cannot be read.
    async fn decode_all<T>(&self, decode: impl Fn(&Glimpse) -> T) -> (T, Vec<(ByteRange, IoError)>) {
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

    /// The same ranges in whole sectors; those that touch are one.
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

    /// Both copies of the map of an array of that many regions. What cannot be read is left out.
    pub(crate) async fn read_map(&self, regions: u32) -> Copies {
        self.read_blocks(Area::WriteIntent, intent::blocks_for(regions)).await
    }

    /// Both copies of the record of initialised stripes of an array of that many regions, with a table of so many blocks.
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
                Ok(bytes) => blocks.extend(bytes.chunks(BLOCK.as_usize()).map(|block| Some(block.to_vec()))),
                Err(_) => {
                    for block in 0..count {
                        blocks.push(self.read(tail.blocks(area, copy, block, 1)).await.ok());
                    }
                }
            }
        }
        copies
    }

    /// Takes away everything by which the drive is known as one of ours, and what it was before an import: it is
    /// nobody's.
    ///
    /// # Errors
    /// When a write fails, or one from before is still under way; some of it may be left.
    pub(crate) async fn erase(&self) -> Result<(), IoError> {
        if self.writes_under_way() > 0 {
            return Err(IoError::new(IoErrorKind::TimedOut));
        }
        // A log that is left behind could bring back what it kept.
        self.forget_undo().await?;
        self.erase_marks().await?;
        self.set_place(TailPlace::End);
        Ok(())
    }

    /// Takes away everything by which the drive is known as one of ours.
    ///
    /// # Errors
    /// When a write fails; some of it may be left.
    pub(crate) async fn erase_marks(&self) -> Result<(), IoError> {
        let Some(tail) = self.tail() else { return Ok(()) };
        // The anchor goes first: without it the copies are not looked at.
        for place in tail.marks() {
            self.write(place.start, &vec![0; place.len.as_usize()]).await.result?;
        }
        Ok(())
    }

    /// The array of another system that the drive is a member of, by what it says alone. What cannot be read names none.
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
            LabelSeen::Sound(_) | LabelSeen::Headless(_) | LabelSeen::Log(_) | LabelSeen::Bad(_) => {
                return None;
            }
        };
        let newest = told.records.iter().map(|record| &record.volume).max_by_key(|of| of.created_unix_s);
        let named = newest.map(|volume| {
            let name = if volume.name.is_empty() { &volume.identity.text } else { &volume.name };
            ForeignArray { format: volume.format.to_string(), name: name.clone() }
        });
        named.or(unnamed)
    }

    /// What the drive holds besides a label of ours, if it carries one: what a person should know before it is
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
        Ok(findings.filter(|found| Some(found.offset) != own).map(|found| found.to_string()).collect())
    }
}

/// Operations on several drives, by a number that tells them apart.
pub(crate) type Ios = Vec<(usize, Option<Io>)>;

/// Waits for all; which failed, by number.
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
