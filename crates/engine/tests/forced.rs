//! Volumes that were being written at a crash and miss a drive, started with stale parity accepted:
//! redundancy is used for the missing drive and for nothing else.
//!
//! A RAID 6 volume was started like that: one drive was missing, and an interrupted write was in P
//! and not in Q. Both were trusted. Later a second drive failed, and its blocks, acknowledged long
//! before the crash, were computed from P and Q: garbage.

use crate::common::{
    Bench, PACE, Setup, VOLUME, drive, envs, pattern, range, read, regions, slots, stale, stale_on,
    write,
};
use engine::{Change, ReportKind, ShardMessage, TaskKind};
use layout::{CopyIndex, DataIndex, Geometry, Level, ParityIndex, Role};
use platform_sim::{Sim, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet, StripeIndex};

/// The drive that is missing.
const MISSING: u16 = 0;

fn without(setup: &Setup, missing: &[u16]) -> DriveSet {
    DriveSet::first(setup.geometry().drives()).minus(&slots(missing))
}

fn misses_data(geometry: &Geometry, stripe: StripeIndex) -> bool {
    let is_missing =
        |role: Role, drive: DriveIndex| matches!(role, Role::Data { .. }) && drive.0 == MISSING;
    geometry.stripe_map(stripe).cells().any(|(cell, role)| is_missing(role, cell.drive))
}

/// A volume full of known bytes, after a crash that left its redundancy stale in every stripe: all
/// of it where all data is present, and Q where P computes the missing strip. P is right for the
/// missing strip, so that every byte can be judged.
fn crashed(setup: &Setup, seed: u64) -> (Sim, Vec<SimDrive>, Rc<Vec<u8>>) {
    let mut sim = setup.sim(seed, 0);
    let (first, of) = (envs(&sim, setup), setup.clone());
    let bytes = sim.run(async move {
        let bench = Bench::start(first, &of).await;
        let bytes = pattern(7, bench.volume().spec().capacity.0);
        write(bench.volume(), 0, &bytes).await.expect("writable");
        bench.volume().flush().await.expect("flushed");
        bytes
    });
    sim.kill();
    sim.restart_process();
    let all: Vec<SimDrive> = (0..setup.drives).map(|index| drive(&sim, index)).collect();
    let geometry = setup.geometry();
    let old = pattern(99, geometry.strip().bytes().0);
    for stripe in (0..geometry.stripes().0).map(StripeIndex) {
        let first = u16::from(misses_data(&geometry, stripe));
        for parity in first..geometry.parity_strips() {
            let cell = geometry.parity_cell(stripe, ParityIndex(parity)).expect("parity");
            all[cell.drive.as_usize()].poke(cell.offset, &old);
        }
    }
    (sim, all, Rc::new(bytes.expect("no stall")))
}

/// Starts a crashed volume. `word`: with stale parity accepted.
async fn start(envs: Vec<platform::Env>, setup: &Setup, word: bool) -> Bench {
    let mut attachment = setup.attachment(&envs[0]).await;
    attachment.sources[usize::from(MISSING)] = None;
    attachment.state.apply(&Change::InService(without(setup, &[MISSING])));
    attachment.state.apply(&Change::Unsynced(regions(setup)));
    attachment.state.apply(&Change::Marked(regions(setup)));
    if word {
        attachment.state.apply(&Change::Forced(regions(setup)));
    }
    Bench::attach(envs, attachment).await
}

async fn synced(bench: &Bench, setup: &Setup) {
    for _ in 0..10_000 {
        if bench.count(|kind| matches!(kind, ReportKind::Synced(_)))
            == regions(setup).len() as usize
        {
            return;
        }
        bench.wait(Duration::from_millis(10)).await;
    }
    panic!("{}: its regions are not synced: {:?}", setup.level, bench.reports.borrow());
}

/// Checks that every readable sector is right. Returns the number of unreadable ones.
async fn look(bench: &Bench, bytes: &[u8], why: &str) -> usize {
    let mut errors = 0;
    for (nth, expected) in bytes.chunks(512).enumerate() {
        match read(bench.volume(), nth as u64 * 512, expected.len() as u64).await {
            Ok(got) => assert!(got == expected, "{why}: sector {nth} is wrong"),
            Err(_) => errors += 1,
        }
    }
    errors
}

fn shapes() -> [Setup; 5] {
    [
        (Level::Raid5, 4),
        (Level::Raid6, 5),
        (Level::Raid50, 6),
        (Level::Raid60, 8),
        (Level::Raid5ee, 5),
    ]
    .map(|(level, drives)| Setup::new(level, drives))
}

/// With stale parity accepted, all acknowledged data is there. Once the regions are resynced, the
/// volume tolerates as many further failures as its level.
#[test]
fn what_was_forced_agrees_again_where_redundancy_is_left() {
    for setup in shapes() {
        let geometry = setup.geometry();
        for next in 1..setup.drives {
            let (mut sim, all, bytes) = crashed(&setup, 31);
            let (envs, setup) = (envs(&sim, &setup), setup.clone());
            sim.run(async move {
                let bench = start(envs, &setup, true).await;
                let why = format!("{} without {MISSING} and {next}", setup.level);
                assert_eq!(look(&bench, &bytes, &why).await, 0, "{why}");
                synced(&bench, &setup).await;
                let spread = setup.level == Level::Raid5ee;
                if spread {
                    let slot = DriveIndex(MISSING);
                    bench.begin(TaskKind::Relocate { slot }, PACE).await;
                    bench.wait(Duration::from_secs(60)).await;
                    let moved = Change::Moved { slot, regions: regions(&setup), to_spare: true };
                    bench
                        .tell(|done| ShardMessage::Apply(VOLUME, moved.clone(), None, Some(done)))
                        .await;
                }
                let lost = slots(&[MISSING, next]);
                if !spread && !geometry.survives_set(&lost) {
                    return;
                }
                all[usize::from(next)].fail_now();
                assert_eq!(look(&bench, &bytes, &why).await, 0, "{why}");
            })
            .expect("no stall");
        }
    }
}

/// A write arrived before the resync. Its stripe is resynced first: the write and the rest of the
/// stripe survive another failure at once. The missing strips of other stripes are unknown: an
/// error, never garbage.
#[test]
fn a_stripe_that_is_written_is_settled_first() {
    for (level, drives) in [(Level::Raid6, 6), (Level::Raid60, 8)] {
        for index in 0..3 {
            let setup = Setup { member: ByteCount(2 << 20), ..Setup::new(level, drives) };
            let geometry = setup.geometry();
            let last = (0..geometry.stripes().0).rev().map(StripeIndex);
            let stripe = last.clone().find(|stripe| misses_data(&geometry, *stripe)).expect("one");
            let (mut sim, all, bytes) = crashed(&setup, 32);
            let (envs, setup) = (envs(&sim, &setup), setup.clone());
            let mut bytes = bytes.to_vec();
            let unknown = sim
                .run(async move {
                    let bench = start(envs, &setup, true).await;
                    let index = DataIndex(index % geometry.data_strips());
                    let at = geometry.volume_offset(stripe, index, ByteCount(512)).0;
                    write(bench.volume(), at, &[5; 1024]).await.expect("writable");
                    bytes[at as usize..][..1024].fill(5);
                    let others = (0..geometry.data_strips()).map(DataIndex);
                    let mut drives =
                        others.map(|index| geometry.data_cell(stripe, index, CopyIndex(0)).drive);
                    let next = drives.rfind(|drive| drive.0 != MISSING).expect("another");
                    all[next.as_usize()].fail_now();
                    let start = geometry.stripe_start(stripe).0;
                    for at in (start..start + geometry.stripe_bytes().0).step_by(512) {
                        let got = read(bench.volume(), at, 512).await.expect("settled");
                        assert!(got == bytes[at as usize..][..512], "{level}: at {at}");
                    }
                    // Where P is on the second drive, Q computes the missing strip: it may be
                    // wrong, stale parity is accepted.
                    let told_by_q = |at: u64| {
                        let (stripe, within) = geometry.stripe_of(ByteOffset(at));
                        let home =
                            geometry.data_cell(stripe, geometry.strip_of(within).0, CopyIndex(0));
                        let p = geometry.parity_cell(stripe, ParityIndex(0)).expect("parity");
                        home.drive.0 == MISSING && p.drive == next
                    };
                    let mut unknown = 0;
                    for at in (0..bytes.len() as u64).step_by(512).filter(|at| !told_by_q(*at)) {
                        match read(bench.volume(), at, 512).await {
                            Ok(got) => {
                                assert!(got == bytes[at as usize..][..512], "{level}: at {at}")
                            }
                            Err(_) => unknown += 1,
                        }
                    }
                    unknown
                })
                .expect("no stall");
            assert!(unknown > 0, "{level}: the resync was done before the second drive failed");
        }
    }
}

/// Stale parity is accepted while the volume is online: a drive failed before the resync had
/// passed.
#[test]
fn the_word_can_be_given_while_the_volume_serves() {
    let setup = Setup::new(Level::Raid6, 6);
    let (mut sim, all, bytes) = crashed(&setup, 33);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = start(envs, &setup, false).await;
        bench.wait(Duration::from_secs(30)).await;
        assert!(look(&bench, &bytes, "without the word").await > 0, "unknown data is not guessed");
        assert_eq!(bench.count(|kind| matches!(kind, ReportKind::Synced(_))), 0);
        bench
            .tell(|done| {
                ShardMessage::Apply(VOLUME, Change::Forced(regions(&setup)), None, Some(done))
            })
            .await;
        assert_eq!(look(&bench, &bytes, "with the word").await, 0);
        synced(&bench, &setup).await;
        all[3].fail_now();
        assert_eq!(look(&bench, &bytes, "without a second drive").await, 0);
    })
    .expect("no stall");
}

/// A sector of P cannot be read: Q computes the missing strip there, and P is rewritten.
#[test]
fn where_p_cannot_be_read_q_speaks() {
    let setup = Setup::new(Level::Raid6, 6);
    let geometry = setup.geometry();
    let stripe =
        (0..).map(StripeIndex).find(|stripe| misses_data(&geometry, *stripe)).expect("one");
    let cell = |parity| geometry.parity_cell(stripe, ParityIndex(parity)).expect("parity");
    let (mut sim, all, bytes) = crashed(&setup, 34);
    let envs = envs(&sim, &setup);
    // In these columns Q is right, and P is unreadable.
    let (p, q) = (cell(0), cell(1));
    let of_q = q_of(&geometry, stripe, &bytes);
    all[q.drive.as_usize()].poke(q.offset + ByteCount(512), &of_q[512..1024]);
    all[p.drive.as_usize()].make_unreadable(range(p.offset.0 + 512, 512));
    sim.run(async move {
        let bench = start(envs, &setup, true).await;
        synced(&bench, &setup).await;
        assert_eq!(
            bench.count(|kind| matches!(kind, ReportKind::PuncturedBlocks { .. })),
            0,
            "nothing is lost"
        );
        assert_eq!(look(&bench, &bytes, "after the resync").await, 0);
        let next = geometry.data_cell(stripe, DataIndex(3), CopyIndex(0)).drive;
        all[next.as_usize()].fail_now();
        assert_eq!(look(&bench, &bytes, "without a second drive").await, 0);
    })
    .expect("no stall");
}

/// A block of another drive is unreadable before its stripe is resynced. With the missing drive two
/// strips are unknown, and stale parity was accepted for one: an error, never a result of both P
/// and Q.
#[test]
fn a_block_that_cannot_be_read_beside_the_missing_drive_is_an_error() {
    let setup = Setup::new(Level::Raid6, 4);
    let geometry = setup.geometry();
    let stripe =
        (0..).map(StripeIndex).find(|stripe| misses_data(&geometry, *stripe)).expect("one");
    let data = (0..geometry.data_strips()).map(DataIndex);
    let mut cells = data.map(|index| geometry.data_cell(stripe, index, CopyIndex(0)));
    let other = cells.find(|cell| cell.drive.0 != MISSING).expect("another");
    let (mut sim, all, bytes) = crashed(&setup, 35);
    let envs = envs(&sim, &setup);
    all[other.drive.as_usize()].make_unreadable(range(other.offset.0, 512));
    sim.run(async move {
        let bench = start(envs, &setup, true).await;
        synced(&bench, &setup).await;
        assert_eq!(
            look(&bench, &bytes, "after the resync").await,
            2,
            "the sector, and the missing one"
        );
    })
    .expect("no stall");
}

/// Q of a stripe of known bytes.
fn q_of(geometry: &Geometry, stripe: StripeIndex, bytes: &[u8]) -> Vec<u8> {
    let double = |byte: u8| byte << 1 ^ if byte & 0x80 != 0 { 0x1D } else { 0 };
    let strip = geometry.strip().bytes().as_usize();
    let start = geometry.stripe_start(stripe).0 as usize;
    let mut q = vec![0; strip];
    for index in (0..geometry.data_strips()).map(DataIndex) {
        let data = &bytes[start + usize::from(index.0) * strip..][..strip];
        for (q, byte) in q.iter_mut().zip(data) {
            let raised = (0..geometry.stripe_map(stripe).q_exponent(index))
                .fold(*byte, |byte, _| double(byte));
            *q ^= raised;
        }
    }
    q
}

/// The missing drive returns during the resync: it gets the data computed from the accepted parity,
/// and in the end redundancy agrees whichever drives fail.
#[test]
fn a_drive_that_comes_back_gets_what_was_forced() {
    for (level, drives) in [(Level::Raid5, 4), (Level::Raid6, 6)] {
        let setup = Setup::new(level, drives);
        let (mut sim, all, bytes) = crashed(&setup, 35);
        let envs = envs(&sim, &setup);
        all[usize::from(MISSING)].poke(ByteOffset(0), &pattern(50, setup.member.0));
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            attachment.state = stale(attachment.state, &stale_on(&setup, MISSING));
            attachment.state.apply(&Change::Unsynced(regions(&setup)));
            attachment.state.apply(&Change::Marked(regions(&setup)));
            attachment.state.apply(&Change::Forced(regions(&setup)));
            let bench = Bench::attach(envs, attachment).await;
            bench.begin(TaskKind::Rebuild { slot: DriveIndex(MISSING) }, PACE).await;
            assert_eq!(look(&bench, &bytes, "while it is rebuilt").await, 0);
            bench.wait(Duration::from_secs(60)).await;
            synced(&bench, &setup).await;
            all[3].fail_now();
            assert_eq!(look(&bench, &bytes, "without another drive").await, 0, "{level}");
            if level == Level::Raid6 {
                all[2].fail_now();
                assert_eq!(look(&bench, &bytes, "without two others").await, 0);
            }
        })
        .expect("no stall");
    }
}

/// Starts a crashed volume with all drives present, after a replay of its journal.
async fn start_covered(envs: Vec<platform::Env>, setup: &Setup) -> Bench {
    let mut attachment = setup.attachment(&envs[0]).await;
    attachment.state.apply(&Change::Unsynced(regions(setup)));
    attachment.state.apply(&Change::Marked(regions(setup)));
    attachment.state.apply(&Change::ForcedByLog(regions(setup)));
    Bench::attach(envs, attachment).await
}

/// After the resync Q is as good as P: it is the only redundancy left for one strip, whichever.
async fn look_at_q(bench: &Bench, setup: &Setup, all: &[SimDrive], bytes: &[u8], why: &str) {
    synced(bench, setup).await;
    let geometry = setup.geometry();
    let p = geometry.parity_cell(StripeIndex(0), ParityIndex(0)).expect("parity").drive;
    all[usize::from(MISSING)].fail_now();
    if p.0 != MISSING {
        all[p.as_usize()].fail_now();
    }
    assert_eq!(look(bench, bytes, why).await, 0, "{why}");
}

/// A block was unreadable when its stripe was resynced. P computed it and was then the only current
/// redundancy: Q stayed stale, and the region counted as synced (`torture --seed 2021223`). The
/// same for a block that no write repairs: the computed block was excluded on its drive, and Q
/// stayed stale.
#[test]
fn what_p_tells_of_a_block_is_told_to_q() {
    let setup = Setup::new(Level::Raid6, 6);
    let geometry = setup.geometry();
    for (sector, is_repaired) in [(0, true), (3, true), (0, false), (3, false)] {
        let (mut sim, all, bytes) = crashed(&setup, 36);
        let envs = envs(&sim, &setup);
        for stripe in (0..geometry.stripes().0).map(StripeIndex) {
            let data = (0..geometry.data_strips()).map(DataIndex);
            let mut data = data.map(|index| geometry.data_cell(stripe, index, CopyIndex(0)));
            if let Some(cell) = data.find(|cell| cell.drive.0 == MISSING) {
                let (drive, block) =
                    (&all[usize::from(MISSING)], range(cell.offset.0 + 512 * sector, 512));
                match is_repaired {
                    true => drive.make_unreadable(block),
                    false => drive.make_stuck(block, None),
                }
            }
        }
        let setup = setup.clone();
        sim.run(async move {
            let bench = start_covered(envs, &setup).await;
            look_at_q(&bench, &setup, &all, &bytes, "a block could not be read").await;
        })
        .expect("no stall");
    }
}

/// The same for a drive that fails during the resync.
#[test]
fn what_p_tells_of_a_drive_that_goes_out_is_told_to_q() {
    let setup = Setup::new(Level::Raid6, 6);
    for steps in 0..60 {
        let (mut sim, all, bytes) = crashed(&setup, 37);
        let (envs, setup) = (envs(&sim, &setup), setup.clone());
        sim.run(async move {
            let bench = start_covered(envs, &setup).await;
            bench.wait(Duration::from_micros(25 * steps)).await;
            all[usize::from(MISSING)].fail_now();
            let why = format!("a drive went out after {} µs", 25 * steps);
            look_at_q(&bench, &setup, &all, &bytes, &why).await;
        })
        .expect("no stall");
    }
}

/// A drive lacked two blocks: one whose content was in parity alone, and a lost one, which counts
/// as zeros. The journal covered the region. Its resync never ended: the zeros were to be written
/// to the drive's block, whose stripe had no agreeing parity (`torture --seed 664080398`). And the
/// two blocks made their whole strip count as missing: where the drive has all blocks, parity
/// stayed as the crash left it, and counted as good.
#[test]
fn blocks_that_a_drive_lacks_are_missing_and_no_others_of_their_strip() {
    let setup = Setup::new(Level::Raid5, 4);
    let geometry = setup.geometry();
    let stripe = (0..geometry.stripes().0)
        .map(StripeIndex)
        .find(|stripe| misses_data(&geometry, *stripe))
        .expect("one");
    let mut data = (0..geometry.data_strips()).map(DataIndex);
    let index = data
        .find(|index| geometry.data_cell(stripe, *index, CopyIndex(0)).drive.0 == MISSING)
        .expect("it has data there");
    let cell = geometry.data_cell(stripe, index, CopyIndex(0));
    let parity = geometry.parity_cell(stripe, ParityIndex(0)).expect("parity");
    let of_volume = geometry.volume_offset(stripe, index, ByteCount(0)).0 as usize;
    let next = (1..setup.drives).find(|drive| *drive != parity.drive.0).expect("another");
    for fails in [false, true] {
        let (mut sim, all, bytes) = crashed(&setup, 38);
        let old = pattern(98, geometry.strip().bytes().0);
        all[parity.drive.as_usize()].poke(parity.offset + ByteCount(1024), &old[1024..]);
        all[usize::from(MISSING)].make_stuck(range(cell.offset.0, 1024), None);
        let (envs, setup) = (envs(&sim, &setup), setup.clone());
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            let slot = DriveIndex(MISSING);
            for change in [
                Change::Unsynced(regions(&setup)),
                Change::Marked(regions(&setup)),
                Change::ForcedByLog(regions(&setup)),
                Change::Excluded { slot, ranges: vec![range(cell.offset.0, 1024)] },
                Change::Punctured { slot, ranges: vec![range(cell.offset.0 + 512, 512)] },
            ] {
                attachment.state.apply(&change);
            }
            let bench = Bench::attach(envs, attachment).await;
            synced(&bench, &setup).await;
            if fails {
                all[usize::from(next)].fail_now();
            }
            let why = format!("drive {next} fails: {fails}");
            let unreadable = look(&bench, &bytes, &why).await;
            // The lost block; and of the failed drive the one beside the block in parity alone,
            // and that block.
            assert_eq!(unreadable, if fails { 3 } else { 1 }, "{why}");
            let at = of_volume as u64 + 512;
            assert!(read(bench.volume(), at, 512).await.is_err(), "{why}: the block is lost");
        })
        .expect("no stall");
    }
}

/// A lost block of a missing drive counts as zeros in parity. Beside it, the block of parity is
/// excluded, or that of another drive whose content is in parity alone: then parity cannot follow,
/// and the resync never ended.
#[test]
fn zeros_of_a_missing_drive_end_beside_a_block_that_another_drive_lacks() {
    let setup = Setup::new(Level::Raid5, 4);
    let geometry = setup.geometry();
    let stripe = (0..geometry.stripes().0)
        .map(StripeIndex)
        .find(|stripe| misses_data(&geometry, *stripe))
        .expect("one");
    let data = (0..geometry.data_strips())
        .map(DataIndex)
        .map(|index| geometry.data_cell(stripe, index, CopyIndex(0)));
    let (missing, others): (Vec<_>, Vec<_>) = data.partition(|cell| cell.drive.0 == MISSING);
    let parity = geometry.parity_cell(stripe, ParityIndex(0)).expect("parity");
    for (lacking, unreadable) in [(parity, 1), (others[0], 2)] {
        let (mut sim, all, bytes) = crashed(&setup, 39);
        let block = range(lacking.offset.0 + 512, 512);
        all[lacking.drive.as_usize()].make_stuck(block, None);
        let punctured = range(missing[0].offset.0 + 512, 512);
        let (envs, setup) = (envs(&sim, &setup), setup.clone());
        sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            attachment.sources[usize::from(MISSING)] = None;
            for change in [
                Change::InService(without(&setup, &[MISSING])),
                Change::Unsynced(regions(&setup)),
                Change::Marked(regions(&setup)),
                Change::ForcedByLog(regions(&setup)),
                Change::Punctured { slot: DriveIndex(MISSING), ranges: vec![punctured] },
                Change::Excluded { slot: lacking.drive, ranges: vec![block] },
            ] {
                attachment.state.apply(&change);
            }
            let bench = Bench::attach(envs, attachment).await;
            synced(&bench, &setup).await;
            let why = format!("{} lacks a block", lacking.drive);
            assert_eq!(look(&bench, &bytes, &why).await, unreadable, "{why}");
        })
        .expect("no stall");
    }
}

/// A drive fails during the resync of a region, and a host writes to a resynced stripe: parity
/// cannot follow, as the region is not synced yet. Had the region then counted as synced, the
/// failed drive's data would be computed from that parity.
#[test]
fn a_region_is_not_synced_when_parity_could_not_follow_a_write_meanwhile() {
    // The host writes far from the late drive's stripes: the resync processes adjacent stripes
    // together.
    let setup = Setup { member: ByteCount::MIB, ..Setup::new(Level::Raid5, 4) };
    let geometry = setup.geometry();
    // The late drive holds up the parity write of the last stripe.
    let last = StripeIndex(geometry.stripes().0 - 1);
    let late = geometry.parity_cell(last, ParityIndex(0)).expect("parity").drive.0;
    let gone = (late + 1) % setup.drives;
    let stripes = || (0..geometry.stripes().0).map(StripeIndex);
    let data = |stripe, drive: u16| {
        let is_there =
            |index: &DataIndex| geometry.data_cell(stripe, *index, CopyIndex(0)).drive.0 == drive;
        (0..geometry.data_strips()).map(DataIndex).find(is_there)
    };
    let strip = geometry.strip().bytes().0;
    let reads_of =
        |drive| stripes().filter(|stripe| data(*stripe, drive).is_some()).count() as u64 * strip;
    // A data drive fails beside the write, and parity cannot follow: the late drive gets no
    // request.
    let is_it =
        |stripe: &StripeIndex| data(*stripe, gone).is_some() && data(*stripe, late).is_none();
    let stripe = stripes().find(is_it).expect("one");
    let mut others = (0..4).filter(|drive| ![gone, late].contains(drive));
    let other =
        others.find_map(|drive| data(stripe, drive)).expect("three strips of data on four drives");
    let at = geometry.volume_offset(stripe, other, ByteCount(0)).0;
    let expected = [gone, late].map(|drive| (drive, reads_of(drive)));
    let mut met = 0;
    for seed in 0..20 {
        let (mut sim, all, bytes) = crashed(&setup, seed);
        let (envs, setup, mut bytes) = (envs(&sim, &setup), setup.clone(), bytes.to_vec());
        let came_between = sim.run(async move {
            let mut attachment = setup.attachment(&envs[0]).await;
            attachment.state.apply(&Change::Unsynced(regions(&setup)));
            attachment.state.apply(&Change::Marked(regions(&setup)));
            let before = all.iter().map(|drive| drive.stats().read_bytes).collect::<Vec<_>>();
            let bench = Bench::attach(envs, attachment).await;
            let has_read = |(drive, reads): (u16, u64)| {
                all[usize::from(drive)].stats().read_bytes - before[usize::from(drive)] >= reads
            };
            while !expected.into_iter().all(has_read) {
                bench.wait(Duration::from_micros(10)).await;
            }
            all[usize::from(late)].hold();
            bench.wait(Duration::from_millis(100)).await;
            all[usize::from(gone)].fail_now();
            write(bench.volume(), at, &[5; 1024]).await.expect("one drive may fail");
            bytes[at as usize..][..1024].fill(5);
            let came_between = bench.count(|kind| matches!(kind, ReportKind::Synced(_))) == 0;
            all[usize::from(late)].release();
            bench.wait(Duration::from_secs(30)).await;
            look(&bench, &bytes, &format!("seed {seed}")).await;
            came_between
        });
        met += usize::from(came_between.expect("no stall"));
    }
    assert!(met > 10, "{met}: a late drive keeps the resync from ending");
}
