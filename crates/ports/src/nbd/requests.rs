//! Executes one request: maps the NBD command to calls of the session, and their result to a reply.

use super::{Head, Nbd};
use crate::protocol::{Data, Reply, Transfer};
use crate::session::{Refused, Session};
use ::nbd::{Command, CommandFlags, Errno, Extent, MAX_EXTENTS, Replies, Request};
use platform::{BlockStatus, BlockTarget, Durability, IoErrorKind, Slice, StatusExtent};
use units::{ByteCount, ByteOffset, ByteRange};

/// Maximum number of target queries for one block status request.
const STATUS_ROUNDS: usize = 16;

/// Why a request failed.
struct Refusal {
    errno: Errno,
    message: &'static str,
}

type Outcome<T> = Result<T, Refusal>;

/// The NBD error of a session's error.
impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        let (errno, message) = match refused {
            Refused::NotServed => (Errno::Shutdown, "the volume is no longer served"),
            Refused::Closing => (Errno::Shutdown, "the connection is being closed"),
            Refused::ReadOnly => (Errno::Perm, "the export is read-only"),
            Refused::Failed(error) => match error.kind {
                IoErrorKind::Medium => (Errno::Io, "the data is unreadable and beyond recovery"),
                IoErrorKind::Gone => (Errno::Io, "too many drives are missing"),
                IoErrorKind::Changed => (Errno::Io, "a drive was replaced or changed"),
                IoErrorKind::TimedOut | IoErrorKind::Late => {
                    (Errno::Io, "a drive did not respond in time")
                }
                IoErrorKind::OutOfSpace => (Errno::NoSpc, "no space left below a drive"),
                IoErrorKind::NotSupported => (Errno::NotSup, "a drive cannot do this"),
                IoErrorKind::ReadOnly => (Errno::Perm, "a drive is read-only"),
                IoErrorKind::Invalid => (Errno::Inval, "not a range of the volume"),
                IoErrorKind::Busy => {
                    (Errno::NoMem, "the system below a drive has no memory for now")
                }
                IoErrorKind::Unknown => {
                    (Errno::Io, "a drive reported an error without a known meaning")
                }
            },
        };
        Refusal { errno, message }
    }
}

/// The payload of a successful reply.
enum Body {
    None,
    /// The data of a read.
    Data(Slice),
    /// The complete reply with its header.
    Whole(Vec<u8>),
}

fn range_of(request: &Request) -> ByteRange {
    ByteRange::new(ByteOffset(request.offset_bytes), ByteCount(request.length_bytes))
}

fn durability_of(request: &Request) -> Durability {
    if request.flags.fua() { Durability::Durable } else { Durability::Cached }
}

/// See [`Protocol::transfer`](crate::protocol::Protocol::transfer).
pub(super) fn transfer(request: &Request) -> Option<Transfer> {
    let range = range_of(request);
    match request.command {
        _ if range.is_empty() => None,
        Command::Read => Some(Transfer::Read(range)),
        Command::Write => Some(Transfer::Write(range, durability_of(request))),
        _ => None,
    }
}

/// The reply to a read or write.
pub(super) fn answer(
    replies: &Replies,
    request: &Request,
    result: Result<Data, Refused>,
) -> Reply<Head> {
    let body = result.map(|data| data.map_or(Body::None, Body::Data));
    reply(replies, request, body.map_err(Refusal::from))
}

fn reply(replies: &Replies, request: &Request, outcome: Outcome<Body>) -> Reply<Head> {
    match outcome {
        Ok(Body::None) => Reply::head(Head::Header(replies.done(request.reply_to()))),
        Ok(Body::Data(data)) => Reply::data(Head::Header(replies.read(request)), data),
        Ok(Body::Whole(bytes)) => Reply::whole(&bytes),
        Err(Refusal { errno, message }) => {
            Reply::error(Head::Error(Box::new(replies.error(request.reply_to(), errno, message))))
        }
    }
}

/// Executes a request and builds its reply.
pub(super) async fn execute<T: BlockTarget>(
    session: &Session<Nbd, T>,
    request: Request,
    payload: Option<Slice>,
) -> Reply<Head> {
    let (range, durability) = (range_of(&request), durability_of(&request));
    let outcome: Outcome<Body> = match request.command {
        Command::Read => session.read(range).await.map(Body::Data).map_err(Refusal::from),
        Command::Write => done(session.write(range, payload, durability).await),
        Command::Flush => done(session.flush().await),
        Command::Trim => done(trim(session, range, durability).await),
        // Zeros keep their space allocated, whatever the client requested.
        Command::WriteZeroes if request.flags.contains(CommandFlags::FAST_ZERO) => Err(Refusal {
            errno: Errno::NotSup,
            message: "fast zeroes are not supported: zeroes are written like data",
        }),
        Command::WriteZeroes => done(session.write_zeroes(range, durability).await),
        Command::Cache => done(cache(session, range).await),
        Command::BlockStatus => block_status(session, &request, range).await,
        // Handled when requests are parsed.
        Command::Disconnect => Err(Refusal { errno: Errno::Inval, message: "not a request" }),
    };
    reply(&session.protocol().replies, &request, outcome)
}

fn done(result: Result<(), Refused>) -> Outcome<Body> {
    result.map(|()| Body::None).map_err(Refusal::from)
}

async fn trim<T: BlockTarget>(
    session: &Session<Nbd, T>,
    range: ByteRange,
    durability: Durability,
) -> Result<(), Refused> {
    session.trim(range).await?;
    match durability {
        Durability::Durable => session.flush().await,
        Durability::Cached => Ok(()),
    }
}

/// Reads the range, up to the maximum read length, and drops it.
async fn cache<T: BlockTarget>(session: &Session<Nbd, T>, asked: ByteRange) -> Result<(), Refused> {
    let Nbd { longest_transfer, .. } = session.protocol();
    let wanted = ByteRange::new(asked.start, asked.len.min(*longest_transfer));
    let mut at = wanted.start;
    while at < wanted.end() && !session.is_cut() {
        let piece = ByteRange::new(at, (wanted.end() - at).min(session.protocol().cache_piece()));
        let buf = session.env().pool().take_reserved(piece.len);
        let (result, _) = session.target().read(piece, buf).await;
        result.map_err(|error| session.refused(error))?;
        at = piece.end();
    }
    Ok(())
}

async fn block_status<T: BlockTarget>(
    session: &Session<Nbd, T>,
    request: &Request,
    asked: ByteRange,
) -> Outcome<Body> {
    let Some(chunks) = session.protocol().replies.chunks() else {
        return Err(Refusal {
            errno: Errno::Inval,
            message: "block status needs structured replies",
        });
    };
    let geometry = session.geometry();
    // Drives know sectors: the query is aligned. The start is cut off below, the end by the reply.
    let whole = asked.align_out(geometry.sector.bytes());
    let whole = ByteRange::from_to(whole.start, whole.end().min(ByteOffset(geometry.capacity.0)));
    let mut skip = (asked.start - whole.start).0;
    let mut extents: Vec<Extent> = Vec::new();
    let enough = if request.flags.contains(CommandFlags::REQ_ONE) { 2 } else { MAX_EXTENTS };
    let mut at = whole.start;
    for _ in 0..STATUS_ROUNDS {
        if at >= whole.end() || extents.len() >= enough {
            break;
        }
        let found = match session.target().status(ByteRange::from_to(at, whole.end())).await {
            Ok(found) => found,
            // A partial answer is valid.
            Err(_) if !extents.is_empty() => break,
            Err(error) => return Err(session.refused(error).into()),
        };
        let covered: u64 = found.iter().map(|extent| extent.len.0).sum();
        if covered == 0 {
            break;
        }
        at += ByteCount(covered);
        for extent in found {
            add_extent(&mut extents, extent, &mut skip);
        }
    }
    let mut reply = Vec::new();
    chunks.block_status(request, &extents, &mut reply);
    Ok(Body::Whole(reply))
}

/// Appends an extent without its skipped part; merges it with the previous one if the states are
/// equal.
fn add_extent(extents: &mut Vec<Extent>, extent: StatusExtent, skip: &mut u64) {
    let skipped = extent.len.0.min(*skip);
    *skip -= skipped;
    let (hole, zero) = match extent.status {
        BlockStatus::Data => (false, false),
        BlockStatus::Hole => (true, true),
        BlockStatus::Zero => (false, true),
    };
    let length_bytes = extent.len.0 - skipped;
    match extents.last_mut() {
        _ if length_bytes == 0 => {}
        Some(last) if (last.hole, last.zero) == (hole, zero) => last.length_bytes += length_bytes,
        _ => extents.push(Extent { length_bytes, hole, zero }),
    }
}
