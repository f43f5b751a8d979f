//! The server's side of the handshake.
//!
//! ```text
//!  greeting sent ──▶ client flags ──▶ option header ──▶ payload ──▶ replies ─┐
//!                                        ▲      └─ unknown, too long ─▶ skip ─┤
//!                                        └───────────────────────────────────┤
//!                EXPORT_NAME, GO ─▶ Enter · ABORT ─▶ Abort · STARTTLS ─▶ Encrypt ◀┘
//! ```
//! After `Encrypt`, it continues with the option header, inside TLS
//! ([`ServerHandshake::encrypted`]).
//!
//! Fault model: the client is hostile, and its bytes arrive in arbitrary fragments. Invariants:
//! - At most one option's payload (64 KiB) is stored. Longer ones up to 16 MiB are skipped and fail
//!   with `ERR_TOO_BIG`; still longer ones close the connection.
//! - Each call processes at most one option, so pipelined options cannot accumulate output.
//! - A connection has at most [`MAX_OPTIONS`] options.
//! - The result does not depend on the fragmentation.

use crate::constants as c;
use crate::error::{Error, ErrorKind, Result};
use crate::types::ReplyStyle;
use crate::wire::{Collector, Reader};

use super::export::{ExportInfo, Exports};
use super::options::{InfoQuery, MetaQuery, option_name, put_info, put_reply, string, wire_length};
use super::{MAX_OPTION_BYTES, Step};

/// The limit of options per connection; enough to list a few hundred exports one by one.
pub const MAX_OPTIONS: u32 = 1024;
/// The longest payload that is skipped; a longer one closes the connection.
const MAX_SKIP_BYTES: u32 = 16 << 20;
/// The context ID of `base:allocation` on all connections; clients treat it as opaque.
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;

/// The result of a handshake on the server's side.
#[derive(Debug)]
pub enum ServerEvent {
    /// The client selected an export. Send the output; further input belongs to the transmission
    /// phase ([`RequestStream`](crate::RequestStream)).
    Enter(Box<Negotiated>),
    /// The client ended the session: send the output, then close.
    Abort,
    /// The client requested TLS, and the server accepted. Send the output, start TLS, and call
    /// [`ServerHandshake::encrypted`]. Input after this option was sent without TLS: close the
    /// connection if there is any.
    Encrypt,
}

/// The server's support of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encryption {
    /// No TLS.
    #[default]
    Absent,
    /// Clients may use TLS.
    Offered,
    /// Clients must start TLS before all other options but `ABORT`.
    Required,
}

/// The negotiated parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// The export, as [`Exports::find`] described it.
    pub export: ExportInfo,
    /// The framing of requests and replies.
    pub style: ReplyStyle,
    /// Whether the client selected `base:allocation` for this export and may request block status.
    pub base_allocation: bool,
}

#[derive(Debug)]
enum State {
    ClientFlags,
    Header,
    Payload {
        option: u32,
        length: u32,
    },
    Skip {
        option: u32,
        left: u32,
        error: u32,
    },
    /// `STARTTLS` was acknowledged.
    Encrypting,
    Finished,
}

/// The server's side of the handshake, as a pure state machine.
#[derive(Debug)]
pub struct ServerHandshake {
    state: State,
    piece: Collector,
    no_zeroes: bool,
    style: ReplyStyle,
    /// The last export name for which `base:allocation` was selected.
    selected_for: Option<String>,
    options: u32,
    shutting_down: bool,
    encryption: Encryption,
    is_encrypted: bool,
}

impl ServerHandshake {
    /// Starts a connection: appends the greeting to `output`.
    pub fn start(output: &mut Vec<u8>) -> ServerHandshake {
        output.extend_from_slice(&c::INIT_MAGIC.to_be_bytes());
        output.extend_from_slice(&c::OPTION_MAGIC.to_be_bytes());
        output.extend_from_slice(&(c::FLAG_FIXED_NEWSTYLE | c::FLAG_NO_ZEROES).to_be_bytes());
        ServerHandshake {
            state: State::ClientFlags,
            piece: Collector::default(),
            no_zeroes: false,
            style: ReplyStyle::Simple,
            selected_for: None,
            options: 0,
            shutting_down: false,
            encryption: Encryption::Absent,
            is_encrypted: false,
        }
    }

    /// Sets the TLS support.
    pub fn set_encryption(&mut self, encryption: Encryption) {
        self.encryption = encryption;
    }

    /// TLS has started, after [`ServerEvent::Encrypt`]. Earlier negotiation is discarded: an
    /// attacker on the network may have sent it.
    pub fn encrypted(&mut self) {
        self.state = State::Header;
        self.piece.clear();
        self.is_encrypted = true;
        self.style = ReplyStyle::Simple;
        self.selected_for = None;
    }

    /// Further options other than `ABORT` fail with `ERR_SHUTDOWN`.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Processes bytes from the client and appends the reply to `output`.
    ///
    /// Stops after each option: send the output and call again with the rest of the input. An event
    /// or an error ends the handshake; after an error, send the output, then close the connection.
    pub fn receive(
        &mut self,
        input: &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Result<Step<ServerEvent>> {
        let mut rest = input;
        let outcome = self.advance(&mut rest, exports, output);
        match outcome {
            Ok(None) => {}
            Ok(Some(ServerEvent::Encrypt)) => self.state = State::Encrypting,
            _ => self.state = State::Finished,
        }
        outcome.map(|event| Step { consumed: input.len() - rest.len(), event })
    }

    fn advance(
        &mut self,
        rest: &mut &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Result<Option<ServerEvent>> {
        loop {
            match self.state {
                State::ClientFlags => {
                    if !self.piece.fill(4, rest) {
                        return Ok(None);
                    }
                    self.client_flags()?;
                }
                State::Header => {
                    if !self.piece.fill(c::OPTION_HEADER_BYTES, rest) {
                        return Ok(None);
                    }
                    self.header()?;
                }
                State::Payload { option, length } => {
                    if !self.piece.fill(length as usize, rest) {
                        return Ok(None);
                    }
                    self.state = State::Header;
                    let piece = std::mem::take(&mut self.piece);
                    return self.option(option, piece.bytes(), exports, output);
                }
                State::Skip { option, left, error } => {
                    let count = rest.len().min(left as usize);
                    *rest = &rest[count..];
                    // `count` is at most `left`, so the cast is lossless.
                    let left = left - count as u32;
                    self.state = State::Skip { option, left, error };
                    if left > 0 {
                        return Ok(None);
                    }
                    self.state = State::Header;
                    refuse(output, option, error, "the option is too long");
                    return Ok(None);
                }
                State::Encrypting => {
                    return Err(Error::new(ErrorKind::Usage, "this handshake waits for TLS"));
                }
                State::Finished => {
                    return Err(Error::new(ErrorKind::Usage, "this handshake is already over"));
                }
            }
        }
    }

    fn client_flags(&mut self) -> Result<()> {
        let flags = Reader::new(self.piece.bytes()).u32().unwrap_or(0);
        self.piece.clear();
        let unknown = flags & !(c::FLAG_C_FIXED_NEWSTYLE | c::FLAG_C_NO_ZEROES);
        if unknown != 0 {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!("the client set handshake flags that don't exist: {unknown:#x}"),
            ));
        }
        self.no_zeroes = flags & c::FLAG_C_NO_ZEROES != 0;
        self.state = State::Header;
        Ok(())
    }

    fn header(&mut self) -> Result<()> {
        let mut reader = Reader::new(self.piece.bytes());
        let (magic, option, length) =
            (reader.u64().unwrap_or(0), reader.u32().unwrap_or(0), reader.u32().unwrap_or(0));
        self.piece.clear();
        if magic != c::OPTION_MAGIC {
            return Err(Error::new(
                ErrorKind::FramingLost,
                format!("an option has to begin with IHAVEOPT, this one begins with {magic:#018x}"),
            ));
        }
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return Err(Error::new(
                ErrorKind::TooBig,
                format!("the client sent more than {MAX_OPTIONS} options"),
            ));
        }
        self.state = if length <= MAX_OPTION_BYTES {
            State::Payload { option, length }
        } else if length <= MAX_SKIP_BYTES && option != c::OPT_EXPORT_NAME {
            let known = option_name(option) != "unknown option";
            let error = if known { c::REP_ERR_TOO_BIG } else { c::REP_ERR_UNSUP };
            State::Skip { option, left: length, error }
        } else {
            return Err(Error::new(
                ErrorKind::TooBig,
                format!("the client announced a {} of {length} bytes", option_name(option)),
            ));
        };
        Ok(())
    }

    /// Processes one complete option.
    fn option(
        &mut self,
        option: u32,
        payload: &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Result<Option<ServerEvent>> {
        if option == c::OPT_ABORT {
            put_reply(output, option, c::REP_ACK, &[]);
            return Ok(Some(ServerEvent::Abort));
        }
        let forced = self.encryption == Encryption::Required && !self.is_encrypted;
        if forced && option == c::OPT_EXPORT_NAME {
            return Err(Error::new(
                ErrorKind::TlsRequired,
                "the client asked for an export without TLS",
            ));
        }
        if option == c::OPT_EXPORT_NAME {
            return self.export_name(payload, exports, output).map(Some);
        }
        if self.shutting_down {
            refuse(output, option, c::REP_ERR_SHUTDOWN, "the server is shutting down");
            return Ok(None);
        }
        if forced && option != c::OPT_STARTTLS {
            refuse(output, option, c::REP_ERR_TLS_REQD, "this server requires TLS");
            return Ok(None);
        }
        match option {
            c::OPT_LIST => list(payload, exports, output),
            c::OPT_INFO | c::OPT_GO => return Ok(self.info(option, payload, exports, output)),
            c::OPT_STRUCTURED_REPLY | c::OPT_EXTENDED_HEADERS => {
                self.choose_style(option, payload, output)
            }
            c::OPT_LIST_META_CONTEXT | c::OPT_SET_META_CONTEXT => {
                self.meta_context(option, payload, exports, output);
            }
            c::OPT_STARTTLS => return Ok(self.start_tls(payload, output)),
            _ => refuse(output, option, c::REP_ERR_UNSUP, "unknown option"),
        }
        Ok(None)
    }

    fn start_tls(&mut self, payload: &[u8], output: &mut Vec<u8>) -> Option<ServerEvent> {
        let option = c::OPT_STARTTLS;
        if self.encryption == Encryption::Absent {
            refuse(output, option, c::REP_ERR_UNSUP, "this server has no TLS");
        } else if self.is_encrypted {
            refuse(output, option, c::REP_ERR_INVALID, "TLS is already in use");
        } else if !payload.is_empty() {
            refuse(output, option, c::REP_ERR_INVALID, "this option has no payload");
        } else {
            put_reply(output, option, c::REP_ACK, &[]);
            return Some(ServerEvent::Encrypt);
        }
        None
    }

    /// `EXPORT_NAME` has no error reply: each error closes the connection.
    fn export_name(
        &mut self,
        payload: &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Result<ServerEvent> {
        if self.shutting_down {
            return Err(Error::new(
                ErrorKind::ShuttingDown,
                "an export was asked for during shutdown",
            ));
        }
        if self.style == ReplyStyle::Extended {
            return Err(Error::new(
                ErrorKind::Protocol,
                "the client sent EXPORT_NAME, which extended headers forbid",
            ));
        }
        let name = string(payload).ok_or_else(|| {
            Error::new(ErrorKind::Protocol, "the client sent an export name that is no string")
        })?;
        let export = exports.find(name).ok_or_else(|| {
            Error::new(
                ErrorKind::UnknownExport,
                format!("the client asked for the unknown export {name:?}"),
            )
        })?;
        output.extend_from_slice(&export.size_bytes.to_be_bytes());
        output.extend_from_slice(&export.flags.to_wire(self.style).to_be_bytes());
        if !self.no_zeroes {
            output.extend_from_slice(&[0; c::EXPORT_NAME_ZEROES]);
        }
        Ok(self.enter(name, export))
    }

    fn info(
        &mut self,
        option: u32,
        payload: &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) -> Option<ServerEvent> {
        let Some(query) = InfoQuery::parse(payload) else {
            refuse(output, option, c::REP_ERR_INVALID, "malformed option");
            return None;
        };
        let Some(export) = exports.find(query.name) else {
            refuse(output, option, c::REP_ERR_UNKNOWN, "no such export");
            return None;
        };
        put_info(output, option, &query, &export, self.style);
        put_reply(output, option, c::REP_ACK, &[]);
        (option == c::OPT_GO).then(|| self.enter(query.name, export))
    }

    fn enter(&mut self, name: &str, export: ExportInfo) -> ServerEvent {
        let base_allocation = export.base_allocation && self.selected_for.as_deref() == Some(name);
        ServerEvent::Enter(Box::new(Negotiated { export, style: self.style, base_allocation }))
    }

    fn choose_style(&mut self, option: u32, payload: &[u8], output: &mut Vec<u8>) {
        let extended = self.style == ReplyStyle::Extended;
        if !payload.is_empty() {
            refuse(output, option, c::REP_ERR_INVALID, "this option has no payload");
        } else if option == c::OPT_STRUCTURED_REPLY && extended {
            refuse(
                output,
                option,
                c::REP_ERR_EXT_HEADER_REQD,
                "extended headers are already in use",
            );
        } else if option == c::OPT_EXTENDED_HEADERS && extended {
            refuse(output, option, c::REP_ERR_INVALID, "extended headers are already in use");
        } else {
            self.style = if option == c::OPT_EXTENDED_HEADERS {
                ReplyStyle::Extended
            } else {
                ReplyStyle::Structured
            };
            put_reply(output, option, c::REP_ACK, &[]);
        }
    }

    fn meta_context(
        &mut self,
        option: u32,
        payload: &[u8],
        exports: &dyn Exports,
        output: &mut Vec<u8>,
    ) {
        let set = option == c::OPT_SET_META_CONTEXT;
        if set {
            // The last selection is valid, even if it fails.
            self.selected_for = None;
        }
        if self.style == ReplyStyle::Simple {
            return refuse(
                output,
                option,
                c::REP_ERR_INVALID,
                "structured replies have to be chosen first",
            );
        }
        let Some(query) = MetaQuery::parse(payload) else {
            return refuse(output, option, c::REP_ERR_INVALID, "malformed option");
        };
        let Some(export) = exports.find(query.name) else {
            return refuse(output, option, c::REP_ERR_UNKNOWN, "no such export");
        };
        let asked =
            if set { query.allocation } else { query.allocation || query.wildcard || query.empty };
        if asked && export.base_allocation {
            // The ID in a reply to LIST is reserved and should be zero.
            let id = if set { BASE_ALLOCATION_ID } else { 0 };
            put_reply(
                output,
                option,
                c::REP_META_CONTEXT,
                &[&id.to_be_bytes(), c::BASE_ALLOCATION.as_bytes()],
            );
            if set {
                self.selected_for = Some(query.name.to_owned());
            }
        }
        put_reply(output, option, c::REP_ACK, &[]);
    }
}

fn list(payload: &[u8], exports: &dyn Exports, output: &mut Vec<u8>) {
    if !payload.is_empty() {
        return refuse(output, c::OPT_LIST, c::REP_ERR_INVALID, "this option has no payload");
    }
    for entry in exports.list() {
        let name = entry.name.as_bytes();
        put_reply(
            output,
            c::OPT_LIST,
            c::REP_SERVER,
            &[&wire_length(name.len()), name, entry.description.as_bytes()],
        );
    }
    put_reply(output, c::OPT_LIST, c::REP_ACK, &[]);
}

fn refuse(output: &mut Vec<u8>, option: u32, error: u32, message: &str) {
    put_reply(output, option, error, &[message.as_bytes()]);
}
