//! `explain`: the plan of a request on a volume, stripe by stripe, without execution.

use crate::picture::{StepLine, body, state, step_lines, stripe_heading};
use crate::reason::{cost_text, reason};
use crate::text::{address, counted, exact};
use crate::{
    CopyChoice, Cost, ErrorKind, FirstWrite, Health, Journal, Method, Plan, Recorded, Request,
    Unplannable, WHOLE_STRIP, first_write, known_zeros, plan_into,
};
use layout::Geometry;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use units::{ByteCount, ByteOffset, ByteRange, DriveSet, StripeIndex};

/// The most stripes explained at once.
const MAX_STRIPES: u64 = 256;

/// Reason for a request on an uninitialised stripe.
const NEVER_WRITTEN: &str = "no host has written this stripe: it reads as zeros without drive I/O";

/// Follows the first write of a stripe.
const FIRST_WRITE: &str = "the drives are flushed and the stripe is recorded as initialised, \
     once for all waiting first writes";

/// A kind of request on a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// Read data.
    Read,
    /// Write data.
    Write,
    /// Write zeroes.
    WriteZeroes,
    /// Make redundancy agree with data, in every stripe the range touches.
    Resync,
    /// Compare redundancy with data, in every stripe the range touches.
    Verify,
}

impl RequestKind {
    /// All of them.
    pub const ALL: [RequestKind; 5] = [
        RequestKind::Read,
        RequestKind::Write,
        RequestKind::WriteZeroes,
        RequestKind::Resync,
        RequestKind::Verify,
    ];

    /// Its name in commands.
    pub const fn name(self) -> &'static str {
        match self {
            RequestKind::Read => "read",
            RequestKind::Write => "write",
            RequestKind::WriteZeroes => "write-zeroes",
            RequestKind::Resync => "resync",
            RequestKind::Verify => "verify",
        }
    }

    /// The request on one stripe; a read of a mirrored level prefers first copies.
    pub fn on_stripe(self, range: ByteRange) -> Request<'static> {
        match self {
            RequestKind::Read => Request::Read { range, prefer: CopyChoice::FIRST, split: false },
            RequestKind::Write => Request::Write { range },
            RequestKind::WriteZeroes => Request::WriteZeroes { range },
            RequestKind::Resync => Request::Resync { columns: WHOLE_STRIP },
            RequestKind::Verify => Request::Verify { columns: WHOLE_STRIP },
        }
    }
}

impl FromStr for RequestKind {
    type Err = Unplannable;

    fn from_str(text: &str) -> Result<RequestKind, Unplannable> {
        RequestKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = RequestKind::ALL.map(RequestKind::name).join(", ");
            refused(
                ErrorKind::UnknownRequest,
                format!("'{text}' is not a request; expected one of {names}"),
            )
        })
    }
}

/// The explanation of a request. `Display` shows it with its pictures.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Explanation {
    /// The layout, the request and the state of the drives, in one line.
    pub title: String,
    /// The steps on each stripe, ascending.
    pub stripes: Vec<StripeExplanation>,
    /// Total cost without the journal.
    pub cost: Cost,
    /// Total cost of the journal records, if the volume has a journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<Recorded>,
}

/// The plan of one stripe, or of a part of it that fits into one journal record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StripeExplanation {
    /// The stripe.
    pub stripe: u64,
    /// First byte of the volume.
    pub start_bytes: u64,
    /// Length.
    pub size_bytes: u64,
    /// The method.
    pub method: Method,
    /// Why this method was chosen.
    pub reason: String,
    /// The steps in order.
    pub steps: Vec<StepLine>,
    /// Cost without the journal.
    pub cost: Cost,
    /// Cost of the journal record, if the volume has a journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<Recorded>,
    /// Heading, if there are several stripes.
    #[serde(skip)]
    pub heading: String,
    /// The grid, the steps, the cost and the reason as text.
    #[serde(skip)]
    pub picture: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let several = self.stripes.len() > 1;
        for stripe in &self.stripes {
            if several {
                writeln!(f, "\n{}", stripe.heading)?;
            }
            write!(f, "\n{}", stripe.picture)?;
        }
        if several {
            writeln!(f, "\nin all: {}", cost_text(&self.cost))?;
            if let Some(journal) = self.journal.as_ref().filter(|journal| journal.writes > 0) {
                let (ios, bytes) = (journal.writes, exact(journal.bytes_written));
                writeln!(f, "and the journal: {} ({bytes})", counted(ios, "durable write"))?;
            }
        }
        Ok(())
    }
}

/// Explains a request on a range of the volume when the drives in `failed` have failed.
///
/// # Errors
/// When the range is empty, exceeds the volume or 256 stripes; when a drive in `failed` does not
/// exist; when the remaining drives cannot serve the request.
pub fn explain(
    geometry: &Geometry,
    kind: RequestKind,
    range: ByteRange,
    failed: &DriveSet,
) -> Result<Explanation, Unplannable> {
    let last = geometry.drives().0 - 1;
    if let Some(drive) = failed.iter().find(|drive| drive.0 > last) {
        let sentence =
            format!("there is no drive {drive}; the drives of this array are 0 to {last}");
        return Err(refused(ErrorKind::OutOfRange, sentence));
    }
    let health = failed.iter().fold(Health::optimal(geometry), Health::without);
    explain_in(geometry, kind, range, |_| health)
}

/// Explains a request with the health of each of its stripes.
///
/// # Errors
/// As [`explain`].
pub fn explain_in(
    geometry: &Geometry,
    kind: RequestKind,
    range: ByteRange,
    health: impl Fn(StripeIndex) -> Health,
) -> Result<Explanation, Unplannable> {
    explain_kept(geometry, kind, range, health, |_| true, None)
}

/// Explains a request on a volume with or without a journal, and with uninitialised stripes.
///
/// # Errors
/// As [`explain`].
pub fn explain_kept(
    geometry: &Geometry,
    kind: RequestKind,
    range: ByteRange,
    health: impl Fn(StripeIndex) -> Health,
    is_initialised: impl Fn(StripeIndex) -> bool,
    journal: Option<&dyn Journal>,
) -> Result<Explanation, Unplannable> {
    check_range(geometry, kind, range)?;
    let (first, _) = geometry.stripe_of(range.start);
    let (last, _) = geometry.stripe_of(range.end() - ByteCount(1));
    let mut plan = Plan::new(geometry);
    let mut explanation =
        Explanation { journal: journal.map(|_| Recorded::default()), ..Explanation::default() };
    for stripe in (first.0..=last.0).map(StripeIndex) {
        let piece = range.intersection(geometry.stripe_range(stripe));
        let start = ByteOffset((piece.start - geometry.stripe_start(stripe)).0);
        let within = ByteRange::new(start, piece.len);
        if !is_initialised(stripe) {
            let first = uninitialised(
                &mut plan,
                geometry,
                stripe,
                kind.on_stripe(within),
                &health(stripe),
            )?;
            first.into_iter().for_each(|mut part| {
                part.journal = part.journal.filter(|_| journal.is_some());
                explanation.add(part);
            });
            continue;
        }
        let parts = journal.filter(|_| kind.on_stripe(within).is_write());
        let parts = parts.map_or_else(|| vec![within], |journal| journal.parts(stripe, within));
        for part in parts {
            plan_into(&mut plan, geometry, stripe, kind.on_stripe(part), &health(stripe))?;
            let journal = journal.map(|journal| journal.record(&plan));
            explanation.add(on_stripe(&plan, part, journal));
        }
    }
    let asked_for = kind.on_stripe(range);
    let asked = match (asked_for.range(), first == last) {
        (Some(_), _) => format!("{} at {}", exact(range.len.0), address(range.start.0)),
        (None, true) => format!("stripe {first}"),
        (None, false) => format!("stripes {first} to {last}"),
    };
    explanation.title =
        format!("{geometry}: {} {asked}, {}", asked_for.name(), state(geometry, &health(last)));
    Ok(explanation)
}

impl Explanation {
    fn add(&mut self, stripe: StripeExplanation) {
        self.cost = self.cost + stripe.cost;
        if let (Some(all), Some(journal)) = (&mut self.journal, &stripe.journal) {
            all.add(journal);
        }
        self.stripes.push(stripe);
    }
}

/// A request on an uninitialised stripe: no I/O, or a write of the whole stripe.
fn uninitialised(
    plan: &mut Plan,
    geometry: &Geometry,
    stripe: StripeIndex,
    request: Request<'static>,
    health: &Health,
) -> Result<Vec<StripeExplanation>, Unplannable> {
    // Only for the picture: no drive is used, so none is shown as missing.
    plan_into(plan, geometry, stripe, request, &Health::optimal(geometry))?;
    let whole = ByteRange::new(ByteOffset::ZERO, geometry.stripe_bytes());
    let heading = stripe_heading(geometry, plan);
    let Request::Write { range } = request else {
        return Ok(vec![StripeExplanation {
            method: Method::Nothing,
            reason: NEVER_WRITTEN.to_owned(),
            steps: Vec::new(),
            cost: Cost::default(),
            heading,
            picture: format!("  cost: {}\n  why:  {NEVER_WRITTEN}\n", cost_text(&Cost::default())),
            ..on_stripe(plan, request.range().unwrap_or(whole), None)
        }]);
    };
    let none = || {
        Some(Recorded::nothing("until it is recorded as initialised, the stripe reads as zeros"))
    };
    let mut parts = Vec::new();
    let is_well = *health == Health::optimal(geometry);
    let mut last = match first_write(geometry, &[range], is_well) {
        FirstWrite::Whole => {
            plan_into(plan, geometry, stripe, Request::Write { range: whole }, health)?;
            on_stripe(plan, whole, none())
        }
        FirstWrite::OverZeros => {
            plan_into(plan, geometry, stripe, Request::WriteZeroes { range: whole }, health)?;
            parts.push(on_stripe(plan, whole, none()));
            let (extents, cached) = ([range], known_zeros(geometry));
            let request = Request::WriteExtents { extents: &extents, cached: &cached };
            plan_into(plan, geometry, stripe, request, health)?;
            StripeExplanation { heading, ..on_stripe(plan, range, none()) }
        }
    };
    last.picture.push_str(&format!("  then: {FIRST_WRITE}\n"));
    last.reason = format!("{}; {FIRST_WRITE}", last.reason);
    parts.push(last);
    Ok(parts)
}

/// The explanation of a plan for a part of its stripe.
fn on_stripe(plan: &Plan, part: ByteRange, journal: Option<Recorded>) -> StripeExplanation {
    let (geometry, stripe) = (plan.geometry(), plan.stripe());
    let mut picture = body(plan);
    if let Some(journal) = journal.as_ref().filter(|_| plan.request().is_write()) {
        picture.push_str(&format!("  log:  {journal}\n"));
    }
    StripeExplanation {
        stripe: stripe.0,
        start_bytes: geometry.stripe_start(stripe).0 + part.start.0,
        size_bytes: part.len.0,
        method: plan.method(),
        reason: reason(plan),
        steps: step_lines(plan),
        cost: plan.cost(),
        journal,
        heading: stripe_heading(geometry, plan),
        picture,
    }
}

fn check_range(
    geometry: &Geometry,
    kind: RequestKind,
    range: ByteRange,
) -> Result<(), Unplannable> {
    let name = kind.name();
    if range.is_empty() {
        let sentence =
            format!("a {name} of 0 bytes does nothing; give a size, such as {name} 8K@1M");
        return Err(refused(ErrorKind::OutOfRange, sentence));
    }
    let capacity = geometry.capacity();
    if range.start.0.checked_add(range.len.0).is_none_or(|end| end > capacity.0) {
        let (len, start) = (exact(range.len.0), address(range.start.0));
        let sentence = format!(
            "a {name} of {len} at {start} goes past the end of the volume, which has {}",
            exact(capacity.0)
        );
        return Err(refused(ErrorKind::OutOfRange, sentence));
    }
    let (first, last) =
        (geometry.stripe_of(range.start).0, geometry.stripe_of(range.end() - ByteCount(1)).0);
    if last.0 - first.0 >= MAX_STRIPES {
        let sentence = format!(
            "a {name} of {} touches {} stripes; at most {MAX_STRIPES} are explained at once: give \
                a smaller size",
            exact(range.len.0),
            last.0 - first.0 + 1
        );
        return Err(refused(ErrorKind::OutOfRange, sentence));
    }
    Ok(())
}

fn refused(kind: ErrorKind, context: String) -> Unplannable {
    Unplannable { kind, context, ranges: Vec::new() }
}
