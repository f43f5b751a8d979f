//! Replies of a server: small headers in fixed arrays, so that header and data can be sent without
//! copying.
//!
//! ```text
//!  simple      67446698 | errno u32 | cookie u64                                + data of a read
//!  structured  668e33ef | flags u16 | type u16 | cookie u64 | length u32              + payload
//!  extended    6e8a278c | flags u16 | type u16 | cookie u64 | offset u64 | length u64 + payload
//! ```

use crate::constants as c;
use crate::negotiation::{BASE_ALLOCATION_ID, Negotiated};
use crate::request::Request;
use crate::types::{Command, CommandFlags, Errno, Extent, ReplyStyle};
use crate::wire::{Fixed, prefix};

/// The fields of a request that its reply repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTo {
    /// The client's cookie of the request.
    pub cookie: u64,
    /// The request's offset (part of extended replies).
    pub offset_bytes: u64,
    /// The request's command; `None` if unknown.
    pub command: Option<Command>,
}

/// The longest error message, in bytes; longer ones are truncated between characters.
const MAX_MESSAGE_BYTES: usize = 120;

/// The limit of extents in one block status reply. For more, the client sends another request.
pub const MAX_EXTENTS: usize = 4096;

/// The longest header: an extended chunk's with the offset and length of a hole.
const HEADER_ROOM: usize = c::EXTENDED_REPLY_BYTES + 12;
/// The longest error: an extended chunk's header, number, message length, message, offset.
const ERROR_ROOM: usize = c::EXTENDED_REPLY_BYTES + 6 + MAX_MESSAGE_BYTES + 8;

/// The header of a reply; the caller sends announced data after it.
#[derive(Clone, Copy)]
pub struct ReplyHeader(Fixed<HEADER_ROOM>);

impl AsRef<[u8]> for ReplyHeader {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// A complete error reply.
#[derive(Clone, Copy)]
pub struct ErrorReply(Fixed<ERROR_ROOM>);

impl AsRef<[u8]> for ErrorReply {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Creates replies in the negotiated style.
#[derive(Debug, Clone, Copy)]
pub struct Replies {
    style: ReplyStyle,
}

impl Replies {
    /// Creates replies for negotiated parameters.
    pub fn new(negotiated: &Negotiated) -> Replies {
        Replies { style: negotiated.style }
    }

    /// The success of a command without data (not a read or block status).
    pub fn done(self, to: ReplyTo) -> ReplyHeader {
        match self.style {
            // With structured replies, a simple reply is allowed without data, and shorter.
            ReplyStyle::Simple | ReplyStyle::Structured => ReplyHeader(simple(to, 0)),
            ReplyStyle::Extended => ReplyHeader(self.chunk(to, c::REPLY_TYPE_NONE, true, 0)),
        }
    }

    /// The success of a whole read: exactly `request.length_bytes` bytes of data follow.
    ///
    /// Also for empty reads (without data).
    pub fn read(self, request: &Request) -> ReplyHeader {
        let to = request.reply_to();
        match self.style {
            ReplyStyle::Simple => ReplyHeader(simple(to, 0)),
            ReplyStyle::Structured | ReplyStyle::Extended if request.length_bytes == 0 => {
                ReplyHeader(self.chunk(to, c::REPLY_TYPE_NONE, true, 0))
            }
            ReplyStyle::Structured | ReplyStyle::Extended => {
                data(self, to, request.offset_bytes, request.length_bytes, true)
            }
        }
    }

    /// The failure of a request. The message is for users; simple replies cannot include it.
    pub fn error(self, to: ReplyTo, errno: Errno, message: &str) -> ErrorReply {
        let message = prefix(message, MAX_MESSAGE_BYTES);
        match self.style {
            ReplyStyle::Simple => ErrorReply(simple(to, errno.to_wire())),
            ReplyStyle::Structured | ReplyStyle::Extended => ErrorReply(error_fields(
                self.chunk(to, c::REPLY_TYPE_ERROR, true, 6 + message.len()),
                errno,
                message,
            )),
        }
    }

    /// Creates replies in several chunks; `None` if only simple replies were negotiated.
    pub fn chunks(self) -> Option<Chunks> {
        (self.style != ReplyStyle::Simple).then_some(Chunks { replies: self })
    }

    /// The header of a chunk with `payload` bytes of payload.
    fn chunk<const N: usize>(self, to: ReplyTo, kind: u16, done: bool, payload: usize) -> Fixed<N> {
        let flags = if done { c::REPLY_FLAG_DONE } else { 0 };
        if self.style == ReplyStyle::Extended {
            return Fixed::new()
                .u32(c::EXTENDED_REPLY_MAGIC)
                .u16(flags)
                .u16(kind)
                .u64(to.cookie)
                .u64(to.offset_bytes)
                .u64(payload as u64);
        }
        // `read_limit` limits reads to less than 4 GiB - 8; other payloads are short.
        let length = u32::try_from(payload).unwrap_or(u32::MAX);
        Fixed::new().u32(c::STRUCTURED_REPLY_MAGIC).u16(flags).u16(kind).u64(to.cookie).u32(length)
    }
}

/// Creates the chunks of structured and extended replies.
///
/// A reply has any number of chunks in any order. The last one, and only that, is marked done. The
/// content chunks of a successful read cover it exactly once, and there is one block status chunk.
/// With [`CommandFlags::DF`] there is only one content chunk.
#[derive(Debug, Clone, Copy)]
pub struct Chunks {
    replies: Replies,
}

impl Chunks {
    /// The header of a data chunk: `length_bytes` (at least one) bytes for `offset_bytes` follow.
    pub fn data(
        self,
        to: ReplyTo,
        offset_bytes: u64,
        length_bytes: u32,
        done: bool,
    ) -> ReplyHeader {
        data(self.replies, to, offset_bytes, length_bytes.into(), done)
    }

    /// A range of at least one zero byte.
    pub fn hole(
        self,
        to: ReplyTo,
        offset_bytes: u64,
        length_bytes: u32,
        done: bool,
    ) -> ReplyHeader {
        let header = self.replies.chunk(to, c::REPLY_TYPE_OFFSET_HOLE, done, 12);
        ReplyHeader(header.u64(offset_bytes).u32(length_bytes))
    }

    /// The end of a reply: success, unless there was an error chunk.
    pub fn end(self, to: ReplyTo) -> ReplyHeader {
        ReplyHeader(self.replies.chunk(to, c::REPLY_TYPE_NONE, true, 0))
    }

    /// An error at an offset of a read, write, trim or block status; other parts of the reply stay
    /// valid.
    pub fn error_at(
        self,
        to: ReplyTo,
        errno: Errno,
        offset_bytes: u64,
        message: &str,
        done: bool,
    ) -> ErrorReply {
        let message = prefix(message, MAX_MESSAGE_BYTES);
        let header = self.replies.chunk(to, c::REPLY_TYPE_ERROR_OFFSET, done, 14 + message.len());
        ErrorReply(error_fields(header, errno, message).u64(offset_bytes))
    }

    /// Appends the complete successful reply to a block status request.
    ///
    /// `extents` describe the range from the request's offset. Empty ones are dropped, and
    /// neighbours with the same status merged. The reply ends with the request's range, after
    /// [`MAX_EXTENTS`], or after one extent if the client requested only one. Without extents, the
    /// range is reported as allocated data, which is always safe.
    pub fn block_status(self, request: &Request, extents: &[Extent], output: &mut Vec<u8>) {
        let extended = self.replies.style == ReplyStyle::Extended;
        let limit = if request.flags.contains(CommandFlags::REQ_ONE) { 1 } else { MAX_EXTENTS };
        let joined = join(extents, request.length_bytes, limit);
        let (kind, prefix, each) = if extended {
            (c::REPLY_TYPE_BLOCK_STATUS_EXT, 8, 16)
        } else {
            (c::REPLY_TYPE_BLOCK_STATUS, 4, 8)
        };
        let payload = prefix + each * joined.len();
        let header: Fixed<HEADER_ROOM> =
            self.replies.chunk(request.reply_to(), kind, true, payload);
        output.extend_from_slice(header.as_slice());
        output.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
        if extended {
            output.extend_from_slice(&(joined.len() as u32).to_be_bytes());
        }
        for extent in joined {
            if extended {
                output.extend_from_slice(&extent.length_bytes.to_be_bytes());
                output.extend_from_slice(&u64::from(extent.status()).to_be_bytes());
            } else {
                // The request's length has 32 bits here, and limits each extent.
                output.extend_from_slice(&(extent.length_bytes as u32).to_be_bytes());
                output.extend_from_slice(&extent.status().to_be_bytes());
            }
        }
    }
}

fn join(extents: &[Extent], request_bytes: u64, limit: usize) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::new();
    let mut left = request_bytes;
    for extent in extents {
        let full = joined.len() == limit;
        let length_bytes = extent.length_bytes.min(left);
        left -= length_bytes;
        if length_bytes == 0 {
            continue;
        }
        match joined.last_mut() {
            Some(last) if last.status() == extent.status() => last.length_bytes += length_bytes,
            _ if full => break,
            _ => joined.push(Extent { length_bytes, ..*extent }),
        }
    }
    if joined.is_empty() {
        joined.push(Extent::data(request_bytes));
    }
    joined
}

fn simple<const N: usize>(to: ReplyTo, error: u32) -> Fixed<N> {
    Fixed::new().u32(c::SIMPLE_REPLY_MAGIC).u32(error).u64(to.cookie)
}

fn data(replies: Replies, to: ReplyTo, offset: u64, length: u64, done: bool) -> ReplyHeader {
    let payload = usize::try_from(length.saturating_add(8)).unwrap_or(usize::MAX);
    ReplyHeader(replies.chunk(to, c::REPLY_TYPE_OFFSET_DATA, done, payload).u64(offset))
}

fn error_fields(header: Fixed<ERROR_ROOM>, errno: Errno, message: &str) -> Fixed<ERROR_ROOM> {
    // At most MAX_MESSAGE_BYTES long.
    header.u32(errno.to_wire()).u16(message.len() as u16).put(message.as_bytes())
}
