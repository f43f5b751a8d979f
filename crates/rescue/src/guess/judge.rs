//! Examines the best candidates closely, and ranks them.

use super::order::{Weights, place};
use super::probes::Anchor;
use super::sample::{BLOCK, Cell, Reader, Window};
use super::{
    Candidate, Guess, LEAST, LISTED, MET, Sampled, Sureness, TIED, UNMET, continuity_points,
};
use layout::{CopyIndex, DataIndex, ParityIndex};
use parity::Source;
use std::collections::BTreeMap;
use units::StripeIndex;

/// The number of rows for which Q is computed.
const Q_ROWS: u64 = 48;
/// Points for a start with no data before it and data at it.
const BEGINS: f64 = 3.0;
/// Points for a start when most drives hold data before it.
const DATA_BEFORE: f64 = -10.0;
/// The best of many random orders exceeds the mean by this many standard deviations.
const CHANCE: f64 = 4.0;
/// More deviations than this mean more boundaries, not a better order.
const MOST_DEVIATIONS: f64 = 12.0;
/// Points for a candidate with a missing drive: the evidence must outweigh this.
const MISSING: f64 = -3.0;

/// Sets points and evidence. Returns whether the candidate is possible.
pub(super) async fn judge(sampled: &Sampled, candidate: &mut Candidate) -> bool {
    match before(&sampled.windows, candidate.start.0) {
        Some(Before::Nothing) => {
            candidate.points += BEGINS;
            candidate.evidence.push("data begin at this offset".into());
        }
        Some(Before::Data) => {
            candidate.points += DATA_BEFORE;
            candidate.evidence.push("contradicting: there are data just before the start".into());
        }
        None => {}
    }
    judge_order(sampled, candidate).await
}

/// Like [`judge`], for a known start of data.
pub(super) async fn judge_order(sampled: &Sampled, candidate: &mut Candidate) -> bool {
    let Sampled { reader, windows, anchors } = sampled;
    if !computes(reader, candidate).await {
        return false;
    }
    let (continuity, deviations) = continuity(windows, candidate);
    candidate.points +=
        continuity_points(continuity) + (deviations - CHANCE).clamp(0.0, MOST_DEVIATIONS);
    if continuity > 0.1 {
        let percent = (100.0 * continuity).round();
        candidate
            .evidence
            .push(format!("data continue across strips ({percent} % of the maximum)"));
    }
    if candidate.order.iter().any(Option::is_none) {
        candidate.points += MISSING;
    }
    if candidate.geometry.data_strips() == 1 {
        candidate.points += 2.0 * MET;
        candidate.evidence.push("all drives hold the same data".into());
    }
    probe(reader, anchors, candidate).await;
    true
}

/// Whether Q agrees with the layout in a sample of rows. True for layouts without Q.
async fn computes(reader: &Reader, candidate: &mut Candidate) -> bool {
    let geometry = candidate.geometry;
    if geometry.parity_strips() < 2 {
        return true;
    }
    let rows = geometry.stripes().0;
    let (mut right, mut wrong) = (0, 0);
    for number in 0..rows.min(Q_ROWS) {
        // Spread over the drives, with neighbouring rows, so that every rotation of the layout
        // occurs.
        let row =
            if rows <= Q_ROWS { number } else { rows / (Q_ROWS / 8) * (number / 8) + number % 8 };
        match computes_row(reader, candidate, row).await {
            Some(true) => right += 1,
            Some(false) => wrong += 1,
            None => {}
        }
    }
    if right == 0 || wrong * 8 > right {
        return false;
    }
    candidate.points += (4 * right).min(60) as f64 - (8 * wrong) as f64;
    candidate.evidence.push(format!("P and Q are right in {right} of {} rows", right + wrong));
    true
}

/// Whether P and Q of a row agree with its data under this layout; `None` without usable data.
async fn computes_row(reader: &Reader, candidate: &Candidate, row: u64) -> Option<bool> {
    let geometry = candidate.geometry;
    let map = geometry.stripe_map(StripeIndex(row));
    let mut data = Vec::new();
    for index in (0..geometry.data_strips()).map(DataIndex) {
        let cell = map.data_cell(index, CopyIndex(0));
        let drive = candidate.order.get(cell.drive.as_usize()).copied().flatten()?;
        data.push((
            map.q_exponent(index),
            reader.block(drive, candidate.start.0 + cell.offset.0).await?,
        ));
    }
    let mut parity = Vec::new();
    for index in [ParityIndex(0), ParityIndex(1)] {
        let cell = map.parity_cell(index)?;
        let drive = candidate.order.get(cell.drive.as_usize()).copied().flatten()?;
        parity.push(reader.block(drive, candidate.start.0 + cell.offset.0).await?);
    }
    if data.iter().all(|(_, block)| block.iter().all(|byte| *byte == 0)) {
        return None;
    }
    let sources: Vec<Source> =
        data.iter().map(|(exponent, block)| Source::new(*exponent, block)).collect();
    let (mut p, mut q) = (vec![0; BLOCK as usize], vec![0; BLOCK as usize]);
    parity::generate_pq(&mut p, &mut q, &sources).ok()?;
    Some(p == parity[0] && q == parity[1])
}

/// Continuity of data across strips in this order: as a share of the maximum, and in standard
/// deviations.
fn continuity(windows: &[Window], candidate: &Candidate) -> (f64, f64) {
    let geometry = candidate.geometry;
    if geometry.data_strips() == 1 && geometry.spans() == 1 {
        return (0.0, 0.0);
    }
    let first: Vec<Option<usize>> = match geometry.spans() {
        1 => candidate.order.clone(),
        // The first readable copy of a mirror.
        _ => {
            let width = geometry.drives_per_span().as_usize().max(1);
            candidate
                .order
                .chunks(width)
                .map(|span| span.iter().copied().flatten().next())
                .collect()
        }
    };
    let striped = match geometry.spans() {
        1 => Ok(geometry),
        spans => layout::Shape::new(layout::Level::Raid0, units::DriveCount(spans))
            .geometry(geometry.strip(), geometry.member_size()),
    };
    let Ok(striped) = striped else { return (0.0, 0.0) };
    let chosen: Vec<usize> = first.iter().flatten().copied().collect();
    let missing = first.iter().any(Option::is_none);
    let narrow = super::narrowed(windows, &chosen, missing);
    let mut weights = Weights::new(first.len(), first.len());
    weights.look(&narrow, &striped, candidate.start.0, false);
    let mut next = 0;
    let order: Vec<usize> = first
        .iter()
        .map(|drive| match drive {
            Some(_) => {
                next += 1;
                next - 1
            }
            None => chosen.len(),
        })
        .collect();
    (weights.continuity(&order), weights.deviations(&order))
}

/// The content just before the start of data.
enum Before {
    /// Zeros followed by data, or no space before the start.
    Nothing,
    /// Data of the same kind as after the start.
    Data,
}

/// Examines the content before the start. Formats leave space there, so data on most drives belong
/// to the array. `None` without usable data.
fn before(windows: &[Window], start: u64) -> Option<Before> {
    let end = |window: &&Window| window.start + window.blocks() as u64 * BLOCK;
    let is_of = |window: &&Window| window.start < start.max(1) && start <= end(window);
    let window = windows.iter().find(is_of)?;
    let at = ((start - window.start) / BLOCK) as usize;
    let holds = |own: &[Option<Cell>]| {
        own.iter().any(|cell| cell.as_ref().is_none_or(|cell| cell.hash != 0 || cell.head[0] != 0))
    };
    let before = at.saturating_sub(16)..at;
    let count = window.cells.iter().filter(|own| holds(&own[before.clone()])).count();
    if count * 2 > window.cells.len() {
        return Some(Before::Data);
    }
    let begins = window.cells.iter().any(|own| own.get(at..at + 1).is_some_and(holds));
    (begins && count == 0).then_some(Before::Nothing)
}

/// Checks the places where a file system's structures must be.
async fn probe(
    reader: &Reader,
    anchors: &BTreeMap<(u64, usize), Anchor>,
    candidate: &mut Candidate,
) {
    let start = candidate.start.0;
    let geometry = candidate.geometry;
    let mut told: Vec<(&'static str, usize, usize)> = Vec::new();
    let mut seen = Vec::new();
    for ((_, drive), anchor) in anchors.range((start, 0)..=(start, usize::MAX)) {
        // Parity and copies may hold the same anchor: only the drive with the first strip counts.
        let Some((slot, at)) = place(&geometry, start, anchor.back) else { continue };
        let is_first = candidate.order.get(slot).copied().flatten() == Some(*drive)
            && at == start + anchor.back;
        if !is_first || seen.contains(&anchor) {
            continue;
        }
        seen.push(anchor);
        candidate.points += MET;
        candidate.evidence.push(format!("{} is at its beginning", anchor.what));
        for probe in &anchor.probes {
            let Some((slot, at)) = place(&geometry, start, probe.at) else { continue };
            let drive = candidate.order.get(slot).copied().flatten().unwrap_or(reader.drives());
            let Some(block) = reader.block(drive, at / BLOCK * BLOCK).await else { continue };
            let is_met = probe.is_met(&block);
            candidate.points += if is_met { MET } else { UNMET };
            match told.iter_mut().find(|(what, ..)| *what == probe.what) {
                Some((_, met, all)) => (*met, *all) = (*met + usize::from(is_met), *all + 1),
                None => told.push((probe.what, usize::from(is_met), 1)),
            }
        }
    }
    let said = told.iter().map(|(what, met, all)| format!("{what}: {met} of {all}"));
    candidate.evidence.extend(said);
}

/// Sorts the candidates, best first, and calculates each margin.
pub(super) fn rank(guess: &mut Guess) {
    let candidates = &mut guess.candidates;
    candidates.sort_by(|a, b| b.points.total_cmp(&a.points));
    candidates
        .dedup_by(|a, b| a.order == b.order && a.start == b.start && a.geometry == b.geometry);
    candidates.truncate(LISTED);
    let has_parity_alone = |candidate: &Candidate| candidate.geometry.data_strips() == 1;
    if candidates.first().is_some_and(|best| best.points < LEAST && !has_parity_alone(best)) {
        guess
            .findings
            .push("nothing tells orders, strips or layouts apart: all drives look alike".into());
    }
    for index in 0..candidates.len() {
        let next = candidates.get(index + 1).map_or(0.0, |next| next.points.max(0.0));
        let margin = candidates[index].points - next;
        candidates[index].margin = margin;
        candidates[index].sureness = match candidates[index].points {
            points if points < LEAST && candidates.len() > 1 => Sureness::Tied,
            _ => Sureness::of(margin),
        };
    }
    // A candidate as good as the previous one is tied as well.
    for index in 1..candidates.len() {
        // Candidates after a tie are never sure: another candidate is ahead of them.
        candidates[index].sureness = candidates[index].sureness.min(Sureness::Weak);
        if candidates[index - 1].points - candidates[index].points < TIED {
            candidates[index].sureness = Sureness::Tied;
        }
    }
    let tied =
        candidates.windows(2).take_while(|pair| pair[0].points - pair[1].points < TIED).count();
    if tied > 0 {
        guess.findings.push(format!("candidates 1 to {} cannot be told apart", tied + 1));
    }
}
