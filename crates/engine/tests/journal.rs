//! The journal of a volume in virtual time: the state of the drives at a kill, replayed as after a
//! crash.

use crate::common::{
    Bench, NewDrive, PACE, Setup, begin, data, drive, envs, open, parity, pattern, range, read,
    regions, write,
};
use engine::{JournalOn, JournalPlace, RegionSet, ReportKind, ShardMessage, TaskKind};
use layout::Level;
use ondisk::{Tail, TailPlace, Uuid};
use platform::IoErrorKind;
use platform_sim::{DriveOptions, Order, Sim, SimDrive, SimOptions};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, DriveIndex};
use write_log::{LogId, Patch, Record, counting, patches, scan};

const SIZE: ByteCount = ByteCount(40 << 20);
const ID: Uuid = Uuid([9; 16]);
const AT: ByteCount = ByteCount(8192);
const LEN: ByteCount = ByteCount(256 << 10);
const SECTOR: u64 = 512;

fn place(id: Uuid) -> JournalPlace {
    JournalPlace { id, len: LEN, on: JournalOn::Members { at: AT, tail: TailPlace::End } }
}

/// Drives with space for a journal, and a volume of four of them with a journal.
struct Scene {
    setup: Setup,
    sim: Sim,
    drives: Vec<SimDrive>,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let setup = Setup::new(Level::Raid5, 4);
        let mut options = SimOptions::seeded(seed);
        options.order = Order::Shuffled;
        let mut sim = Sim::new(options);
        for slot in 0..setup.drives + 2 {
            sim.add_drive(&format!("d{slot}"), DriveOptions::sized(SIZE));
        }
        let drives = (0..setup.drives + 2).map(|slot| drive(&sim, slot)).collect();
        Scene { setup, sim, drives }
    }

    /// Runs a test's closure on the volume, from the same content each time.
    fn run<T: 'static, F: Future<Output = T> + 'static>(
        &mut self,
        test: impl FnOnce(Bench, Vec<SimDrive>) -> F + 'static,
    ) -> T {
        let (envs, setup, drives) =
            (envs(&self.sim, &self.setup), self.setup.clone(), self.drives.clone());
        let run = async move {
            let attachment = setup.attachment(&envs[0]).await;
            let bench =
                Bench::attach(envs, engine::Attachment { journal: Some(place(ID)), ..attachment })
                    .await;
            let whole = pattern(1, setup.geometry().capacity().0);
            write(bench.volume(), 0, &whole).await.expect("written");
            bench.volume().flush().await.expect("flushed");
            test(bench, drives).await
        };
        self.sim.run(run).expect("no stall")
    }

    /// The stripe writes that a replay of these drives' journals would do now.
    fn patches(&self, of: &[u16]) -> Vec<Patch> {
        left_to_do(&self.drives, of)
    }

    /// The first sector of a strip, with these patches.
    fn sector(&self, (slot, at): (u16, u64), patches: &[Patch]) -> Vec<u8> {
        let drive = &self.drives[usize::from(slot)];
        let mut bytes = drive.peek(ByteOffset(at), ByteCount(SECTOR)).expect("readable");
        for patch in patches.iter().filter(|patch| patch.slot == slot) {
            for (index, byte) in bytes.iter_mut().enumerate() {
                let inside = (at + index as u64).checked_sub(patch.range.start.0);
                let inside = inside.filter(|inside| *inside < patch.range.len.0);
                if let Some(inside) = inside {
                    *byte = patch.bytes.as_ref().map_or(0, |bytes| bytes[inside as usize]);
                }
            }
        }
        bytes
    }

    /// The beginning of a data strip, computed from the other strips of its stripe.
    fn computed(&self, stripe: u64, index: u16, patches: &[Patch]) -> Vec<u8> {
        let others =
            (0..3).filter(|other| *other != index).map(|other| data(&self.setup, stripe, other));
        let mut bytes = vec![0; SECTOR as usize];
        for cell in others.chain([parity(&self.setup, stripe)]) {
            bytes
                .iter_mut()
                .zip(self.sector(cell, patches))
                .for_each(|(byte, other)| *byte ^= other);
        }
        bytes
    }
}

/// The records in a drive's copy of the journal.
fn records(drive: &SimDrive) -> Vec<Record> {
    let room = Tail::of(SIZE).expect("a tail").journals();
    scan(&drive.peek(room.start + AT, LEN).expect("readable"), LogId(ID.0))
}

/// The stripe writes that the journals of some drives would replay after a kill now.
fn left_to_do(drives: &[SimDrive], of: &[u16]) -> Vec<Patch> {
    let copies = of.iter().flat_map(|slot| records(&drives[usize::from(*slot)]));
    patches(&counting(copies).expect("all live records are there"))
}

/// The content of a drive's journal.
fn journal() -> ByteRange {
    Tail::of(SIZE).expect("a tail").journals()
}

/// The offset of a data strip in the volume.
fn at(setup: &Setup, stripe: u64, index: u16) -> u64 {
    setup.geometry().stripe_bytes().0 * stripe + setup.strip.bytes().0 * u64::from(index)
}

/// A stripe and the index of a data strip in it, with the strip on one of these drives and parity
/// on the other.
fn on_two(setup: &Setup, drives: [u16; 2]) -> (u64, u16) {
    let all = (0..16).flat_map(|stripe| (0..3).map(move |index| (stripe, index)));
    let is_it = |(stripe, index): &(u64, u16)| {
        let cells = [data(setup, *stripe, *index).0, parity(setup, *stripe).0];
        cells == drives || cells == [drives[1], drives[0]]
    };
    all.into_iter().find(is_it).expect("parity rotates")
}

/// Records were written one at a time: all writes waited behind a record on a slow drive. Now the
/// next record is written concurrently, and its write is acknowledged. A crash that leaves the
/// later record without the earlier one is no incomplete journal.
#[test]
fn a_record_that_is_held_up_holds_up_no_other() {
    for seed in 0..8 {
        let mut scene = Scene::new(seed);
        let setup = scene.setup.clone();
        // The first record after the start goes to two drives, the next one to the other two.
        let (slow, quick) = (on_two(&setup, [0, 3]), on_two(&setup, [0, 1]));
        let (a, b) = (at(&setup, slow.0, slow.1), at(&setup, quick.0, quick.1));
        scene.run(move |bench, drives| async move {
            drives[2].hold();
            let first = begin(bench.volume(), a, 0xA1);
            bench.wait(Duration::from_millis(50)).await;
            assert_eq!(first.get(), None, "its record is being written");
            let second = begin(bench.volume(), b, 0xB2);
            bench.wait(Duration::from_millis(50)).await;
            assert_eq!((first.get(), second.get()), (None, Some(true)));
        });
        // The process is killed here. One drive may be missing as well.
        for gone in 0..4 {
            let here: Vec<u16> = (0..4).filter(|slot| *slot != gone).collect();
            let patches = scene.patches(&here);
            assert_eq!(
                scene.computed(quick.0, quick.1, &patches),
                [0xB2; 512],
                "{gone} is missing"
            );
            let old = pattern(1, setup.geometry().capacity().0)[a as usize..][..512].to_vec();
            let seen = scene.computed(slow.0, slow.1, &patches);
            assert!(seen == old || seen == [0xA1; 512], "{gone} is missing");
        }
    }
}

/// A record that some drives took and others refused was forgotten: its write had failed, and the
/// next record was planned without it. A replay did both, and parity of the second lacked the data
/// of the first: with a drive missing, its unwritten data was lost.
#[test]
fn no_record_follows_one_that_failed() {
    for seed in 0..8 {
        let mut scene = Scene::new(seed);
        let setup = scene.setup.clone();
        let holds_data = |stripe: &u64| parity(&setup, *stripe).0 != 1;
        let stripe = (0..16).find(holds_data).expect("parity rotates");
        let (missing, others): (Vec<u16>, Vec<u16>) =
            (0..3).partition(|index| data(&setup, stripe, *index).0 == 1);
        let (a, b) = (at(&setup, stripe, others[0]), at(&setup, stripe, others[1]));
        scene.run(move |bench, drives| async move {
            drives[1].fail_now();
            let elsewhere = at(&Setup::new(Level::Raid5, 4), 20, 0);
            for index in 0..3 {
                write(bench.volume(), elsewhere + 4096 * index, &[7; 512])
                    .await
                    .expect("the second write is acknowledged");
            }
            bench.volume().flush().await.expect("flushed");
            // The first drive that is asked takes the record, all others refuse it.
            let written = [0, 2, 3].into_iter().flat_map(|slot: usize| records(&drives[slot]));
            let newest = written.map(|record| record.head.sequence).max().expect("some records");
            let first = (newest + 1) as usize * 2 % 4;
            for slot in (0..4).filter(|slot| *slot != first) {
                drives[slot].refuse_writes(journal());
            }
            let failed =
                write(bench.volume(), a, &[0xA1; 512]).await.expect_err("it cannot be kept");
            assert_eq!(failed.kind, IoErrorKind::Medium);
            drives.iter().for_each(SimDrive::clear_write_errors);
            write(bench.volume(), b, &[0xB2; 512]).await.expect("written");
        });
        let patches = scene.patches(&[0, 2, 3]);
        let was = at(&setup, stripe, missing[0]) as usize;
        let old = pattern(1, setup.geometry().capacity().0)[was..][..512].to_vec();
        assert_eq!(scene.computed(stripe, missing[0], &patches), old, "no host wrote this");
        assert_eq!(scene.sector(data(&setup, stripe, others[1]), &patches), [0xB2; 512]);
    }
}

/// A plan without a failed drive was recorded and executed before the failure was recorded. After a
/// crash the drive counted as current, though it had missed a write. A replay trusts the record and
/// does not read the drive.
#[test]
fn nothing_is_written_without_a_drive_before_its_failure_is_recorded() {
    for seed in 0..8 {
        let mut scene = Scene::new(seed);
        let setup = scene.setup.clone();
        let lost = data(&setup, 0, 0).0;
        scene.run(move |bench, drives| async move {
            let setup = Setup::new(Level::Raid5, 4);
            bench.is_deaf.set(true);
            drives[usize::from(lost)].fail_now();
            // One write meets the failure, the next one is planned without the drive.
            let first = begin(bench.volume(), 0, 0xA1);
            bench.wait(Duration::from_millis(50)).await;
            let before: Vec<u64> = drives.iter().map(|drive| drive.stats().writes).collect();
            let second = begin(bench.volume(), at(&setup, 8, 1), 0xB2);
            bench.wait(Duration::from_secs(5)).await;
            let after: Vec<u64> = drives.iter().map(|drive| drive.stats().writes).collect();
            assert_eq!((before, first.get(), second.get()), (after, None, None));
            bench.is_deaf.set(false);
            bench.wait(Duration::from_secs(5)).await;
            assert_eq!((first.get(), second.get()), (Some(true), Some(true)));
        });
    }
}

/// The invalidation of records may be on drives that fail one after the other. With no live record
/// left, nothing was written when a replacement took a slot. Then the last drive with the
/// invalidation failed, and records invalidated long ago were live again: a replay wrote their old
/// data.
#[test]
fn what_does_not_count_any_more_stays_so_when_drives_are_swapped() {
    for first in 1..8_u64 {
        let mut scene = Scene::new(first);
        let setup = scene.setup.clone();
        scene.run(move |bench, _| async move {
            for number in 0..first {
                write(bench.volume(), at(&setup, number, 0), &[number as u8; 512])
                    .await
                    .expect("written");
            }
            bench.volume().flush().await.expect("flushed");
            // Spares take two slots, one after the other: the first invalidation is on two of the
            // drives.
            for (slot, spare) in [(0, 4), (1, 5)] {
                let source = open(&bench.env, spare).await;
                let change = NewDrive {
                    slot: units::DriveIndex(slot),
                    source: Some(source),
                    stale: RegionSet::EMPTY,
                    in_service: bench.health,
                };
                bench.tell(|done| change.message(done)).await;
                bench.wait(Duration::from_millis(100)).await;
            }
        });
        for here in [[5, 2, 3], [4, 2, 3], [4, 5, 3], [4, 5, 2]] {
            assert_eq!(scene.patches(&here), [], "{first} records, {here:?} are live");
        }
    }
}

/// A journal that is given up leaves no live record on any drive: a replay would overwrite later
/// writes with it. Writes wait meanwhile, and complete.
#[test]
fn a_journal_that_goes_leaves_nothing_that_counts() {
    for seed in 0..8_u64 {
        let mut scene = Scene::new(seed);
        let setup = scene.setup.clone();
        scene.run(move |bench, _| async move {
            for number in 0..seed {
                write(bench.volume(), at(&setup, number, 0), &[number as u8; 512])
                    .await
                    .expect("written");
            }
            let beside: Vec<_> =
                (0..4).map(|number| begin(bench.volume(), at(&setup, number, 1), 9)).collect();
            let id = bench.volume().spec().id;
            bench.tell(|done| ShardMessage::SetJournal(id, None, done)).await;
            bench.wait(Duration::from_secs(1)).await;
            assert!(beside.iter().all(|written| written.get() == Some(true)));
        });
        for here in [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]] {
            assert_eq!(scene.patches(&here), [], "{seed} records, {here:?} are live");
        }
    }
}

/// Writes from before a journal is added are on media, not in the drives' caches: its first record
/// relies on them. A record has the length of the journal's terms.
#[test]
fn a_journal_that_comes_finds_all_that_was_written_on_the_drives() {
    for seed in 0..8 {
        let mut scene = Scene::new(seed);
        scene.run(move |bench, drives| async move {
            let (id, stripe) =
                (bench.volume().spec().id, bench.volume().layout().geometry().stripe_bytes().0);
            bench.tell(|done| ShardMessage::SetJournal(id, None, done)).await;
            write(bench.volume(), 0, &pattern(2, stripe)).await.expect("written");
            assert!(drives.iter().any(|drive| drive.unflushed_writes() > 0));
            let place = place(Uuid([8; 16]));
            bench.tell(|done| ShardMessage::SetJournal(id, Some(place.clone()), done)).await;
            assert!(drives.iter().all(|drive| drive.unflushed_writes() == 0));
            write(bench.volume(), 512, &[7; 512]).await.expect("written");
        });
        let room = Tail::of(SIZE).expect("a tail").journals();
        let found = scene.drives.iter().filter(|drive| {
            let bytes = drive.peek(room.start + AT, LEN).expect("readable");
            !scan(&bytes, LogId([8; 16])).is_empty()
        });
        assert_eq!(found.count(), 2, "the record is on as many drives as required");
    }
}

/// A rebuild had passed a stripe, which was not recorded yet. The stripe was then written as a full
/// stripe, without a record, as no drive was missing; the process was killed during the write.
/// After the start the drive was stale there again, and its strip was computed from old and new
/// strips (`torture --seed 6100263`).
#[test]
fn a_whole_stripe_is_kept_while_a_drive_is_recorded_as_stale() {
    let mut scene = Scene::new(11);
    let setup = scene.setup.clone();
    scene.run(move |bench, drives| async move {
        let records = || drives.iter().map(|drive| records(drive).len()).sum::<usize>();
        let stripe = setup.geometry().stripe_bytes().0;
        let before = records();
        write(bench.volume(), 0, &pattern(2, stripe)).await.expect("written");
        assert_eq!(records(), before, "no drive is missing: a full-stripe write needs no record");
        let source = Some(open(&bench.env, 4).await);
        let new = NewDrive {
            slot: DriveIndex(1),
            source,
            stale: regions(&setup),
            in_service: bench.health,
        };
        bench.tell(|done| new.message(done)).await;
        bench.is_deaf.set(true);
        bench.begin(TaskKind::Rebuild { slot: DriveIndex(1) }, PACE).await;
        let is_current = |kind: &ReportKind| matches!(kind, ReportKind::Current { .. });
        for _ in 0..2_000 {
            if bench.count(is_current) > 0 {
                break;
            }
            bench.wait(Duration::from_millis(1)).await;
        }
        assert!(bench.count(is_current) > 0, "the stripe is rebuilt, and that is not recorded");
        let before = records();
        write(bench.volume(), 0, &pattern(3, stripe)).await.expect("written");
        assert!(records() > before, "after a crash the drive is stale there");
    });
}

/// A drive was missing. A sector next to its strip was written with a record, and then became
/// unreadable. A write of the missing drive's strip in that column gave the sector up: zeros
/// replaced it, the new parity counts them, and only this parity holds the new data. A replay must
/// not restore the sector below that parity.
#[test]
fn a_sector_that_was_given_up_is_not_put_back_below_new_parity() {
    for seed in 0..8 {
        let mut scene = Scene::new(seed);
        let setup = scene.setup.clone();
        let stripe = 3;
        let (missing, given_up) = (data(&setup, stripe, 0), data(&setup, stripe, 1));
        let here: Vec<u16> = (0..4).filter(|slot| *slot != missing.0).collect();
        let (of_missing, beside) = (at(&setup, stripe, 0), at(&setup, stripe, 1));
        let others = here.clone();
        scene.run(move |bench, drives| async move {
            drives[usize::from(missing.0)].fail_now();
            let elsewhere = at(&Setup::new(Level::Raid5, 4), 20, 0);
            for index in 0..3 {
                write(bench.volume(), elsewhere + 4096 * index, &[7; 512])
                    .await
                    .expect("the first write is acknowledged");
            }
            bench.wait(Duration::from_millis(100)).await;
            write(bench.volume(), beside, &[0xA1; 512]).await.expect("written");
            let place = range(given_up.1, SECTOR);
            let is_said = |patch: &Patch| patch.slot == given_up.0 && patch.range.overlaps(place);
            assert!(left_to_do(&drives, &others).iter().any(is_said), "its record is live");
            drives[usize::from(given_up.0)].make_unreadable(place);
            write(bench.volume(), of_missing, &[0xB2; 512])
                .await
                .expect("one lost sector does not prevent the write");
            let lost = read(bench.volume(), beside, SECTOR).await.expect_err("it was given up");
            assert_eq!(lost.kind, IoErrorKind::Medium);
            assert_eq!(
                read(bench.volume(), of_missing, SECTOR).await.expect("written"),
                [0xB2; 512]
            );
        });
        // The process is killed here.
        let patches = scene.patches(&here);
        let seen = scene.computed(stripe, 0, &patches);
        assert!(seen == [0xB2; 512], "seed {seed}: acknowledged, and now {:#x} …", seen[0]);
    }
}

/// Full-stripe writes need no record, and several are written together. One of the stripes had a
/// live record: a replay after a crash would have restored an old sector and its old redundancy.
#[test]
fn no_record_of_before_is_carried_out_over_whole_stripes_that_were_written_together() {
    for seed in 0..4 {
        let mut scene = Scene::new(40 + seed);
        let (setup, stripes) = (scene.setup.clone(), 16);
        let len = setup.geometry().stripe_bytes().0 * stripes;
        let spoken_of = at(&setup, 5, 1);
        scene.run(move |bench, drives| async move {
            let asked = || drives.iter().map(|drive| drive.stats().writes).sum::<u64>();
            let before = asked();
            write(bench.volume(), 0, &pattern(3, len)).await.expect("written");
            assert_eq!(asked() - before, 4, "written together, each drive's part is one operation");
            write(bench.volume(), spoken_of, &[0xA1; SECTOR as usize]).await.expect("written");
            assert!(!left_to_do(&drives, &[0, 1, 2, 3]).is_empty(), "a record is live");
            write(bench.volume(), 0, &pattern(2, len)).await.expect("written");
            assert_eq!(bench.volume().check_invariants(), Ok(()));
        });
        let (patches, new) = (scene.patches(&[0, 1, 2, 3]), pattern(2, len));
        for (stripe, index) in
            (0..stripes).flat_map(|stripe| (0..3).map(move |index| (stripe, index)))
        {
            let expected = &new[at(&setup, stripe, index) as usize..][..SECTOR as usize];
            let sector = scene.sector(data(&setup, stripe, index), &patches);
            assert!(sector == expected, "seed {seed}: strip {index} of stripe {stripe}");
            let computed = scene.computed(stripe, index, &patches);
            assert!(
                computed == expected,
                "seed {seed}: strip {index} of stripe {stripe}, computed from redundancy"
            );
        }
    }
}

/// Acknowledged full-stripe writes are in the drives' caches, without a record. Then an FUA write
/// changes one of their sectors, with a record whose redundancy depends on the rest of the stripe:
/// that must be flushed first.
#[test]
fn a_durable_write_finds_what_was_written_together_on_the_drives() {
    let mut scene = Scene::new(50);
    let setup = scene.setup.clone();
    let len = setup.geometry().stripe_bytes().0 * 16;
    let sector = at(&setup, 7, 0);
    scene.run(move |bench, drives| async move {
        write(bench.volume(), 0, &pattern(2, len)).await.expect("written");
        let (range, bytes) =
            (range(sector, SECTOR), platform::Buf::copy_of(&[0xB2; SECTOR as usize]).freeze());
        bench.volume().write(range, bytes, platform::Durability::Durable).await.expect("written");
        drives.iter().for_each(SimDrive::power_cut);
    });
    let patches = scene.patches(&[0, 1, 2, 3]);
    let expected = vec![0xB2; SECTOR as usize];
    assert!(scene.sector(data(&setup, 7, 0), &patches) == expected);
    assert!(
        scene.computed(7, 0, &patches) == expected,
        "any one drive may be lost in the power cut"
    );
}
