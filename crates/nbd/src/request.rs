//! Requests: their encoding, and the rules of an export.

use crate::constants as c;
use crate::error::{Error, ErrorKind, Result};
use crate::negotiation::Negotiated;
use crate::reply::ReplyTo;
use crate::types::{Command, CommandFlags, Errno, ReplyStyle};
use crate::wire::{Fixed, Reader};

/// A request that complies with the rules of its export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The command; never [`Command::Disconnect`].
    pub command: Command,
    /// Its flags: valid for the command, and offered.
    pub flags: CommandFlags,
    /// The client's cookie.
    pub cookie: u64,
    /// The offset in bytes; the range is within the export. Zero for a flush.
    pub offset_bytes: u64,
    /// The length in bytes. Zero for a flush and for empty requests (which succeed), but never for
    /// block status. The export's maximum limits reads and writes, so they fit 32 bits.
    pub length_bytes: u64,
}

impl Request {
    /// The fields for the reply.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo {
            cookie: self.cookie,
            offset_bytes: self.offset_bytes,
            command: Some(self.command),
        }
    }

    /// The length of the data that follow the request: a write's length, otherwise zero.
    pub fn payload_bytes(&self) -> u32 {
        match self.command {
            // Checked when the request was judged.
            Command::Write => u32::try_from(self.length_bytes).unwrap_or(u32::MAX),
            _ => 0,
        }
    }
}

/// A request that violates a rule: reply with the error and continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected {
    /// The fields for the reply.
    pub reply_to: ReplyTo,
    /// The error number required by the protocol.
    pub errno: Errno,
    /// The reason, for users.
    pub message: &'static str,
    /// The payload bytes after the header that must be skipped before the reply is sent; a
    /// [`RequestStream`](crate::RequestStream) has done so.
    pub skip_bytes: u32,
}

/// A request's header before it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// Command flags.
    pub flags: u16,
    /// The command's number.
    pub command: u16,
    /// The client's cookie.
    pub cookie: u64,
    /// Offset in bytes.
    pub offset_bytes: u64,
    /// Length of the range or the payload in bytes; 32 bits unless headers are extended.
    pub length_bytes: u64,
}

/// An encoded request header: 28 bytes, or 32 with extended headers.
#[derive(Clone, Copy)]
pub struct EncodedRequest(Fixed<{ c::EXTENDED_REQUEST_BYTES }>);

impl AsRef<[u8]> for EncodedRequest {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl RequestHeader {
    /// Parses a header of exactly [`ReplyStyle::request_bytes`] bytes.
    ///
    /// # Errors
    /// [`ErrorKind::FramingLost`] if the magic is missing or the length is wrong.
    pub fn decode(style: ReplyStyle, bytes: &[u8]) -> Result<RequestHeader> {
        let expected = if style == ReplyStyle::Extended {
            c::EXTENDED_REQUEST_MAGIC
        } else {
            c::REQUEST_MAGIC
        };
        let mut reader = Reader::new(bytes);
        let magic = reader.u32().unwrap_or(0);
        if bytes.len() != style.request_bytes() || magic != expected {
            return Err(Error::new(
                ErrorKind::FramingLost,
                format!(
                    "a request has to begin with {expected:#x}, this one begins with {magic:#x}"
                ),
            ));
        }
        let mut header = || {
            Some(RequestHeader {
                flags: reader.u16()?,
                command: reader.u16()?,
                cookie: reader.u64()?,
                offset_bytes: reader.u64()?,
                length_bytes: match style {
                    ReplyStyle::Extended => reader.u64()?,
                    ReplyStyle::Simple | ReplyStyle::Structured => reader.u32()?.into(),
                },
            })
        };
        header()
            .ok_or_else(|| Error::new(ErrorKind::FramingLost, "a request's header is too short"))
    }

    /// Encodes the header.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if the length needs more than 32 bits and headers are compact.
    pub fn encode(&self, style: ReplyStyle) -> Result<EncodedRequest> {
        let fields = |magic: u32| {
            Fixed::new()
                .u32(magic)
                .u16(self.flags)
                .u16(self.command)
                .u64(self.cookie)
                .u64(self.offset_bytes)
        };
        if style == ReplyStyle::Extended {
            return Ok(EncodedRequest(fields(c::EXTENDED_REQUEST_MAGIC).u64(self.length_bytes)));
        }
        match u32::try_from(self.length_bytes) {
            Ok(length) => Ok(EncodedRequest(fields(c::REQUEST_MAGIC).u32(length))),
            Err(source) => Err(Error::with_source(
                ErrorKind::Usage,
                format!("a request of {} bytes needs extended headers", self.length_bytes),
                source,
            )),
        }
    }
}

/// A checked request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// Process it.
    Request(Request),
    /// Reply with an error.
    Rejected(Rejected),
    /// The client disconnects: complete outstanding requests, then close without a reply.
    Disconnect,
}

/// Checks a header with the negotiated rules.
///
/// The order of the checks determines the reported error: unknown command, flags, support,
/// read-only, range, alignment, length.
///
/// # Errors
/// [`ErrorKind::TooBig`] if a payload of more than 4 GiB is announced: it is not skipped.
pub fn judge(header: &RequestHeader, negotiated: &Negotiated) -> Result<Judged> {
    let command = Command::from_wire(header.command);
    let extended = negotiated.style == ReplyStyle::Extended;
    let payload_flag = extended && header.flags & c::CMD_FLAG_PAYLOAD_LEN != 0;
    let has_payload = if extended { payload_flag } else { command == Some(Command::Write) };
    let skip_bytes = match u32::try_from(header.length_bytes) {
        _ if !has_payload => 0,
        Ok(length) => length,
        Err(source) => {
            let length = header.length_bytes;
            let context = format!("the client announced a payload of {length} bytes");
            return Err(Error::with_source(ErrorKind::TooBig, context, source));
        }
    };
    if command == Some(Command::Disconnect) {
        return Ok(Judged::Disconnect);
    }
    let reply_to = ReplyTo { cookie: header.cookie, offset_bytes: header.offset_bytes, command };
    let verdict = match command {
        None => Err((Errno::Inval, "unknown command")),
        Some(command) => check(command, header, payload_flag, negotiated),
    };
    Ok(match verdict {
        Ok(request) => Judged::Request(request),
        Err((errno, message)) => {
            Judged::Rejected(Rejected { reply_to, errno, message, skip_bytes })
        }
    })
}

/// A chunk's 32-bit length includes a read's data and the offset before them.
pub(crate) const LONGEST_TRANSFER_BYTES: u32 = u32::MAX - 8;

type Verdict<T> = std::result::Result<T, (Errno, &'static str)>;

fn check(
    command: Command,
    header: &RequestHeader,
    payload_flag: bool,
    negotiated: &Negotiated,
) -> Verdict<Request> {
    let mut flags = header.flags;
    if payload_flag {
        if command != Command::Write {
            return Err((Errno::Inval, "this command has no payload"));
        }
        flags &= !c::CMD_FLAG_PAYLOAD_LEN;
    } else if command == Command::Write && negotiated.style == ReplyStyle::Extended {
        return Err((Errno::Inval, "a write has to announce its payload"));
    }
    if flags & !allowed_flags(command, negotiated) != 0 {
        return Err((
            Errno::Inval,
            "a flag that this command doesn't have or the server didn't offer",
        ));
    }
    check_support(command, negotiated)?;
    if command == Command::Flush {
        if (header.offset_bytes, header.length_bytes) != (0, 0) {
            return Err((Errno::Inval, "a flush has neither offset nor length"));
        }
    } else {
        check_range(command, flags, header, negotiated)?;
    }
    Ok(Request {
        command,
        flags: CommandFlags(flags),
        cookie: header.cookie,
        offset_bytes: header.offset_bytes,
        length_bytes: header.length_bytes,
    })
}

fn allowed_flags(command: Command, negotiated: &Negotiated) -> u16 {
    let offered = negotiated.export.flags;
    let own = match command {
        Command::Read if offered.df && negotiated.style != ReplyStyle::Simple => c::CMD_FLAG_DF,
        Command::WriteZeroes if offered.fast_zero => c::CMD_FLAG_NO_HOLE | c::CMD_FLAG_FAST_ZERO,
        Command::WriteZeroes => c::CMD_FLAG_NO_HOLE,
        Command::BlockStatus => c::CMD_FLAG_REQ_ONE,
        _ => 0,
    };
    // An offered FUA must be accepted on all commands.
    own | if offered.fua { c::CMD_FLAG_FUA } else { 0 }
}

fn check_support(command: Command, negotiated: &Negotiated) -> Verdict<()> {
    let offered = negotiated.export.flags;
    let supported = match command {
        Command::Read | Command::Write | Command::Disconnect => true,
        Command::Flush => offered.flush,
        Command::Trim => offered.trim,
        Command::Cache => offered.cache,
        Command::WriteZeroes => offered.write_zeroes,
        Command::BlockStatus => negotiated.base_allocation,
    };
    if !supported {
        return Err((Errno::Inval, "a command that the server didn't offer"));
    }
    if command.modifies() && offered.read_only {
        return Err((Errno::Perm, "the export is read-only"));
    }
    Ok(())
}

fn check_range(
    command: Command,
    flags: u16,
    header: &RequestHeader,
    negotiated: &Negotiated,
) -> Verdict<()> {
    let RequestHeader { offset_bytes: offset, length_bytes: length, .. } = *header;
    let within = offset.checked_add(length).is_some_and(|end| end <= negotiated.export.size_bytes);
    if !within {
        let errno = match command {
            Command::Write | Command::WriteZeroes => Errno::NoSpc,
            _ => Errno::Inval,
        };
        return Err((errno, "the range ends beyond the export"));
    }
    let sizes = negotiated.export.block_sizes;
    let unit = u64::from(sizes.minimum_bytes.max(1));
    if !offset.is_multiple_of(unit) || !length.is_multiple_of(unit) {
        return Err((Errno::Inval, "the range is not aligned to the minimum block size"));
    }
    let maximum = u64::from(sizes.maximum_bytes.min(LONGEST_TRANSFER_BYTES));
    if matches!(command, Command::Read | Command::Write) && length > maximum {
        let unfragmented = flags & c::CMD_FLAG_DF != 0;
        let errno = if unfragmented { Errno::Overflow } else { Errno::Inval };
        return Err((errno, "the request exceeds the maximum block size"));
    }
    if command == Command::BlockStatus && length == 0 {
        return Err((Errno::Inval, "block status of nothing"));
    }
    Ok(())
}
