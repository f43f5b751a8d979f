//! Carrying out one request: from the protocol's words to a call of the volume, and its outcome to a reply.

use super::connection::Connection;
use super::writer::Reply;
use ::nbd::{Command, CommandFlags, Errno, Extent, MAX_EXTENTS, Request};
use engine::Volume;
use env::sync::Taken;
use env::{BlockStatus, Durability, IoError, IoErrorKind, Slice, StatusExtent, Work};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

/// Zeroes and trims are handed to the volume in runs of about this length, so that one request over terabytes
/// neither queues millions of stripes at once nor outlives its connection for long.
const LONG_RUN: ByteCount = ByteCount(32 << 20);
/// What a cache request reads at a time.
const CACHE_PIECE: ByteCount = ByteCount(256 << 10);
/// Times that one block status request asks the volume for more.
const STATUS_ROUNDS: usize = 16;

/// A request under way, with everything it needs.
pub(super) struct Job {
    pub request: Request,
    /// What a write writes.
    pub payload: Option<Slice>,
    pub memory: Option<Memory>,
}

/// Memory that was reserved for a request's payload; held until the payload is dropped.
pub(super) struct Memory {
    /// As the connection counts them.
    pub bytes: u64,
    pub _taken: Taken,
}

/// How much memory for payload a request needs.
pub(super) fn payload_memory(request: &Request) -> ByteCount {
    match request.command {
        Command::Read | Command::Write => ByteCount(request.length_bytes),
        Command::Cache => ByteCount(request.length_bytes).min(CACHE_PIECE),
        _ => ByteCount::ZERO,
    }
}

/// Why a request failed.
struct Refusal {
    errno: Errno,
    message: &'static str,
}

impl Refusal {
    const OVER: Refusal = Refusal { errno: Errno::Shutdown, message: "the connection is being closed" };
}

type Outcome<T> = Result<T, Refusal>;

/// Carries out a request and makes its reply.
pub(super) async fn execute(connection: &Rc<Connection>, job: Job) -> Reply {
    let Job { request, payload, memory } = job;
    connection.env().compute(Work::HostRequest).await;
    let outcome = match request.command {
        Command::Read => read(connection, &request).await,
        Command::Write => write(connection, &request, payload).await,
        Command::Flush => flush(connection).await,
        Command::Trim => trim(connection, &request).await,
        Command::WriteZeroes => write_zeroes(connection, &request).await,
        Command::Cache => cache(connection, &request).await,
        Command::BlockStatus => block_status(connection, &request).await,
        // Handled where requests are parsed.
        Command::Disconnect => Err(Refusal { errno: Errno::Inval, message: "not a request" }),
    };
    match outcome {
        Ok(Body::None) => Reply::header(connection.replies.done(request.reply_to()), memory),
        Ok(Body::Data(data)) => Reply::data(connection.replies.read(&request), data, memory),
        Ok(Body::Whole(bytes)) => Reply::whole(&bytes, memory),
        Err(refusal) => {
            connection.count(|counters| counters.errors += 1);
            let error = connection.replies.error(request.reply_to(), refusal.errno, refusal.message);
            Reply::error(error, memory)
        }
    }
}

/// What a successful reply carries.
enum Body {
    None,
    /// The data of a read.
    Data(Slice),
    /// The whole reply, header included.
    Whole(Vec<u8>),
}

fn range(request: &Request) -> ByteRange {
    ByteRange::new(ByteOffset(request.offset_bytes), ByteCount(request.length_bytes))
}

fn durability(request: &Request) -> Durability {
    if request.flags.fua() { Durability::Durable } else { Durability::Cached }
}

/// The protocol's error for the engine's.
fn refusal(connection: &Connection, error: IoError) -> Refusal {
    let id = connection.volume.spec().id;
    let (errno, message) = match error.kind {
        IoErrorKind::Medium => (Errno::Io, "the data is unreadable and beyond recovery"),
        IoErrorKind::Gone if connection.shard.volume(id).is_none() => {
            (Errno::Shutdown, "the volume is no longer served")
        }
        IoErrorKind::Gone => (Errno::Io, "too many drives are gone"),
        IoErrorKind::TimedOut => (Errno::Io, "a drive did not answer in time"),
        IoErrorKind::OutOfSpace => (Errno::NoSpc, "no space left below a drive"),
        IoErrorKind::NotSupported => (Errno::NotSup, "a drive cannot do this"),
        IoErrorKind::ReadOnly => (Errno::Perm, "a drive is read-only"),
        IoErrorKind::Invalid => (Errno::Inval, "not a range of the volume"),
    };
    Refusal { errno, message }
}

async fn read(connection: &Rc<Connection>, request: &Request) -> Outcome<Body> {
    let range = range(request);
    if range.is_empty() {
        return Ok(Body::Data(Slice::zero(ByteCount::ZERO)));
    }
    let buf = connection.env().pool().take_reserved(range.len);
    let (result, buf) = connection.volume.read(range, buf).await;
    result.map_err(|error| refusal(connection, error))?;
    let buf = buf.ok_or(Refusal { errno: Errno::Io, message: "a drive did not answer in time" })?;
    connection.count(|counters| counters.read_bytes += range.len.0);
    Ok(Body::Data(buf.freeze()))
}

async fn write(connection: &Rc<Connection>, request: &Request, payload: Option<Slice>) -> Outcome<Body> {
    let range = range(request);
    let payload = payload.unwrap_or_else(|| Slice::zero(ByteCount::ZERO)); // An empty write has none.
    let result = connection.volume.write(range, payload, durability(request)).await;
    result.map_err(|error| refusal(connection, error))?;
    connection.count(|counters| counters.written_bytes += range.len.0);
    Ok(Body::None)
}

async fn flush(connection: &Rc<Connection>) -> Outcome<Body> {
    connection.volume.flush().await.map_err(|error| refusal(connection, error))?;
    Ok(Body::None)
}

/// Runs of about [`LONG_RUN`], cut between stripes of the volume.
fn long_runs(volume: &Volume, range: ByteRange) -> impl Iterator<Item = ByteRange> + use<> {
    let stripe = volume.spec().geometry.stripe_bytes();
    let run = stripe * (LONG_RUN.0 / stripe.0).max(1);
    let mut rest = range;
    std::iter::from_fn(move || {
        let end = (rest.start + ByteCount(1)).align_up(run).min(rest.end());
        let first = ByteRange::from_to(rest.start, end);
        rest = ByteRange::from_to(end, rest.end());
        (!first.is_empty()).then_some(first)
    })
}

async fn trim(connection: &Rc<Connection>, request: &Request) -> Outcome<Body> {
    let volume = &connection.volume;
    for run in long_runs(volume, range(request)) {
        if connection.life.is_cut() {
            return Err(Refusal::OVER);
        }
        volume.trim(run).await.map_err(|error| refusal(connection, error))?;
    }
    if request.flags.fua() {
        return flush(connection).await;
    }
    Ok(Body::None)
}

async fn write_zeroes(connection: &Rc<Connection>, request: &Request) -> Outcome<Body> {
    if request.flags.contains(CommandFlags::FAST_ZERO) {
        return Err(Refusal { errno: Errno::NotSup, message: "zeroes are written like data here" });
    }
    let volume = &connection.volume;
    // Zeroes keep their space allocated, whether or not the client asked for that.
    for run in long_runs(volume, range(request)) {
        if connection.life.is_cut() {
            return Err(Refusal::OVER);
        }
        let result = volume.write_zeroes(run, durability(request)).await;
        result.map_err(|error| refusal(connection, error))?;
    }
    Ok(Body::None)
}

async fn cache(connection: &Rc<Connection>, request: &Request) -> Outcome<Body> {
    let asked = range(request);
    let longest = super::exports::longest_transfer(&connection.shard);
    let wanted = ByteRange::new(asked.start, asked.len.min(longest));
    let mut at = wanted.start;
    while at < wanted.end() && !connection.life.is_cut() {
        let piece = ByteRange::new(at, (wanted.end() - at).min(CACHE_PIECE));
        let buf = connection.env().pool().take_reserved(piece.len);
        let (result, _) = connection.volume.read(piece, buf).await;
        result.map_err(|error| refusal(connection, error))?;
        at = piece.end();
    }
    Ok(Body::None)
}

async fn block_status(connection: &Rc<Connection>, request: &Request) -> Outcome<Body> {
    let Some(chunks) = connection.replies.chunks() else {
        return Err(Refusal { errno: Errno::Inval, message: "block status needs structured replies" });
    };
    let volume = &connection.volume;
    let spec = volume.spec();
    let asked = range(request);
    // Drives know sectors; what lies before the first byte asked for is cut off below, what lies behind the
    // last one by the reply.
    let whole = asked.align_out(spec.sector.bytes());
    let whole = ByteRange::from_to(whole.start, whole.end().min(ByteOffset(spec.capacity.0)));
    let mut skip = (asked.start - whole.start).0;
    let mut extents: Vec<Extent> = Vec::new();
    let enough = if request.flags.contains(CommandFlags::REQ_ONE) { 2 } else { MAX_EXTENTS };
    let mut at = whole.start;
    for _ in 0..STATUS_ROUNDS {
        if at >= whole.end() || extents.len() >= enough {
            break;
        }
        let found = match volume.status(ByteRange::from_to(at, whole.end())).await {
            Ok(found) => found,
            // What is known so far is an answer.
            Err(_) if !extents.is_empty() => break,
            Err(error) => return Err(refusal(connection, error)),
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

/// Appends an extent, less what of it is to be skipped, joined with the last one if both are the same.
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
