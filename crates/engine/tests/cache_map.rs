//! Block status, trims and zeros with a cache: the cache's map has priority, and they cause no
//! other destage.

use crate::common::{
    self, Bench, MEMBER, Setup, VOLUME, envs, pattern, range, read, regions, write,
};
use engine::{Absorb, Attachment, CacheTerms, FaultPolicy, Volume};
use layout::Level;
use platform::{BlockStatus, Durability, IoErrorKind, StatusExtent};
use platform_sim::{Rng, SimDrive};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset};

const SECTOR: u64 = 512;
const ROOM: ByteCount = ByteCount(1 << 20);

/// Runs a closure on a write-back volume. `is_new`: none of its stripes is initialised.
fn run<F: Future<Output = ()> + 'static>(
    setup: &Setup,
    (seed, is_new): (u64, bool),
    work: impl FnOnce(Bench, Vec<SimDrive>) -> F + 'static,
) {
    let mut sim = setup.sim(seed, 0);
    let drives: Vec<SimDrive> = (0..setup.drives).map(|drive| common::drive(&sim, drive)).collect();
    let (envs, setup) = (envs(&sim, setup), setup.clone());
    let ran = sim.run(async move {
        let mut attachment = setup.attachment(&envs[0]).await;
        if is_new {
            attachment.state = attachment.state.with_initialisation(&regions(&setup), []);
        }
        let cache = CacheTerms { absorb: Absorb::Unflushed, ..CacheTerms::none(VOLUME) };
        let bench = Bench::attach_with_cache(envs, Attachment { cache, ..attachment }, ROOM).await;
        work(bench, drives).await;
    });
    ran.expect("no stall");
}

/// Runs a closure as a task of a volume's shard.
async fn there<T: Send + 'static>(
    bench: &Bench,
    shard: usize,
    work: impl AsyncFnOnce(Rc<Volume>) -> T + 'static,
) -> T {
    let (done, mut result) = platform::mailbox::mailbox(&bench.env, 1);
    let volume = bench.volumes[shard].clone();
    bench.shards[shard]
        .env()
        .spawn("host", async move { assert!(done.send(work(volume).await).is_ok()) });
    result.receive().await.expect("it ends")
}

/// The status of each sector of a range; repeats the query until all are known.
async fn sectors(volume: &Rc<Volume>, start: u64, len: u64) -> Vec<BlockStatus> {
    let (mut at, mut sectors) = (start, Vec::new());
    while at < start + len {
        let extents: Vec<StatusExtent> =
            volume.status(range(at, start + len - at)).await.expect("known");
        assert!(!extents.is_empty(), "at least a sector");
        for extent in extents {
            assert_eq!(extent.len.0 % SECTOR, 0);
            sectors.extend((0..extent.len.0 / SECTOR).map(|_| extent.status));
            at += extent.len.0;
        }
    }
    assert_eq!(sectors.len() as u64, len / SECTOR, "no more than was asked");
    sectors
}

fn dirty(bench: &Bench) -> u64 {
    bench.volumes.iter().map(|volume| volume.cache_counters().dirty.0).sum()
}

fn writes(drives: &[SimDrive]) -> u64 {
    drives.iter().map(|drive| drive.stats().writes).sum()
}

fn is_data(status: &BlockStatus) -> bool {
    *status == BlockStatus::Data
}

/// A block status query destaged all dirty data of all shards.
#[test]
fn the_status_is_that_of_the_cache_and_drains_nothing() {
    for level in [Level::Raid0, Level::Raid10, Level::Raid5] {
        let setup = Setup { shards: 3, member: ByteCount(64 << 20), ..Setup::new(level, 4) };
        let capacity = setup.geometry().capacity().0;
        run(&setup, (1, false), move |bench, drives| async move {
            // Twelve offsets across the volume.
            let places: Vec<u64> =
                (0..12).map(|i| i * (capacity / 12) / 4096 * 4096 + SECTOR * i).collect();
            for at in &places {
                write(&bench.volumes[0], *at, &pattern(at | 1, SECTOR))
                    .await
                    .expect("acknowledged from the cache");
            }
            let here =
                bench.volumes.iter().filter(|volume| volume.cache_counters().dirty.0 > 0).count();
            assert!(here > 1, "{level}: every shard has dirty data");
            assert_eq!(dirty(&bench), 12 * SECTOR, "{level}");
            let before = writes(&drives);
            for shard in 0..3 {
                for at in places.clone() {
                    let found = there(&bench, shard, async move |volume| {
                        sectors(&volume, at / 8192 * 8192, 8192).await
                    });
                    let found: Vec<usize> = found
                        .await
                        .iter()
                        .enumerate()
                        .filter(|(_, status)| is_data(status))
                        .map(|(sector, _)| sector)
                        .collect();
                    assert_eq!(
                        found,
                        [(at % 8192 / SECTOR) as usize],
                        "{level} at {at} from shard {shard}"
                    );
                }
            }
            assert_eq!(
                (writes(&drives), dirty(&bench)),
                (before, 12 * SECTOR),
                "{level}: nothing is destaged"
            );
        });
    }
}

/// Sectors that are reported as zeros read as zeros from every shard, whatever was written or
/// trimmed before.
#[test]
fn what_is_said_to_be_zeros_reads_as_zeros() {
    for (level, drives) in [
        (Level::Raid0, 3),
        (Level::Raid1, 2),
        (Level::Raid5, 4),
        (Level::Raid6, 5),
        (Level::Raid5ee, 5),
    ] {
        for seed in 0..8 {
            let setup = Setup { shards: 2, ..Setup::new(level, drives) };
            run(&setup, (seed, seed % 2 == 1), move |bench, drives| async move {
                let capacity = bench.volume().spec().capacity.0;
                let mut rng = Rng::new(seed, "status", "");
                let mut zeros = 0;
                for round in 0..120 {
                    if round == 80
                        && bench.volume().spec().geometry.survives_set(&common::slots(&[1]))
                    {
                        drives[1].fail_now();
                    }
                    let shard = rng.below(2) as usize;
                    let at = rng.below(capacity / SECTOR) * SECTOR;
                    let stripe = bench.volume().spec().geometry.stripe_bytes().0;
                    let (at, len) = match rng.below(3) {
                        0 => (at / stripe * stripe, stripe.min(capacity - at / stripe * stripe)),
                        _ => (at, (rng.between(1, 40) * SECTOR).min(capacity - at)),
                    };
                    let (what, bytes) = (rng.below(8), pattern(round | 1, len));
                    let done = there(&bench, shard, async move |volume| match what {
                        0..3 => write(&volume, at, &bytes).await,
                        3..5 => volume.write_zeroes(range(at, len), Durability::Cached).await,
                        5..7 => volume.trim(range(at, len)).await,
                        _ => volume.flush().await,
                    });
                    done.await.expect("done");
                    if round % 8 == 0 {
                        let found = there(&bench, 1 - shard, async move |volume| {
                            sectors(&volume, 0, capacity).await
                        })
                        .await;
                        let bytes = read(bench.volume(), 0, capacity).await.expect("readable");
                        for (sector, bytes) in bytes.chunks(SECTOR as usize).enumerate() {
                            if !is_data(&found[sector]) {
                                zeros += 1;
                                assert!(
                                    bytes.iter().all(|byte| *byte == 0),
                                    "{level} seed {seed} round {round} sector {sector}"
                                );
                            }
                        }
                    }
                }
                assert!(zeros > 0, "{level} seed {seed}: some sectors are known to be zeros");
            });
        }
    }
}

#[test]
fn a_stripe_that_is_not_initialised_is_zeros_and_no_drive_is_asked() {
    let setup = Setup::new(Level::Raid5, 4);
    run(&setup, (3, true), |bench, drives| async move {
        drives.iter().for_each(|drive| drive.poke(ByteOffset::ZERO, &pattern(5, MEMBER.0)));
        write(bench.volume(), SECTOR, &pattern(1, SECTOR))
            .await
            .expect("acknowledged from the cache");
        drives.iter().for_each(SimDrive::hold);
        let found = sectors(bench.volume(), 0, 64 * SECTOR).await;
        let expected: Vec<BlockStatus> = (0..64)
            .map(|sector| if sector == 1 { BlockStatus::Data } else { BlockStatus::Zero })
            .collect();
        assert_eq!(found, expected);
        drives.iter().for_each(SimDrive::release);
    });
}

/// Block status asked for strips of an unresponsive drive one after the other, each for the time
/// limit of a read.
#[test]
fn silent_drives_cost_the_status_one_short_time_limit() {
    let setup = Setup::new(Level::Raid6, 6);
    run(&setup, (4, false), |bench, drives| async move {
        drives[..2].iter().for_each(SimDrive::hold);
        let then = bench.env.now();
        let found = sectors(bench.volume(), 0, 256 << 10).await;
        let (took, limit) =
            (bench.env.now().since(then), FaultPolicy::default().limits.solid.short_read);
        assert!((limit..limit * 2).contains(&took), "{took:?}");
        assert!(found.iter().any(is_data), "the strips of unresponsive drives are unknown");
        assert!(!found.iter().all(is_data), "the other drives report their strips");
        let then = bench.env.now();
        assert!(sectors(bench.volume(), 0, 256 << 10).await == found);
        assert!(bench.env.now().since(then) < limit, "drives that are already late are not asked");
        drives[..2].iter().for_each(SimDrive::release);
    });
}

/// A trim destaged all dirty data of its shard.
#[test]
fn a_trim_destages_its_own_stripe_alone() {
    for level in [Level::Raid0, Level::Raid10, Level::Raid5] {
        let setup = Setup::new(level, 4);
        let stripe = setup.geometry().stripe_bytes().0;
        run(&setup, (5, false), move |bench, _| async move {
            let volume = bench.volume();
            for number in 0..6 {
                write(volume, number * stripe, &pattern(number | 1, SECTOR))
                    .await
                    .expect("acknowledged from the cache");
            }
            volume.trim(range(2 * stripe, stripe)).await.expect("trimmed");
            assert_eq!(dirty(&bench), 5 * SECTOR, "{level}: nothing else is destaged");
            assert_eq!(volume.check_invariants(), Ok(()));
            let found = sectors(volume, 2 * stripe, stripe).await;
            assert!(!found.iter().any(is_data), "{level}: the cached stripe is discarded");
            for number in 0..6 {
                let expected = if number == 2 { vec![0; 512] } else { pattern(number | 1, SECTOR) };
                let got = read(volume, number * stripe, SECTOR).await.expect("readable");
                assert!(got == expected, "{level} stripe {number}");
            }
        });
    }
}

/// Another sector of the same cache block is dirty, so the block stays in the cache.
#[test]
fn a_trim_beside_what_is_dirty_is_carried_out() {
    let setup = Setup::new(Level::Raid0, 2);
    run(&setup, (11, false), |bench, _| async move {
        let volume = bench.volume();
        write(volume, 0, &pattern(1, 4096)).await.expect("acknowledged from the cache");
        volume.flush().await.expect("flushed");
        write(volume, 7 * SECTOR, &pattern(3, SECTOR)).await.expect("acknowledged from the cache");
        volume.trim(range(0, 2 * SECTOR)).await.expect("trimmed");
        let mut expected = pattern(1, 4096);
        expected[..1024].fill(0);
        expected[3584..].copy_from_slice(&pattern(3, SECTOR));
        assert!(read(volume, 0, 4096).await.expect("readable") == expected);
        assert!(!sectors(volume, 0, 2 * SECTOR).await.iter().any(is_data));
    });
}

/// Redundancy cannot follow a trim of a part of a stripe: the trim does nothing and causes no
/// destage.
#[test]
fn a_trim_that_does_nothing_destages_nothing() {
    let setup = Setup::new(Level::Raid5, 4);
    run(&setup, (6, false), |bench, drives| async move {
        write(bench.volume(), 0, &pattern(1, 4096)).await.expect("acknowledged from the cache");
        let before = writes(&drives);
        bench.volume().trim(range(0, 4096)).await.expect("the trim does nothing");
        assert_eq!((writes(&drives), dirty(&bench)), (before, 4096));
        assert!(read(bench.volume(), 0, 4096).await.expect("readable") == pattern(1, 4096));
    });
}

/// A cached part of a stripe cannot be destaged. After a trim of the stripe hosts would read zeros
/// around it, and the old data again after the destage.
#[test]
fn a_trim_of_what_cannot_be_destaged_does_nothing() {
    let setup = Setup::new(Level::Raid0, 2);
    let stripe = setup.geometry().stripe_bytes().0;
    run(&setup, (7, false), move |bench, drives| async move {
        let volume = bench.volume();
        write(volume, 0, &pattern(1, stripe)).await.expect("acknowledged from the cache");
        volume.flush().await.expect("flushed");
        write(volume, SECTOR, &pattern(3, SECTOR)).await.expect("acknowledged from the cache");
        let mut expected = pattern(1, stripe);
        expected[512..1024].copy_from_slice(&pattern(3, SECTOR));
        drives[0].fail_next(2, Some("write"), IoErrorKind::OutOfSpace);
        volume.trim(range(0, stripe)).await.expect("the trim does nothing");
        assert_eq!((dirty(&bench), volume.cache_counters().pinned.0), (SECTOR, SECTOR));
        assert!(read(volume, 0, stripe).await.expect("readable") == expected);
        assert!(sectors(volume, 0, stripe).await.iter().all(is_data));
        bench.wait(Duration::from_secs(3)).await;
        volume.flush().await.expect("there is space again");
        assert!(read(volume, 0, stripe).await.expect("readable") == expected);
        volume.trim(range(0, stripe)).await.expect("trimmed");
        assert!(read(volume, 0, stripe).await.expect("readable") == vec![0; stripe as usize]);
    });
}

/// Destaged blocks stay in the cache until the drives are flushed, and the flush fails. A start
/// after a kill would write these blocks over the trim.
#[test]
fn a_trim_of_what_cannot_be_flushed_does_nothing() {
    let setup = Setup::new(Level::Raid0, 2);
    let stripe = setup.geometry().stripe_bytes().0;
    run(&setup, (12, false), move |bench, drives| async move {
        let volume = bench.volume();
        write(volume, 0, &pattern(1, stripe)).await.expect("acknowledged from the cache");
        drives[0].fail_next(1, Some("flush"), IoErrorKind::OutOfSpace);
        volume.trim(range(0, stripe)).await.expect("the trim does nothing");
        assert_eq!(dirty(&bench), 0, "the block is destaged");
        assert!(read(volume, 0, stripe).await.expect("readable") == pattern(1, stripe));
        volume.trim(range(0, stripe)).await.expect("trimmed");
        assert!(read(volume, 0, stripe).await.expect("readable") == vec![0; stripe as usize]);
    });
}

/// Zeros of a part of a stripe waited for the drives.
#[test]
fn zeros_are_acknowledged_from_the_cache() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6] {
        let setup = Setup::new(level, 5);
        run(&setup, (8, false), move |bench, drives| async move {
            let volume = bench.volume();
            // The cache blocks held other data before.
            for _ in 0..4 {
                write(volume, 0, &pattern(1, 16_384)).await.expect("acknowledged from the cache");
                volume.flush().await.expect("flushed");
            }
            let (before, then) = (writes(&drives), bench.env.now());
            volume
                .write_zeroes(range(SECTOR, 3 * SECTOR), Durability::Cached)
                .await
                .expect("acknowledged from the cache");
            assert_eq!(
                (writes(&drives), bench.env.now()),
                (before, then),
                "{level}: no drive is asked"
            );
            assert_eq!(dirty(&bench), 3 * SECTOR);
            let mut expected = pattern(1, 16_384);
            expected[512..2048].fill(0);
            assert!(
                read(volume, 0, 16_384).await.expect("readable") == expected,
                "{level}: from the cache"
            );
            write(volume, 2 * SECTOR, &pattern(7, SECTOR))
                .await
                .expect("acknowledged from the cache");
            expected[1024..1536].copy_from_slice(&pattern(7, SECTOR));
            assert!(
                read(volume, 0, 16_384).await.expect("readable") == expected,
                "{level}: newer data"
            );
            volume.flush().await.expect("flushed");
            assert_eq!(dirty(&bench), 0);
            assert!(
                read(volume, 0, 16_384).await.expect("readable") == expected,
                "{level}: from the drives"
            );
        });
    }
}

/// Zeros of whole stripes go to the drives where the cache has no block of them, and take no cache
/// blocks.
#[test]
fn zeros_of_whole_stripes_pass_the_cache_where_it_has_nothing() {
    for level in [Level::Raid0, Level::Raid5] {
        let setup = Setup::new(level, 4);
        let stripe = setup.geometry().stripe_bytes().0;
        run(&setup, (9, false), move |bench, _| async move {
            let volume = bench.volume();
            write(volume, 0, &pattern(1, 3 * stripe)).await.expect("acknowledged from the cache");
            volume.flush().await.expect("flushed");
            write(volume, stripe + SECTOR, &pattern(5, SECTOR))
                .await
                .expect("acknowledged from the cache");
            let absorbed = volume.cache_counters().absorbed;
            volume.write_zeroes(range(0, 3 * stripe), Durability::Cached).await.expect("written");
            assert_eq!(
                volume.cache_counters().absorbed,
                absorbed + 1,
                "{level}: only the dirty stripe is in the cache"
            );
            assert!(
                read(volume, 0, 3 * stripe).await.expect("readable")
                    == vec![0; 3 * stripe as usize]
            );
            volume.flush().await.expect("flushed");
            assert!(
                read(volume, 0, 3 * stripe).await.expect("readable")
                    == vec![0; 3 * stripe as usize]
            );
        });
    }
}

/// A drive fails that the volume needs, and the cache holds acknowledged writes. No request hangs,
/// and no write is lost.
#[test]
fn nothing_harms_what_is_kept_for_a_drive_that_is_gone() {
    let setup = Setup::new(Level::Raid0, 2);
    let (stripe, strip) = (setup.geometry().stripe_bytes().0, setup.strip.bytes().0);
    run(&setup, (10, false), move |bench, drives| async move {
        let volume = bench.volume();
        write(volume, SECTOR, &pattern(3, SECTOR)).await.expect("acknowledged from the cache");
        drives[0].fail_now();
        assert!(volume.flush().await.is_err(), "the zeros cannot be written");
        assert_eq!(volume.cache_counters().pinned.0, SECTOR);
        let kept = async || {
            assert!(
                read(volume, SECTOR, SECTOR).await.expect("from the cache") == pattern(3, SECTOR)
            );
            assert_eq!(volume.cache_counters().pinned.0, SECTOR);
            assert_eq!(volume.check_invariants(), Ok(()));
        };
        let found = sectors(volume, 0, 2 * stripe).await;
        let strip_of = |sector: usize| sector as u64 * SECTOR / strip;
        for (sector, status) in found.iter().enumerate() {
            assert_eq!(
                is_data(status),
                strip_of(sector).is_multiple_of(2),
                "sector {sector}: the other drive's sectors are known"
            );
        }
        kept().await;
        volume.trim(range(0, stripe)).await.expect("the trim does nothing");
        kept().await;
        let error = volume.write_zeroes(range(SECTOR, SECTOR), Durability::Cached).await;
        assert_eq!(error.expect_err("the drive is gone").kind, IoErrorKind::Gone);
        kept().await;
        let error = volume.write_zeroes(range(0, stripe), Durability::Cached).await;
        assert_eq!(error.expect_err("the drive is gone").kind, IoErrorKind::Gone);
        kept().await;
        volume
            .write_zeroes(range(stripe + strip, SECTOR), Durability::Cached)
            .await
            .expect("the other drive takes the zeros");
        kept().await;
    });
}
