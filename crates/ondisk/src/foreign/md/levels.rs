//! Converts Linux md's numbers of levels and layouts to arrangements.

use crate::foreign::section::{Arrangement, ZoneRule};
use layout::{Level, MirrorArrangement, ParityArrangement, Shape};
use units::DriveCount;

/// A level and a layout as text, and as an arrangement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Described {
    pub(super) level: String,
    pub(super) layout: String,
    pub(super) arrangement: Arrangement,
    /// Whether it has copies or parity that could differ from the data.
    pub(super) is_redundant: bool,
}

impl Described {
    fn new(level: &str, layout: impl Into<String>, arrangement: Arrangement) -> Described {
        let is_redundant = match &arrangement {
            Arrangement::Shape(shape) => shape.level.is_redundant(),
            Arrangement::Zones(_) | Arrangement::Linear => false,
            Arrangement::Sections(_) | Arrangement::Other(_) => true,
        };
        Described { level: level.into(), layout: layout.into(), arrangement, is_redundant }
    }
}

/// Describes a level and layout on `members` members. For RAID 0 the layout is `None` where it is
/// not recorded.
pub(super) fn describe(level: i32, layout: Option<u32>, members: u16) -> Described {
    let number = layout.unwrap_or(0);
    match level {
        -1 => Described::new("linear", "", Arrangement::Linear),
        0 => raid0(layout),
        1 => Described::new("raid1", "", mirror(members)),
        4 => parity("raid4", Level::Raid4, ParityArrangement::ParityLast, "", members),
        5 => match raid5_layout(number) {
            Some((arrangement, name)) => parity("raid5", Level::Raid5, arrangement, name, members),
            None => unknown_layout("raid5", number),
        },
        6 => match raid6_layout(number) {
            Some((arrangement, name)) => parity("raid6", Level::Raid6, arrangement, name, members),
            None => unknown_layout("raid6", number),
        },
        10 => raid10(number, members),
        -4 => other("multipath", "it is a multipath device, not an array; use the drive itself"),
        -5 => other("faulty", "it simulates faults of one drive for tests; use the drive itself"),
        _ => other(&format!("level {level}"), "its level is not supported"),
    }
}

fn other(level: &str, why: &str) -> Described {
    Described::new(level, "", Arrangement::Other(why.into()))
}

fn unknown_layout(level: &str, number: u32) -> Described {
    let why = format!("layout {number:#x} of {level} is not supported");
    Described::new(level, format!("{number:#x}"), Arrangement::Other(why))
}

fn raid0(layout: Option<u32>) -> Described {
    let (name, rule) = match layout {
        Some(1) => ("original", ZoneRule::Original),
        Some(2) => ("alternate", ZoneRule::Alternate),
        Some(number) => return unknown_layout("raid0", number),
        None => ("", ZoneRule::Unrecorded),
    };
    Described::new("raid0", name, Arrangement::Zones(rule))
}

fn mirror(members: u16) -> Arrangement {
    let level = if members == 1 { Level::Jbod } else { Level::Raid1 };
    checked(Shape::new(level, DriveCount(members)))
}

fn checked(shape: Shape) -> Arrangement {
    match shape.check() {
        Ok(()) => Arrangement::Shape(shape),
        Err(error) => Arrangement::Other(error.context),
    }
}

fn parity(
    title: &str,
    level: Level,
    arrangement: ParityArrangement,
    name: &str,
    members: u16,
) -> Described {
    // On two drives, parity of one data strip equals the strip: a mirror.
    if members == 2 && level != Level::Raid6 {
        return Described::new(title, name, mirror(2));
    }
    let shape = Shape { parity: Some(arrangement), ..Shape::new(level, DriveCount(members)) };
    Described::new(title, name, checked(shape))
}

fn raid5_layout(number: u32) -> Option<(ParityArrangement, &'static str)> {
    let arrangement = match number {
        0 => ParityArrangement::LeftAsymmetric,
        1 => ParityArrangement::RightAsymmetric,
        2 => ParityArrangement::LeftSymmetric,
        3 => ParityArrangement::RightSymmetric,
        4 => ParityArrangement::ParityFirst,
        5 => ParityArrangement::ParityLast,
        _ => return None,
    };
    Some((arrangement, arrangement.name()))
}

fn raid6_layout(number: u32) -> Option<(ParityArrangement, &'static str)> {
    let arrangement = match number {
        8 => ParityArrangement::DdfZeroRestart,
        9 => ParityArrangement::DdfNRestart,
        10 => ParityArrangement::DdfNContinue,
        16 => ParityArrangement::LeftAsymmetric6,
        17 => ParityArrangement::RightAsymmetric6,
        18 => ParityArrangement::LeftSymmetric6,
        19 => ParityArrangement::RightSymmetric6,
        20 => ParityArrangement::ParityFirst6,
        _ => return raid5_layout(number),
    };
    Some((arrangement, arrangement.name()))
}

/// RAID 10: `near + far · 256 + offset · 65536 + sets · 131072`; the number of copies is near times
/// far.
fn raid10(number: u32, members: u16) -> Described {
    let (near, far) = (number & 0xFF, number >> 8 & 0xFF);
    let (is_offset, sets) = (number >> 16 & 1 == 1, number >> 17);
    if near == 0 || far == 0 || sets > 2 || near * far > u32::from(members) {
        return unknown_layout("raid10", number);
    }
    let name = match (near, far) {
        (near, 1) => format!("near {near}"),
        (1, far) if is_offset => format!("offset {far}"),
        (1, far) => format!("far {far}"),
        (near, far) if is_offset => format!("near {near}, offset {far}"),
        (near, far) => format!("near {near}, far {far}"),
    };
    let in_sets = match sets {
        0 => false,
        1 => u32::from(members) / far != u32::from(members),
        _ => near * far != u32::from(members),
    };
    let arrangement = if near > 1 && far > 1 {
        Arrangement::Other(format!(
            "RAID 10 with near and far copies at once ({name}) cannot be served"
        ))
    } else if far > 1 && in_sets {
        Arrangement::Other(format!("RAID 10 with {name} within sets of drives cannot be served"))
    } else if far > 1 {
        let mirrors = if is_offset { MirrorArrangement::Offset } else { MirrorArrangement::Far };
        striped_mirrors(members, far as u16, mirrors)
    } else {
        near_copies(members, near as u16)
    };
    Described::new("raid10", name, arrangement)
}

fn near_copies(members: u16, copies: u16) -> Arrangement {
    let level = |level| Shape::new(level, DriveCount(members));
    if copies == 1 {
        return checked(level(if members == 1 { Level::Jbod } else { Level::Raid0 }));
    }
    if copies == members {
        return mirror(members);
    }
    let spanned = Shape { spans: Some(members / copies), ..level(Level::Raid10) };
    if members.is_multiple_of(copies) && spanned.check().is_ok() {
        return Arrangement::Shape(spanned);
    }
    striped_mirrors(members, copies, MirrorArrangement::Near)
}

fn striped_mirrors(members: u16, copies: u16, mirrors: MirrorArrangement) -> Arrangement {
    let shape = Shape::new(Level::Raid1e, DriveCount(members));
    checked(Shape { copies: Some(copies), mirrors: Some(mirrors), ..shape })
}
