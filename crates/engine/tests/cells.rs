//! Cache blocks in persistent memory hold acknowledged writes over a restart. A restart never
//! writes older data over acknowledged newer data.

use crate::common::{self, Bench, Setup, VOLUME, envs, range, read, write};
use engine::{Absorb, Attachment, CacheMemory, CacheTerms, CellShare};
use layout::Level;
use platform::{Buf, Durability, Env, IoErrorKind, KeptSize};
use platform_sim::{DriveOptions, Sim, SimDrive};
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, SectorSize, StripSize};
use write_log::memory::{MemoryHead, descriptor_at};

const CELLS: u32 = 16;
const SECTOR: u64 = 512;

/// Starts one shard with the given memory, or with new memory.
async fn boot(envs: Vec<Env>, setup: &Setup) -> Bench {
    let world = envs[0].clone();
    let size = KeptSize::whole(MemoryHead::words(CELLS), MemoryHead::bytes(CELLS));
    let kept = world
        .world()
        .kept_memory("cache", Some(size))
        .await
        .expect("there is space")
        .expect("the memory is created");
    let memory = match kept.was_there {
        true => CacheMemory::read(kept).await,
        false => CacheMemory::make(kept, [1; 16], CELLS).await,
    };
    let memory = memory.expect("the memory is intact");
    let sequence = memory.sequence();
    let CacheMemory { words, found, free, .. } = memory;
    let share = CellShare { words, free, sequence, more: None };
    let attachment = setup.attachment(&envs[0]).await;
    let cache = CacheTerms {
        absorb: Absorb::Unflushed,
        found: Arc::new(found),
        ..CacheTerms::none(VOLUME)
    };
    Bench::attach_with_cells(envs, Attachment { cache, ..attachment }, vec![share]).await
}

fn killed(sim: &mut Sim) {
    sim.kill();
    sim.restart_process();
}

fn of(value: u8) -> Vec<u8> {
    vec![value; SECTOR as usize]
}

/// Older data of a cache block cannot be destaged. Newer data of other bytes of the block is on the
/// drives, or is written there by a host that waits for it. The cache must keep all of the block.
/// Were the host's write acknowledged, a restart would write the older of the two over it. `older`:
/// the range of the older data; `fails`: the number of writes that fail, at the flush and at the
/// host's write.
fn write_over_what_is_kept(seed: u64, older: u64, fails: [u64; 2]) {
    let setup = Setup { strip: StripSize::KIB_64, ..Setup::new(Level::Raid0, 2) };
    let mut sim = setup.sim(seed, 0);
    for drive in ["d0", "d1"] {
        let physical_sector = SectorSize::B512;
        sim.add_drive(drive, DriveOptions { physical_sector, ..DriveOptions::sized(setup.member) });
    }
    let (first, again) = (envs(&sim, &setup), setup.clone());
    let drive: SimDrive = common::drive(&sim, 0);
    let told = sim
        .run(async move {
            let bench = boot(first, &again).await;
            write(bench.volume(), older, &of(1)).await.expect("answered");
            write(bench.volume(), 0, &of(2)).await.expect("answered");
            drive.fail_next(fails[0], Some("write"), IoErrorKind::OutOfSpace);
            bench.volume().flush().await.expect_err("one of them is not on the drive");
            assert!(bench.volume().cache_counters().pinned.0 > 0);
            drive.fail_next(fails[1], Some("write"), IoErrorKind::OutOfSpace);
            let data = Buf::copy_of(&of(3)).freeze();
            bench.volume().write(range(0, SECTOR), data, Durability::Durable).await
        })
        .expect("no stall");
    killed(&mut sim);
    let envs = envs(&sim, &setup);
    let got = sim.run(async move { read(boot(envs, &setup).await.volume(), 0, 4096).await });
    let got = got.expect("no stall").expect("readable");
    assert!(got[older as usize..][..SECTOR as usize] == of(1), "the acknowledged data is there");
    assert!(
        got[0] == 3 || told.is_err(),
        "a host's write of 3 was acknowledged, and {} is read",
        got[0]
    );
}

#[test]
fn nothing_is_laid_over_what_a_host_was_told_is_on_the_drives() {
    // Both writes fail, then the older alone; the same at the host's write.
    write_over_what_is_kept(1, SECTOR, [2, 2]);
    // The ranges do not touch, and one write fails: either may be first.
    (2..10).for_each(|seed| write_over_what_is_kept(seed, 6 * SECTOR, [1, 0]));
}

/// A drive does not return a write of a cache block. The block is not reused before it does, though
/// the data is on other drives.
#[test]
fn a_cell_is_not_used_while_a_drive_looks_at_it() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(2, 0);
    let (envs, drive) = (envs(&sim, &setup), common::drive(&sim, 1));
    let hung = drive.clone();
    sim.run(async move {
        let bench = boot(envs, &setup).await;
        write(bench.volume(), 0, &of(1)).await.expect("answered");
        hung.hold();
        bench.volume().flush().await.expect("the other drive has the data");
        for number in 0..4 * u64::from(CELLS) {
            write(bench.volume(), 4096 * (1 + number % 20), &of(9))
                .await
                .expect("there is space again and again");
        }
        hung.release();
        bench.wait(Duration::from_secs(1)).await;
        assert!(read(bench.volume(), 0, SECTOR).await.expect("readable") == of(1));
    })
    .expect("no stall");
    let late = drive.read_true(ByteOffset::ZERO, ByteCount(SECTOR));
    assert!(late == of(1) || late == of(0), "a write that came late wrote {}", late[0]);
}

/// Two tasks flush destaged data, and share a flush of the drives. One has collected the blocks of
/// older data to clear. The other has none, wakes first and has the drives flushed, for a write
/// that bypassed the cache over these blocks. Were that write acknowledged before the blocks are
/// cleared, a kill at that moment would write the older data over it.
#[test]
fn a_host_is_told_of_a_write_past_the_cells_when_all_older_ones_are_cleared() {
    let mut shared = 0;
    for seed in 20..60 {
        let setup = Setup { strip: StripSize::KIB_64, ..Setup::new(Level::Raid0, 2) };
        let mut sim = setup.sim(seed, 0);
        let drives: Vec<SimDrive> = (0..2).map(|drive| common::drive(&sim, drive)).collect();
        let (first, again, asked) = (envs(&sim, &setup), setup.clone(), drives.clone());
        let flushes = sim.run(async move {
            let bench = boot(first, &again).await;
            let flush = || {
                let volume = bench.volume().clone();
                bench.env.spawn("host", async move { volume.flush().await })
            };
            let before = asked[1].stats().flushes;
            // During a flush of the drives, older data is destaged; the next flush clears it.
            asked[1].stall_next(1, Duration::from_secs(1));
            let _earlier = flush();
            bench.wait(Duration::from_millis(100)).await;
            write(bench.volume(), 0, &of(1)).await.expect("answered");
            let _clears = flush();
            bench.wait(Duration::from_millis(100)).await;
            assert_eq!(
                bench.volume().cache_counters().dirty,
                ByteCount::ZERO,
                "the older data is destaged"
            );
            // The write needs more than a quarter of all cache blocks.
            write(bench.volume(), 0, &[2; 32 << 10]).await.expect("written");
            asked[1].stats().flushes - before
        });
        shared += u32::from(flushes.expect("no stall") == 2);
        killed(&mut sim);
        let envs = envs(&sim, &setup);
        let got = sim.run(async move { read(boot(envs, &setup).await.volume(), 0, SECTOR).await });
        let got = got.expect("no stall").expect("readable");
        assert!(
            got == of(2),
            "seed {seed}: a write of 2 was acknowledged, and {} is read after a kill",
            got[0]
        );
    }
    assert!(shared > 0, "one flush of the drives served both");
}

/// A descriptor was damaged whose block has no memory yet: the shard that got the block later
/// stopped, because the block did not look free.
#[test]
fn a_damaged_descriptor_behind_the_reserved_bytes_names_no_block() {
    let setup = Setup::new(Level::Raid1, 2);
    let mut sim = setup.sim(41, 0);
    let env = envs(&sim, &setup)[0].clone();
    let ran = sim.run(async move {
        let size = KeptSize {
            words: MemoryHead::words(CELLS),
            bytes: MemoryHead::bytes(CELLS),
            reserved: MemoryHead::bytes(4),
        };
        let kept = env.world().kept_memory("cache", Some(size)).await.expect("there is space");
        let kept = kept.expect("the memory is created");
        let words = kept.words.clone();
        [2, 10].map(descriptor_at).into_iter().for_each(|word| words.store(word, 0xBAD));
        let mut memory = CacheMemory::make(kept, [1; 16], CELLS).await.expect("it is readable");
        assert_eq!((memory.free.len(), memory.unreserved.cells()), (4, 12));
        assert_eq!([2, 10].map(|slot| words.load(descriptor_at(slot))), [0, 0]);
        memory.unreserved.reserve(12).await.expect("there is memory");
    });
    ran.expect("no stall");
}
