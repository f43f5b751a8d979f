//! The measured part of a target: all of it, a range, or a percentage.

use crate::error::{Error, ErrorKind, Result};
use crate::load::profile::Access;
use std::fmt;
use std::str::FromStr;
use units::{ByteCount, ByteOffset, ByteRange};

/// Percentages of larger targets are rounded down to this, so that the edge is on a strip boundary.
const COARSE: ByteCount = ByteCount::MIB;
/// The same on targets whose hundredth is less than [`COARSE`].
const FINE: ByteCount = ByteCount(4096);

/// The beginning or end of a range.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Edge {
    /// A number of bytes from the start.
    Bytes(u64),
    /// A percentage of the whole from the start.
    Percent(f64),
    /// A number of bytes plus a percentage of the whole from the start, limited to the end.
    Sum {
        /// The bytes.
        bytes: u64,
        /// The percentage of the whole.
        percent: f64,
    },
    /// The end of the whole.
    End,
}

/// A part of a target.
///
/// ```
/// use storagebench::{Access, Area};
/// use units::{ByteCount, ByteOffset, ByteRange};
/// let whole = ByteRange::new(ByteOffset::ZERO, ByteCount::GIB);
/// let area: Area = "25%..50%".parse().unwrap();
/// let part = area.resolve(whole, Access::Random).unwrap();
/// assert_eq!(part, ByteRange::new(ByteOffset(256 << 20), ByteCount(256 << 20)));
/// assert_eq!("4G..8G".parse::<Area>().unwrap().to_string(), "4G..8G");
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Area {
    /// From one edge to the other.
    Range {
        /// Its beginning.
        from: Edge,
        /// Its end.
        to: Edge,
    },
    /// The areas of the white papers for raw devices: sequential profiles use the first 10 %, all
    /// others the 25 % after it, so that random writes do not affect sequential profiles (Fujitsu
    /// 2016).
    ByAccess,
}

impl Area {
    /// The whole target.
    pub const ALL: Area = Area::Range { from: Edge::Bytes(0), to: Edge::End };

    /// Whether it is [`Area::ALL`].
    pub fn is_all(&self) -> bool {
        *self == Area::ALL
    }

    /// One range that covers the areas of all profiles, for writes before the first one.
    pub(crate) fn covering(&self) -> Area {
        match self {
            Area::ByAccess => Area::Range { from: Edge::Percent(0.0), to: Edge::Percent(35.0) },
            range => *range,
        }
    }

    /// The bytes of the area within `whole`, for a profile of that access.
    ///
    /// # Errors
    /// When it ends before it begins, or is not within `whole`.
    pub fn resolve(&self, whole: ByteRange, access: Access) -> Result<ByteRange> {
        let (from, to) = match *self {
            Area::Range { from, to } => (from, to),
            Area::ByAccess if access == Access::Sequential => {
                (Edge::Percent(0.0), Edge::Percent(10.0))
            }
            Area::ByAccess => (Edge::Percent(10.0), Edge::Percent(35.0)),
        };
        let (start, end) = (place(from, whole.len), place(to, whole.len));
        if start >= end || end > whole.len.0 {
            return Err(Error::new(
                ErrorKind::TooSmall,
                format!(
                    "the area {self} is not within the {} of the target or of --area; give one \
                     that is, such as 0..10%",
                    whole.len
                ),
            ));
        }
        Ok(ByteRange::new(whole.start + ByteCount(start), ByteCount(end - start)))
    }
}

fn place(edge: Edge, len: ByteCount) -> u64 {
    match edge {
        Edge::Bytes(bytes) => bytes,
        Edge::End => len.0,
        Edge::Percent(percent) if percent >= 100.0 => len.0,
        Edge::Percent(percent) => {
            let unit = if len.0 / 100 >= COARSE.0 { COARSE } else { FINE };
            ByteOffset((len.0 as f64 * percent / 100.0) as u64).align_down(unit).0
        }
        Edge::Sum { bytes, percent } => {
            place(Edge::Percent(percent), len).saturating_add(bytes).min(len.0)
        }
    }
}

impl Default for Area {
    fn default() -> Area {
        Area::ALL
    }
}

impl FromStr for Area {
    type Err = Error;

    /// `all`, `by-access`, or `FROM..TO`, where each is an optional size, percentage or sum
    /// (`1G+20%`).
    fn from_str(text: &str) -> Result<Area> {
        let plain = text.trim().to_ascii_lowercase();
        match plain.as_str() {
            "all" => return Ok(Area::ALL),
            "by-access" => return Ok(Area::ByAccess),
            _ => {}
        }
        let wrong = |what: &str| {
            Error::new(
                ErrorKind::BadSettings,
                format!(
                    "'{text}' is not an area{what}; give a range of sizes or percentages such as \
                        0..10%, 10%..35% or 4G..8G, or all, or by-access"
                ),
            )
        };
        let (from, to) = plain.split_once("..").ok_or_else(|| wrong(""))?;
        let edge = |part: &str, default: Edge| match part.trim() {
            "" => Ok(default),
            part => parse_edge(part)
                .ok_or_else(|| wrong(&format!(": '{part}' is neither a size nor a percentage"))),
        };
        let (from, to) = (edge(from, Edge::Bytes(0))?, edge(to, Edge::End)?);
        let backwards = match (from, to) {
            (Edge::Bytes(from), Edge::Bytes(to)) => from >= to,
            (Edge::Percent(from), Edge::Percent(to)) => from >= to,
            _ => false,
        };
        if backwards {
            return Err(wrong(": it ends before it begins"));
        }
        Ok(Area::Range { from, to })
    }
}

fn parse_edge(text: &str) -> Option<Edge> {
    if let Some((bytes, percent)) = text.split_once('+') {
        return match (parse_edge(bytes.trim())?, parse_edge(percent.trim())?) {
            (Edge::Bytes(bytes), Edge::Percent(percent)) => Some(Edge::Sum { bytes, percent }),
            _ => None,
        };
    }
    match text.strip_suffix('%') {
        Some(number) => {
            let percent: f64 = number.trim().parse().ok()?;
            (0.0..=100.0).contains(&percent).then_some(Edge::Percent(percent))
        }
        None => text.parse::<ByteCount>().ok().map(|size| Edge::Bytes(size.0)),
    }
}

impl fmt::Display for Area {
    /// The input form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = |edge: &Edge| match edge {
            Edge::Bytes(bytes) => short_size(ByteCount(*bytes)),
            Edge::Percent(percent) => format!("{percent}%"),
            Edge::Sum { bytes, percent } => format!("{}+{percent}%", short_size(ByteCount(*bytes))),
            Edge::End => String::new(),
        };
        match self {
            Area::ByAccess => f.write_str("by-access"),
            all if all.is_all() => f.write_str("all"),
            Area::Range { from, to } => write!(f, "{}..{}", edge(from), edge(to)),
        }
    }
}

/// A size in input form: `8K`, `1M`, `1536`.
pub(crate) fn short_size(size: ByteCount) -> String {
    let (mut number, mut unit) = (size.0, 0);
    while number >= 1024 && number.is_multiple_of(1024) && unit < 5 {
        number /= 1024;
        unit += 1;
    }
    format!("{number}{}", ["", "K", "M", "G", "T", "P"][unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(ByteOffset(start), ByteCount(len))
    }

    #[test]
    fn areas_are_ranges_of_sizes_or_shares() {
        const GIB: u64 = 1 << 30;
        let whole = range(GIB, 100 * GIB);
        for (text, access, start, len) in [
            ("all", Access::Random, 0, 100 * GIB),
            ("0..10%", Access::Random, 0, 10 * GIB),
            ("10%..35%", Access::Random, 10 * GIB, 25 * GIB),
            ("4G..8G", Access::Random, 4 * GIB, 4 * GIB),
            ("..512M", Access::Random, 0, GIB / 2),
            ("99G..", Access::Random, 99 * GIB, GIB),
            ("33.3%..50%", Access::Random, 34_099 << 20, (51_200 - 34_099) << 20),
            ("by-access", Access::Sequential, 0, 10 * GIB),
            ("by-access", Access::Random, 10 * GIB, 25 * GIB),
            ("By-Access", Access::Mixed, 10 * GIB, 25 * GIB),
            ("1G..1G+20%", Access::Random, GIB, 20 * GIB),
            ("1G+10%..1G+95%", Access::Random, 11 * GIB, 85 * GIB),
            ("1G..1G+100%", Access::Random, GIB, 99 * GIB),
        ] {
            let area: Area = text.parse().unwrap();
            assert_eq!(area.resolve(whole, access).unwrap(), range(GIB + start, len), "{text}");
            assert_eq!(
                area.to_string().parse::<Area>().unwrap(),
                area,
                "{text} is written in its input form"
            );
        }
    }

    #[test]
    fn shares_of_small_targets_are_cut_at_pages() {
        let area: Area = "0..10%".parse().unwrap();
        assert_eq!(area.resolve(range(0, 10 << 20), Access::Random).unwrap(), range(0, 1 << 20));
        assert_eq!(area.resolve(range(0, 1_000_000), Access::Random).unwrap(), range(0, 24 * 4096));
    }

    #[test]
    fn a_wrong_area_gets_a_sentence() {
        for (text, part) in [
            ("everything", "'everything' is not an area; give"),
            ("4X..8G", "'4x' is neither a size nor a percentage"),
            ("0..110%", "'110%' is neither"),
            ("0..10%+1G", "'10%+1g' is neither"),
            ("8G..4G", "it ends before it begins"),
            ("20%..20%", "it ends before it begins"),
        ] {
            let error = text.parse::<Area>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        for text in ["4G..8G", "2G..", "50%..1M", "..2G", "2G..2G+10%"] {
            let area: Area = text.parse().unwrap();
            let error = area.resolve(range(0, 1 << 30), Access::Random).unwrap_err();
            assert_eq!(error.kind, ErrorKind::TooSmall);
            assert!(error.to_string().contains("is not within the 1 GiB of the target"), "{error}");
        }
    }
}
