//! One drive's description of one volume, independent of the format.

use super::section::{Arrangement, Section};
use std::fmt;
use units::{ByteCount, ByteOffset, ByteRange};

/// The format of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Format {
    /// SoftROC's label.
    SoftRoc,
    /// SNIA Common RAID Disk Data Format.
    Ddf,
    /// Linux md, with a superblock of its own.
    LinuxMd,
    /// Intel Matrix Storage Manager (RST, VROC).
    Imsm,
}

impl Format {
    /// Its name in reports and JSON, such as `linux-md`.
    pub fn name(self) -> &'static str {
        match self {
            Format::SoftRoc => "softroc",
            Format::Ddf => "ddf",
            Format::LinuxMd => "linux-md",
            Format::Imsm => "imsm",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The unique identity of an array, a volume or a drive: a UUID, a GUID, a serial number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Identity {
    /// In the form that the tools of its format print.
    pub text: String,
    /// As stored; identities are compared by these bytes.
    pub bytes: Vec<u8>,
}

/// The result of decoding one drive.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Told {
    /// A record for each volume that the drive belongs to.
    pub records: Vec<Record>,
    /// Notes on metadata that are damaged or contradict themselves: a sentence each, without the
    /// drive's name.
    pub notes: Vec<String>,
}

impl Told {
    /// Adds the result of another decoder.
    pub fn extend(&mut self, other: Told) {
        self.records.extend(other.records);
        self.notes.extend(other.notes);
    }
}

/// One drive's description of one volume, and of its part in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Of the volume.
    pub volume: VolumeRecord,
    /// Of this drive.
    pub member: MemberRecord,
}

/// A record's description of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRecord {
    /// Its format.
    pub format: Format,
    /// The format's version, such as `1.2`.
    pub version: String,
    /// The volume's identity: records with the same format and identity belong to the same volume.
    pub identity: Identity,
    /// The identity of the set of drives that the volume is on, where the format has such sets
    /// (DDF, IMSM).
    pub container: Option<Identity>,
    /// Its name; may be empty.
    pub name: String,
    /// The level in the terms of its format, such as `raid5`, `raid10`, `linear`.
    pub level: String,
    /// The layout in the terms of its format, such as `left-symmetric`, `near 2`; empty where the
    /// level has only one.
    pub layout: String,
    /// The layout of its bytes.
    pub arrangement: Arrangement,
    /// The strip; `None` where the level has none.
    pub strip: Option<ByteCount>,
    /// The volume's size, where it is recorded; otherwise it follows from the members.
    pub capacity: Option<ByteCount>,
    /// The bytes used on every member, where recorded; otherwise all that each contributes.
    pub member_size: Option<ByteCount>,
    /// The number of members.
    pub slots: u16,
    /// The drives that the record lists.
    pub entries: Vec<Entry>,
    /// The number of changes of the metadata: the events of Linux md, a sequence or generation
    /// number. Of the records of one volume, the one with the highest number is the newest.
    pub sequence: u64,
    /// How far a current member's own number may be behind the newest: 1 where an update may have
    /// been interrupted between drives.
    pub may_lag: u64,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: Option<u64>,
    /// When the metadata last changed, in seconds since 1970.
    pub updated_unix_s: Option<u64>,
    /// Whether parity and copies are known to agree with the data.
    pub consistency: Consistency,
    /// Features besides its level.
    pub features: Vec<Feature>,
}

impl VolumeRecord {
    /// The interrupted reshape that it records.
    pub fn reshape(&self) -> Option<&Reshape> {
        self.features.iter().find_map(|feature| match feature {
            Feature::Reshape(reshape) => Some(reshape),
            _ => None,
        })
    }
}

/// A drive that a record lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The format's key of the drive in this volume: the number of the device, a serial number, a
    /// reference. A drive records its own key as well ([`MemberRecord::key`]).
    pub key: String,
    /// Its role.
    pub role: Role,
}

/// The role of a drive in a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The member of that slot, in use.
    Active(u16),
    /// It is being rebuilt for that slot, and not completely current.
    Rebuilding(u16),
    /// A hot spare.
    Spare,
    /// It failed or was removed.
    Failed,
    /// It holds the volume's write journal.
    Journal,
    /// A member or a spare: the format identifies drives by serial number, and this one's is
    /// unknown.
    Unknown,
}

/// A record's description of its own drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberRecord {
    /// The key of this drive in the volume's entries.
    pub key: String,
    /// The drive's own identity: where two drives have the same one, one is a copy of the other.
    pub device: Option<Identity>,
    /// Its role by its own record.
    pub role: Role,
    /// The range of the volume's data on the drive.
    pub data: ByteRange,
    /// The progress of its rebuild: only this many bytes of its data are current. `None`: all.
    pub rebuilt: Option<ByteCount>,
    /// The ranges without valid data by its own list of bad blocks, in ascending order.
    pub bad: Vec<ByteRange>,
    /// The reason why its data are unusable, whatever its role: a clause that follows its name.
    pub excluded: Option<String>,
}

/// Whether parity and copies are known to match the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consistency {
    /// The volume was shut down cleanly.
    Clean,
    /// Writes were in progress, or it was never initialised: parity and copies may be wrong.
    Dirty,
    /// Parity and copies may be wrong from this offset of each member on.
    DirtyFrom(ByteCount),
}

/// A feature of a volume besides its level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Feature {
    /// A write-intent bitmap.
    Bitmap,
    /// A log of partial parity on the members.
    Ppl,
    /// A write journal on a separate drive: the newest writes may be there alone.
    Journal,
    /// A list of bad blocks.
    BadBlocks,
    /// A reshape that was interrupted.
    Reshape(Reshape),
    /// A drive is being replaced while it still works.
    Replacement,
    /// Several computers use it at once.
    Clustered,
    /// An unsupported feature: its description. Nothing about the volume is certain then.
    Unknown(String),
}

/// An interrupted reshape: a part of the volume has another layout than the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reshape {
    /// Its progress, in bytes of the volume.
    pub position: ByteOffset,
    /// Whether it goes from the volume's end to its beginning.
    pub backwards: bool,
    /// The old level, layout, strip and members.
    pub from: String,
    /// The new ones.
    pub to: String,
    /// The distance in bytes that the data move on each member; 0 where they do not, or where it is
    /// not recorded.
    pub shift: i64,
    /// Both layouts; `None` where one of them is unsupported.
    pub layouts: Option<Layouts>,
}

/// The two layouts of a reshaping volume, each over all of the volume's bytes that both contain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layouts {
    /// The old layout.
    pub was: Section,
    /// The new layout.
    pub is: Section,
    /// Whether the latest writes may overlap their source, so that the members alone may lack a
    /// part.
    pub is_critical: bool,
}

impl Reshape {
    /// Whether its progress is less than that of the same reshape in another record.
    pub(super) fn is_behind(&self, other: &Reshape) -> bool {
        match self.backwards {
            true => self.position > other.position,
            false => self.position < other.position,
        }
    }

    /// Whether it has moved data, or may have, as far as its layouts are supported.
    pub(super) fn has_begun(&self) -> bool {
        let Some(layouts) = &self.layouts else { return false };
        // With strips of different lengths, both layouts may end a row later than Linux begins.
        let rows = [&layouts.was, &layouts.is]
            .map(|section| section.geometry().map(|all| all.stripe_bytes().0));
        let row = rows.into_iter().flatten().max().unwrap_or(0);
        match self.backwards {
            true => self.position.0.saturating_add(row) < layouts.was.within.end().0,
            false => self.position.0 > 0,
        }
    }

    /// The parameters that the records of one reshape have in common, at any position.
    pub(super) fn way(&self) -> (i64, bool, &str, &str) {
        (self.shift, self.backwards, &self.from, &self.to)
    }
}

impl Layouts {
    /// The sections of the volume outside `between`, whose start is the reshape's position, or its
    /// end in a backward reshape.
    pub(super) fn around(&self, between: ByteRange, backwards: bool) -> Vec<Section> {
        let end = self.was.within.end();
        let (first, second) = if backwards { (&self.was, &self.is) } else { (&self.is, &self.was) };
        let (from, to) = (between.start.min(end), between.end().min(end));
        let piece = |of: &Section, within| Section { within, ..of.clone() };
        let pieces = [
            piece(first, ByteRange::from_to(ByteOffset(0), from)),
            piece(second, ByteRange::from_to(to, end)),
        ];
        pieces.into_iter().filter(|piece| !piece.within.is_empty()).collect()
    }
}

impl fmt::Display for Feature {
    /// A short text for a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Feature::Bitmap => f.write_str("bitmap"),
            Feature::Ppl => f.write_str("partial parity log"),
            Feature::Journal => f.write_str("write journal"),
            Feature::BadBlocks => f.write_str("bad blocks"),
            Feature::Reshape(reshape) => {
                let at = ByteCount(reshape.position.0);
                write!(f, "reshape from {} to {}, at {at}", reshape.from, reshape.to)
            }
            Feature::Replacement => f.write_str("replacement"),
            Feature::Clustered => f.write_str("clustered"),
            Feature::Unknown(what) => write!(f, "unknown: {what}"),
        }
    }
}
