//! Guesses the layout of an array whose metadata are lost: drives, order, level, layout, strip and
//! start of data.
//!
//! ```text
//! windows of all drives ─► redundancy ─► families
//!   (sample.rs)            (redundancy.rs)
//!   ─► for each layout, strip, start: weights ─► orders ─► the best, probed, ranked
//!                             (order.rs, probes.rs)
//! ```
//!
//! # Evidence
//! - *Parity consistency* does not depend on order, strip or layout. All drives XOR to zero (single
//!   parity), all but one that changes from row to row (double parity: that one holds Q), or pairs
//!   are equal (mirrors).
//! - *File systems* determine where more of their structures must be: superblock copies, allocation
//!   groups, the root's inode.
//! - *Continuity*: the end of a strip resembles the beginning of the next more than any other.
//! - *Q* is computed: only the right order of the data reproduces it.
//!
//! Points are natural logarithms of the likelihood of the evidence in this layout against chance.
//! The margin between two candidates gives the sureness. Candidates that the evidence cannot
//! separate are reported as tied.

mod judge;
mod order;
mod places;
mod probes;
mod redundancy;
mod sample;

use judge::{judge, rank};
use layout::{Geometry, Level, ParityArrangement, Shape};
use order::{CONTINUITY, Order, Weights, place};
pub use places::places;
use platform::{DriveSource, Env};
use probes::{Anchor, anchor};
use sample::{BLOCK, Reader, Window};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, DriveCount, StripSize, counted};

/// Offsets of data in the supported formats. DDF, IMSM, md 0.90 and 1.0: 0. md 1.1 and 1.2: 1 MiB,
/// more with bitmaps, journals or space for a reshape.
const STARTS: [u64; 7] = [0, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 128 << 20, 129 << 20];
/// The number of candidates that are examined closely, and that are listed.
const CLOSE: usize = 48;
const LISTED: usize = 8;
/// Points of a probe that matches, and of one that does not.
const MET: f64 = 8.0;
const UNMET: f64 = -3.0;
/// Candidates with a smaller margin are tied.
const TIED: f64 = 1.0;
/// Fewer points are no evidence.
const LEAST: f64 = 4.0;

/// How clearly a candidate is ahead of the next different one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sureness {
    /// Another candidate is as good.
    Tied,
    /// Slightly ahead.
    Weak,
    /// Well ahead.
    Likely,
    /// No other candidate is close.
    Sure,
}

impl Sureness {
    /// Its name in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Sureness::Tied => "tied",
            Sureness::Weak => "weak",
            Sureness::Likely => "likely",
            Sureness::Sure => "sure",
        }
    }

    fn of(margin: f64) -> Sureness {
        match margin {
            margin if margin < TIED => Sureness::Tied,
            margin if margin < 4.0 => Sureness::Weak,
            margin if margin < 12.0 => Sureness::Likely,
            _ => Sureness::Sure,
        }
    }
}

/// A possible arrangement of the drives.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The layout; the member size is the smallest drive's space after the start.
    pub geometry: Geometry,
    /// The drive of each slot, as an index into the given drives; `None`: missing.
    pub order: Vec<Option<usize>>,
    /// The offset of data on each drive.
    pub start: ByteOffset,
    /// The serial number that the metadata use for each drive, if they contain everything except
    /// the order ([`places`]).
    pub serials: Vec<(usize, String)>,
    /// Points for it minus points against it.
    pub points: f64,
    /// The evidence, a few words each.
    pub evidence: Vec<String>,
    /// The margin to the next candidate, in points.
    pub margin: f64,
    /// The margin as a word.
    pub sureness: Sureness,
}

/// The result of a guess.
#[derive(Clone, Debug, Default)]
pub struct Guess {
    /// Candidates, best first; empty without evidence.
    pub candidates: Vec<Candidate>,
    /// Findings that do not depend on the order, as sentences.
    pub findings: Vec<String>,
}

/// A level with its layouts and number of slots, of which one may be missing.
struct Family {
    shape: Shape,
    /// For each chosen slot, the drives with equal content: the first is used.
    groups: Vec<Vec<usize>>,
    /// Whether one more slot than drives is computed from all drives.
    has_missing: bool,
    has_q: bool,
    /// Slots whose group is known: the missing one has the index after the last group.
    fixed: Vec<(usize, usize)>,
    /// The number of orders that are examined closely.
    most: usize,
}

/// The number of orders per layout that are examined closely, when the layout is guessed too.
const ORDERS: usize = 6;

/// Samples of the drives: windows, and the file system anchors in them, by volume start and by
/// drive.
struct Sampled {
    reader: Reader,
    windows: Vec<Window>,
    anchors: BTreeMap<(u64, usize), Anchor>,
}

impl Sampled {
    async fn new(env: &Env, sources: &[Arc<dyn DriveSource>]) -> Result<Sampled, String> {
        if sources.len() < 2 || sources.len() > 24 {
            return Err(format!(
                "{} can be opened, and guessing takes 2 to 24; name all drives of the array",
                counted(sources.len(), "drive")
            ));
        }
        let reader = Reader::new(env, sources)?;
        if reader.size < 1 << 20 {
            return Err("the smallest drive has less than 1 MiB, too little for a guess".into());
        }
        let mut anchors: BTreeMap<(u64, usize), Anchor> = BTreeMap::new();
        let windows = reader
            .windows(|drive, at, block| {
                if let Some(anchor) =
                    anchor(block).filter(|anchor| at >= anchor.back && anchors.len() < 64)
                {
                    anchors.insert((at - anchor.back, drive), anchor);
                }
            })
            .await;
        Ok(Sampled { reader, windows, anchors })
    }
}

/// Guesses how these drives form an array. They are only read.
///
/// # Errors
/// A sentence, when there are fewer than two drives or they cannot be read.
pub async fn guess(env: &Env, sources: &[Arc<dyn DriveSource>]) -> Result<Guess, String> {
    let sampled = Sampled::new(env, sources).await?;
    let Sampled { reader, windows, anchors } = &sampled;
    let mut guess = Guess::default();
    let families = families(windows, reader.drives(), &mut guess.findings);
    let mut rough: Vec<(f64, Candidate)> = Vec::new();
    let mut starts: Vec<u64> = STARTS.to_vec();
    starts.extend(anchors.keys().map(|(at, _)| *at).filter(|at| at % BLOCK == 0).take(8));
    starts.retain(|start| start + BLOCK < reader.size && begins(windows, *start));
    starts.sort_unstable();
    starts.dedup();
    for family in &families {
        for start in &starts {
            for shift in StripSize::MIN.shift()..=StripSize::MAX.shift() {
                rough.extend(orders(&sampled, family, *start, shift).await);
            }
        }
    }
    rough.sort_by(|a, b| b.0.total_cmp(&a.0));
    rough.truncate(CLOSE);
    for (_, mut candidate) in rough {
        if judge(&sampled, &mut candidate).await {
            guess.candidates.push(candidate);
        }
    }
    rank(&mut guess);
    Ok(guess)
}

/// Whether there are data at this start; a start within zeros is none.
fn begins(windows: &[Window], start: u64) -> bool {
    let Some(window) = windows.iter().find(|window| {
        window.start <= start && start < window.start + window.blocks() as u64 * BLOCK
    }) else {
        return true;
    };
    let from = ((start - window.start) / BLOCK) as usize;
    let blocks = from..(from + 256).min(window.blocks());
    let is_told = |own: &Vec<Option<sample::Cell>>| {
        own[blocks.clone()].iter().flatten().any(|cell| cell.hash != 0)
    };
    window.cells.iter().any(is_told)
}

/// A family of this many groups of equal drives, perhaps with one missing.
fn family(
    level: Level,
    parity: Option<ParityArrangement>,
    groups: &[Vec<usize>],
    missing: usize,
) -> Family {
    Family {
        shape: Shape { parity, ..Shape::new(level, DriveCount((groups.len() + missing) as u16)) },
        groups: groups.to_vec(),
        has_missing: missing > 0,
        has_q: level == Level::Raid6,
        fixed: Vec::new(),
        most: ORDERS,
    }
}

/// The same with each parity layout that can be distinguished.
fn rotating(level: Level, groups: &[Vec<usize>], missing: usize) -> Vec<Family> {
    let arrangements = level.row().parity_arrangements.iter().copied();
    // Parity on the first drive equals parity on the last with another order.
    let told_apart = arrangements.filter(|parity| *parity != ParityArrangement::ParityFirst);
    told_apart.map(|parity| family(level, Some(parity), groups, missing)).collect()
}

/// A family of mirrors: groups of equal drives, at least one with several drives.
fn family_of_mirrors(mirrors: Vec<Vec<usize>>) -> Family {
    match &mirrors[..] {
        [all] => Family {
            shape: Shape::new(Level::Raid1, DriveCount(all.len() as u16)),
            groups: mirrors,
            has_missing: false,
            has_q: false,
            fixed: Vec::new(),
            most: ORDERS,
        },
        // A mirror with one missing half is a group of one drive.
        _ => family(Level::Raid0, None, &mirrors, 0),
    }
}

/// Returns the levels that the redundancy permits, and adds findings.
fn families(windows: &[Window], drives: usize, findings: &mut Vec<String>) -> Vec<Family> {
    let found = redundancy::redundancy(windows, drives);
    let percent = |count: usize| count * 100 / found.told.max(1);
    if found.told == 0 {
        findings.push("all samples of the drives contain only constant bytes".into());
        return Vec::new();
    }
    let is_blank = |drive: usize| {
        let cells = windows.iter().flat_map(|window| window.cells[drive].iter().flatten());
        cells.into_iter().all(|cell| cell.hash == 0)
    };
    let single: Vec<Vec<usize>> =
        (0..drives).filter(|drive| !is_blank(*drive)).map(|drive| vec![drive]).collect();
    for drive in (0..drives).filter(|drive| is_blank(*drive)) {
        findings.push(format!("drive {drive} contains only constant bytes, so it is ignored"));
    }
    let mut mirrors = found.mirrors();
    mirrors.iter_mut().for_each(|group| group.retain(|drive| !is_blank(*drive)));
    mirrors.retain(|group| !group.is_empty());
    if mirrors.len() < single.len() {
        findings.push(format!("drives with the same content: {}", groups_text(&mirrors)));
        return vec![family_of_mirrors(mirrors)];
    }
    if let Some(outsider) = found.outsider() {
        findings.push(format!(
            "all drives but {outsider} XOR to zero: it is no member, or holds Q for all the others"
        ));
        let groups: Vec<Vec<usize>> =
            single.into_iter().filter(|group| group[0] != outsider).collect();
        return rotating(Level::Raid5, &groups, 0);
    }
    if found.is_single_parity() {
        findings.push(format!(
            "all drives XOR to zero in {} % of the blocks: single parity",
            percent(found.zero)
        ));
        return rotating(Level::Raid5, &single, 0);
    }
    if found.is_double_parity() {
        let all: usize = found.all_but.iter().sum();
        findings.push(format!(
            "all drives but one, which changes, XOR to zero in {} % of the blocks: double parity",
            percent(all)
        ));
        return rotating(Level::Raid6, &single, 0);
    }
    findings.push(format!(
        "the drives XOR to zero in {} % of the blocks only: no parity, or a drive is missing",
        percent(found.zero)
    ));
    let mut families = vec![family(Level::Raid0, None, &single, 0)];
    families.extend(rotating(Level::Raid5, &single, 1));
    // If one drive held all parity and is missing, the rest is RAID 0.
    let is_told_apart =
        |family: &Family| family.shape.level != Level::Raid5 || family.shape.drives.0 > 2;
    families.retain(is_told_apart);
    families
}

fn groups_text(groups: &[Vec<usize>]) -> String {
    let group =
        |group: &Vec<usize>| group.iter().map(usize::to_string).collect::<Vec<_>>().join(" = ");
    groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

/// The best orders of a family for this start and strip, each with its points so far.
async fn orders(
    sampled: &Sampled,
    family: &Family,
    start: u64,
    strip_shift: u32,
) -> Vec<(f64, Candidate)> {
    let Sampled { reader, windows, anchors } = sampled;
    let Ok(strip) = StripSize::new(ByteCount(1 << strip_shift)) else { return Vec::new() };
    let has_strip = !matches!(family.shape.level, Level::Raid1);
    if !has_strip && strip != StripSize::KIB_64 {
        return Vec::new();
    }
    let Ok(geometry) = family.shape.geometry(strip, ByteCount(reader.size - start)) else {
        return Vec::new();
    };
    if !has_strip {
        let order = family.groups.concat().into_iter().map(Some).collect();
        return vec![(0.0, candidate(geometry, order, start))];
    }
    let all = family.groups.len() + usize::from(family.has_missing);
    // Weights index the groups' first drives by their position; the missing one is last.
    let chosen: Vec<usize> = family.groups.iter().map(|group| group[0]).collect();
    let narrowed = narrowed(windows, &chosen, family.has_missing);
    let mut weights = Weights::new(all, all);
    weights.look(&narrowed, &geometry, start, family.has_q);
    family.fixed.iter().for_each(|(slot, group)| weights.fix(*slot, *group));
    let drive_of = |index: usize| chosen.get(index).copied().unwrap_or(reader.drives());
    for ((_, drive), anchor) in anchors.range((start, 0)..=(start, usize::MAX)) {
        if let (Some((slot, at)), Some(index)) =
            (place(&geometry, start, anchor.back), chosen.iter().position(|chosen| chosen == drive))
            && at == start + anchor.back
        {
            weights.add(slot, index, MET);
        }
        for probe in &anchor.probes {
            let Some((slot, at)) = place(&geometry, start, probe.at) else { continue };
            for index in 0..all {
                let block = reader.block(drive_of(index), at / BLOCK * BLOCK).await;
                if block.is_some_and(|block| probe.is_met(&block)) {
                    weights.add(slot, index, MET);
                }
            }
        }
    }
    let made = |order: Order| {
        let points = order.alone + continuity_points(order.continuity);
        let order: Vec<Option<usize>> =
            order.drives.iter().map(|index| chosen.get(*index).copied()).collect();
        // Without the drive that holds all parity, the array is RAID 0, a candidate of its own.
        let is_raid0 = family.shape.parity == Some(ParityArrangement::ParityLast)
            && order.last() == Some(&None);
        (!is_raid0).then_some(())?;
        Some((points, mirrored(family, geometry, order, start)?))
    };
    weights.orders(family.most).into_iter().filter_map(made).collect()
}

/// The windows of some drives in this order, with their XOR.
fn narrowed(windows: &[Window], chosen: &[usize], with_missing: bool) -> Vec<Window> {
    let narrow = |window: &Window| Window {
        start: window.start,
        cells: chosen.iter().map(|drive| window.cells[*drive].clone()).collect(),
        xor: if with_missing || chosen.len() == window.cells.len() {
            window.xor.clone()
        } else {
            vec![None; window.blocks()]
        },
    };
    windows.iter().map(narrow).collect()
}

fn candidate(geometry: Geometry, order: Vec<Option<usize>>, start: u64) -> Candidate {
    Candidate {
        geometry,
        order,
        start: ByteOffset(start),
        serials: Vec::new(),
        points: 0.0,
        evidence: Vec::new(),
        margin: 0.0,
        sureness: Sureness::Tied,
    }
}

/// The candidate for an order of groups. In striped mirrors each group is a span, with a missing
/// half added.
fn mirrored(
    family: &Family,
    geometry: Geometry,
    order: Vec<Option<usize>>,
    start: u64,
) -> Option<Candidate> {
    let most = family.groups.iter().map(Vec::len).max().unwrap_or(1);
    if most == 1 {
        return Some(candidate(geometry, order, start));
    }
    let spans = family.groups.len();
    let shape = Shape {
        spans: Some(spans as u16),
        ..Shape::new(Level::Raid10, DriveCount((spans * most) as u16))
    };
    let geometry = shape.geometry(geometry.strip(), geometry.member_size()).ok()?;
    let group = |first: &Option<usize>| {
        let group = first.and_then(|first| family.groups.iter().find(|group| group[0] == first));
        let drives = group.into_iter().flatten().copied().map(Some);
        drives.chain(std::iter::repeat(None)).take(most).collect::<Vec<_>>()
    };
    Some(candidate(geometry, order.iter().flat_map(group).collect(), start))
}

/// Continuity as points: squared, since half of a half-right layout's boundaries match by chance.
fn continuity_points(continuity: f64) -> f64 {
    CONTINUITY * continuity * continuity.abs()
}
