//! What one drive says of one volume, whatever the format it says it in.

use super::section::{Arrangement, Section};
use std::fmt;
use units::{ByteCount, ByteOffset, ByteRange};

/// Whose metadata it is.
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

/// What tells an array, a volume or a drive from all others: a UUID, a GUID, a serial number.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Identity {
    /// As the tools of its format print it.
    pub text: String,
    /// As it is stored. Two are the same when these are.
    pub bytes: Vec<u8>,
}

/// What the metadata of one drive came to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Told {
    /// A record for each volume that the drive has to do with.
    pub records: Vec<Record>,
    /// What is odd: metadata that are damaged or contradict themselves. A sentence each, without the drive's name.
    pub notes: Vec<String>,
}

impl Told {
    /// Adds what another decoder found.
    pub fn extend(&mut self, other: Told) {
        self.records.extend(other.records);
        self.notes.extend(other.notes);
    }
}

/// What one drive says of one volume, and of its part in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Of the volume.
    pub volume: VolumeRecord,
    /// Of this drive.
    pub member: MemberRecord,
}

/// What a record says of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRecord {
    /// In which format.
    pub format: Format,
    /// The format's version, such as `1.2`.
    pub version: String,
    /// The volume's identity: records with the same format and identity are about the same volume.
    pub identity: Identity,
    /// The identity of the set of drives that the volume is on, where the format has such sets (DDF, IMSM).
    pub container: Option<Identity>,
    /// What its owner called it; may be empty.
    pub name: String,
    /// The level as its format calls it, such as `raid5`, `raid10`, `linear`.
    pub level: String,
    /// The layout as its format calls it, such as `left-symmetric`, `near 2`; empty where there is no choice.
    pub layout: String,
    /// Where its bytes are.
    pub arrangement: Arrangement,
    /// The strip; `None` where the level has none.
    pub strip: Option<ByteCount>,
    /// The volume's size, where it is recorded; otherwise it follows from the members.
    pub capacity: Option<ByteCount>,
    /// How much of every member is used, where it is recorded; otherwise all that each gives.
    pub member_size: Option<ByteCount>,
    /// How many members it has.
    pub slots: u16,
    /// The drives that the record knows.
    pub entries: Vec<Entry>,
    /// How often the metadata changed: the events of Linux md, a sequence or generation number. Of records about
    /// one volume the one with the highest number is the newest.
    pub sequence: u64,
    /// How far a current member's own number may be behind the newest: 1 where an update may have been cut off
    /// between drives.
    pub may_lag: u64,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: Option<u64>,
    /// When the metadata last changed, in seconds since 1970.
    pub updated_unix_s: Option<u64>,
    /// Whether parity and copies are known to agree with the data.
    pub consistency: Consistency,
    /// What else is at work on the volume.
    pub features: Vec<Feature>,
}

impl VolumeRecord {
    /// The reshape that it says was interrupted.
    pub fn reshape(&self) -> Option<&Reshape> {
        self.features.iter().find_map(|feature| match feature {
            Feature::Reshape(reshape) => Some(reshape),
            _ => None,
        })
    }
}

/// A drive that a record knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// How the format names the drive in this volume: the number of the device, a serial number, a reference.
    /// A drive says of itself which it is ([`MemberRecord::key`]).
    pub key: String,
    /// What it is to the volume.
    pub role: Role,
}

/// What a drive is to a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The member of that slot, in use.
    Active(u16),
    /// It is being made the member of that slot, and is not current all over.
    Rebuilding(u16),
    /// It stands by.
    Spare,
    /// It failed or was taken out.
    Failed,
    /// It holds the volume's write journal.
    Journal,
    /// A member, or a spare: the format knows its drives by serial number, and this one's is not known.
    Unknown,
}

/// What a record says of the drive that it is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberRecord {
    /// How the volume's entries name this drive.
    pub key: String,
    /// The drive's own identity: where two drives have the same one, one is a copy of the other.
    pub device: Option<Identity>,
    /// What it takes itself for.
    pub role: Role,
    /// Where on the drive the volume's data are.
    pub data: ByteRange,
    /// Where its rebuild has arrived: only so many bytes of its data are current. `None`: all.
    pub rebuilt: Option<ByteCount>,
    /// What of the drive holds nothing valid by its own list of bad blocks, in ascending order.
    pub bad: Vec<ByteRange>,
    /// Why its data cannot be used, though it may take itself for a member: a clause that follows its name.
    pub excluded: Option<String>,
}

/// Whether parity and copies are known to agree with the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consistency {
    /// It was stopped in order.
    Clean,
    /// It was being written, or was never made to agree: parity and copies may be wrong.
    Dirty,
    /// They may be wrong from this place of each member on.
    DirtyFrom(ByteCount),
}

/// What is at work on a volume besides its level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Feature {
    /// A map of what was being written (a write-intent bitmap).
    Bitmap,
    /// A log of partial parity on the members.
    Ppl,
    /// A write journal on a drive of its own: the newest writes may be there and nowhere else.
    Journal,
    /// A list of bad blocks.
    BadBlocks,
    /// A reshape that was interrupted.
    Reshape(Reshape),
    /// A drive is being replaced while it still works.
    Replacement,
    /// Several machines use it at once.
    Clustered,
    /// Something that is not known here, so that nothing about the volume is sure: what it is.
    Unknown(String),
}

/// A reshape that was interrupted: part of the volume is laid out in another way than the rest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reshape {
    /// How far it has come, in bytes of the volume.
    pub position: ByteOffset,
    /// Whether it goes from the volume's end to its beginning.
    pub backwards: bool,
    /// What it was: level, layout, strip, members.
    pub from: String,
    /// What it is to be.
    pub to: String,
    /// By how many bytes the data move on each member; 0 where they do not, or where it is not recorded.
    pub shift: i64,
    /// Both layouts; `None` where one of them cannot be expressed.
    pub layouts: Option<Layouts>,
}

/// The two layouts of a volume on its way, each over all of the volume's bytes that both have room for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layouts {
    /// As it was.
    pub was: Section,
    /// As it is to be.
    pub is: Section,
    /// What was being moved may lie over what it was read from, so that the members alone need not have all of it.
    pub is_critical: bool,
}

impl Reshape {
    /// Whether it has not come as far as the same one, as another record tells of that.
    pub(super) fn is_behind(&self, other: &Reshape) -> bool {
        match self.backwards {
            true => self.position > other.position,
            false => self.position < other.position,
        }
    }

    /// Whether anything has moved by it, or may have: as far as its layouts are known here.
    pub(super) fn has_begun(&self) -> bool {
        let Some(layouts) = &self.layouts else { return false };
        // Where strips are not as long, both layouts may end a row later than Linux begins.
        let rows =
            [&layouts.was, &layouts.is].map(|section| section.geometry().map(|all| all.stripe_bytes().0));
        let row = rows.into_iter().flatten().max().unwrap_or(0);
        match self.backwards {
            true => self.position.0.saturating_add(row) < layouts.was.within.end().0,
            false => self.position.0 > 0,
        }
    }

    /// What records of one reshape agree upon, wherever it has come to.
    pub(super) fn way(&self) -> (i64, bool, &str, &str) {
        (self.shift, self.backwards, &self.from, &self.to)
    }
}

impl Layouts {
    /// Where the volume's bytes are but for those between two places, of which the reshape has come to the first; to the second if it
    /// goes backwards.
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
    /// A few words for a table.
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
