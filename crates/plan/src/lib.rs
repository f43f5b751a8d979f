//! Request × layout × health → plan, per stripe.
mod bands;
mod emit;
mod method;
mod read;
mod redundancy;
mod request;
mod steps;
mod survey;
mod write;

pub(crate) use bands::Bands;
pub use method::{Alternative, Method, Price, Verdict};
pub use request::{ErrorKind, Health, Request, Unplannable};
pub use steps::{
    Compute, ComputeKind, Cost, Plan, Read, ReadPart, ReadSlot, ScratchSlot, Source, Step, Target, Write,
    WritePart,
};

use layout::Geometry;
use units::{ByteCount, StripeIndex};

/// Plans one request on one stripe into `plan`, whose former content is forgotten and whose memory is kept.
///
/// # Errors
/// When the drives that are left cannot serve it, or the range is not within the stripe: see [`ErrorKind`].
/// `plan` then holds nothing of use.
pub fn plan_into(
    plan: &mut Plan,
    geometry: &Geometry,
    stripe: StripeIndex,
    request: Request,
    health: &Health,
) -> Result<(), Unplannable> {
    plan.start(geometry, stripe, request, health);
    if let Some(range) = request.range()
        && (range.is_empty() || range.start.0.saturating_add(range.len.0) > geometry.stripe_bytes().0)
    {
        return Err(out_of_range(geometry, stripe, range));
    }
    let map = geometry.stripe_map(stripe);
    match request {
        Request::Read { range, prefer } => read::plan_read(plan, &map, range, prefer),
        Request::Write { range } => write::plan_write(plan, &map, range, false),
        Request::WriteZeroes { range } => write::plan_write(plan, &map, range, true),
        Request::Resync => redundancy::plan_resync(plan, &map),
        Request::Verify => redundancy::plan_verify(plan, &map),
    }
}

fn out_of_range(geometry: &Geometry, stripe: StripeIndex, range: units::ByteRange) -> Unplannable {
    let ByteCount(data) = geometry.stripe_bytes();
    let (start, len) = (range.start.0, range.len.0);
    let context = format!(
        "stripe {stripe}: {len} bytes from byte {start} are not a range within its {data} bytes of data; split requests at stripes"
    );
    Unplannable { kind: ErrorKind::OutOfRange, context, ranges: vec![range] }
}
