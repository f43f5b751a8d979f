//! The write hole: a kill or power cut at any event of writes to the same stripes, together with as
//! many lost drives as the level tolerates. With the journal the operator is not asked, and every
//! sector has an allowed content: the acknowledged write (after a power cut: the durable one), or a
//! later write; no other sector has changed.
//!
//! Records, invalidations, given-up journals and durability tokens meet here: a record that is
//! late, is freed too early, or is replayed over newer data, leaves redundancy for data that no
//! host wrote.

use crate::common::Bench;
use crate::common::events::{End, at_every_event};
use controller::VolumeState;
use engine::Volume;
use platform::{Buf, Durability};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};

const STRIP: u64 = 65536;
const SECTOR: u64 = 512;

/// A worker's operations on a range, one after the other.
#[derive(Clone, Copy, PartialEq)]
enum Deed {
    Write(u8),
    DurableWrite(u8),
    Trim,
}

/// A requested operation.
struct Asked {
    range: ByteRange,
    /// The resulting content of its sectors.
    value: u8,
    /// A full-stripe write, which needs no record.
    whole: bool,
    acknowledged: bool,
    durable: bool,
}

/// Offset, length and operations, one after the other.
type Deeds = Vec<(u64, u64, Deed)>;

type Log = Rc<RefCell<Vec<Asked>>>;

struct Level {
    name: &'static str,
    drives: &'static [&'static str],
    data_strips: u64,
    lost: &'static [&'static [&'static str]],
}

const RAID5: Level = Level {
    name: "raid5",
    drives: &["a", "b", "c", "d"],
    data_strips: 3,
    lost: &[&[], &["a"], &["b"], &["c"], &["d"]],
};

const RAID6: Level = Level {
    name: "raid6",
    drives: &["a", "b", "c", "d", "e"],
    data_strips: 3,
    lost: &[&[], &["a", "b"], &["b", "d"], &["c", "e"], &["d", "a"], &["e"], &["b", "c"]],
};

impl Level {
    fn stripe(&self) -> u64 {
        self.data_strips * STRIP
    }

    fn bytes(&self) -> u64 {
        6 * self.stripe()
    }

    /// The initial content of a sector: different in every strip.
    fn first(&self, at: u64) -> u8 {
        101 + (at / STRIP) as u8
    }

    fn prepared(&self, seed: u64) -> Bench {
        let mut bench = Bench::in_order(seed, 1, self.drives.len());
        bench.boot(&[]);
        bench.create("data", self.name, self.drives);
        for at in (0..self.bytes()).step_by(STRIP as usize) {
            bench.write("data", at, self.first(at), STRIP);
        }
        let volume = bench.shards[0].volume_named("data").unwrap();
        bench.sim.run(async move { volume.flush().await }).unwrap().unwrap();
        bench.settle("data");
        bench
    }

    /// Each worker's range and operations. Only ranges of the same worker overlap.
    fn workers(&self) -> Vec<Deeds> {
        let stripe = self.stripe();
        use Deed::{DurableWrite, Trim, Write};
        vec![
            // Two ranges that share columns of a stripe, and so its redundancy.
            (0..6)
                .map(|n| {
                    (stripe, 8192, if n % 2 == 0 { DurableWrite(10 + n) } else { Write(10 + n) })
                })
                .collect(),
            (0..6)
                .map(|n| (stripe + STRIP + 4096, 4096 + 512 * u64::from(n), Write(20 + n)))
                .collect(),
            // A part, then the full stripe, then a part again.
            vec![
                (2 * stripe + 4096, 8192, DurableWrite(30)),
                (2 * stripe, stripe, Write(31)),
                (2 * stripe + STRIP, 4096, Write(32)),
                (2 * stripe, stripe, Write(33)),
            ],
            // The same, with the full stripe trimmed.
            vec![
                (3 * stripe + 1024, 4096, Write(40)),
                (3 * stripe, stripe, Trim),
                (3 * stripe + 2 * STRIP, 512, Write(41)),
            ],
        ]
    }
}

async fn work(volume: Rc<Volume>, log: Log, stripe: u64, deeds: Deeds) {
    for (at, len, deed) in deeds {
        let range = ByteRange::new(ByteOffset(at), ByteCount(len));
        let value = match deed {
            Deed::Write(value) | Deed::DurableWrite(value) => value,
            Deed::Trim => 0,
        };
        let number = log.borrow().len();
        let whole = len == stripe;
        log.borrow_mut().push(Asked { range, value, whole, acknowledged: false, durable: false });
        let bytes = Buf::copy_of(&vec![value; len as usize]).freeze();
        match deed {
            Deed::Write(_) => volume.write(range, bytes, Durability::Cached).await,
            Deed::DurableWrite(_) => volume.write(range, bytes, Durability::Durable).await,
            Deed::Trim => volume.trim(range).await,
        }
        .expect("the volume is online");
        let asked = &mut log.borrow_mut()[number];
        (asked.acknowledged, asked.durable) = (true, matches!(deed, Deed::DurableWrite(_)));
    }
}

/// All workers concurrently, with two flushes.
fn scene(bench: &mut Bench, level: &Level, log: &Log, deeds: Vec<Deeds>) -> Option<()> {
    log.borrow_mut().clear();
    let volume = bench.shards[0].volume_named("data").unwrap();
    let (env, stripe, log) = (bench.sim.env(), level.stripe(), log.clone());
    bench
        .sim
        .run(async move {
            let start =
                |deeds| env.spawn("worker", work(volume.clone(), log.clone(), stripe, deeds));
            let workers: Vec<_> = deeds.into_iter().map(start).collect();
            for _ in 0..2 {
                env.sleep(std::time::Duration::from_millis(2)).await;
                let acknowledged: Vec<bool> =
                    log.borrow().iter().map(|asked| asked.acknowledged).collect();
                volume.flush().await.expect("the volume is online");
                for (asked, was) in log.borrow_mut().iter_mut().zip(acknowledged) {
                    asked.durable |= was;
                }
            }
            for worker in workers {
                worker.await;
            }
        })
        .ok()
}

/// Checks that every sector has an allowed content.
fn look(bench: &mut Bench, level: &Level, log: &Log, how: End, lost: &[&str], event: u64) {
    let bytes = bench.try_read("data", 0, level.bytes()).expect("the level tolerates it");
    for (number, sector) in bytes.chunks(SECTOR as usize).enumerate() {
        let at = number as u64 * SECTOR;
        let mut may = vec![level.first(at)];
        let mut is_excused = false;
        let log = log.borrow();
        let place = ByteRange::new(ByteOffset(at), ByteCount(SECTOR));
        for asked in log.iter().filter(|asked| asked.range.contains(place)) {
            let is_kept = if how == End::Killed { asked.acknowledged } else { asked.durable };
            if is_kept {
                may.clear();
            }
            may.push(asked.value);
            // Unflushed parts of full-stripe writes cannot be computed for a drive that is lost
            // before the resync.
            is_excused |= asked.whole && !is_kept && !lost.is_empty();
        }
        let fits = may.iter().any(|value| sector.iter().all(|byte| byte == value));
        assert!(
            fits || is_excused,
            "{}, {how:?} at event {event}, without {lost:?}: sector at {at} is {} …, and may be \
                one of {may:?}",
            level.name,
            sector[0]
        );
    }
}

/// Records from before the crash cover the written range, and must have no effect.
fn write_and_restart(bench: &mut Bench, level: &Level) {
    let (at, len) = (level.stripe(), 8192);
    let before = bench.try_read("data", at, len).expect("the level tolerates it");
    bench.write("data", at, 200, len);
    bench.restart(&[]);
    bench.expect("data", at, 200, len);
    // The old content is checked later.
    let volume = bench.shards[0].volume_named("data").unwrap();
    let range = ByteRange::new(ByteOffset(at), ByteCount(len));
    let bytes = Buf::copy_of(&before).freeze();
    bench
        .sim
        .run(async move { volume.write(range, bytes, Durability::Cached).await })
        .unwrap()
        .unwrap();
}

fn close(level: &Level, how: End, seed: u64) {
    let (log, ends) = (Log::default(), Cell::new(0));
    at_every_event(
        1,
        how,
        || level.prepared(seed),
        |bench| scene(bench, level, &log, level.workers()),
        |bench, _, event| {
            // Every set of drives with every continuation, one after the other.
            let end = ends.replace(ends.get() + 1);
            let lost = level.lost[end % level.lost.len()];
            for name in lost {
                bench.sim.drive(name).unwrap().vanish();
            }
            bench.boot(&[]);
            let state = if lost.is_empty() { VolumeState::Optimal } else { VolumeState::Degraded };
            assert_eq!(
                bench.show("data").state,
                state,
                "{}, event {event}: no operator is asked",
                level.name
            );
            // Some end again at once in the same way: stripes completed by the start must not need
            // its records any more.
            match end / level.lost.len() % 4 {
                0 => {}
                1 => bench.restart(&[]),
                _ if how == End::PowerCut => bench.power_cycle(&[]),
                _ => write_and_restart(bench, level),
            }
            look(bench, level, &log, how, lost, event);
            bench.settle("data");
            look(bench, level, &log, how, lost, event);
        },
    );
}

#[test]
fn what_a_kill_interrupts_is_old_or_new_whichever_drive_is_lost_with_it() {
    close(&RAID5, End::Killed, 1);
    close(&RAID6, End::Killed, 2);
}

#[test]
fn what_a_power_cut_interrupts_is_durable_or_newer_whichever_drives_are_lost_with_it() {
    close(&RAID5, End::PowerCut, 3);
    close(&RAID6, End::PowerCut, 4);
}

/// A part of a stripe was acknowledged as durable because of its record: the data was in its
/// drive's cache. Then a full-stripe write invalidated the record. The power cut lost both the new
/// and the durable data from the caches.
#[test]
fn what_was_promised_outlives_the_whole_stripe_that_is_written_over_it() {
    for (level, seed) in [(&RAID5, 5), (&RAID5, 6), (&RAID6, 7)] {
        let (log, stripe) = (Log::default(), level.stripe());
        let deeds = || {
            vec![vec![
                (stripe + 4096, 16384, Deed::DurableWrite(50)),
                (stripe, stripe, Deed::Write(51)),
                (stripe + STRIP, 16384, Deed::DurableWrite(52)),
                (stripe, stripe, Deed::Write(53)),
            ]]
        };
        let prepare = || level.prepared(seed);
        let all_there = |bench: &mut Bench, _: Option<()>, event| {
            bench.boot(&[]);
            look(bench, level, &log, End::PowerCut, &[], event);
        };
        at_every_event(
            1,
            End::PowerCut,
            prepare,
            |bench| scene(bench, level, &log, deeds()),
            all_there,
        );
    }
}
