//! The client's side of the handshake.
//!
//! ```text
//!  greeting ─▶ EXTENDED_HEADERS ─no▶ STRUCTURED_REPLY ─▶ SET_META_CONTEXT ─▶ GO ─▶ Connected
//!     │              └────────yes────────────────────────────▲               │
//!     └─ not fixed newstyle ─▶ EXPORT_NAME ◀──────── server doesn't know GO ──┘
//! ```
//!
//! Steps that the caller did not request are skipped. Refused steps are not fatal, except GO.
//!
//! Fault model: the server is hostile, and its bytes arrive in arbitrary fragments. Invariants: at
//! most one reply's payload (64 KiB) is stored; an option has at most [`MAX_REPLIES`] replies; the
//! result does not depend on the fragmentation.

use crate::constants as c;
use crate::error::{Error, ErrorKind, Result};
use crate::request::LONGEST_TRANSFER_BYTES;
use crate::types::{BlockSizes, Command, ExportFlags, ReplyStyle};
use crate::wire::{Collector, Reader};

use super::options::{option_name, put_option, string, wire_length};
use super::{MAX_OPTION_BYTES, Step};

/// The limit of replies to one option.
const MAX_REPLIES: u32 = 256;

/// The requested features of a connection. The server may lack some, see [`Connected`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// The export's name; empty for the server's default export.
    pub export: String,
    /// Ask for extended headers (64-bit lengths).
    pub extended: bool,
    /// Ask for structured replies, if extended headers are refused.
    pub structured: bool,
    /// Ask for `base:allocation`, so that block status can be requested.
    pub base_allocation: bool,
}

impl ClientOptions {
    /// Requests all features.
    pub fn new(export: impl Into<String>) -> ClientOptions {
        ClientOptions {
            export: export.into(),
            extended: true,
            structured: true,
            base_allocation: true,
        }
    }
}

/// The negotiated parameters, on the client's side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// Size of the export in bytes; at most `i64::MAX`.
    pub size_bytes: u64,
    /// The export's features.
    pub flags: ExportFlags,
    /// The framing of requests and replies.
    pub style: ReplyStyle,
    /// Block size constraints: the server's if it gave valid ones, otherwise
    /// [`BlockSizes::DEFAULT`].
    pub block_sizes: BlockSizes,
    /// The server's name for `base:allocation`, if it was selected.
    pub base_allocation: Option<u32>,
    /// The export's canonical name, if the server gave one.
    pub name: Option<String>,
    /// The export's description; empty if the server gave none.
    pub description: String,
}

impl Connected {
    /// The longest request of this kind, in bytes; longer ranges must be split. A multiple of the
    /// minimum block size.
    ///
    /// Without extended headers, the maximum block size also limits zeroes and cache requests:
    /// older servers may refuse longer ones.
    pub fn longest_bytes(&self, command: Command) -> u64 {
        let sizes = self.block_sizes;
        let extended = self.style == ReplyStyle::Extended;
        let limit = match command {
            Command::Read | Command::Write => {
                sizes.maximum_bytes.min(LONGEST_TRANSFER_BYTES).into()
            }
            Command::Flush | Command::Disconnect => 0,
            _ if extended => u64::MAX,
            Command::Cache | Command::WriteZeroes => sizes.maximum_bytes.into(),
            Command::Trim | Command::BlockStatus => u32::MAX.into(),
        };
        limit - limit % u64::from(sizes.minimum_bytes.max(1))
    }
}

#[derive(Debug, Clone, Copy)]
enum State {
    Greeting,
    ReplyHeader,
    Reply { kind: u32, length: u32 },
    ExportName,
    Finished,
}

/// The client's side of the handshake, as a pure state machine.
#[derive(Debug)]
pub struct ClientHandshake {
    options: ClientOptions,
    state: State,
    /// The option that awaits its reply.
    asked: u32,
    replies: u32,
    piece: Collector,
    no_zeroes: bool,
    export_seen: bool,
    connected: Connected,
}

impl ClientHandshake {
    /// A client that waits for the server's greeting.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if the export's name is longer than 4096 bytes or includes a NUL.
    pub fn new(options: ClientOptions) -> Result<ClientHandshake> {
        if string(options.export.as_bytes()).is_none() {
            return Err(Error::new(
                ErrorKind::Usage,
                "the export name has more than 4096 bytes or includes a NUL; use another one",
            ));
        }
        Ok(ClientHandshake {
            options,
            state: State::Greeting,
            asked: 0,
            replies: 0,
            piece: Collector::default(),
            no_zeroes: false,
            export_seen: false,
            connected: Connected {
                size_bytes: 0,
                flags: ExportFlags::default(),
                style: ReplyStyle::Simple,
                block_sizes: BlockSizes::DEFAULT,
                base_allocation: None,
                name: None,
                description: String::new(),
            },
        })
    }

    /// Processes bytes from the server and appends the response to `output`.
    ///
    /// Stops after each message of the server: send the output and call again with the rest of the
    /// input. The event ends the handshake; further input belongs to the transmission phase.
    ///
    /// # Errors
    /// The connection is unusable. Send remaining output before closing.
    pub fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<Step<Connected>> {
        let mut rest = input;
        let outcome = self.advance(&mut rest, output);
        if !matches!(outcome, Ok(None)) {
            self.state = State::Finished;
        }
        outcome.map(|event| Step { consumed: input.len() - rest.len(), event })
    }

    /// The error if the server closes the stream now.
    pub fn end_of_stream(&self) -> Error {
        if let State::ExportName = self.state {
            let name = &self.options.export;
            return Error::new(
                ErrorKind::UnknownExport,
                format!("the server closed the connection when asked for the export {name:?}"),
            );
        }
        Error::new(ErrorKind::Closed, "the server closed the connection during the handshake")
    }

    fn advance(&mut self, rest: &mut &[u8], output: &mut Vec<u8>) -> Result<Option<Connected>> {
        let want = match self.state {
            State::Greeting => c::GREETING_BYTES,
            State::ReplyHeader => c::OPTION_REPLY_HEADER_BYTES,
            State::Reply { length, .. } => length as usize,
            State::ExportName if self.no_zeroes => 10,
            State::ExportName => 10 + c::EXPORT_NAME_ZEROES,
            State::Finished => {
                return Err(Error::new(ErrorKind::Usage, "this handshake is already over"));
            }
        };
        if !self.piece.fill(want, rest) {
            return Ok(None);
        }
        let piece = std::mem::take(&mut self.piece);
        match self.state {
            State::Greeting => self.greeting(piece.bytes(), output)?,
            State::ReplyHeader => {
                self.reply_header(piece.bytes())?;
                // An empty payload is complete at once.
                if let State::Reply { length: 0, .. } = self.state {
                    return self.advance(rest, output);
                }
            }
            State::Reply { kind, .. } => {
                self.state = State::ReplyHeader;
                return self.reply(kind, piece.bytes(), output);
            }
            State::ExportName => {
                self.export(piece.bytes())?;
                return Ok(Some(self.connected.clone()));
            }
            State::Finished => {}
        }
        Ok(None)
    }

    fn greeting(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Result<()> {
        let mut reader = Reader::new(bytes);
        if reader.u64() != Some(c::INIT_MAGIC) {
            return Err(Error::new(
                ErrorKind::NotNbd,
                "the server's greeting is not that of an NBD server",
            ));
        }
        match reader.u64() {
            Some(c::OPTION_MAGIC) => {}
            Some(c::OLDSTYLE_MAGIC) => {
                let sentence =
                    "the server speaks only the oldstyle negotiation, which has no export names";
                return Err(Error::new(ErrorKind::NotNbd, sentence));
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::NotNbd,
                    "the server's greeting is neither oldstyle nor newstyle",
                ));
            }
        }
        // Unknown flags are ignored; the response includes offered flags only.
        let offered = reader.u16().unwrap_or(0);
        let fixed = offered & c::FLAG_FIXED_NEWSTYLE != 0;
        self.no_zeroes = offered & c::FLAG_NO_ZEROES != 0;
        let mut flags = 0;
        if fixed {
            flags |= c::FLAG_C_FIXED_NEWSTYLE;
        }
        if self.no_zeroes {
            flags |= c::FLAG_C_NO_ZEROES;
        }
        output.extend_from_slice(&flags.to_be_bytes());
        let first = if fixed { self.after(0) } else { c::OPT_EXPORT_NAME };
        self.ask(first, output);
        Ok(())
    }

    /// The option after `option`, by the requests and the results so far.
    fn after(&self, option: u32) -> u32 {
        let wants_context =
            self.options.base_allocation && self.connected.style != ReplyStyle::Simple;
        match option {
            0 if self.options.extended => c::OPT_EXTENDED_HEADERS,
            0 | c::OPT_EXTENDED_HEADERS
                if self.options.structured && self.connected.style == ReplyStyle::Simple =>
            {
                c::OPT_STRUCTURED_REPLY
            }
            0 | c::OPT_EXTENDED_HEADERS | c::OPT_STRUCTURED_REPLY if wants_context => {
                c::OPT_SET_META_CONTEXT
            }
            _ => c::OPT_GO,
        }
    }

    fn ask(&mut self, option: u32, output: &mut Vec<u8>) {
        let name = self.options.export.as_bytes();
        let name_length = wire_length(name.len());
        match option {
            c::OPT_GO => {
                let mut wanted = 3u16.to_be_bytes().to_vec();
                for info in [c::INFO_NAME, c::INFO_DESCRIPTION, c::INFO_BLOCK_SIZE] {
                    wanted.extend_from_slice(&info.to_be_bytes());
                }
                put_option(output, option, &[&name_length, name, &wanted]);
            }
            c::OPT_SET_META_CONTEXT => {
                let query = c::BASE_ALLOCATION.as_bytes();
                let count = 1u32.to_be_bytes();
                put_option(
                    output,
                    option,
                    &[&name_length, name, &count, &wire_length(query.len()), query],
                );
            }
            c::OPT_EXPORT_NAME => put_option(output, option, &[name]),
            _ => put_option(output, option, &[]),
        }
        self.asked = option;
        self.replies = 0;
        self.state =
            if option == c::OPT_EXPORT_NAME { State::ExportName } else { State::ReplyHeader };
    }

    fn reply_header(&mut self, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u64().unwrap_or(0);
        if magic != c::OPTION_REPLY_MAGIC {
            return Err(Error::new(
                ErrorKind::FramingLost,
                format!("the server's reply to an option begins with {magic:#018x}"),
            ));
        }
        let (option, kind, length) =
            (reader.u32().unwrap_or(0), reader.u32().unwrap_or(0), reader.u32().unwrap_or(0));
        if option != self.asked {
            return Err(protocol(format!(
                "the server answered option {option} when asked {}",
                self.asked
            )));
        }
        self.replies += 1;
        if length > MAX_OPTION_BYTES || self.replies > MAX_REPLIES {
            return Err(Error::new(
                ErrorKind::TooBig,
                format!("the server's answer to {} is too long", option_name(option)),
            ));
        }
        self.state = State::Reply { kind, length };
        Ok(())
    }

    fn reply(
        &mut self,
        kind: u32,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Connected>> {
        if kind & c::REP_ERR_BIT != 0 {
            return self.refused(kind, payload, output).map(|()| None);
        }
        match (self.asked, kind) {
            (c::OPT_EXTENDED_HEADERS, c::REP_ACK) => self.connected.style = ReplyStyle::Extended,
            (c::OPT_STRUCTURED_REPLY, c::REP_ACK) => self.connected.style = ReplyStyle::Structured,
            (c::OPT_SET_META_CONTEXT, c::REP_ACK) => {}
            (c::OPT_SET_META_CONTEXT, c::REP_META_CONTEXT) => {
                self.context(payload)?;
                return Ok(None);
            }
            (c::OPT_GO, c::REP_INFO) => {
                self.info(payload)?;
                return Ok(None);
            }
            (c::OPT_GO, c::REP_ACK) if self.export_seen => return Ok(Some(self.connected.clone())),
            (c::OPT_GO, c::REP_ACK) => {
                return Err(protocol("the server accepted the export without telling its size"));
            }
            (option, _) => {
                let name = option_name(option);
                return Err(protocol(format!(
                    "the server answered {name} with a reply of type {kind}"
                )));
            }
        }
        self.ask(self.after(self.asked), output);
        Ok(None)
    }

    fn refused(&mut self, kind: u32, message: &[u8], output: &mut Vec<u8>) -> Result<()> {
        let fatal = matches!(kind, c::REP_ERR_SHUTDOWN | c::REP_ERR_TLS_REQD);
        if self.asked != c::OPT_GO && !fatal {
            if self.asked == c::OPT_SET_META_CONTEXT {
                // Contexts before an error do not count.
                self.connected.base_allocation = None;
            }
            self.ask(self.after(self.asked), output);
            return Ok(());
        }
        let can_fall_back =
            kind == c::REP_ERR_UNSUP && self.connected.style != ReplyStyle::Extended;
        if self.asked == c::OPT_GO && can_fall_back {
            self.ask(c::OPT_EXPORT_NAME, output);
            return Ok(());
        }
        put_option(output, c::OPT_ABORT, &[]);
        let (error, why) = match kind {
            c::REP_ERR_UNKNOWN => (ErrorKind::UnknownExport, "no such export"),
            c::REP_ERR_TLS_REQD => {
                (ErrorKind::TlsRequired, "it requires TLS, which this client does not support")
            }
            c::REP_ERR_SHUTDOWN => (ErrorKind::ShuttingDown, "it is shutting down"),
            c::REP_ERR_POLICY => (ErrorKind::Refused, "its policy forbids it"),
            _ => (ErrorKind::Refused, "it cannot open it"),
        };
        let name = &self.options.export;
        let message = String::from_utf8_lossy(&message[..message.len().min(c::MAX_STRING_BYTES)]);
        let message = if message.is_empty() { String::new() } else { format!(" ({message:?})") };
        Err(Error::new(error, format!("the server refused the export {name:?}: {why}{message}")))
    }

    fn context(&mut self, payload: &[u8]) -> Result<()> {
        let mut reader = Reader::new(payload);
        let id = reader
            .u32()
            .ok_or_else(|| protocol("the server sent a metadata context without identity"))?;
        // Other contexts were not requested.
        if reader.rest() == c::BASE_ALLOCATION.as_bytes() {
            self.connected.base_allocation = Some(id);
        }
        Ok(())
    }

    fn info(&mut self, payload: &[u8]) -> Result<()> {
        let mut reader = Reader::new(payload);
        let kind =
            reader.u16().ok_or_else(|| protocol("the server sent an information without type"))?;
        let rest = reader.rest();
        let too_short =
            || protocol(format!("the server's information {kind} has {} bytes", payload.len()));
        match kind {
            c::INFO_EXPORT if rest.len() == 10 => self.export(rest)?,
            c::INFO_BLOCK_SIZE if rest.len() == 12 => {
                let mut reader = Reader::new(rest);
                let mut next = || reader.u32().ok_or_else(too_short);
                let sizes = BlockSizes {
                    minimum_bytes: next()?,
                    preferred_bytes: next()?,
                    maximum_bytes: next()?,
                };
                // Invalid sizes are ignored.
                if sizes.is_valid() {
                    self.connected.block_sizes = sizes;
                }
            }
            c::INFO_EXPORT | c::INFO_BLOCK_SIZE => return Err(too_short()),
            c::INFO_NAME => self.connected.name = string(rest).map(str::to_owned),
            c::INFO_DESCRIPTION => {
                self.connected.description = string(rest).unwrap_or_default().to_owned();
            }
            _ => {}
        }
        Ok(())
    }

    /// Size and transmission flags, the same in `INFO_EXPORT` and in the reply to `EXPORT_NAME`.
    fn export(&mut self, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(bytes);
        let (Some(size_bytes), Some(flags)) = (reader.u64(), reader.u16()) else {
            return Err(protocol("the server's description of the export is too short"));
        };
        if size_bytes > i64::MAX as u64 {
            return Err(protocol(format!(
                "the server's export has the impossible size of {size_bytes} bytes"
            )));
        }
        self.connected.size_bytes = size_bytes;
        self.connected.flags = ExportFlags::from_wire(flags);
        self.export_seen = true;
        Ok(())
    }
}

fn protocol(context: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Protocol, context)
}
