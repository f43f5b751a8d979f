//! Virtual disk records: the volumes of a group.
//!
//! ```text
//!  0 24 GUID, all ones: free     32  1 state: bits 0-2 condition, 3 morphing, 4 not consistent
//! 24  2 number                   33  1 bits 0-1 initialised, 6-7 access by hosts
//! 28  4 type                     34  1 failures left while partially optimal (2.0)
//!                                35 13 0xFF    48 16 name
//! ```

use super::fields::{Fields, Writer};
use super::names::{Guid, Name};

/// The condition of a volume, as its controller wrote it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Condition {
    /// All its members are online.
    Optimal,
    /// Members are missing or failed, and one more loss makes it fail.
    Degraded,
    /// It was deleted.
    Deleted,
    /// Its members are missing.
    Missing,
    /// Its level does not survive the loss.
    Failed,
    /// Members are missing or failed, and it survives at least one more.
    PartiallyOptimal,
    /// It was taken offline (revision 2.0).
    Offline,
    /// Value 7, which the standard does not define.
    Unknown,
}

/// The state of a volume: its condition, and two bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeState(pub u8);

impl VolumeState {
    /// It is being reshaped.
    pub const MORPHING: u8 = 1 << 3;
    /// Parity or copies may not match the data: writes were in progress.
    pub const NOT_CONSISTENT: u8 = 1 << 4;

    /// A state of that condition, neither morphing nor inconsistent.
    pub fn of(condition: Condition) -> VolumeState {
        VolumeState(match condition {
            Condition::Optimal => 0,
            Condition::Degraded => 1,
            Condition::Deleted => 2,
            Condition::Missing => 3,
            Condition::Failed => 4,
            Condition::PartiallyOptimal => 5,
            Condition::Offline => 6,
            Condition::Unknown => 7,
        })
    }

    /// Its condition.
    pub fn condition(self) -> Condition {
        match self.0 & 7 {
            0 => Condition::Optimal,
            1 => Condition::Degraded,
            2 => Condition::Deleted,
            3 => Condition::Missing,
            4 => Condition::Failed,
            5 => Condition::PartiallyOptimal,
            6 => Condition::Offline,
            _ => Condition::Unknown,
        }
    }

    /// Whether it is being reshaped.
    pub fn is_morphing(self) -> bool {
        self.0 & VolumeState::MORPHING != 0
    }

    /// Whether parity or copies may not match the data.
    pub fn is_inconsistent(self) -> bool {
        self.0 & VolumeState::NOT_CONSISTENT != 0
    }
}

/// The state of the initialisation of a volume, and the access of hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeAccess(pub u8);

impl VolumeAccess {
    /// Fully initialised; hosts read and write.
    pub const READY: VolumeAccess = VolumeAccess(2);
    /// Not initialised; hosts read and write.
    pub const NOT_INITIALISED: VolumeAccess = VolumeAccess(0);

    /// Whether its parity or copies have been initialised.
    pub fn is_initialised(self) -> bool {
        self.0 & 3 == 2
    }

    /// Whether hosts may write.
    pub fn is_writable(self) -> bool {
        self.0 >> 6 == 0
    }
}

/// One virtual disk of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRecord {
    /// Its identity.
    pub guid: Guid,
    /// Its number, such as that of a LUN.
    pub number: u16,
    /// Bits 31 to 16: the owner; 0 shared, 1 its drives are bound together, 2 the name is Unicode,
    /// 3 the owner is valid. Linux md puts other values there, so it is kept unchanged.
    pub kind: u32,
    /// Its state.
    pub state: VolumeState,
    /// Its initialisation and access.
    pub access: VolumeAccess,
    /// The number of drives that it can still lose while partially optimal (revision 2.0; otherwise
    /// all ones).
    pub failures_left: u8,
    /// Its name.
    pub name: Name,
}

impl VolumeRecord {
    pub(super) fn decode(fields: Fields) -> Option<VolumeRecord> {
        let guid = Guid(fields.array(0));
        (!guid.is_unused()).then(|| VolumeRecord {
            guid,
            number: fields.u16(24),
            kind: fields.u32(28),
            state: VolumeState(fields.u8(32)),
            access: VolumeAccess(fields.u8(33)),
            failures_left: fields.u8(34),
            name: Name(fields.array(48)),
        })
    }

    pub(super) fn encode(&self, at: usize, section: &mut Writer) {
        section.put(at, &self.guid.0);
        section.u16(at + 24, self.number);
        section.u32(at + 28, self.kind);
        section.u8(at + 32, self.state.0);
        section.u8(at + 33, self.access.0);
        section.u8(at + 34, self.failures_left);
        section.put(at + 48, &self.name.0);
    }
}
