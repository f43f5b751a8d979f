//! Drives and a shape become a volume on this thread's shard.

use engine::{
    Absorb, Attachment, CELL, CacheTerms, CellShare, Change, FaultPolicy, JournalPlace, RegionSet, Regions,
    ShardIndex, ShardMessage, ShardSeed, StreamSharing, VolumeId, VolumeService, VolumeSpec, VolumeState,
};
use env::{DriveSource, Env, Error, ErrorKind, Result};
use layout::Shape;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, DriveSet, SectorSize, StripSize};

/// An array of drives on this thread's shard: the engine alone, nothing kept. `streams` says how its mirrors share a
/// sequential stream, `write_back` how much of it may be in the cache alone; `None`: nothing.
///
/// # Errors
/// When the drives are too small or too few for the shape, or cannot be opened.
pub async fn assemble(
    env: &Env,
    shape: &Shape,
    strip: StripSize,
    sources: Vec<Arc<dyn DriveSource>>,
    streams: StreamSharing,
    write_back: Option<ByteCount>,
) -> Result<VolumeService> {
    let attachment = attachment(shape, strip, sources, &DriveSet::EMPTY, |_| None)?;
    let absorb = if write_back.is_some() { Absorb::Unflushed } else { Absorb::Nothing };
    let cache = CacheTerms { absorb, ..CacheTerms::none(attachment.spec.id) };
    attach(env, Attachment { streams, cache, ..attachment }, write_back.unwrap_or_default()).await
}

/// These drives cannot become this array.
fn refused(sentence: impl Display) -> Error {
    Error::new(ErrorKind::WrongKind, sentence.to_string())
}

/// What the engine is told of the array. `journal`: how much of a drive of that size is data, and where the journal behind it is.
pub(crate) fn attachment(
    shape: &Shape,
    strip: StripSize,
    sources: Vec<Arc<dyn DriveSource>>,
    failed: &DriveSet,
    journal: impl FnOnce(ByteCount) -> Option<(ByteCount, JournalPlace)>,
) -> Result<Attachment> {
    let smallest = sources.iter().map(|source| source.info().size).min().unwrap_or(ByteCount::ZERO);
    let sector = sources.iter().map(|source| source.info().logical_sector).max().unwrap_or(SectorSize::B512);
    let (smallest, journal) =
        journal(smallest).map_or((smallest, None), |(data, journal)| (data, Some(journal)));
    let geometry = shape.geometry(strip, smallest).map_err(refused)?;
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

/// Starts a shard with so much of a cache on this thread, whose bytes are hollow, and attaches the volume to it.
pub(crate) async fn attach(env: &Env, attachment: Attachment, cache: ByteCount) -> Result<VolumeService> {
    let (id, state) = (attachment.spec.id, attachment.state.clone());
    let gone = || Error::new(ErrorKind::System, "the engine's shard did not start");
    let seed = ShardSeed::new(env, 1);
    let sender = seed.sender();
    let (reports, receiver) = env::mailbox::mailbox(env, engine::REPORTS_OPEN);
    let shard = seed.start(ShardIndex(0), 1, reports);
    sender.send(ShardMessage::Peers(vec![sender.clone()])).map_err(|_| gone())?;
    let cells =
        u32::try_from(cache.0 / CELL.0).map_err(|_| refused(format!("{cache} is too large a cache")))?;
    sender.send(ShardMessage::Cells(CellShare::unkept(cells, true))).map_err(|_| gone())?;
    let (done, mut answers) = env::mailbox::mailbox(env, 1);
    sender.send(ShardMessage::Attach(Box::new(attachment), done)).map_err(|_| gone())?;
    answers.receive().await.ok_or_else(gone)?.map_err(refused)?;
    let keeper = engine::unkept::keep(env.clone(), receiver, vec![sender], BTreeMap::from([(id, state)]));
    env.spawn("keeper", keeper);
    let volume = shard.volume(id).ok_or_else(gone)?;
    Ok(VolumeService::new(volume))
}
