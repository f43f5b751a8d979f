//! Drives and a shape become a volume on this thread's shard.

use engine::alone::{self, Alone};
use engine::{
    Absorb, Attachment, CELL, CacheTerms, CellShare, Change, DataLogPlace, DataLogTerms, FaultPolicy,
    JournalOn, JournalPlace, LogDevice, Marks, ReadTerms, RegionSet, Regions, ShardMessage, StreamSharing,
    VolumeId, VolumeService, VolumeSpec, VolumeState,
};
use layout::Shape;
use ondisk::{LogLabel, Tail, TailPlace, Uuid};
use platform::{DriveSource, Env, Error, ErrorKind, Result};
use std::fmt::Display;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, DriveSet, SectorSize, StripSize};

/// As much of a log as a volume has of it.
const LONGEST_ON_LOG: ByteCount = ByteCount(64 << 20);

/// What lies on a log begins and ends with whole blocks.
const LOG_BLOCK: ByteCount = ByteCount(4096);

/// What becomes of a stripe that a crash interrupts.
#[derive(Clone, Default)]
pub enum WriteHole {
    /// Nothing is kept of it: its region is resynced.
    #[default]
    Resync,
    /// A journal, in the last 32 MiB of each drive, has it.
    OnMembers,
    /// A journal on devices of its own has it, the same on each. With a cache, what hosts flush is on them too, in the other half.
    OnDevices(Vec<Arc<dyn DriveSource>>),
}

/// How an array works that its shape does not say. By default it is as an array of the engine usually is, write-through, without a journal.
#[derive(Clone, Default)]
pub struct Choices {
    /// How its mirrors share a sequential stream.
    pub streams: StreamSharing,
    /// How much of it may be in the cache alone; `None`: nothing.
    pub write_back: Option<ByteCount>,
    /// Whether that has bytes. Without them, as for models, what it answered reaches the drives as lengths.
    pub has_bytes: bool,
    /// How the write hole is closed, of a level with parity.
    pub write_hole: WriteHole,
    /// Between which marks that is kept.
    pub marks: Marks,
    /// What is done with reads.
    pub reads: ReadTerms,
    /// How much memory there is for what is kept of them.
    pub read_room: ByteCount,
    /// Slots whose drives have failed.
    pub failed: DriveSet,
}

/// An array of drives on this thread's shard: the engine alone, nothing kept.
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
    let Choices { streams, write_back, has_bytes, marks, write_hole, reads, read_room, failed } = choices;
    let attachment = attachment(env, shape, strip, sources, &failed, write_hole)?;
    let absorb = if write_back.is_some() { Absorb::Unflushed } else { Absorb::Nothing };
    let cache = CacheTerms { absorb, marks, ..CacheTerms::none(attachment.spec.id) };
    let mut attachment = Attachment { streams, cache, reads, ..attachment };
    let data_log = write_back.and_then(|_| share_log(env, &mut attachment));
    let rooms = Rooms { cache: write_back.unwrap_or_default(), has_bytes, reads: read_room };
    attach(env, attachment, rooms, data_log).await
}

/// The second half of the journal's log is for what hosts flush, if there is a log; the journal keeps the first one.
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

/// These drives cannot become this array.
fn refused(sentence: impl Display) -> Error {
    Error::new(ErrorKind::WrongKind, sentence.to_string())
}

/// How much of drives of that size, of which that is the smallest, is data; and where the journal is.
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
                refused("a journal lies in the last 32 MiB of each drive; take larger drives")
            })?;
            Ok((ByteCount(tail.start().0), Some(JournalPlace { id: id(), len: Tail::JOURNALS, on })))
        }
        WriteHole::OnDevices(sources) => {
            let room = |source: &Arc<dyn DriveSource>| {
                let info = source.info();
                LogLabel::room(info.size)
                    .ok_or_else(|| refused(format!("{} is too small for a log", info.name)))
            };
            let rooms = sources.iter().map(room).collect::<Result<Vec<_>>>()?;
            let room = rooms.into_iter().min_by_key(|room| room.len);
            let room = room.ok_or_else(|| refused("a journal on devices of its own needs one"))?;
            let devices = sources.into_iter().map(|source| LogDevice { id: id(), source }).collect();
            let on = JournalOn::Devices { at: room.start, devices };
            Ok((smallest, Some(JournalPlace { id: id(), len: room.len.min(LONGEST_ON_LOG), on })))
        }
    }
}

/// What the engine is told of the array.
pub(crate) fn attachment(
    env: &Env,
    shape: &Shape,
    strip: StripSize,
    sources: Vec<Arc<dyn DriveSource>>,
    failed: &DriveSet,
    write_hole: WriteHole,
) -> Result<Attachment> {
    let smallest = sources.iter().map(|source| source.info().size).min().unwrap_or(ByteCount::ZERO);
    let sector = sources.iter().map(|source| source.info().logical_sector).max().unwrap_or(SectorSize::B512);
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
    // Marking costs nothing here: nothing is durable.
    let mut state = VolumeState::with_drives(&regions, all);
    state.apply(&Change::Marked(RegionSet::first(regions.count)));
    Ok(Attachment { journal, ..Attachment::new(Arc::new(spec), sources, state) })
}

/// How much of a cache a shard has: for what is dirty, which has bytes or is hollow, and for what is read.
#[derive(Default)]
pub(crate) struct Rooms {
    cache: ByteCount,
    has_bytes: bool,
    reads: ByteCount,
}

/// Starts a shard with so much of a cache on this thread, and attaches the volume to it.
pub(crate) async fn attach(
    env: &Env,
    attachment: Attachment,
    Rooms { cache, has_bytes, reads }: Rooms,
    data_log: Option<DataLogPlace>,
) -> Result<VolumeService> {
    let id = attachment.spec.id;
    let cells =
        u32::try_from(cache.0 / CELL.0).map_err(|_| refused(format!("{cache} is too large a cache")))?;
    let memory = [ShardMessage::ReadRoom(reads), ShardMessage::Cells(CellShare::unkept(cells, !has_bytes))];
    let Alone { volume, shard } = alone::attach(env, attachment, memory).await.map_err(refused)?;
    if let Some(place) = data_log {
        let gone = || refused("the engine's shard is gone");
        let (done, mut answers) = platform::mailbox::mailbox(env, 1);
        shard.send(ShardMessage::SetDataLog(id, DataLogTerms::At(place), done)).map_err(|_| gone())?;
        answers.receive().await.ok_or_else(gone)?.map_err(refused)?;
    }
    Ok(VolumeService::new(volume))
}
