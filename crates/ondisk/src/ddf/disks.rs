//! Physical disks: the records of all disks of a group, and each drive's own data, which identifies
//! its record.
//!
//! ```text
//! record, 64 bytes                      own data, 512 bytes
//!  0 24 GUID, all ones: free             0  4 0x33333333      4  4 CRC
//! 24  4 reference                        8 24 GUID           32  4 reference
//! 28  2 type   30 2 state               36  1 reference is forced
//! 32  8 blocks that volumes may use     37  1 GUID is forced
//! 40 18 path (text)                     38 32 vendor's
//! 58  2 block size (2.0)                70    0xFF
//! 60  4 0xFF
//! ```

use super::fields::{Fields, Writer};
use super::names::{DiskRef, Guid};

/// The roles of a physical disk: bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskKind(pub u16);

impl DiskKind {
    /// Its GUID is generated, because the drive has no serial number or shares it.
    pub const FORCED_GUID: u16 = 1;
    /// It holds a part of a volume.
    pub const MEMBER: u16 = 1 << 1;
    /// It is a global hot spare.
    pub const GLOBAL_SPARE: u16 = 1 << 2;
    /// It is a spare, as its spare assignment record specifies.
    pub const SPARE: u16 = 1 << 3;
    /// Its configuration came from another controller.
    pub const FOREIGN: u16 = 1 << 4;
    /// It is passed through to the host.
    pub const LEGACY: u16 = 1 << 5;

    /// Whether a bit is set.
    pub fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    /// Whether it is a spare of either kind.
    pub fn is_spare(self) -> bool {
        self.has(DiskKind::GLOBAL_SPARE | DiskKind::SPARE)
    }
}

/// The state of a physical disk: bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskState(pub u16);

impl DiskState {
    /// It is online.
    pub const ONLINE: u16 = 1;
    /// It failed; overrides the others.
    pub const FAILED: u16 = 1 << 1;
    /// It is being rebuilt.
    pub const REBUILDING: u16 = 1 << 2;
    /// It is being replaced, or is the replacement.
    pub const TRANSITION: u16 = 1 << 3;
    /// It predicts its failure.
    pub const PREDICTS_FAILURE: u16 = 1 << 4;
    /// It has blocks that could not be read, nor recovered.
    pub const UNRECOVERED_READS: u16 = 1 << 5;
    /// It was missing.
    pub const MISSING: u16 = 1 << 6;

    /// Whether a bit is set.
    pub fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    /// Whether its content is current: online, not failed, not missing, not being rebuilt.
    pub fn is_current(self) -> bool {
        let out = DiskState::FAILED | DiskState::REBUILDING | DiskState::MISSING;
        self.0 & (DiskState::ONLINE | out) == DiskState::ONLINE
    }
}

/// One physical disk of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskRecord {
    /// Its identity.
    pub guid: Guid,
    /// The reference by which volumes name it.
    pub reference: DiskRef,
    /// Its roles.
    pub kind: DiskKind,
    /// Its state.
    pub state: DiskState,
    /// Blocks that volumes may use, from 0 on.
    pub configured_blocks: u64,
    /// Its path, as text.
    pub path: [u8; 18],
    /// Its block size (revision 2.0; otherwise all ones).
    pub block_bytes: u16,
}

/// The length of an entry of the physical and of the virtual disk records, and of the head before
/// them.
pub(super) const ENTRY: usize = 64;

impl DiskRecord {
    pub(super) fn decode(fields: Fields) -> Option<DiskRecord> {
        let guid = Guid(fields.array(0));
        let reference = DiskRef(fields.u32(24));
        (!guid.is_unused() && reference != DiskRef::NONE).then(|| DiskRecord {
            guid,
            reference,
            kind: DiskKind(fields.u16(28)),
            state: DiskState(fields.u16(30)),
            configured_blocks: fields.u64(32),
            path: fields.array(40),
            block_bytes: fields.u16(58),
        })
    }

    pub(super) fn encode(&self, at: usize, section: &mut Writer) {
        section.put(at, &self.guid.0);
        section.u32(at + 24, self.reference.0);
        section.u16(at + 28, self.kind.0);
        section.u16(at + 30, self.state.0);
        section.u64(at + 32, self.configured_blocks);
        section.put(at + 40, &self.path);
        section.u16(at + 58, self.block_bytes);
    }
}

/// Identifies a drive among the group's physical disks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnDisk {
    /// The GUID of its record.
    pub guid: Guid,
    /// The reference of its record.
    pub reference: DiskRef,
    /// Whether the reference is generated rather than derived from the GUID.
    pub is_forced_reference: u8,
    /// Whether the GUID is generated rather than derived from the drive's serial number.
    pub is_forced_guid: u8,
    /// Vendor data.
    pub vendor: [u8; 32],
}

impl OwnDisk {
    pub(super) fn decode(fields: Fields) -> OwnDisk {
        OwnDisk {
            guid: Guid(fields.array(8)),
            reference: DiskRef(fields.u32(32)),
            is_forced_reference: fields.u8(36),
            is_forced_guid: fields.u8(37),
            vendor: fields.array(38),
        }
    }

    pub(super) fn encode(&self, section: &mut Writer) {
        section.put(8, &self.guid.0);
        section.u32(32, self.reference.0);
        section.u8(36, self.is_forced_reference);
        section.u8(37, self.is_forced_guid);
        section.put(38, &self.vendor);
    }
}
