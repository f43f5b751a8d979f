//! The NBD protocol without sockets: bytes in, values out, for servers and clients.
//!
//! This crate does no I/O, does not wait and uses no clock. The caller passes received bytes in any
//! fragments, sends the returned bytes, and processes the events. Memory is bounded, and no input
//! causes a panic.
//!
//! | phase | server | client |
//! | --- | --- | --- |
//! | handshake | [`ServerHandshake`], which looks exports up through [`Exports`] | [`ClientHandshake`] |
//! | outcome | [`Negotiated`] | [`Connected`] |
//! | requests | [`RequestStream`] checks them: [`Request`], [`Rejected`] | [`ClientStream::begin`] |
//! | replies | [`Replies`] and [`Chunks`] create headers for data | [`ClientStream::receive`] |
//! | addresses | | [`NbdUri`] |
//!
//! Each `receive` returns a [`Step`]: the length of the processed input, and an event. Payloads are
//! not copied: the event states the destination of the next N bytes. The caller takes them from its
//! buffer, or receives them directly into their destination, and reports their number.
//!
//! Supported: fixed newstyle with and without trailing zeroes; `EXPORT_NAME`, `ABORT`, `LIST`,
//! `INFO`, `GO`, `STRUCTURED_REPLY`, `LIST_META_CONTEXT`, `SET_META_CONTEXT`, `EXTENDED_HEADERS`;
//! all commands; simple, structured and extended replies; `base:allocation`. The client does not
//! support TLS; the server leaves it to the caller. A server never sends `ERR_BLOCK_SIZE_REQD`:
//! clients need not request block sizes, and requests that violate them fail with `EINVAL`.
//!
//! # A server
//!
//! [`memory::MemoryServer`] is a complete one. The handshake ends with [`ServerEvent::Enter`]:
//!
//! ```
//! use nbd::{BlockSizes, ExportEntry, ExportFlags, ExportInfo, Exports};
//! use nbd::{ServerEvent, ServerHandshake};
//!
//! struct One;
//! impl Exports for One {
//!     fn list(&self) -> Vec<ExportEntry> {
//!         vec![ExportEntry { name: "disk".into(), description: String::new() }]
//!     }
//!     fn find(&self, name: &str) -> Option<ExportInfo> {
//!         (name == "disk" || name.is_empty()).then(|| ExportInfo {
//!             name: "disk".into(),
//!             description: String::new(),
//!             size_bytes: 1 << 30,
//!             flags: ExportFlags { flush: true, fua: true, ..ExportFlags::default() },
//!             block_sizes: BlockSizes::DEFAULT,
//!             base_allocation: true,
//!         })
//!     }
//! }
//!
//! let mut output = Vec::new(); // bytes to send; the greeting to begin with
//! let mut handshake = ServerHandshake::start(&mut output);
//! // What arrived: the client's flags, and EXPORT_NAME with an empty name.
//! let input = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";
//! let mut at = 0;
//! let negotiated = loop {
//!     // On an error: send output, close.
//!     let step = handshake.receive(&input[at..], &One, &mut output)?;
//!     at += step.consumed;
//!     // ... send output here, and clear it ...
//!     match step.event {
//!         Some(ServerEvent::Enter(negotiated)) => break negotiated,
//!         Some(ServerEvent::Abort | ServerEvent::Encrypt) => return Ok(()), // TLS was not offered
//!         None if at < input.len() => continue,
//!         None => return Ok(()), // receive more
//!     }
//! };
//! assert_eq!(negotiated.export.name, "disk");
//! # Ok::<(), nbd::Error>(())
//! ```
//!
//! The server then parses requests, and replies with a small header before the data, without
//! copying:
//!
//! ```
//! use nbd::{Command, Replies, RequestEvent, RequestStream};
//! # use nbd::{BlockSizes, ExportFlags, ExportInfo, Negotiated, ReplyStyle};
//! # let export = ExportInfo {
//! #     name: "disk".into(), description: String::new(), size_bytes: 4096,
//! #     flags: ExportFlags::default(), block_sizes: BlockSizes::DEFAULT, base_allocation: false,
//! # };
//! # let negotiated = Negotiated { export, style: ReplyStyle::Structured, base_allocation: false };
//! # let disk = [7; 4096];
//! let replies = Replies::new(&negotiated);
//! let mut requests = RequestStream::new(negotiated);
//! let mut input: &[u8] = b"\x25\x60\x95\x13\0\0\0\0COOKIE!!\0\0\0\0\0\0\x01\0\0\0\0\x04";
//! let mut sent = Vec::new();
//! loop {
//!     let step = requests.receive(input)?; // on an error: complete requests, close
//!     input = &input[step.consumed..];
//!     match step.event {
//!         None => break, // receive more
//!         Some(RequestEvent::Request(request)) if request.command == Command::Read => {
//!             let (start, len) = (request.offset_bytes as usize, request.length_bytes as usize);
//!             // Or as an iovec: header, then data.
//!             sent.extend_from_slice(replies.read(&request).as_ref());
//!             sent.extend_from_slice(&disk[start..start + len]);
//!         }
//!         // A write: `request.payload_bytes()` of data follow, announced by `Payload` events.
//!         Some(RequestEvent::Request(request)) => {
//!             sent.extend_from_slice(replies.done(request.reply_to()).as_ref());
//!         }
//!         Some(RequestEvent::Payload { left_bytes }) => {
//!             let taken = input.len().min(left_bytes as usize);
//!             // ... put input[..taken] where it belongs; or receive `payload_left()` bytes
//!             // directly ...
//!             input = &input[taken..];
//!             requests.payload_taken(taken)?;
//!         }
//!         Some(RequestEvent::Rejected(rejected)) => {
//!             let error = replies.error(rejected.reply_to, rejected.errno, rejected.message);
//!             sent.extend_from_slice(error.as_ref());
//!         }
//!         Some(RequestEvent::Disconnect) => break,
//!     }
//! }
//! assert_eq!(sent.len(), 28 + 4);
//! # Ok::<(), nbd::Error>(())
//! ```
//!
//! # A client
//!
//! ```
//! use nbd::{ClientHandshake, ClientOptions, ClientStream, Command, CommandFlags, ReplyEvent};
//! # use nbd::{BlockSizes, ExportFlags, ExportInfo, memory::MemoryServer};
//! # let info = ExportInfo {
//! #     name: "disk".into(), description: String::new(), size_bytes: 0,
//! #     flags: ExportFlags::default(), block_sizes: BlockSizes::DEFAULT, base_allocation: true,
//! # };
//! # let mut received = Vec::new();
//! # let mut server = MemoryServer::start(info, vec![7; 4096], &mut received);
//! let mut handshake = ClientHandshake::new(ClientOptions::new("disk"))?;
//! let connected = loop {
//!     let mut output = Vec::new();
//!     // At the end of the stream: `end_of_stream`.
//!     let step = handshake.receive(&received, &mut output)?;
//!     received.drain(..step.consumed);
//! #   server.receive(&output, &mut received)?;
//!     // ... send output, receive more if all was consumed ...
//!     if let Some(connected) = step.event {
//!         break connected;
//!     }
//! };
//! assert_eq!(connected.size_bytes, 4096);
//!
//! // At most 16 requests at a time; `cookie.slot()` is below 16 and free to index a table of one's
//! // own.
//! let mut stream = ClientStream::new(connected, 16);
//! let (cookie, header) = stream.begin(Command::Read, CommandFlags::NONE, 512, 8)?;
//! # server.receive(header.as_ref(), &mut received)?;
//! // ... send the header, and a write's data behind it; receive ...
//! let mut data = [0; 8];
//! let mut input = received.as_slice();
//! loop {
//!     // On an error: the connection and all `stream.cookies()` are lost.
//!     let step = stream.receive(input)?;
//!     input = &input[step.consumed..];
//!     match step.event {
//!         None => break, // receive more; directly into place where `stream.payload()` says so
//!         Some(ReplyEvent::Payload(run)) => {
//!             let taken = input.len().min(run.left_bytes as usize);
//!             data[run.position_bytes as usize..][..taken].copy_from_slice(&input[..taken]);
//!             input = &input[taken..];
//!             stream.payload_taken(taken)?;
//!         }
//!         Some(ReplyEvent::Zeroes { position_bytes, length_bytes, .. }) => {
//!             data[position_bytes as usize..][..length_bytes as usize].fill(0);
//!         }
//!         Some(ReplyEvent::Extents { .. }) => {} // of a block status
//!         Some(ReplyEvent::Done { cookie: done, result }) => {
//!             assert_eq!((done, result), (cookie, Ok(())));
//!         }
//!     }
//! }
//! assert_eq!(data, [7; 8]);
//! # Ok::<(), nbd::Error>(())
//! ```
//!
//! # Cost
//!
//! A request needs one pass over 28 or 32 bytes on each side and no allocation: the server keeps a
//! buffer for one header, the client a table of fixed size. Only the handshake, block status and
//! error messages allocate.

mod client;
pub mod constants;
mod error;
pub mod fuzz;
pub mod memory;
mod negotiation;
mod reply;
mod request;
mod request_stream;
mod types;
mod uri;
mod wire;

pub use client::{ClientStream, Cookie, Failure, PayloadRun, ReplyEvent};
pub use error::{Error, ErrorKind, Result};
pub use negotiation::{
    ClientHandshake, ClientOptions, Connected, Encryption, ExportEntry, ExportInfo, Exports,
    MAX_OPTIONS, Negotiated, ServerEvent, ServerHandshake, Step,
};
pub use reply::{Chunks, ErrorReply, MAX_EXTENTS, Replies, ReplyHeader, ReplyTo};
pub use request::{EncodedRequest, Judged, Rejected, Request, RequestHeader, judge};
pub use request_stream::{RequestEvent, RequestStream};
pub use types::{BlockSizes, Command, CommandFlags, Errno, ExportFlags, Extent, ReplyStyle};
pub use uri::{NbdUri, Transport};
