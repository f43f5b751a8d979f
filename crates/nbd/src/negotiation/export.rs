//! The exports of a server, for the negotiation.

use crate::types::{BlockSizes, ExportFlags};

/// An entry of the list of exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportEntry {
    /// The export's name.
    pub name: String,
    /// A description for users; may be empty.
    pub description: String,
}

/// The description of an export for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// The canonical name: at most 4096 bytes, no NUL.
    pub name: String,
    /// A description for users; may be empty; at most 4096 bytes.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// The export's features.
    pub flags: ExportFlags,
    /// Block size constraints, which must be [valid](BlockSizes::is_valid): requests that violate
    /// them fail with `EINVAL`.
    pub block_sizes: BlockSizes,
    /// Whether to offer the metadata context `base:allocation`, for block status.
    pub base_allocation: bool,
}

/// The exports of a server.
pub trait Exports {
    /// The reply to `OPT_LIST`; hidden exports may be left out.
    fn list(&self) -> Vec<ExportEntry>;

    /// Finds an export. The empty name is the default export, if there is one. The result has the
    /// canonical name, which may differ.
    fn find(&self, name: &str) -> Option<ExportInfo>;
}
