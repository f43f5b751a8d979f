//! What a server offers, as the negotiation needs to know it.

use crate::types::{BlockSizes, ExportFlags};

/// One line of the list of exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportEntry {
    /// The export's name.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
}

/// All that a client learns of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// The canonical name: at most 4096 bytes, no NUL.
    pub name: String,
    /// For people; may be empty; at most 4096 bytes.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// What the export can do.
    pub flags: ExportFlags,
    /// Block size constraints, which must be [valid](BlockSizes::is_valid): requests that break them are
    /// rejected with `EINVAL`.
    pub block_sizes: BlockSizes,
    /// Offer the metadata context `base:allocation`, so that clients may ask for block status.
    pub base_allocation: bool,
}

/// The exports of a server, as the negotiation looks them up.
pub trait Exports {
    /// What `OPT_LIST` answers; an export may be left out of it and still be found.
    fn list(&self) -> Vec<ExportEntry>;

    /// The export of this name, as a client asks for it. The empty name asks for the default export, if the
    /// server has one. The answer carries the canonical name, which may differ.
    fn find(&self, name: &str) -> Option<ExportInfo>;
}
