//! Assembles drives and a shape into a volume on this thread's shard.

use engine::alone::{self, Alone};
use engine::{
    Absorb, Attachment, CELL, CacheTerms, CellShare, Change, DataLogPlace, DataLogTerms,
    FaultPolicy, JournalOn, JournalPlace, LogDevice, Marks, ReadTerms, RegionSet, Regions,
    ShardMessage, StreamSharing, VolumeId, VolumeService, VolumeSpec, VolumeState,
};
use layout::Shape;
use ondisk::{LogLabel, Tail, TailPlace, Uuid};
use platform::{DriveSource, Env, Error, ErrorKind, Result};
use std::fmt::Display;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, DriveSet, SectorSize, StripSize};

/// The longest part of a log device per volume.
const LONGEST_ON_LOG: ByteCount = ByteCount(64 << 20);

/// The alignment of ranges on a log device.
const LOG_BLOCK: ByteCount = ByteCount(4096);

/// How the write hole is closed.
#[derive(Clone, Default)]
pub enum WriteHole {
    /// Not: the region of an interrupted stripe write is resynced.
    #[default]
    Resync,
    /// By a journal in the last 32 MiB of each drive.
    OnMembers,
    /// By a journal on log devices, the same on each. With a cache, their second half is the data
    /// log.
    OnDevices(Vec<Arc<dyn DriveSource>>),
}

/// Options besides the shape. Default: write-through, without a journal, like other arrays of the
/// engine.
#[derive(Clone, Default)]
pub struct Choices {
    /// How mirrors share a sequential stream.
    pub streams: StreamSharing,
    /// The size of the write-back cache; `None`: write-through.
    pub write_back: Option<ByteCount>,
    /// Whether the cache stores bytes. Models run without: their destaged writes have a length
    /// only.
    pub has_bytes: bool,
    /// How the write hole of a parity level is closed.
    pub write_hole: WriteHole,
    /// The marks that start and stop destaging.
    pub marks: Marks,
    /// How reads are cached.
    pub reads: ReadTerms,
    /// The size of the read cache.
    pub read_room: ByteCount,
    /// Slots of failed drives.
    pub failed: DriveSet,
}

/// Assembles an array on this thread's shard: the engine alone, without persistent state.
///
/// # Errors
/// When the drives are too small or too few for the shape, or cannot be opened.
pub async fn assemble(
    env: &Env,
    shape: &Shape,
    strip: StripSize,
    sources: Vec<Arc<dyn DriveSource>>,
    choices: Choices,
) -> Result<VolumeService> {
    let Choices { streams, write_back, has_bytes, marks, write_hole, reads, read_room, failed } =
        choices;
    let attachment = attachment(env, shape, strip, sources, &failed, write_hole)?;
    let absorb = if write_back.is_some() { Absorb::Unflushed } else { Absorb::Nothing };
    let cache = CacheTerms { absorb, marks, ..CacheTerms::none(attachment.spec.id) };
    let mut attachment = Attachment { streams, cache, reads, ..attachment };
    let data_log = write_back.and_then(|_| share_log(env, &mut attachment));
    let rooms = CacheSizes { cache: write_back.unwrap_or_default(), has_bytes, reads: read_room };
    attach(env, attachment, rooms, data_log).await
}

/// Splits the log between journal (first half) and data log (second half), if there is a log.
fn share_log(env: &Env, attachment: &mut Attachment) -> Option<DataLogPlace> {
    let journal = attachment.journal.as_mut()?;
    let JournalOn::Devices { at, devices } = &journal.on else { return None };
    let half = ByteCount(journal.len.0 / 2).align_down(LOG_BLOCK);
    let place = DataLogPlace {
        id: Uuid::from_random(env.random(), env.random()),
        at: *at + half,
        len: half,
        devices: devices.clone(),
    };
    journal.len = half;
    Some(place)
}

/// The error for drives that cannot form this array.
fn refused(sentence: impl Display) -> Error {
    Error::new(ErrorKind::WrongKind, sentence.to_string())
}

/// The size of the data area for the smallest drive, and the place of the journal.
fn journal(
    env: &Env,
    shape: &Shape,
    smallest: ByteCount,
    write_hole: WriteHole,
) -> Result<(ByteCount, Option<JournalPlace>)> {
    let id = || Uuid::from_random(env.random(), env.random());
    match write_hole {
        WriteHole::Resync => Ok((smallest, None)),
        _ if !shape.level.has_parity() => {
            Err(refused(format!("{} has no parity, and needs no journal", shape.level)))
        }
        WriteHole::OnMembers => {
            let on = JournalOn::Members { at: ByteCount::ZERO, tail: TailPlace::End };
            let tail = Tail::of(smallest);
            let tail = tail.ok_or_else(|| {
                refused(
                    "the drives are too small: a journal needs 32 MiB of each; use larger drives",
                )
            })?;
            Ok((
                ByteCount(tail.start().0),
                Some(JournalPlace { id: id(), len: Tail::JOURNALS, on }),
            ))
        }
        WriteHole::OnDevices(sources) => {
            let room = |source: &Arc<dyn DriveSource>| {
                let info = source.info();
                LogLabel::room(info.size)
                    .ok_or_else(|| refused(format!("{} is too small for a log", info.name)))
            };
            let rooms = sources.iter().map(room).collect::<Result<Vec<_>>>()?;
            let room = rooms.into_iter().min_by_key(|room| room.len);
            let room = room
                .ok_or_else(|| refused("a journal on log devices needs at least one log device"))?;
            let devices =
                sources.into_iter().map(|source| LogDevice { id: id(), source }).collect();
            let on = JournalOn::Devices { at: room.start, devices };
            Ok((smallest, Some(JournalPlace { id: id(), len: room.len.min(LONGEST_ON_LOG), on })))
        }
    }
}

/// Describes the array to the engine.
pub(crate) fn attachment(
    env: &Env,
    shape: &Shape,
    strip: StripSize,
    sources: Vec<Arc<dyn DriveSource>>,
    failed: &DriveSet,
    write_hole: WriteHole,
) -> Result<Attachment> {
    let smallest = sources.iter().map(|source| source.info().size).min().unwrap_or(ByteCount::ZERO);
    let sector =
        sources.iter().map(|source| source.info().logical_sector).max().unwrap_or(SectorSize::B512);
    let (data, journal) = journal(env, shape, smallest, write_hole)?;
    let geometry = shape.geometry(strip, data).map_err(refused)?;
    let all = DriveSet::first(geometry.drives()).minus(failed);
    let id = VolumeId(0);
    let regions = Regions::of(&geometry);
    let spec = VolumeSpec {
        id,
        name: "array".into(),
        geometry,
        sector,
        data_start: ByteOffset::ZERO,
        capacity: geometry.capacity(),
        policy: FaultPolicy::default(),
    };
    let sources = sources.into_iter().map(Some).collect();
    // The state is not durable here, so marking all regions costs nothing.
    let mut state = VolumeState::with_drives(&regions, all);
    state.apply(&Change::Marked(RegionSet::first(regions.count)));
    Ok(Attachment { journal, ..Attachment::new(Arc::new(spec), sources, state) })
}

/// The cache memory of a shard: for dirty blocks, with or without bytes, and for reads.
#[derive(Default)]
pub(crate) struct CacheSizes {
    cache: ByteCount,
    has_bytes: bool,
    reads: ByteCount,
}

/// Starts a shard with that cache memory on this thread, and attaches the volume.
pub(crate) async fn attach(
    env: &Env,
    attachment: Attachment,
    CacheSizes { cache, has_bytes, reads }: CacheSizes,
    data_log: Option<DataLogPlace>,
) -> Result<VolumeService> {
    let id = attachment.spec.id;
    let cells = u32::try_from(cache.0 / CELL.0)
        .map_err(|_| refused(format!("a cache of {cache} is too large")))?;
    let memory =
        [ShardMessage::ReadRoom(reads), ShardMessage::Cells(CellShare::unkept(cells, !has_bytes))];
    let Alone { volume, shard } = alone::attach(env, attachment, memory).await.map_err(refused)?;
    if let Some(place) = data_log {
        let gone = || refused("the engine's shard is gone");
        let (done, mut answers) = platform::mailbox::mailbox(env, 1);
        shard
            .send(ShardMessage::SetDataLog(id, DataLogTerms::At(place), done))
            .map_err(|_| gone())?;
        answers.receive().await.ok_or_else(gone)?.map_err(refused)?;
    }
    Ok(VolumeService::new(volume))
}
