//! The handshake: from the first byte to the selection of an export.

mod client;
mod export;
mod options;
mod server;

pub use client::{ClientHandshake, ClientOptions, Connected};
pub use export::{ExportEntry, ExportInfo, Exports};
pub(crate) use server::BASE_ALLOCATION_ID;
pub use server::{Encryption, MAX_OPTIONS, Negotiated, ServerEvent, ServerHandshake};

/// The result of processing input.
///
/// A call stops after each complete message, so that the output is bounded: call again with
/// `input[consumed..]` while that is not empty and no event ended the handshake.
#[derive(Debug)]
pub struct Step<E> {
    /// The number of processed bytes.
    pub consumed: usize,
    /// The event, if any.
    pub event: Option<E>,
}

/// The longest option (or reply) that is processed; longer ones are skipped.
pub(crate) const MAX_OPTION_BYTES: u32 = 64 << 10;
