//! Excused are exactly the lost sectors, and those that redundancy cannot reconstruct.

use super::*;
use crate::options::{Log, Migrations, Neighbour, Options};
use crate::run::simulation;
use layout::Level;
use units::{ByteOffset, DriveIndex};

/// A volume of a level with a journal, alone on its drives.
fn with_journal(level: Level) -> Rc<Scene> {
    let options = Options {
        levels: vec![level],
        write_hole: Some(WriteHole::Journal),
        neighbour: Neighbour::Never,
        migrations: Migrations::Never,
        ..Options::default()
    };
    let setup = Setup::draw(715, &options);
    let sim = simulation(&setup, 0);
    Scene::new(setup, sim.handle(), Rc::new(Story::new(false)))
}

/// A volume with a journal: a full-stripe write and a flush, then a write of the first sector,
/// which a power cut catches in the drives' caches. `lost`: whether the drive with that sector is
/// unreliable by then.
fn after_a_power_cut(lost: bool) -> Rc<Scene> {
    let scene = with_journal(Level::Raid6);
    let sectors = scene.setup.geometry.stripe_bytes().0 / scene.setup.sector().bytes().0;
    let mut oracle = scene.oracle.borrow_mut();
    let whole = oracle.write(Sector(0), sectors);
    oracle.acknowledge(&whole, false);
    let flush = oracle.begin_flush();
    oracle.acknowledge_flush(flush, false);
    let again = oracle.write(Sector(0), 1);
    oracle.acknowledge(&again, false);
    drop(oracle);
    if lost {
        scene.array.out.set(DriveSet::EMPTY.with(drive_of(&scene, 0)));
    }
    scene.crash(LifeEnd::PowerCut);
    scene
}

/// The drive of a sector.
fn drive_of(scene: &Scene, sector: u64) -> DriveIndex {
    let mut drives = scene.layout().drives().indexes();
    drives
        .find(|drive| scene.is_on(sector, &DriveSet::EMPTY.with(*drive)))
        .expect("it is somewhere")
}

/// Whether a sector may hold data that was never written.
fn may_hold_garbage(scene: &Scene, sector: u64) -> bool {
    let size = scene.setup.sector().bytes();
    let mut oracle = scene.oracle.borrow().clone();
    let read = oracle.begin_read();
    oracle.check(read, ByteOffset(sector * size.0), &vec![0xa5; size.0 as usize]).is_ok()
}

/// Seed 715: an interrupted sector was excused too early, because a full-stripe write preceded it.
#[test]
fn what_is_lost_with_its_drive_leaves_what_is_beside_it_uncertain() {
    for lost in [false, true] {
        let scene = after_a_power_cut(lost);
        let beside = scene.setup.strip.bytes().0 / scene.setup.sector().bytes().0;
        assert_eq!(may_hold_garbage(&scene, 0), lost);
        assert!(!may_hold_garbage(&scene, beside), "it was not written, and its drive is present");
        let untold = scene.untold(&DriveSet::EMPTY.with(drive_of(&scene, beside)));
        assert_eq!(untold.len(), 1, "sectors of the missing drive: lost {lost}");
        scene.force(&untold);
        assert!(may_hold_garbage(&scene, beside));
        assert!(!may_hold_garbage(&scene, beside + 1), "no write was interrupted in its columns");
    }
}

#[test]
fn what_is_lost_says_nothing_of_its_stripe_when_redundancy_agrees() {
    let scene = after_a_power_cut(true);
    scene.settle();
    let settled = scene.settled();
    scene.flushed(&settled);
    let beside = scene.setup.strip.bytes().0 / scene.setup.sector().bytes().0;
    let untold = scene.untold(&DriveSet::EMPTY.with(drive_of(&scene, beside)));
    assert!(untold.is_empty(), "{untold:?}");
    assert!(!may_hold_garbage(&scene, beside));
}

/// Seed 20761, write-back: a drive was corrupted silently between two power cuts, while the volume
/// was offline without its log.
#[test]
fn what_a_drive_changed_stays_excused_when_a_lost_log_takes_back_what_was_known() {
    let options = Options {
        levels: vec![Level::Raid5],
        log: Log::Always,
        write_back: true,
        ..Options::default()
    };
    let setup = Setup::draw(20761, &options);
    let sim = simulation(&setup, 0);
    let scene = Scene::new(setup, sim.handle(), Rc::new(Story::new(false)));
    let mut oracle = scene.oracle.borrow_mut();
    let write = oracle.write(Sector(0), 2);
    oracle.acknowledge(&write, false);
    let flush = oracle.begin_flush();
    oracle.acknowledge_flush(flush, false);
    drop(oracle);
    scene.on_log.fails();
    scene.crash(LifeEnd::PowerCut);
    assert!(!may_hold_garbage(&scene, 0) && !may_hold_garbage(&scene, 1), "flushed");
    scene.oracle.borrow_mut().excuse(Sector(0));
    scene.crash(LifeEnd::PowerCut);
    assert!(may_hold_garbage(&scene, 0), "corrupted by a drive");
    assert!(!may_hold_garbage(&scene, 1), "not corrupted");
}

/// Seed 23916, write-back: a drive failed during a resync, and the cache destaged data afterwards.
#[test]
fn what_the_cache_writes_once_a_drive_is_out_leaves_what_is_beside_it_uncertain() {
    for is_flushed_before in [false, true] {
        let options = Options {
            levels: vec![Level::Raid6],
            neighbour: Neighbour::Never,
            log: Log::Never,
            write_back: true,
            ..Options::default()
        };
        let setup = Setup::draw(23916, &options);
        let sim = simulation(&setup, 0);
        let scene = Scene::new(setup, sim.handle(), Rc::new(Story::new(false)));
        let flush = || {
            let mut oracle = scene.oracle.borrow_mut();
            let flush = oracle.begin_flush();
            oracle.acknowledge_flush(flush, false);
        };
        let mut oracle = scene.oracle.borrow_mut();
        let write = oracle.write(Sector(0), 1);
        oracle.acknowledge(&write, false);
        drop(oracle);
        if is_flushed_before {
            flush();
        }
        let beside = scene.setup.strip.bytes().0 / scene.setup.sector().bytes().0;
        let out = DriveSet::EMPTY.with(drive_of(&scene, beside));
        scene.array.out.set(out);
        scene.array.note_losses();
        flush();
        scene.crash(LifeEnd::Kill);
        let untold = scene.untold(&out).len();
        assert_eq!(untold, usize::from(!is_flushed_before), "flushed before: {is_flushed_before}");
    }
}

/// Seed 702784, write-back: a failed drive of RAID 5EE was brought back; its strips were still in
/// the distributed spare, on a drive that was lost in a power cut during a full-stripe write. After
/// the report that the spare is free, nothing is there: the harness excused it to the end of a run.
#[test]
fn what_is_in_the_distributed_spare_is_lost_with_the_drive_that_has_it() {
    for (was_out, is_free) in [(false, false), (true, false), (true, true)] {
        let scene = with_journal(Level::Raid5ee);
        let home = drive_of(&scene, 0);
        if was_out {
            scene.array.faults.borrow_mut().suspect(home, 0);
            scene.array.note_losses();
            scene.array.faults.borrow_mut().known(1);
        }
        if is_free {
            scene.spare_is_free();
        }
        let layout = scene.layout();
        let sectors = layout.stripe_bytes().0 / scene.setup.sector().bytes().0;
        let mut oracle = scene.oracle.borrow_mut();
        for _ in 0..2 {
            // The first write is durable; the power cut hits the second.
            let flush = oracle.begin_flush();
            oracle.acknowledge_flush(flush, false);
            let whole = oracle.write(Sector(0), sectors);
            oracle.acknowledge(&whole, false);
        }
        drop(oracle);
        scene.crash(LifeEnd::PowerCut);
        let spare =
            layout.stripe_map(units::StripeIndex(0)).spare_cell().expect("it has a spare").drive;
        scene.lose(&DriveSet::EMPTY.with(spare));
        assert_eq!(may_hold_garbage(&scene, 0), was_out && !is_free, "{was_out} {is_free}");
    }
}

/// Seed 837800121: an operator accepted stale parity while two drives of a RAID 6 were rebuilding,
/// and a block of one of them became unreadable that was rebuilt before the crash. That makes two
/// lost strips; the consent covers one.
#[test]
fn the_operators_word_is_not_about_blocks_that_cannot_be_read_since() {
    let options = Options {
        levels: vec![Level::Raid6],
        write_hole: Some(WriteHole::Resync),
        neighbour: Neighbour::Never,
        migrations: Migrations::Never,
        ..Options::default()
    };
    let setup = Setup::draw(715, &options);
    let sim = simulation(&setup, 0);
    let scene = Scene::new(setup, sim.handle(), Rc::new(Story::new(false)));
    let rebuilt = DriveSet::EMPTY.with(DriveIndex(0)).with(DriveIndex(1));
    scene.crash(LifeEnd::PowerCut);
    scene.array.out.set(rebuilt);
    scene.synced.set(false);
    assert!(scene.may_fail(), "no consent");
    scene.forced.set(rebuilt);
    assert!(!scene.may_fail(), "the consent covers missed writes");
    scene.array.faults.borrow_mut().cannot_read(DriveIndex(1));
    assert!(scene.may_fail(), "but not current blocks");
    scene.synced.set(true);
    assert!(!scene.may_fail(), "redundancy is consistent");
}

/// Seed 2992205889: blocks that no write repaired came along when a replaced drive took another
/// slot.
#[test]
fn blocks_that_no_write_repairs_are_a_fault_of_the_drive_in_whichever_slot() {
    let options = Options { levels: vec![Level::Raid1], ..Options::default() };
    let setup = Setup::draw(715, &options);
    let mut sim = simulation(&setup, 0);
    let scene = Scene::new(setup.clone(), sim.handle(), Rc::new(Story::new(false)));
    let block = ByteRange::new(ByteOffset(0), ByteCount(4096));
    for (nth, writes) in [None, Some(Some(2)), Some(None)].into_iter().enumerate() {
        let drive = sim.add_drive(&format!("other{nth}"), setup.drives[0].clone());
        if let Some(writes) = writes {
            drive.make_stuck(block, writes);
        }
        let slot = DriveIndex(1);
        let mut faults = scene.array.faults.borrow_mut();
        faults.replaced(slot, &drive);
        assert_eq!(faults.unreadable().contains(slot), writes.is_some(), "{writes:?}");
    }
}

/// Seed 2992206213: an order removed a drive without data loss after a rebuild, and a kill preceded
/// the reply. The rebuilt drive died before the next start reported that.
#[test]
fn a_drive_that_was_ordered_out_may_be_out_until_the_order_is_answered() {
    let scene = with_journal(Level::Raid6);
    let (out, ordered, other) = (DriveIndex(0), DriveIndex(1), DriveIndex(2));
    let faults = &scene.array.faults;
    scene.presence.set(Presence::There);
    scene.array.out.set(DriveSet::EMPTY.with(out));
    assert!(crate::faults::may_lose(&scene, other), "one drive is missing");
    let before = faults.borrow().clone();
    faults.borrow_mut().may_be_taken(ordered);
    assert!(!crate::faults::may_lose(&scene, other), "another one may be missing");
    faults.borrow_mut().was_refused(ordered, &before);
    faults.borrow_mut().answered(ordered);
    assert!(crate::faults::may_lose(&scene, other), "the order was refused");
    faults.borrow_mut().may_be_taken(ordered);
    faults.borrow_mut().crash(3);
    assert!(!crate::faults::may_lose(&scene, other), "the result of the order is unknown");
    faults.borrow_mut().known(4);
    assert!(crate::faults::may_lose(&scene, other), "the next start reported it");
}

/// Seed 2912061406: a rebuilt drive had an unreadable block, an order removed its mirror without
/// data loss, and a request of that block failed before the reply.
#[test]
fn a_block_may_be_unreadable_while_an_order_removes_the_drive_with_its_copy() {
    let scene = with_journal(Level::Raid1);
    let (ordered, unreadable) = (DriveIndex(0), DriveIndex(1));
    let fails = |kind| {
        let (range, begun) =
            (ByteRange::new(ByteOffset(0), ByteCount(4096)), scene.begin_request());
        scene.judge_error("a read", range, begun, IoError::new(kind)).is_ok()
    };
    scene.array.faults.borrow_mut().cannot_read(unreadable);
    assert!(!fails(IoErrorKind::Medium), "the other drive has a copy");
    let before = scene.array.faults.borrow().clone();
    scene.array.faults.borrow_mut().may_be_taken(ordered);
    assert!(fails(IoErrorKind::Medium), "the only other copy may be removed");
    assert!(!fails(IoErrorKind::Gone), "a drive is left");
    scene.array.faults.borrow_mut().was_refused(ordered, &before);
    scene.array.faults.borrow_mut().answered(ordered);
    assert!(!fails(IoErrorKind::Medium), "the order was refused");
}

/// Seed 3141592743: a drive was lost beside stripes that a crash had torn, and an order removed its
/// rebuilding replacement without data loss. Earlier losses stayed.
#[test]
fn that_a_drive_costs_nothing_does_not_give_back_what_its_slot_lost_before() {
    let options = Options {
        levels: vec![Level::Raid6],
        write_hole: Some(WriteHole::Resync),
        neighbour: Neighbour::Never,
        migrations: Migrations::Never,
        ..Options::default()
    };
    let setup = Setup::draw(715, &options);
    let sim = simulation(&setup, 0);
    let scene = Scene::new(setup, sim.handle(), Rc::new(Story::new(false)));
    let (lost, other) = (DriveIndex(1), DriveIndex(2));
    scene.crash(LifeEnd::PowerCut);
    scene.synced.set(false);
    scene.array.out.set(DriveSet::EMPTY.with(lost));
    assert!(scene.may_fail(), "a drive is lost beside torn stripes");
    assert!(!scene.array.is_relied_on(lost), "the content of its slot is unreliable");
    assert!(scene.array.is_relied_on(other));
}
