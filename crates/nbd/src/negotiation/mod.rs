//! The handshake: from the first byte to the choice of an export.

mod client;
mod export;
mod options;
mod server;

pub use client::{ClientHandshake, ClientOptions, Connected};
pub use export::{ExportEntry, ExportInfo, Exports};
pub(crate) use server::BASE_ALLOCATION_ID;
pub use server::{Encryption, MAX_OPTIONS, Negotiated, ServerEvent, ServerHandshake};

/// What a call with fresh input did.
///
/// A call stops after each complete message, so that output stays bounded however much input there is:
/// call again with `input[consumed..]` while that is not empty and no event ended the handshake.
#[derive(Debug)]
pub struct Step<E> {
    /// How many bytes from the front of the input are dealt with.
    pub consumed: usize,
    /// What the caller has to know, if anything.
    pub event: Option<E>,
}

/// Longest option (or reply to one) that is looked at; longer ones are skipped.
pub(crate) const MAX_OPTION_BYTES: u32 = 64 << 10;
