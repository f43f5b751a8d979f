//! The NBD protocol without sockets: bytes in, values out.

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
    ClientHandshake, ClientOptions, Connected, ExportEntry, ExportInfo, Exports, MAX_OPTIONS, Negotiated,
    ServerEvent, ServerHandshake, Step,
};
pub use reply::{Chunks, ErrorReply, MAX_EXTENTS, MAX_MESSAGE_BYTES, Replies, ReplyHeader, ReplyTo};
pub use request::{EncodedRequest, Judged, Rejected, Request, RequestHeader, judge};
pub use request_stream::{RequestEvent, RequestStream};
pub use types::{BlockSizes, Command, CommandFlags, Errno, ExportFlags, Extent, ReplyStyle};
pub use uri::{NbdUri, Transport};
