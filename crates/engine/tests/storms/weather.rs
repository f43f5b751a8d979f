//! The faults of a storm.

use crate::common::{MEMBER, NewDrive, open, range};
use crate::storms::kept::Kept;
use engine::{Change, RegionSet, TaskKind};
use layout::Level;
use platform::IoErrorKind;
use platform_sim::{Rng, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::DriveIndex;

/// One fault, within the tolerance of any level: one drive at a time.
pub async fn blow(kept: &Rc<Kept>, all: &[SimDrive], drives: u16, rng: &mut Rng) {
    // Earlier faults are reported by now.
    kept.env.sleep(Duration::from_millis(20)).await;
    let view = kept.health.get();
    let out = (0..drives).find(|slot| !view.contains(DriveIndex(*slot)));
    let stale = (0..drives).find(|slot| kept.stale.get().contains(DriveIndex(*slot)));
    let of = |slot: u16| &all[usize::from(kept.places.borrow()[usize::from(slot)])];
    match (out, stale) {
        (Some(slot), None) if kept.level == Level::Raid5ee => {
            to_spare_and_back(kept, all, slot, rng).await
        }
        (Some(slot), _)
            if kept.level == Level::Raid5ee
                && kept.stale.get().iter().count() == 1
                && rng.chance(1, 2) =>
        {
            to_spare_and_back(kept, all, slot, rng).await;
        }
        (Some(slot), _) => {
            if rng.chance(2, 3) {
                kept.replacement.set(None);
                kept.apply(Change::ReplacementEnded { slot: DriveIndex(slot) }, None).await;
                kept.replace(slot).await;
            }
        }
        (None, Some(slot)) => match rng.below(5) {
            0 => of(slot).fail_now(),
            1 => kept.replace(slot).await,
            2 => of(slot).fail_next(1 + rng.below(2), Some("write"), IoErrorKind::Medium),
            3 if kept.running.get().is_none() || kept.ended().is_some() => {
                kept.begin(TaskKind::Rebuild { slot: DriveIndex(slot) }).await;
            }
            _ => {}
        },
        (None, None) => strike(kept, all, drives, rng).await,
    }
}

/// A fault of one of the drives, all of which are online and current.
async fn strike(kept: &Rc<Kept>, all: &[SimDrive], drives: u16, rng: &mut Rng) {
    let of = |slot: u16| &all[usize::from(kept.places.borrow()[usize::from(slot)])];
    let slot = rng.below(u64::from(drives)) as u16;
    let index = DriveIndex(slot);
    match rng.below(9) {
        0 => of(slot).fail_now(),
        1 => {
            let held = of(slot).clone();
            held.hold();
            let env = kept.env.clone();
            let later = Duration::from_millis(rng.below(500));
            kept.env.spawn("later", async move {
                env.sleep(later).await;
                held.release();
            });
            kept.env.sleep(Duration::from_millis(900)).await;
        }
        2 => {
            of(slot).fail_next(1, Some("write"), IoErrorKind::Medium);
            kept.env.sleep(Duration::from_millis(20)).await;
            of(slot).cancel_failures();
        }
        3 => {
            let view = kept.health.get();
            let health = view.without(index);
            kept.health.set(health);
            kept.stale.set(kept.stale.get().with(index));
            let stale = kept.regions.clone();
            let change = NewDrive { slot: index, source: None, stale, in_service: health };
            kept.tell(|done| change.message(done)).await;
        }
        4 => {
            let at = rng.below(MEMBER.0 / 512) * 512;
            of(slot).make_unreadable(range(at, 512 * (1 + rng.below(4))));
            kept.env.sleep(Duration::from_millis(5)).await;
            of(slot).heal(range(0, MEMBER.0));
        }
        5 | 6 => replace_in_use(kept, all, slot, rng).await,
        7 => {
            kept.stop().await;
            kept.begin(TaskKind::Check { repair: true }).await;
        }
        _ => kept.env.sleep(Duration::from_millis(30)).await,
    }
}

/// A drive is copied to another one, which takes its slot after success.
async fn replace_in_use(kept: &Rc<Kept>, all: &[SimDrive], slot: u16, rng: &mut Rng) {
    let index = DriveIndex(slot);
    let Some(spare) = kept.spare() else { return };
    kept.stop().await;
    if kept.replacement.get().is_some() {
        return;
    }
    kept.replacement.set(Some((slot, spare)));
    let source = open(&kept.env, spare).await;
    kept.apply(Change::ReplacementBegan { slot: index, left: RegionSet::EMPTY }, Some(source))
        .await;
    kept.begin(TaskKind::Copy { slot: index }).await;
    if rng.chance(1, 4) {
        all[usize::from(spare)].fail_next(1, Some("write"), IoErrorKind::Medium);
    }
    if rng.chance(1, 5) {
        all[usize::from(kept.places.borrow()[usize::from(slot)])].fail_now();
    }
    let whole = kept.wait_ended().await;
    let view = kept.health.get();
    if whole && kept.replacement.get() == Some((slot, spare)) && view.contains(index) {
        kept.replacement.set(None);
        kept.places.borrow_mut()[usize::from(slot)] = spare;
        kept.apply(Change::Promoted { slot: index, stale: RegionSet::EMPTY }, None).await;
    } else {
        kept.replacement.set(None);
        kept.apply(Change::ReplacementEnded { slot: index }, None).await;
    }
    kept.running.set(None);
}

/// Unreadable sectors, many at a time, while drives are rebuilt and copied.
pub async fn hail(kept: &Rc<Kept>, all: &[SimDrive], drives: u16, rng: &mut Rng) {
    let slot = rng.below(u64::from(drives)) as u16;
    let of = |slot: u16| &all[usize::from(kept.places.borrow()[usize::from(slot)])];
    let whole = kept.stale.get().is_empty();
    match rng.below(6) {
        0 if whole && kept.level != Level::Raid0 => kept.replace(slot).await,
        1 if whole => {
            let Some(spare) = kept.spare() else { return };
            let index = DriveIndex(slot);
            kept.stop().await;
            let source = open(&kept.env, spare).await;
            kept.apply(
                Change::ReplacementBegan { slot: index, left: RegionSet::EMPTY },
                Some(source),
            )
            .await;
            kept.begin(TaskKind::Copy { slot: index }).await;
            assert!(kept.wait_ended().await, "all but the lost blocks is copied");
            kept.places.borrow_mut()[usize::from(slot)] = spare;
            kept.apply(Change::Promoted { slot: index, stale: RegionSet::EMPTY }, None).await;
        }
        2 if whole => {
            kept.stop().await;
            kept.begin(TaskKind::Check { repair: true }).await;
        }
        _ => {
            // Adjacent sectors on several drives: columns with more unreadable strips than
            // redundancy.
            let at = rng.below(MEMBER.0 / 512 - 8) * 512;
            for slot in 0..drives {
                if rng.chance(1, 2) {
                    of(slot)
                        .make_unreadable(range(at + 512 * rng.below(3), 512 * (1 + rng.below(4))));
                }
            }
        }
    }
}

/// RAID 5EE: a failed drive's strips move into the distributed spare, another drive is replaced,
/// and a copyback returns them.
async fn to_spare_and_back(kept: &Rc<Kept>, all: &[SimDrive], slot: u16, rng: &mut Rng) {
    let index = DriveIndex(slot);
    kept.replacement.set(None);
    kept.apply(Change::ReplacementEnded { slot: index }, None).await;
    kept.stop().await;
    kept.begin(TaskKind::Relocate { slot: index }).await;
    assert!(kept.wait_ended().await, "all strips are moved");
    kept.env.sleep(Duration::from_millis(rng.below(50))).await;
    let drives = kept.places.borrow().len() as u16;
    if rng.chance(1, 2) {
        let other = (slot + 1 + rng.below(u64::from(drives) - 1) as u16) % drives;
        let place = kept.places.borrow()[usize::from(other)];
        all[usize::from(place)].fail_now();
        kept.env.sleep(Duration::from_millis(300)).await;
        kept.replace(other).await;
        if rng.chance(1, 2) {
            kept.wait_ended().await;
        }
    }
    while !kept.stale.get().without(index).is_empty() {
        kept.env.sleep(Duration::from_millis(1)).await;
    }
    let Some(spare) = kept.spare() else { return };
    kept.stop().await;
    kept.places.borrow_mut()[usize::from(slot)] = spare;
    let source = open(&kept.env, spare).await;
    let view = kept.health.get();
    let health = view.with(index);
    kept.health.set(health);
    kept.stale.set(kept.stale.get().without(index));
    let stale = RegionSet::EMPTY;
    let change = NewDrive { slot: index, source: Some(source), stale, in_service: health };
    kept.tell(|done| change.message(done)).await;
    kept.begin(TaskKind::Restore { slot: index }).await;
    assert!(kept.wait_ended().await, "all strips are back");
    kept.running.set(None);
}

/// All drives are rebuilt.
pub async fn calm(kept: &Rc<Kept>, all: &[SimDrive], drives: u16) {
    for _ in 0..6 {
        kept.env.sleep(Duration::from_secs(1)).await;
        let view = kept.health.get();
        all.iter().for_each(SimDrive::cancel_failures);
        let behind = (0..drives).find(|slot| {
            let index = DriveIndex(*slot);
            !view.contains(index) || kept.stale.get().contains(index)
        });
        let Some(slot) = behind else { break };
        kept.replace(slot).await;
        kept.wait_ended().await;
    }
    kept.stop().await;
    assert!(kept.stale.get().is_empty(), "all is rebuilt");
}
