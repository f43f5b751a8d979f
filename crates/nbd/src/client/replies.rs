//! A client's connection in its transmission phase.
//!
//! ```text
//!            ┌─▶ data: offset ─▶ payload ─┐
//!  header ───┼─▶ hole ────────────────────┼─▶ end of chunk ─▶ (last one: Done) ─▶ header
//!            ├─▶ extents ─────────────────┤
//!            └─▶ error ───────────────────┘
//! ```
//!
//! Fault model: the server is hostile, and its bytes arrive in arbitrary fragments. Invariants:
//! - A payload is within its read and does not overlap earlier data, so data can be received into
//!   the caller's buffer.
//! - A successful read is complete, and a successful block status has extents.
//! - Memory is bounded: one header, one error message (4 KiB) and [`MAX_EXTENTS_KEPT`] extents.
//! - The result does not depend on the fragmentation.
//! - After an error, nothing more is parsed.

use crate::constants as c;
use crate::error::{Error, ErrorKind, Result};
use crate::negotiation::{Connected, ExportInfo, Negotiated, Step};
use crate::request::{EncodedRequest, Judged, RequestHeader, judge};
use crate::types::{Command, CommandFlags, Errno, Extent, ReplyStyle};
use crate::wire::{Collector, Reader};

use super::in_flight::{Cookie, Failure, InFlight, Pending};

/// The limit of stored extents per reply; the rest is dropped, as if the server had reported fewer.
pub(crate) const MAX_EXTENTS_KEPT: usize = 65536;
/// Longest error chunk: number, message length, message, offset.
const MAX_ERROR_BYTES: u64 = 6 + c::MAX_STRING_BYTES as u64 + 8;

/// The next bytes of the stream are data of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadRun {
    /// The read.
    pub cookie: Cookie,
    /// The offset of the next byte in the read.
    pub position_bytes: u64,
    /// The number of bytes left.
    pub left_bytes: u32,
}

/// The next event of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyEvent {
    /// Data of a read follow; none were consumed. Call [`ClientStream::payload_taken`] after
    /// reading them.
    Payload(PayloadRun),
    /// A part of a read is zeroes.
    Zeroes {
        /// The read.
        cookie: Cookie,
        /// The offset in the read.
        position_bytes: u64,
        /// The length.
        length_bytes: u32,
    },
    /// The extents from the start of a block status request. They may end before or after its
    /// range.
    Extents {
        /// The request.
        cookie: Cookie,
        /// At least one; none is empty.
        extents: Vec<Extent>,
    },
    /// The request is complete, and its slot free. If it failed, its data are invalid.
    Done {
        /// The request.
        cookie: Cookie,
        /// The result.
        result: std::result::Result<(), Failure>,
    },
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    cookie: Cookie,
    kind: u16,
    done: bool,
    length: u64,
}

#[derive(Debug)]
enum State {
    Header,
    /// The fixed part of a chunk's payload.
    Fixed {
        chunk: Chunk,
        want: usize,
    },
    /// Descriptors of a block status chunk.
    Extents {
        chunk: Chunk,
        left_bytes: u64,
        extents: Vec<Extent>,
    },
    Payload {
        run: PayloadRun,
        done: bool,
    },
    ChunkEnd {
        cookie: Cookie,
        done: bool,
    },
    Over,
}

/// A connection in its transmission phase: encodes requests, parses replies.
#[derive(Debug)]
pub struct ClientStream {
    /// The rules by which the server checks requests.
    rules: Negotiated,
    connected: Connected,
    in_flight: InFlight,
    piece: Collector,
    state: State,
}

impl ClientStream {
    /// A connection after its handshake, with at most `outstanding` requests.
    pub fn new(connected: Connected, outstanding: u32) -> ClientStream {
        let export = ExportInfo {
            name: String::new(),
            description: String::new(),
            size_bytes: connected.size_bytes,
            flags: connected.flags,
            block_sizes: connected.block_sizes,
            base_allocation: connected.base_allocation.is_some(),
        };
        let base_allocation = export.base_allocation;
        ClientStream {
            rules: Negotiated { export, style: connected.style, base_allocation },
            connected,
            in_flight: InFlight::new(outstanding),
            piece: Collector::default(),
            state: State::Header,
        }
    }

    /// The negotiated parameters.
    pub fn connected(&self) -> &Connected {
        &self.connected
    }

    /// The number of outstanding requests.
    pub fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    /// The outstanding requests, by slot: they are lost if the connection fails.
    pub fn cookies(&self) -> impl Iterator<Item = Cookie> + '_ {
        self.in_flight.cookies()
    }

    /// Starts a request: send the header, followed by the data of a write.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if the server would reject the request (the message says why), if it is
    /// empty and not a flush, or if no slot is free. Nothing changes then.
    pub fn begin(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(Cookie, EncodedRequest)> {
        let usage = |why: &str| {
            let text = format!("{command:?} of {length_bytes} bytes at {offset_bytes}: {why}");
            Err(Error::new(ErrorKind::Usage, text))
        };
        let cookie = self.in_flight.next()?;
        let mut header = RequestHeader {
            flags: flags.0,
            command: command.to_wire(),
            cookie: cookie.to_wire(),
            offset_bytes,
            length_bytes,
        };
        if self.connected.style == ReplyStyle::Extended && command == Command::Write {
            header.flags |= c::CMD_FLAG_PAYLOAD_LEN;
        }
        match judge(&header, &self.rules)? {
            Judged::Request(_) if length_bytes == 0 && command != Command::Flush => {
                return usage("empty requests are not allowed");
            }
            Judged::Request(_) => {}
            Judged::Rejected(rejected) => return usage(rejected.message),
            Judged::Disconnect => return usage("use disconnect() to end the connection"),
        }
        let encoded = header.encode(self.connected.style)?;
        let pending =
            Pending { command, offset_bytes, length_bytes, failure: None, extents_seen: false };
        self.in_flight.begin(pending);
        Ok((cookie, encoded))
    }

    /// The request that ends the connection. Send it without outstanding requests, then close.
    pub fn disconnect(&self) -> Result<EncodedRequest> {
        RequestHeader {
            flags: 0,
            command: c::CMD_DISC,
            cookie: 0,
            offset_bytes: 0,
            length_bytes: 0,
        }
        .encode(self.connected.style)
    }

    /// Parses up to the next event. Call again with the rest, even if empty, until there is no
    /// event; then all input is consumed.
    ///
    /// # Errors
    /// The stream is out of sync: all [outstanding requests](Self::cookies) are lost; close.
    pub fn receive(&mut self, input: &[u8]) -> Result<Step<ReplyEvent>> {
        let mut rest = input;
        let outcome = self.advance(&mut rest);
        if outcome.is_err() {
            self.state = State::Over;
        }
        outcome.map(|event| Step { consumed: input.len() - rest.len(), event })
    }

    /// The payload at the current position, if any: a caller may receive it directly into its
    /// buffer.
    pub fn payload(&self) -> Option<PayloadRun> {
        match self.state {
            State::Payload { run, .. } => Some(run),
            _ => None,
        }
    }

    /// A lower bound of the bytes that follow while a request is outstanding: a caller may read
    /// that many without reading too far.
    pub fn want_bytes(&self) -> usize {
        let collected = self.piece.bytes().len();
        match &self.state {
            State::Header => self.header_bytes().saturating_sub(collected),
            State::Fixed { want, .. } => want.saturating_sub(collected),
            State::Extents { chunk, .. } => descriptor_bytes(*chunk).saturating_sub(collected),
            State::Payload { run, .. } => run.left_bytes as usize,
            State::ChunkEnd { .. } | State::Over => 0,
        }
    }

    /// Reports that `count` bytes of the current [payload](Self::payload) were taken from the
    /// stream, from the input or directly. Call [`receive`](Self::receive) afterwards: the request
    /// may be complete.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if fewer bytes are left; nothing changes then.
    pub fn payload_taken(&mut self, count: usize) -> Result<()> {
        let State::Payload { run, done } = &mut self.state else {
            return Err(Error::new(ErrorKind::Usage, "the stream is not at a payload"));
        };
        let left = u32::try_from(count).ok().and_then(|count| run.left_bytes.checked_sub(count));
        let Some(left) = left else {
            let text = format!(
                "{count} bytes were taken of a payload of which {} are left",
                run.left_bytes
            );
            return Err(Error::new(ErrorKind::Usage, text));
        };
        run.position_bytes += count as u64;
        run.left_bytes = left;
        if left == 0 {
            self.state = State::ChunkEnd { cookie: run.cookie, done: *done };
        }
        Ok(())
    }

    fn advance(&mut self, rest: &mut &[u8]) -> Result<Option<ReplyEvent>> {
        loop {
            match &mut self.state {
                State::Header => {
                    // The magic determines the length of the header.
                    if !self.piece.fill(4, rest) {
                        return Ok(None);
                    }
                    self.check_magic()?;
                    if !self.piece.fill(self.header_bytes(), rest) {
                        return Ok(None);
                    }
                    self.state = self.header()?;
                    self.piece.clear();
                }
                State::Fixed { chunk, want } => {
                    let chunk = *chunk;
                    if !self.piece.fill(*want, rest) {
                        return Ok(None);
                    }
                    let (state, event) = self.fixed(chunk)?;
                    self.state = state;
                    self.piece.clear();
                    if event.is_some() {
                        return Ok(event);
                    }
                }
                State::Extents { chunk, left_bytes, extents } => {
                    let each = descriptor_bytes(*chunk);
                    if !self.piece.fill(each, rest) {
                        return Ok(None);
                    }
                    keep_extent(extents, self.piece.bytes())?;
                    self.piece.clear();
                    *left_bytes -= each as u64;
                    if *left_bytes == 0 {
                        let (cookie, extents) = (chunk.cookie, std::mem::take(extents));
                        self.state = State::ChunkEnd { cookie, done: chunk.done };
                        return Ok(Some(ReplyEvent::Extents { cookie, extents }));
                    }
                }
                State::Payload { run, .. } => {
                    return Ok((!rest.is_empty()).then_some(ReplyEvent::Payload(*run)));
                }
                State::ChunkEnd { cookie, done } => {
                    let (cookie, done) = (*cookie, *done);
                    self.state = State::Header;
                    if done {
                        let result = self.in_flight.finish(cookie)?;
                        return Ok(Some(ReplyEvent::Done { cookie, result }));
                    }
                }
                State::Over => {
                    return Err(Error::new(ErrorKind::Usage, "this connection is already over"));
                }
            }
        }
    }

    /// The length of the header that starts with the collected bytes, or the minimum length.
    fn header_bytes(&self) -> usize {
        match (self.connected.style, Reader::new(self.piece.bytes()).u32()) {
            (ReplyStyle::Extended, _) => c::EXTENDED_REPLY_BYTES,
            (ReplyStyle::Structured, Some(c::STRUCTURED_REPLY_MAGIC)) => c::STRUCTURED_REPLY_BYTES,
            _ => c::SIMPLE_REPLY_BYTES,
        }
    }

    fn check_magic(&self) -> Result<()> {
        let magic = Reader::new(self.piece.bytes()).u32().unwrap_or(0);
        let good = match self.connected.style {
            ReplyStyle::Simple => magic == c::SIMPLE_REPLY_MAGIC,
            ReplyStyle::Structured => {
                matches!(magic, c::SIMPLE_REPLY_MAGIC | c::STRUCTURED_REPLY_MAGIC)
            }
            ReplyStyle::Extended => magic == c::EXTENDED_REPLY_MAGIC,
        };
        if good {
            return Ok(());
        }
        let style = self.connected.style;
        let text =
            format!("the server's reply begins with {magic:#x}, which is no {style:?} reply");
        Err(Error::new(ErrorKind::FramingLost, text))
    }

    fn header(&mut self) -> Result<State> {
        let mut reader = Reader::new(self.piece.bytes());
        if reader.u32() == Some(c::SIMPLE_REPLY_MAGIC) {
            let (error, cookie) = (reader.u32().unwrap_or(0), reader.u64().unwrap_or(0));
            return self.simple(error, cookie);
        }
        let (flags, kind, cookie) =
            (reader.u16().unwrap_or(0), reader.u16().unwrap_or(0), reader.u64().unwrap_or(0));
        let (cookie, pending, _) = self.in_flight.find(cookie)?;
        let length = if self.connected.style == ReplyStyle::Extended {
            let offset = reader.u64().unwrap_or(0);
            if offset != pending.offset_bytes {
                return Err(protocol(
                    "an extended reply repeats another offset than its request's",
                ));
            }
            reader.u64().unwrap_or(0)
        } else {
            reader.u32().unwrap_or(0).into()
        };
        let done = flags & c::REPLY_FLAG_DONE != 0;
        let chunk = Chunk { cookie, kind, done, length };
        let extended = self.connected.style == ReplyStyle::Extended;
        let want = match (kind, pending.command) {
            (c::REPLY_TYPE_NONE, _) if length == 0 && done => {
                return Ok(State::ChunkEnd { cookie, done });
            }
            (c::REPLY_TYPE_OFFSET_DATA, Command::Read) if length >= 9 => 8,
            (c::REPLY_TYPE_OFFSET_HOLE, Command::Read) if length == 12 => 12,
            (c::REPLY_TYPE_BLOCK_STATUS, Command::BlockStatus)
                if length >= 12 && (length - 4).is_multiple_of(8) && !pending.extents_seen =>
            {
                4
            }
            (c::REPLY_TYPE_BLOCK_STATUS_EXT, Command::BlockStatus)
                if extended
                    && length >= 24
                    && (length - 8).is_multiple_of(16)
                    && !pending.extents_seen =>
            {
                8
            }
            _ if kind & c::REPLY_TYPE_ERROR_BIT != 0 && (6..=MAX_ERROR_BYTES).contains(&length) => {
                length as usize
            }
            (_, command) => {
                return Err(protocol(format!(
                    "the server answered {command:?} with a chunk of type {kind} and {length} bytes"
                )));
            }
        };
        Ok(State::Fixed { chunk, want })
    }

    fn simple(&mut self, error: u32, cookie: u64) -> Result<State> {
        let style = self.connected.style;
        let (cookie, pending, coverage) = self.in_flight.find(cookie)?;
        if style != ReplyStyle::Simple && pending.command == Command::Read {
            return Err(protocol(
                "the server answered a read with a simple reply after agreeing on chunks",
            ));
        }
        if error != 0 {
            let errno = Errno::from_wire(error);
            pending.failure = Some(Failure { errno, message: String::new(), offset_bytes: None });
        } else if pending.command == Command::Read {
            coverage.add(0, pending.length_bytes);
            // A read's length has 32 bits; `begin` checked it.
            let left_bytes = pending.length_bytes as u32;
            let run = PayloadRun { cookie, position_bytes: 0, left_bytes };
            return Ok(State::Payload { run, done: true });
        }
        Ok(State::ChunkEnd { cookie, done: true })
    }

    /// Parses the fixed part of a chunk's payload.
    fn fixed(&mut self, chunk: Chunk) -> Result<(State, Option<ReplyEvent>)> {
        let Chunk { cookie, kind, done, length } = chunk;
        let end = State::ChunkEnd { cookie, done };
        let mut reader = Reader::new(self.piece.bytes());
        match kind {
            c::REPLY_TYPE_OFFSET_DATA => {
                let offset = reader.u64().unwrap_or(0);
                let (position_bytes, left_bytes) = self.cover(cookie, offset, length - 8)?;
                let run = PayloadRun { cookie, position_bytes, left_bytes };
                Ok((State::Payload { run, done }, None))
            }
            c::REPLY_TYPE_OFFSET_HOLE => {
                let (offset, hole) = (reader.u64().unwrap_or(0), reader.u32().unwrap_or(0));
                let (position_bytes, length_bytes) = self.cover(cookie, offset, hole.into())?;
                Ok((end, Some(ReplyEvent::Zeroes { cookie, position_bytes, length_bytes })))
            }
            c::REPLY_TYPE_BLOCK_STATUS | c::REPLY_TYPE_BLOCK_STATUS_EXT => {
                if reader.u32() != self.connected.base_allocation {
                    return Err(protocol(
                        "the server sent extents of a context that was not selected",
                    ));
                }
                let wide = kind == c::REPLY_TYPE_BLOCK_STATUS_EXT;
                let left_bytes = length - if wide { 8 } else { 4 };
                // A count of zero means that the chunk's length determines it.
                let count = reader.u32().unwrap_or(0);
                if count != 0 && u64::from(count) * 16 != left_bytes {
                    return Err(protocol(
                        "the server's number of extents contradicts the chunk's length",
                    ));
                }
                self.in_flight.find(cookie.to_wire())?.1.extents_seen = true;
                Ok((State::Extents { chunk, left_bytes, extents: Vec::new() }, None))
            }
            _ => {
                let failure = parse_error(kind, reader)?;
                self.in_flight.find(cookie.to_wire())?.1.failure.get_or_insert(failure);
                Ok((end, None))
            }
        }
    }

    /// Records a content chunk. Returns its offset in the read and its length.
    fn cover(&mut self, cookie: Cookie, offset: u64, length: u64) -> Result<(u64, u32)> {
        let (_, pending, coverage) = self.in_flight.find(cookie.to_wire())?;
        let range = offset.checked_sub(pending.offset_bytes).and_then(|start| {
            let end = start.checked_add(length)?;
            (length > 0 && end <= pending.length_bytes).then_some((start, end))
        });
        let Some((start, end)) = range else {
            return Err(protocol("the server sent data outside the read"));
        };
        if !coverage.add(start, end) {
            return Err(protocol("the server sent data twice, or in too many pieces"));
        }
        // Within a read, whose length has 32 bits.
        Ok((start, length as u32))
    }
}

/// The length of one descriptor of a block status chunk.
fn descriptor_bytes(chunk: Chunk) -> usize {
    if chunk.kind == c::REPLY_TYPE_BLOCK_STATUS_EXT { 16 } else { 8 }
}

fn keep_extent(extents: &mut Vec<Extent>, descriptor: &[u8]) -> Result<()> {
    let mut reader = Reader::new(descriptor);
    let mut field = || {
        let value = if descriptor.len() == 16 { reader.u64() } else { reader.u32().map(u64::from) };
        value.unwrap_or(0)
    };
    let (length, status) = (field(), field());
    if length == 0 {
        return Err(protocol("the server sent an empty extent"));
    }
    if extents.len() < MAX_EXTENTS_KEPT {
        extents.push(Extent::from_wire(length, status));
    }
    Ok(())
}

fn parse_error(kind: u16, mut reader: Reader<'_>) -> Result<Failure> {
    let parsed = (|| {
        let errno = Errno::from_wire(reader.u32()?);
        let length = reader.u16()?;
        let message = String::from_utf8_lossy(reader.take(length.into())?).into_owned();
        let offset_bytes = match kind {
            c::REPLY_TYPE_ERROR_OFFSET => Some(reader.u64()?),
            _ => None,
        };
        Some(Failure { errno, message, offset_bytes })
    })();
    parsed.ok_or_else(|| protocol("the server's error is shorter than its message"))
}

fn protocol(context: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Protocol, context)
}
