//! The pure function from a request, a layout and the drives' health to the steps that serve it.
//!
//! [`plan_into`] plans one [`Request`] on one stripe of a [`Geometry`] in a [`Health`]. The
//! [`Plan`] is a value: reads, computations, **one commit**, writes. This crate does no I/O; an
//! executor runs the plan:
//!
//! 1. All **reads** in parallel. Each [`Read`] is one I/O on one drive; its [`Plan::read_parts`] go
//!    to the host's buffer or to a buffer of their own.
//! 2. The **computes**, in order, each one pass over its [`Plan::terms`], P and Q together: see
//!    [`ComputeKind`].
//! 3. The **commit**. A fault before it changes the health, and the request is *planned again*.
//!    After it *this plan's writes are finished without the failed drives*: a new plan would read
//!    new data as old and leave parity stale.
//! 4. All **writes** in parallel. Each [`Write`] is one I/O on one drive, gathered from its
//!    [`Plan::write_parts`].
//!
//! Sources are symbolic ([`Source`]: the host's payload, the cache, a read, a computation, zeroes),
//! so that an executor maps them to its buffers without copying. Read-modify-write updates old
//! parity in place. Degraded mode, medium errors and rebuilds are only other healths.
//!
//! ```
//! use layout::{Geometry, Level};
//! use plan::{Health, Method, Plan, Request, Source, plan_into};
//! use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, StripSize, StripeIndex};
//!
//! let geometry = Geometry::new(Level::Raid5, DriveCount(8), StripSize::KIB_64, ByteCount::GIB)?;
//! // The plan keeps its memory: planning into it allocates nothing.
//! let mut plan = Plan::new(&geometry);
//! // Within the stripe's data.
//! let range = ByteRange::new(ByteOffset(128 << 10), ByteCount(8 << 10));
//! let health = Health::optimal(&geometry);
//! plan_into(&mut plan, &geometry, StripeIndex(2), Request::Write { range }, &health)?;
//!
//! assert_eq!(plan.method(), Method::Rmw);
//! // Old data and parity are read; new data and parity are written.
//! assert_eq!((plan.cost().reads, plan.cost().writes), (2, 2));
//! let write = &plan.writes()[0];
//! assert_eq!((write.drive, write.offset), (DriveIndex(0), ByteOffset(128 << 10)));
//! assert_eq!(plan.write_parts(write)[0].from, Source::Host { at: ByteOffset(0) });
//! println!("{}", plan::picture(&plan));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! which prints
//!
//! ```text
//! RAID 5, 8 drives, 64 KiB strip, left-symmetric: write 8 KiB at 1 MiB, optimal
//!
//!          drive    0     1     2     3     4     5     6     7
//!                +-----+-----+-----+-----+-----+-----+-----+-----+
//!       stripe 2 | D2  | D3  | D4  | D5  | D6  |  P  | D0  | D1  |
//!                +-----+-----+-----+-----+-----+-----+-----+-----+
//!       0..8 KiB | r w |     |     |     |     | r w |     |     |
//!      8..64 KiB |     |     |     |     |     |     |     |     |
//!                +-----+-----+-----+-----+-----+-----+-----+-----+
//!                 r read   w written
//!
//!     1  read     drive 0  8 KiB at 128 KiB   old D2
//!     2  read     drive 5  8 KiB at 128 KiB   old P
//!     3  update   columns  0..8 KiB           new P = old P ^ old D2 ^ new D2
//!     4  commit
//!     5  write    drive 0  8 KiB at 128 KiB   new D2
//!     6  write    drive 5  8 KiB at 128 KiB   new P
//!
//!   cost: 4 drive I/Os: 2 reads (16 KiB), 2 writes (16 KiB); parity over 24 KiB
//!   why:  RMW: 4 drive I/Os; RCW would need 8
//! ```
//!
//! [`explain`] does this for a request on a volume, stripe by stripe.
//!
//! A write may have several extents ([`Request::WriteExtents`]), planned together: the same columns
//! of several strips need one computation, and small writes that cover a stripe are a full stripe.
//! [`Cached`] data of the stripe is used instead of reads ([`Source::Cached`]), and priced so:
//!
//! ```
//! # use layout::{DataIndex, Geometry, Level};
//! # use plan::{Cached, Health, Method, Plan, Request, plan_into};
//! # use units::{ByteCount, ByteOffset, ByteRange, DriveCount, StripSize, StripeIndex};
//! # let geometry = Geometry::new(Level::Raid5, DriveCount(8), StripSize::KIB_64, ByteCount::GIB)?;
//! # let mut plan = Plan::new(&geometry);
//! let kib = |start: u64, len: u64| ByteRange::new(ByteOffset(start << 10), ByteCount(len << 10));
//! let extents = [kib(8, 8), kib(72, 8), kib(136, 8)]; // columns 8..16 KiB of D0, D1 and D2
//! let cached = [0, 1, 2].map(|i| Cached::data(DataIndex(i), kib(0, 64)));
//! let request = Request::WriteExtents { extents: &extents, cached: &cached };
//! plan_into(&mut plan, &geometry, StripeIndex(2), request, &Health::optimal(&geometry))?;
//!
//! assert_eq!((plan.method(), plan.computes().len()), (Method::Rmw, 1));
//! assert_eq!((plan.cost().reads, plan.cost().writes), (1, 4)); // old parity; new data and parity
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Cost on one core of a 2023 server, without allocation: about 50 ns for a small read, 80 ns for a
//! small write with one or two parity strips, 150 to 200 ns for a full stripe of eight drives or a
//! write over two strips, and up to twice that with lost strips. `examples/planning_cost.rs`
//! measures it.

mod bands;
mod check;
mod emit;
mod explain;
mod extents;
mod first_write;
mod grid;
mod method;
mod picture;
mod plan;
mod read;
mod reason;
mod recorded;
mod redundancy;
mod request;
mod small;
mod steps;
mod survey;
mod text;
mod ways;
mod weigh;
mod write;

pub(crate) use bands::Bands;
pub use explain::{Explanation, RequestKind, StripeExplanation, explain, explain_in, explain_kept};
pub use first_write::{FirstWrite, first_write, known_zeros};
pub use method::{Alternative, Method, Price, Verdict};
pub use picture::{StepLine, picture};
pub use plan::Plan;
pub use recorded::{Journal, Recorded};
pub use request::{Cached, CopyChoice, ErrorKind, Health, Request, Unplannable, WHOLE_STRIP};
pub use steps::{
    Compute, ComputeKind, Cost, Lost, Mismatch, Read, ReadPart, ReadSlot, ScratchSlot, Source,
    Step, Target, Term, Write, WritePart,
};

use layout::{Geometry, Role};
use units::{ByteCount, ByteOffset, ByteRange, StripeIndex};

/// Plans one request on one stripe into `plan`, and reuses its memory.
///
/// # Errors
/// When the remaining drives cannot serve it, or the range exceeds the stripe: see [`ErrorKind`].
/// The content of `plan` is then undefined.
///
/// # Panics
/// When extents or cached ranges are not ascending, overlap or have partial sectors.
pub fn plan_into(
    plan: &mut Plan,
    geometry: &Geometry,
    stripe: StripeIndex,
    request: Request<'_>,
    health: &Health,
) -> Result<(), Unplannable> {
    plan.start(geometry, stripe, request, health);
    let strip = geometry.strip();
    if let Some(range) = request.range() {
        if range.is_empty() || range.start.0.saturating_add(range.len.0) > geometry.stripe_bytes().0
        {
            return Err(out_of_range(geometry, stripe, range));
        }
        plan.bands.fill(range);
    } else if let Some(columns) = request.columns() {
        let inside = columns.intersection(ByteRange::new(ByteOffset::ZERO, strip.bytes()));
        if inside.is_empty() {
            return Err(no_columns(stripe, columns, strip.bytes()));
        }
        plan.bands.fill_columns(inside);
    } else if let Request::WriteExtents { extents, cached } = request {
        extents::fill_bands(plan, extents, cached)?;
    }
    plan.make_room_for_old();
    let planned = plan_steps(plan, request);
    #[cfg(debug_assertions)]
    if planned.is_ok() {
        plan.check();
    }
    planned
}

/// Plans the steps of a fresh plan with bands.
fn plan_steps(plan: &mut Plan, request: Request<'_>) -> Result<(), Unplannable> {
    let (drives, stripe) = (plan.geometry.drives(), plan.stripe);
    match request {
        Request::Read { range, prefer, split } => read::plan_read(plan, range, &prefer, split),
        Request::Write { .. } => write::plan_write(plan, false),
        Request::WriteZeroes { .. } => write::plan_write(plan, true),
        Request::WriteExtents { .. } => write::plan_write(plan, false),
        Request::Resync { .. } => redundancy::plan_resync(plan),
        Request::Verify { .. } => redundancy::plan_verify(plan),
        Request::Repair { culprit, .. } => match plan.map.cell_of(culprit) {
            Some(_) if culprit != Role::Spare => redundancy::plan_repair(plan, culprit),
            _ => Err(not_there(stripe, &format!("strip {culprit}"))),
        },
        Request::Copy { drive, .. } if drive.0 >= drives.0 => {
            Err(not_there(stripe, &format!("drive {drive}")))
        }
        Request::Copy { drive, .. } => redundancy::plan_copy(plan, drive),
    }
}

fn out_of_range(geometry: &Geometry, stripe: StripeIndex, range: ByteRange) -> Unplannable {
    let ByteCount(data) = geometry.stripe_bytes();
    let (start, len) = (range.start.0, range.len.0);
    let context = format!(
        "stripe {stripe}: {len} bytes from byte {start} are not a range within its {data} \
         bytes of data; split requests at stripes"
    );
    Unplannable { kind: ErrorKind::OutOfRange, context, ranges: vec![range] }
}

fn no_columns(stripe: StripeIndex, columns: ByteRange, strip: ByteCount) -> Unplannable {
    let (start, len) = (columns.start.0, columns.len.0);
    let context = format!(
        "stripe {stripe}: {len} bytes from byte {start} of each strip are not within its {} bytes; \
         name columns of the strip",
        strip.0
    );
    Unplannable { kind: ErrorKind::OutOfRange, context, ranges: Vec::new() }
}

fn not_there(stripe: StripeIndex, what: &str) -> Unplannable {
    let context = format!("stripe {stripe} has no {what}; name one that it has");
    Unplannable { kind: ErrorKind::OutOfRange, context, ranges: Vec::new() }
}
