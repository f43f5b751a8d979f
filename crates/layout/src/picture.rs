//! A layout as a text table of strips.

use crate::{CopyIndex, Geometry, Role};
use std::fmt::Write as _;
use units::{ByteCount, ByteOffset, DriveIndex};

/// The first rows of the drives: data strips by their number in the volume, with a prime per
/// further copy; `P`, `Q`, and `S` for a spare. A bar separates spans.
///
/// ```
/// use layout::{Geometry, Level, picture};
/// use units::{ByteCount, DriveCount, StripSize};
///
/// let geometry = Geometry::new(Level::Raid5, DriveCount(4), StripSize::KIB_64, ByteCount::GIB)?;
/// let text = "\
/// drive    0    1    2    3
/// row 0    0    1    2    P
/// row 1    4    5    P    3
/// ";
/// assert_eq!(picture(&geometry, 2), text);
/// # Ok::<(), layout::Error>(())
/// ```
pub fn picture(geometry: &Geometry, rows: u64) -> String {
    let strip = geometry.strip().bytes();
    let rows: Vec<u64> =
        (0..rows).filter(|row| ByteOffset(row * strip.0) < end(geometry)).collect();
    let mut text = line(geometry, "drive", |drive| drive.to_string());
    for row in rows {
        let at = ByteOffset(row * strip.0);
        text.push_str(&line(geometry, &format!("row {row}"), |drive| cell(geometry, drive, at)));
    }
    text
}

fn end(geometry: &Geometry) -> ByteOffset {
    ByteOffset(geometry.member_size().0)
}

fn line(geometry: &Geometry, label: &str, cell: impl Fn(DriveIndex) -> String) -> String {
    let mut text = format!("{label:<5}");
    let width = geometry.drives_per_span().0;
    for drive in geometry.drives().indexes() {
        let gap = if drive.0 > 0 && drive.0 % width == 0 { "  |" } else { "" };
        let _ = write!(text, "{gap}{:>5}", cell(drive));
    }
    text.push('\n');
    text
}

fn cell(geometry: &Geometry, drive: DriveIndex, at: ByteOffset) -> String {
    let Some(located) = geometry.locate(drive, at) else { return String::new() };
    match located.role {
        Role::Data { index, copy: CopyIndex(copy) } => {
            let start = geometry.volume_offset(located.stripe, index, ByteCount::ZERO);
            format!("{}{}", start.0 >> geometry.strip().shift(), "'".repeat(usize::from(copy)))
        }
        role => role.to_string(),
    }
}
