//! `softroc explain`: the plan of a request, as text.

use crate::cli::{Explain, LayoutName, Operation};
use crate::failure::{Failure, Outcome};
use crate::output;
use layout::Shape;
use plan::RequestKind;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet};

/// Explains a request for the layout on the command line.
pub fn run(explain: &Explain) -> Outcome {
    let (Some(level), Some(drives)) = (explain.level, explain.drives) else {
        return Err(Failure::usage("give --level and --drives, or --volume"));
    };
    let range = range_of(explain)?;
    let Some(kind) = explain.operation.request() else {
        return Err(Failure::usage("'cache' needs a volume; give --volume NAME"));
    };
    let failed = failed_drives(&explain.failed, drives)?;
    let (parity, mirrors) = match explain.layout {
        Some(LayoutName::Parity(parity)) => (Some(parity), None),
        Some(LayoutName::Mirrors(mirrors)) => (None, Some(mirrors)),
        None => (None, None),
    };
    let shape = Shape {
        spans: explain.spans,
        copies: explain.copies,
        parity,
        mirrors,
        ..Shape::new(level, DriveCount(drives))
    };
    // Capacity for the request is enough: space beyond it does not change the plan.
    let rows = ByteCount(explain.strip.bytes().0 * u64::from(drives.max(1)));
    let smallest = shape.geometry(explain.strip, rows)?;
    let needed = ByteCount(range.end().0) + smallest.stripe_bytes();
    let geometry = smallest.with_member_size(smallest.member_size_for(needed))?;
    let explanation = plan::explain(&geometry, kind, range, &failed).map_err(Failure::usage)?;
    match explain.output.json {
        true => output::json(&explanation),
        false => output::print(&explanation.to_string()),
    }
}

/// The requested range.
pub fn range_of(explain: &Explain) -> Outcome<ByteRange> {
    match &explain.range {
        Some(range) => parse_range(range),
        None => Err(Failure::usage("the range is missing; give it as SIZE@OFFSET, such as 8K@1M")),
    }
}

/// Parses SIZE@OFFSET.
fn parse_range(text: &str) -> Outcome<ByteRange> {
    let wrong =
        || Failure::usage(format!("'{text}' is not a range; expected SIZE@OFFSET, such as 8K@1M"));
    let (size, offset) = text.split_once('@').ok_or_else(wrong)?;
    let len: ByteCount = size.parse().map_err(Failure::usage)?;
    let start: ByteOffset = offset.parse().map_err(Failure::usage)?;
    match start.checked_add(len) {
        Some(end) if end.0 <= 1 << 60 && !len.is_zero() => Ok(ByteRange::new(start, len)),
        _ => Err(wrong()),
    }
}

/// The set of failed drives, each of which must be in the array.
fn failed_drives(failed: &[u16], drives: u16) -> Outcome<DriveSet> {
    match failed.iter().find(|drive| **drive >= drives) {
        Some(drive) => Err(Failure::usage(format!(
            "there is no drive {drive}; the drives of this array are 0 to {}",
            drives.saturating_sub(1)
        ))),
        None => Ok(failed.iter().copied().map(DriveIndex).collect()),
    }
}

impl Operation {
    /// The kind of request to explain; `None`: explain the cache.
    pub fn request(self) -> Option<RequestKind> {
        match self {
            Operation::Read => Some(RequestKind::Read),
            Operation::Write => Some(RequestKind::Write),
            Operation::WriteZeroes => Some(RequestKind::WriteZeroes),
            Operation::Resync => Some(RequestKind::Resync),
            Operation::Verify => Some(RequestKind::Verify),
            Operation::Cache => None,
        }
    }
}
