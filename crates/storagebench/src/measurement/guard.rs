//! Keeps a measurement from writing over something that somebody needs.
//!
//! Profiles that only read are always fine. Before the first write, the first and the last MiB of the target
//! are read and shown to [`signatures`]; a file system, a partition table, an array's label or anything else
//! that is recognised there refuses the run. A *file* and a *volume* (and whatever else another machine serves) are
//! refused for any other content too, there, where they say that data begin, or at places evenly spread over them,
//! unless it carries StorageBench's own mark: a document named by mistake is not a test file, and a volume belongs to
//! somebody. A whole drive with content that nobody recognises is taken: drives that were wiped with random bytes look so.
//!
//! What is mounted, swapped to, part of a running array or otherwise in use is refused when the target is opened,
//! whatever the settings say: block devices are opened exclusively, files are locked.

use crate::error::{Error, ErrorKind, Result};
use crate::generator::payload;
use crate::generator::verify;
use crate::measurement::settings::Settings;
use crate::measurement::target::Target;
use platform::{BlockStatus, Buf, DriveKind, Env, IoRequest, Member};
use signatures::{Ends, Finding, INSPECTED, Label, inspect, is_blank};
use smallvec::smallvec;
use units::{ByteCount, ByteOffset, ByteRange};

/// Reads in pieces that any target takes.
const PIECE: ByteCount = ByteCount(128 << 10);

/// How many parts a file is cut into to look at the beginning of each.
const PROBES: u64 = 64;
/// In how many pieces a target is asked at most where it holds data.
const PIECES: u64 = 1024;
/// Smaller pieces are not worth a question.
const SMALLEST_PIECE: ByteCount = ByteCount(4 << 20);
/// So many beginnings of data are enough.
const MOST_STARTS: usize = 4096;
/// How much is looked at: a page, of which every one that StorageBench writes carries its mark.
const PROBE: ByteCount = ByteCount(4096);

/// What stands against writing to a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Something that is recognised.
    Found(Vec<Finding>),
    /// A file or a volume with content that is neither recognised nor StorageBench's own.
    Unknown,
}

/// What `target` holds that a write would destroy; `None` where nothing is recognised. Models and null drives
/// hold nothing.
///
/// # Errors
/// When the target cannot be attached or read.
pub async fn content(env: &Env, target: &Target, labels: &[Label]) -> Result<Option<Content>> {
    let info = target.info();
    if matches!(info.kind, DriveKind::Model | DriveKind::Null) {
        return Ok(None);
    }
    let member = target.attach(env)?;
    let sector = info.logical_sector.bytes();
    let len = INSPECTED.min(info.size).align_down(sector);
    let tail = ByteOffset(info.size.0 - len.0).align_down(sector);
    let first = read(target, &member, ByteOffset::ZERO, len).await?;
    let last = read(target, &member, tail, ByteCount(info.size.0 - tail.0).align_down(sector)).await?;
    let findings = inspect(&Ends::new(info.size, &first, &last), labels);
    if !findings.is_empty() {
        return Ok(Some(Content::Found(findings)));
    }
    let is_somebodys = matches!(info.kind, DriveKind::File | DriveKind::Remote);
    if !is_somebodys {
        return Ok(None);
    }
    let foreign = |bytes: &[u8]| !is_blank(bytes) && !is_our_own(bytes);
    let unknown = foreign(&first)
        || foreign(&last)
        || holds_foreign_blocks(target, &member, evenly_spread(info.size)).await?
        || holds_foreign_blocks(target, &member, starts_of_data(&member, info.size).await).await?;
    Ok(unknown.then_some(Content::Unknown))
}

/// Places evenly spread over a target.
fn evenly_spread(size: ByteCount) -> Vec<ByteOffset> {
    let at = |part: u64| ByteOffset((u128::from(size.0) * u128::from(part) / u128::from(PROBES)) as u64);
    (1..PROBES).map(at).collect()
}

/// Where data begin, as far as the target says which blocks were ever written. It is asked in pieces; of each it may
/// answer the beginning only, so that something is known of all parts of a large one.
async fn starts_of_data(member: &Member, size: ByteCount) -> Vec<ByteOffset> {
    let piece = ByteCount(size.0.div_ceil(PIECES)).max(SMALLEST_PIECE);
    let mut starts = Vec::new();
    let mut at = ByteOffset::ZERO;
    while at < ByteOffset(size.0) && starts.len() < MOST_STARTS {
        let range = ByteRange::new(at, piece.min(ByteCount(size.0 - at.0)));
        let outcome = member.start(IoRequest::Status { range }).await;
        if outcome.result.is_err() || outcome.extents.is_empty() {
            return starts; // It cannot tell.
        }
        let mut begin = at;
        for extent in &outcome.extents {
            if extent.status == BlockStatus::Data {
                starts.push(begin);
            }
            begin += extent.len;
        }
        at = range.end();
    }
    starts
}

/// Whether one of these places holds something that StorageBench did not write.
async fn holds_foreign_blocks(target: &Target, member: &Member, places: Vec<ByteOffset>) -> Result<bool> {
    let (size, len) = (target.info().size, PROBE.max(target.info().logical_sector.bytes()));
    let mut before = None;
    for place in places {
        let at = place.align_down(len);
        if before == Some(at) || at + len > ByteOffset(size.0) {
            continue;
        }
        before = Some(at);
        let bytes = read(target, member, at, len).await?;
        if !is_blank(&bytes) && !is_our_own(&bytes) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a block that StorageBench wrote begins in these bytes.
fn is_our_own(bytes: &[u8]) -> bool {
    bytes.chunks(512).any(|sector| sector.starts_with(&payload::MARK) || sector.starts_with(&verify::MARK))
}

async fn read(target: &Target, member: &Member, start: ByteOffset, len: ByteCount) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len.as_usize());
    while (bytes.len() as u64) < len.0 {
        let done = ByteCount(bytes.len() as u64);
        let piece = PIECE.min(len - done);
        let at = start + done;
        let outcome = member.read(at, smallvec![Buf::unpooled(piece)]).await;
        let unreadable = |why: String| {
            Error::new(
                ErrorKind::Unreachable,
                format!(
                    "what '{}' holds cannot be read at byte {} ({why}), so writing to it is not safe; repair it, or use --destroy-data",
                    target.name(),
                    at.0
                ),
            )
        };
        match outcome.result {
            Ok(moved) if moved == piece.0 => {}
            Ok(moved) => return Err(unreadable(format!("only {moved} bytes came back"))),
            Err(error) => return Err(unreadable(error.to_string())),
        }
        outcome.buffers.iter().for_each(|buf| bytes.extend_from_slice(buf.bytes()));
        if bytes.len() as u64 != done.0 + piece.0 {
            return Err(unreadable("no bytes came back".to_owned()));
        }
    }
    Ok(bytes)
}

/// Refuses to write to a target that holds something, unless that is meant.
pub(crate) async fn check(env: &Env, target: &Target, settings: &Settings, labels: &[Label]) -> Result<()> {
    if settings.destroy_data || !settings.writes() {
        return Ok(());
    }
    let who = match settings.profiles.iter().find(|profile| profile.writes()) {
        Some(profile) => format!("the profile '{profile}'"),
        None => "preconditioning".to_owned(),
    };
    let what = match content(env, target, labels).await? {
        None => return Ok(()),
        Some(Content::Found(findings)) => {
            let names: Vec<String> = findings.iter().map(Finding::to_string).collect();
            names.join(", ")
        }
        Some(Content::Unknown) => match target.info().kind {
            DriveKind::File => {
                "data that is not from an earlier run (a new file of zeroes would be fine)".to_owned()
            }
            _ => "data that is not from an earlier run".to_owned(),
        },
    };
    Err(Error::new(
        ErrorKind::HoldsData,
        format!(
            "'{}' holds {what}, and {who} would overwrite it; choose another target or profiles that only read, or use --destroy-data if its data may be lost",
            target.name()
        ),
    ))
}
