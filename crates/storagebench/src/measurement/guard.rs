//! Protects existing data from a measurement that writes.
//!
//! Before the first write, the first and last MiB of the target are read and matched with
//! [`signatures`]. A file system, a partition table, an array's label or any other known signature
//! refuses the run. *Files* and *volumes* (and other remote targets) are also refused for unknown
//! content without StorageBench's mark. It is searched at the target's allocated ranges, or at
//! evenly spaced offsets. A whole drive with unknown content is accepted, since drives wiped with
//! random bytes look the same. Profiles that only read are always accepted.
//!
//! Targets in use (mounted, swap, part of a running array) are refused at open, regardless of
//! settings: block devices are opened exclusively, files are locked.

use crate::error::{Error, ErrorKind, Result};
use crate::generator::payload;
use crate::generator::verify;
use crate::measurement::settings::Settings;
use crate::measurement::target::Target;
use platform::{BlockStatus, Buf, DriveKind, Env, IoRequest, Member};
use signatures::{Ends, Finding, INSPECTED, Label, inspect, is_blank};
use smallvec::smallvec;
use units::{ByteCount, ByteOffset, ByteRange};

/// A read size that any target accepts.
const PIECE: ByteCount = ByteCount(128 << 10);

/// The number of evenly spaced offsets in a file that are read.
const PROBES: u64 = 64;
/// The maximum number of allocation queries per target.
const PIECES: u64 = 1024;
/// The minimum range of an allocation query.
const SMALLEST_PIECE: ByteCount = ByteCount(4 << 20);
/// The maximum number of allocated ranges that are read.
const MOST_STARTS: usize = 4096;
/// The length of a probe: one page, since every page that StorageBench writes has its mark.
const PROBE: ByteCount = ByteCount(4096);

/// The content that prevents a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Known signatures.
    Found(Vec<Finding>),
    /// Unknown content of a file or a volume, without StorageBench's mark.
    Unknown,
}

/// Returns the data on `target` that a write would destroy; `None` if no signature is found. Models
/// and null drives contain no data.
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
    let last =
        read(target, &member, tail, ByteCount(info.size.0 - tail.0).align_down(sector)).await?;
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

/// Evenly spaced offsets on a target.
fn evenly_spread(size: ByteCount) -> Vec<ByteOffset> {
    let at =
        |part: u64| ByteOffset((u128::from(size.0) * u128::from(part) / u128::from(PROBES)) as u64);
    (1..PROBES).map(at).collect()
}

/// The allocated ranges, as far as the target reports them. It is queried in pieces, since it may
/// report only the beginning of each. Large targets are therefore covered throughout.
async fn starts_of_data(member: &Member, size: ByteCount) -> Vec<ByteOffset> {
    let piece = ByteCount(size.0.div_ceil(PIECES)).max(SMALLEST_PIECE);
    let mut starts = Vec::new();
    let mut at = ByteOffset::ZERO;
    while at < ByteOffset(size.0) && starts.len() < MOST_STARTS {
        let range = ByteRange::new(at, piece.min(ByteCount(size.0 - at.0)));
        let outcome = member.start(IoRequest::Status { range }).await;
        if outcome.result.is_err() || outcome.extents.is_empty() {
            return starts; // Not supported by the target.
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

/// Whether one of these offsets has data that StorageBench did not write.
async fn holds_foreign_blocks(
    target: &Target,
    member: &Member,
    places: Vec<ByteOffset>,
) -> Result<bool> {
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

/// Whether these bytes begin with a block of StorageBench.
fn is_our_own(bytes: &[u8]) -> bool {
    bytes
        .chunks(512)
        .any(|sector| sector.starts_with(&payload::MARK) || sector.starts_with(&verify::MARK))
}

async fn read(
    target: &Target,
    member: &Member,
    start: ByteOffset,
    len: ByteCount,
) -> Result<Vec<u8>> {
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
                    "'{}' cannot be read at byte {} ({why}), so writing to it is not safe; repair \
                     it, or use --destroy-data",
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

/// Refuses writes to a target with data, unless `destroy_data` is set.
pub(crate) async fn check(
    env: &Env,
    target: &Target,
    settings: &Settings,
    labels: &[Label],
) -> Result<()> {
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
                "data that is not from an earlier run (a new file of zeroes would be fine)"
                    .to_owned()
            }
            _ => "data that is not from an earlier run".to_owned(),
        },
    };
    Err(Error::new(
        ErrorKind::HoldsData,
        format!(
            "'{}' holds {what}, and {who} would overwrite it; choose another target or profiles \
                that only read, or use --destroy-data if its data may be lost",
            target.name()
        ),
    ))
}
