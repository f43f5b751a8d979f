//! Read cache and read-ahead: cached data is never older than the drives, whichever shard writes;
//! sequential streams find their next blocks.

use crate::common::{self, Bench, Setup, VOLUME, envs, range, read, write};
use engine::{Attachment, ReadTerms, ShardMessage};
use layout::Level;
use platform::Durability;
use platform_sim::{DriveOptions, Latency, Order, Rng, Sim, SimDrive, SimOptions};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, SectorSize};

const KIB: u64 = 1024;
const CACHED: ReadTerms = ReadTerms { read_ahead: false, cached: true, most_ahead: None };
const AHEAD: ReadTerms = ReadTerms { read_ahead: true, cached: false, most_ahead: None };
const BOTH: ReadTerms = ReadTerms { read_ahead: true, cached: true, most_ahead: None };

fn sim(setup: &Setup, seed: u64) -> Sim {
    let options = SimOptions {
        order: Order::Shuffled,
        shards: usize::from(setup.shards),
        ..SimOptions::seeded(seed)
    };
    let mut sim = Sim::new(options);
    for drive in 0..setup.drives {
        let latency = Latency::range_us(400, 600);
        sim.add_drive(
            &format!("d{drive}"),
            DriveOptions { latency, ..DriveOptions::sized(setup.member) },
        );
    }
    sim
}

/// Runs a closure on a volume with this read policy and cache size per shard.
fn run<T: 'static, F: Future<Output = T> + 'static>(
    setup: &Setup,
    (terms, room): (ReadTerms, u64),
    seed: u64,
    work: impl FnOnce(Bench, Vec<SimDrive>) -> F + 'static,
) -> T {
    let mut sim = sim(setup, seed);
    let drives: Vec<SimDrive> = (0..setup.drives).map(|drive| common::drive(&sim, drive)).collect();
    let (envs, setup) = (envs(&sim, setup), setup.clone());
    let done = sim.run(async move {
        let attachment = setup.attachment(&envs[0]).await;
        let bench = Bench::attach(envs, Attachment { reads: terms, ..attachment }).await;
        for sender in &bench.senders {
            assert!(sender.send(ShardMessage::ReadRoom(ByteCount(room))).is_ok());
        }
        bench.wait(Duration::from_micros(1)).await;
        work(bench, drives).await
    });
    done.expect("no stall")
}

fn reads(drives: &[SimDrive]) -> u64 {
    drives.iter().map(|drive| drive.stats().reads).sum()
}

fn bytes_of(number: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| ((i / 512) ^ number.wrapping_mul(37) | 1) as u8).collect()
}

#[test]
fn what_was_read_is_read_again_without_a_drive_until_it_is_written() {
    for level in [Level::Raid0, Level::Raid5, Level::Raid1] {
        let setup = Setup { member: ByteCount::MIB, ..Setup::new(level, 4) };
        run(&setup, (CACHED, 1 << 20), 1, move |bench, drives| async move {
            let volume = bench.volume();
            write(volume, 0, &bytes_of(1, 64 * KIB)).await.expect("written");
            assert!(read(volume, 0, 64 * KIB).await.expect("readable") == bytes_of(1, 64 * KIB));
            let before = reads(&drives);
            assert!(
                read(volume, 3 * KIB, 7 * KIB).await.expect("readable")[..]
                    == bytes_of(1, 64 * KIB)[3072..10240]
            );
            assert_eq!(reads(&drives), before, "{level}");
            assert_eq!(volume.cache_counters().clean, ByteCount(64 * KIB));
            write(volume, 4 * KIB, &bytes_of(2, 4 * KIB)).await.expect("written");
            let before = reads(&drives);
            assert!(
                read(volume, 4 * KIB, 4 * KIB).await.expect("readable") == bytes_of(2, 4 * KIB)
            );
            assert!(reads(&drives) > before, "{level}: the written data is not cached");
            assert!(
                read(volume, 8 * KIB, 8 * KIB).await.expect("readable")[..]
                    == bytes_of(1, 64 * KIB)[8192..16384]
            );
            assert_eq!(volume.check_invariants(), Ok(()));
            // With the read cache off, nothing of the volume stays cached.
            bench.tell(|done| ShardMessage::SetReads(VOLUME, ReadTerms::default(), done)).await;
            assert_eq!(bench.volume().cache_counters().clean, ByteCount::ZERO);
        });
    }
}

/// The time that a sequential stream takes, at queue depth one with 16 KiB reads.
fn stream(terms: ReadTerms, shards: u16) -> Duration {
    let setup = Setup { member: ByteCount(4 << 20), shards, ..Setup::new(Level::Raid0, 4) };
    run(&setup, (terms, 8 << 20), 1, move |bench, _| async move {
        let (volume, begun) = (bench.volume(), bench.env.now());
        write(volume, 0, &bytes_of(1, 8 << 20)).await.expect("written");
        let written = bench.env.now() - begun;
        for number in 0..512 {
            let got = read(volume, number * 16 * KIB, 16 * KIB).await.expect("readable");
            let from = (number * 16 * KIB) as usize;
            assert!(got[..] == bytes_of(1, 8 << 20)[from..from + got.len()], "{number}");
        }
        let used: u64 =
            bench.volumes.iter().map(|volume| volume.cache_counters().ahead_used.0).sum();
        assert_eq!(
            terms.read_ahead,
            used > 0,
            "{used} bytes were read ahead and then read by the host"
        );
        bench.env.now() - begun - written
    })
}

#[test]
fn a_stream_finds_what_it_asks_for_next_on_whichever_shard_it_is() {
    for shards in [1, 3] {
        let (ahead, not) = (stream(AHEAD, shards), stream(ReadTerms::default(), shards));
        assert!(ahead * 4 < not, "{shards} shards: {ahead:?} with read-ahead, {not:?} without");
    }
}

#[test]
fn reads_at_random_places_are_not_read_ahead_of() {
    let setup = Setup { member: ByteCount(256 << 20), ..Setup::new(Level::Raid5, 4) };
    let asked = |terms| {
        run(&setup, (terms, 8 << 20), 1, move |bench, drives| async move {
            let mut rng = Rng::new(1, "reads", "");
            for _ in 0..500 {
                let at = rng.below((512 << 20) / (4 * KIB)) * 4 * KIB;
                read(bench.volume(), at, 4 * KIB).await.expect("readable");
            }
            reads(&drives)
        })
    };
    let (ahead, not) = (asked(AHEAD), asked(ReadTerms::default()));
    assert!(ahead <= not + not / 50, "{ahead} reads with read-ahead, {not} without");
}

/// A slow read that began before a write returns the older data, which must not be cached.
#[test]
fn what_a_slow_read_brings_is_not_kept_over_a_write() {
    let setup = Setup { member: ByteCount::MIB, ..Setup::new(Level::Raid0, 2) };
    run(&setup, (CACHED, 1 << 20), 1, move |bench, drives| async move {
        let volume = bench.volume().clone();
        write(&volume, 0, &bytes_of(1, 4 * KIB)).await.expect("written");
        drives[0].stall_next(1, Duration::from_millis(50));
        let (slow, reader) = (volume.clone(), bench.env.clone());
        reader.spawn("host", async move {
            read(&slow, 0, 4 * KIB).await.expect("readable");
        });
        bench.wait(Duration::from_millis(1)).await;
        write(&volume, 0, &bytes_of(2, 4 * KIB)).await.expect("written");
        bench.wait(Duration::from_millis(100)).await;
        assert!(read(&volume, 0, 4 * KIB).await.expect("readable") == bytes_of(2, 4 * KIB));
    });
}

/// Writes that began before the first block was cached end after it.
#[test]
fn what_is_read_during_a_write_that_nobody_announced_is_not_kept() {
    let setup = Setup { member: ByteCount::MIB, ..Setup::new(Level::Raid0, 2) };
    run(&setup, (ReadTerms::default(), 1 << 20), 1, |bench, drives| async move {
        let volume = bench.volume().clone();
        write(&volume, 0, &bytes_of(1, 4 * KIB)).await.expect("written");
        drives[0].stall_next(1, Duration::from_millis(50));
        let (slow, writer) = (volume.clone(), bench.env.clone());
        writer.spawn("host", async move {
            write(&slow, 0, &bytes_of(2, 4 * KIB)).await.expect("written");
        });
        bench.wait(Duration::from_millis(1)).await;
        bench.tell(|done| ShardMessage::SetReads(VOLUME, CACHED, done)).await;
        read(&volume, 0, 4 * KIB).await.expect("readable");
        bench.wait(Duration::from_millis(100)).await;
        assert!(read(&volume, 0, 4 * KIB).await.expect("readable") == bytes_of(2, 4 * KIB));
        assert_eq!(volume.cache_counters().clean, ByteCount(4 * KIB), "the last read is cached");
    });
}

/// Hosts on several shards write, trim and read, with a small cache, while the volume's read policy
/// changes: a read returns the last write.
#[test]
fn whatever_hosts_do_a_read_gives_what_was_written_last() {
    for seed in 0..16 {
        let (level, drives) =
            [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5)]
                [seed as usize % 4];
        let setup = Setup {
            member: ByteCount(512 * KIB),
            shards: 1 + seed as u16 % 3,
            ..Setup::new(level, drives)
        };
        run(&setup, (BOTH, 96 * KIB), seed, move |bench, _| async move {
            let bench = Rc::new(bench);
            let sector = SectorSize::B512.bytes().0;
            let part = bench.volume().spec().capacity.0 / 3 / sector * sector;
            let (done, mut ends) = platform::mailbox::mailbox(&bench.env, 3);
            for host in 0..3_u64 {
                let (bench, done) = (bench.clone(), done.clone());
                let env = bench.shards[host as usize % bench.shards.len()].env().clone();
                env.spawn("host", async move {
                    act(&bench, host, part, Rng::new(seed, "host", &host.to_string())).await;
                    assert!(done.send(()).is_ok());
                });
            }
            for _ in 0..3 {
                ends.receive().await.expect("hosts end");
            }
        });
    }
}

async fn act(bench: &Rc<Bench>, host: u64, part: u64, mut rng: Rng) {
    let volume = &bench.volumes[host as usize % bench.volumes.len()];
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    let sectors = part / 512;
    let mut next = 0;
    for number in 1..400 {
        // Some are sequential streams.
        let first = if rng.chance(1, 2) { next % sectors } else { rng.below(sectors) };
        let count = rng.between(1, 48).min(sectors - first);
        let start = host * part + first * 512;
        match rng.below(8) {
            0..=1 => {
                let bytes = bytes_of(number, count * 512);
                write(volume, start, &bytes).await.expect("written");
                held.extend(
                    (first..first + count).map(|sector| (sector, number * 1000 + sector - first)),
                );
            }
            2 if rng.chance(1, 4) => {
                volume
                    .write_zeroes(range(start, count * 512), Durability::Cached)
                    .await
                    .expect("written");
                held.extend((first..first + count).map(|sector| (sector, 0)));
            }
            3 if rng.chance(1, 20) && host == 0 => {
                let terms = [CACHED, AHEAD, BOTH, ReadTerms::default()][rng.below(4) as usize];
                bench.tell(|done| ShardMessage::SetReads(VOLUME, terms, done)).await;
            }
            _ => {
                let got = read(volume, start, count * 512).await.expect("readable");
                for (sector, bytes) in (first..).zip(got.chunks(512)) {
                    let Some(of) = held.get(&sector) else { continue };
                    let expected = if *of == 0 {
                        0
                    } else {
                        ((of % 1000) ^ (of / 1000).wrapping_mul(37) | 1) as u8
                    };
                    assert!(
                        bytes.iter().all(|byte| *byte == expected),
                        "host {host}, step {number}, sector {sector}"
                    );
                }
                next = first + count;
            }
        }
        assert_eq!(volume.check_invariants(), Ok(()));
    }
}
