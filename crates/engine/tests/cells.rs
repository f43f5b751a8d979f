//! What was answered is in cells that outlive the process, and nothing older than what hosts were told is laid over the drives.

use crate::common::{self, Bench, Setup, VOLUME, envs, range, read, write};
use engine::{Absorb, Attachment, CacheMemory, CacheTerms, CellShare};
use layout::Level;
use platform::{Buf, Durability, Env, IoErrorKind, KeptSize};
use platform_sim::{DriveOptions, Sim, SimDrive};
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, SectorSize, StripSize};
use write_log::memory::MemoryHead;

const CELLS: u32 = 16;
const SECTOR: u64 = 512;

/// Starts one shard with the memory that is there, or with new memory.
async fn boot(envs: Vec<Env>, setup: &Setup) -> Bench {
    let world = envs[0].clone();
    let size = KeptSize { words: MemoryHead::words(CELLS), bytes: MemoryHead::bytes(CELLS) };
    let kept =
        world.world().kept_memory("cache", Some(size)).await.expect("there is room").expect("it is made");
    let memory = match kept.was_there {
        true => CacheMemory::read(kept),
        false => CacheMemory::make(kept, [1; 16], CELLS),
    };
    let memory = memory.expect("it is whole");
    let sequence = memory.sequence();
    let CacheMemory { words, found, free, .. } = memory;
    let share = CellShare { words, free, sequence };
    let attachment = setup.attachment(&envs[0]).await;
    let cache = CacheTerms { absorb: Absorb::Unflushed, found: Arc::new(found), ..CacheTerms::none(VOLUME) };
    Bench::attach_with_cells(envs, Attachment { cache, ..attachment }, vec![share]).await
}

fn killed(sim: &mut Sim) {
    sim.kill();
    sim.restart_process();
}

fn of(value: u8) -> Vec<u8> {
    vec![value; SECTOR as usize]
}

/// Older data of a cell cannot be written, and newer data of other bytes of it is on the drives, or gets there with what a host writes
/// over it, who waits for that: all of it is kept, as the older is. Were the host told that its write is there, the end of the
/// process would lay the newer of the two over it. `older`: where the older data is; `fails`: how many writes fail when it is
/// flushed, and when the host writes.
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
    assert!(got[older as usize..][..SECTOR as usize] == of(1), "what was answered is there");
    assert!(got[0] == 3 || told.is_err(), "a host was told that 3 is on the drives, and {} is read", got[0]);
}

#[test]
fn nothing_is_laid_over_what_a_host_was_told_is_on_the_drives() {
    // Both together fail, and then the older alone; again when the host writes.
    write_over_what_is_kept(1, SECTOR, [2, 2]);
    // They do not touch, and one of them fails alone: whichever comes first.
    (2..10).for_each(|seed| write_over_what_is_kept(seed, 6 * SECTOR, [1, 0]));
}

/// A drive does not return a write of a cell. Nobody else gets the cell before it does, though what was in it is on other drives.
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
        bench.volume().flush().await.expect("the other drive has it");
        for number in 0..4 * u64::from(CELLS) {
            write(bench.volume(), 4096 * (1 + number % 20), &of(9))
                .await
                .expect("there is room again and again");
        }
        hung.release();
        bench.wait(Duration::from_secs(1)).await;
        assert!(read(bench.volume(), 0, SECTOR).await.expect("readable") == of(1));
    })
    .expect("no stall");
    let late = drive.read_true(ByteOffset::ZERO, ByteCount(SECTOR));
    assert!(late == of(1) || late == of(0), "a write that came late wrote {}", late[0]);
}

/// Two flush what was destaged, and share a flush of the drives: one has taken the cells of older data to clear, and the other, who has none, is
/// woken first and has the drives flushed. It is of a write that went past the cache over these cells: were its host told before they are
/// cleared, a kill at that moment would lay the older data over it.
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
            // While a flush of the drives is under way, older data is destaged, and is to be cleared by the next one.
            asked[1].stall_next(1, Duration::from_secs(1));
            let _earlier = flush();
            bench.wait(Duration::from_millis(100)).await;
            write(bench.volume(), 0, &of(1)).await.expect("answered");
            let _clears = flush();
            bench.wait(Duration::from_millis(100)).await;
            assert_eq!(bench.volume().cache_counters().dirty, ByteCount::ZERO, "it is destaged");
            // It needs more than a quarter of all cells.
            write(bench.volume(), 0, &[2; 32 << 10]).await.expect("written");
            asked[1].stats().flushes - before
        });
        shared += u32::from(flushes.expect("no stall") == 2);
        killed(&mut sim);
        let envs = envs(&sim, &setup);
        let got = sim.run(async move { read(boot(envs, &setup).await.volume(), 0, SECTOR).await });
        let got = got.expect("no stall").expect("readable");
        assert!(got == of(2), "seed {seed}: a host was told of 2, and {} is read after a kill", got[0]);
    }
    assert!(shared > 0, "one flush of the drives served both");
}
