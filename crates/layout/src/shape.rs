//! The definition of a layout: the level, its drives, and its options, with all checks.

use crate::{
    Error, ErrorKind, Family, Geometry, Level, LevelRow, MirrorArrangement, ParityArrangement,
};
use units::{ByteCount, DriveCount, StripSize};

/// A level on a number of drives, with its options; omitted options have the level's default.
///
/// ```
/// use layout::{Level, Shape};
/// use units::{ByteCount, DriveCount, StripSize};
///
/// let shape = Shape { spans: Some(3), ..Shape::new(Level::Raid50, DriveCount(12)) };
/// let geometry = shape.geometry(StripSize::KIB_64, ByteCount::GIB)?;
/// assert_eq!(geometry.to_string(), "RAID 50, 12 drives in 3 spans, 64 KiB strip, left-symmetric");
/// # Ok::<(), layout::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// The RAID level.
    pub level: Level,
    /// The number of drives, over all spans.
    pub drives: DriveCount,
    /// The number of spans; default: 1 for levels without spans, pairs for RAID 10, and the minimum
    /// for the others.
    pub spans: Option<u16>,
    /// The number of copies of each data strip: an option of RAID 1E only, default 2.
    pub copies: Option<u16>,
    /// The parity layout.
    pub parity: Option<ParityArrangement>,
    /// The mirror layout.
    pub mirrors: Option<MirrorArrangement>,
}

/// A checked shape with all options resolved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Checked {
    pub(crate) spans: u16,
    pub(crate) width: u16,
    pub(crate) copies: u16,
    /// Data strips per stripe.
    pub(crate) data_strips: u16,
    pub(crate) rows_per_stripe: u16,
    pub(crate) parity: Option<ParityArrangement>,
    pub(crate) mirrors: Option<MirrorArrangement>,
}

impl Shape {
    /// A level on a number of drives, with all defaults.
    pub fn new(level: Level, drives: DriveCount) -> Shape {
        Shape { level, drives, spans: None, copies: None, parity: None, mirrors: None }
    }

    /// The layout of the shape with at most `member_size` bytes of each drive; a remainder smaller
    /// than a stripe is unused.
    ///
    /// # Errors
    /// When the level does not allow that number of drives, spans or copies, or that layout; when
    /// no stripe fits the drives; and when the volume would have 2^63 bytes or more.
    pub fn geometry(&self, strip: StripSize, member_size: ByteCount) -> Result<Geometry, Error> {
        Geometry::make(*self, self.checked()?, strip, member_size)
    }

    /// Checks the shape, independent of the drive size.
    ///
    /// # Errors
    /// When the level does not allow that number of drives, spans or copies, or that layout.
    pub fn check(&self) -> Result<(), Error> {
        self.checked().map(|_| ())
    }

    fn checked(&self) -> Result<Checked, Error> {
        let row = self.level.row();
        check_drives(row, self.drives)?;
        let spans = spans_of(row, self.drives, self.spans)?;
        let width = self.drives.0 / spans;
        let copies = copies_of(row, self.drives, width, self.copies)?;
        let parity = chosen(row, "parity", row.parity_arrangements, self.parity)?;
        let mirrors = chosen(row, "mirror", row.mirror_arrangements, self.mirrors)?;
        let all = self.drives.0;
        let (data_strips, rows_per_stripe) = match row.family {
            Family::Striped => (all, 1),
            Family::Mirrored if row.mirror_arrangements.is_empty() => (all / copies, 1),
            Family::Mirrored => (all, copies),
            Family::Parity => (width - row.parity_strips - row.spare_strips, 1),
        };
        Ok(Checked { spans, width, copies, data_strips, rows_per_stripe, parity, mirrors })
    }
}

fn counted(drives: DriveCount) -> String {
    if drives == DriveCount(1) { "1 drive".into() } else { format!("{drives} drives") }
}

fn check_drives(row: &LevelRow, drives: DriveCount) -> Result<(), Error> {
    let LevelRow { title, min_drives, max_drives, .. } = row;
    if drives < *min_drives {
        return Err(Error::new(
            ErrorKind::TooFewDrives,
            format!(
                "{title} needs at least {}, not {drives}; name more drives",
                counted(*min_drives)
            ),
        ));
    }
    if drives > *max_drives {
        return Err(Error::new(
            ErrorKind::TooManyDrives,
            format!(
                "{title} takes at most {}, not {drives}; name fewer drives",
                counted(*max_drives)
            ),
        ));
    }
    Ok(())
}

/// Whether a level allows that number of drives and spans.
fn fits(row: &LevelRow, drives: u16, spans: u16) -> bool {
    row.spans.contains(&spans)
        && drives.is_multiple_of(spans)
        && row.drives_per_span.contains(&(drives / spans))
}

fn spans_of(row: &LevelRow, drives: DriveCount, asked: Option<u16>) -> Result<u16, Error> {
    let spans = match asked {
        Some(spans) => spans,
        None if row.family == Family::Mirrored && row.is_spanned() => drives.0 / 2,
        None => row
            .spans
            .clone()
            .find(|spans| fits(row, drives.0, *spans))
            .unwrap_or(*row.spans.start()),
    };
    if spans > 0 && fits(row, drives.0, spans) {
        return Ok(spans);
    }
    let asked = match asked {
        Some(1) => format!("{} in 1 span", counted(drives)),
        Some(spans) => format!("{} in {spans} spans", counted(drives)),
        None => counted(drives),
    };
    let context =
        format!("{} on {asked} is not possible; {}", row.title, what_would_fit(row, drives.0));
    Err(Error::new(ErrorKind::BadSpans, context))
}

/// The possible numbers of spans for these drives; if there are none, the possible numbers of
/// drives.
fn what_would_fit(row: &LevelRow, drives: u16) -> String {
    if !row.is_spanned() {
        return "it has no spans: leave them out".into();
    }
    let ways = |drives: u16| row.spans.clone().filter(move |spans| fits(row, drives, *spans));
    let texts: Vec<String> =
        ways(drives).map(|spans| format!("{spans} spans of {}", drives / spans)).collect();
    if !texts.is_empty() {
        return format!("{drives} drives can be {}: choose one of these", texts.join(" or "));
    }
    let least = (row.min_drives.0..drives).rev().find(|count| ways(*count).next().is_some());
    let most = (drives..=row.max_drives.0).find(|count| ways(*count).next().is_some());
    let counts: Vec<String> = [least, most].iter().flatten().map(u16::to_string).collect();
    let (spans, width) = (&row.spans, &row.drives_per_span);
    format!(
        "it takes {} to {} spans of {} to {} drives: name {} drives",
        spans.start(),
        spans.end(),
        width.start(),
        width.end(),
        counts.join(" or ")
    )
}

fn copies_of(
    row: &LevelRow,
    drives: DriveCount,
    width: u16,
    asked: Option<u16>,
) -> Result<u16, Error> {
    let fixed = match row.family {
        Family::Striped | Family::Parity => 1,
        Family::Mirrored if row.mirror_arrangements.is_empty() => width,
        Family::Mirrored => {
            let copies = asked.unwrap_or(2);
            return if (2..=drives.0).contains(&copies) {
                Ok(copies)
            } else {
                let context = format!(
                    "{} on {drives} drives cannot keep {copies} copies; choose 2 to {drives}",
                    row.title
                );
                Err(Error::new(ErrorKind::BadCopies, context))
            };
        }
    };
    match asked {
        Some(copies) if copies != fixed => {
            let held = if fixed == 1 { "1 copy".into() } else { format!("{fixed} copies") };
            let context = format!(
                "{} on {drives} drives keeps {held}, not {copies}; leave the copies out, or choose \
                    RAID 1E",
                row.title
            );
            Err(Error::new(ErrorKind::BadCopies, context))
        }
        _ => Ok(fixed),
    }
}

/// The requested layout, or the level's default, its first one.
fn chosen<A: Copy + PartialEq + std::fmt::Display>(
    row: &LevelRow,
    of: &str,
    has: &[A],
    asked: Option<A>,
) -> Result<Option<A>, Error> {
    let Some(asked) = asked else { return Ok(has.first().copied()) };
    if has.contains(&asked) {
        return Ok(Some(asked));
    }
    let context = match has {
        [] => format!(
            "{asked} is a {of} layout, and {} has none to choose from; leave it out or choose \
                another level",
            row.title
        ),
        _ => {
            let names: Vec<String> = has.iter().map(A::to_string).collect();
            format!("{} has no {of} layout {asked}; choose one of {}", row.title, names.join(", "))
        }
    };
    Err(Error::new(ErrorKind::ForeignArrangement, context))
}
