//! Blocks that a drive cannot keep: the data that must be durable before a list changes, or before
//! a write is acknowledged.

use crate::common::{Bench, Setup, data, drive, envs, parity, pattern, range, read, slots, write};
use engine::{Change, ReportKind};
use layout::Level;
use platform::IoErrorKind;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex, StripeIndex};

const SECTOR: u64 = 512;
/// The stripe of all tests.
const STRIPE: u64 = 3;

/// X1 was flushed while its block was excluded on D1's drive. X2 went into the cache of that drive,
/// and the exclusion ended before a flush: a power cut left X0 on the drive, without an exclusion.
#[test]
fn an_exclusion_ends_after_a_flush_of_the_block() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(51, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let (slot, offset) = data(&setup, STRIPE, 1);
        let mut attachment = setup.attachment(&envs[0]).await;
        let ranges = vec![range(offset, SECTOR)];
        attachment.state.apply(&Change::Excluded { slot: DriveIndex(slot), ranges });
        let bench = Bench::attach(envs, attachment).await;
        let of = all[usize::from(slot)].clone();
        let durable = Rc::new(RefCell::new(Vec::new()));
        let seen = durable.clone();
        bench.refuse(move |kind| {
            if let ReportKind::ExcludedBlocks { excluded: false, .. } = kind {
                seen.borrow_mut().push(of.read_durable(ByteOffset(offset), ByteCount(SECTOR)));
            }
            None
        });
        let at = setup.geometry().stripe_start(StripeIndex(STRIPE)).0 + 4096;
        write(bench.volume(), at, &[2; 512]).await.expect("writable");
        assert!(
            !bench.volume().recorded_state().is_excluded(DriveIndex(slot), range(offset, SECTOR))
        );
        assert_eq!(
            *durable.borrow(),
            [[2; 512]],
            "the block after a power cut when the exclusion ends"
        );
    })
    .expect("no stall");
}

/// A drive that the volume needs refused a block, and still returned the old content. The write was
/// acknowledged with its content in redundancy, and reads returned the old content.
#[test]
fn a_refused_block_is_listed_before_its_write_is_acknowledged() {
    for is_listed in [true, false] {
        let setup = Setup::new(Level::Raid5, 4);
        let mut sim = setup.sim(52, 0);
        let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let (slot, offset) = data(&setup, STRIPE, 1);
            // Another drive lacks a block elsewhere: this drive is needed.
            let (other, elsewhere) = data(&setup, 9, 1);
            assert_ne!(other, slot);
            let mut attachment = setup.attachment(&envs[0]).await;
            let ranges = vec![range(elsewhere, SECTOR)];
            attachment.state.apply(&Change::Excluded { slot: DriveIndex(other), ranges });
            let bench = Bench::attach(envs, attachment).await;
            bench.refuse(move |kind| match kind {
                ReportKind::ExcludedBlocks { excluded: true, .. } if !is_listed => {
                    Some(IoErrorKind::OutOfSpace)
                }
                _ => None,
            });
            all[usize::from(slot)].refuse_writes(range(offset, SECTOR));
            let at = setup.geometry().stripe_start(StripeIndex(STRIPE)).0 + 4096;
            let written = write(bench.volume(), at, &[2; 512]).await;
            assert_eq!(written.is_ok(), is_listed, "{written:?}");
            if is_listed {
                assert_eq!(read(bench.volume(), at, SECTOR).await.expect("redundant"), [2; 512]);
            }
        })
        .expect("no stall");
    }
}

/// A drive was missing, and a host wrote a full stripe over a punctured block. The block's drive
/// acknowledged the write and lost it: the block was removed from the list, and was unreadable.
#[test]
fn a_punctured_block_that_is_written_anew_is_read_back() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(53, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let (slot, offset) = data(&setup, STRIPE, 1);
        let ranges = vec![range(offset, SECTOR)];
        let punctured = Change::Punctured { slot: DriveIndex(slot), ranges };
        let bench = degraded(envs, &setup, &[punctured]).await;
        let volume = bench.volume();
        all[usize::from(slot)].make_stuck(range(offset, SECTOR), None);
        let start = setup.geometry().stripe_start(StripeIndex(STRIPE)).0;
        let whole = setup.geometry().stripe_bytes().0;
        let bytes = pattern(2, whole);
        let written = write(volume, start, &bytes).await;
        for at in (0..whole).step_by(SECTOR as usize) {
            match read(volume, start + at, SECTOR).await {
                Ok(got) => assert!(got == bytes[at as usize..][..512], "wrong data at {at}"),
                Err(error) => {
                    assert!(written.is_err(), "acknowledged and unreadable at {at}: {error}")
                }
            }
        }
    })
    .expect("no stall");
}

/// A resync gave a block up, and the next block of the column was unreadable for the new parity.
/// Its place was filled with zeros before it was listed: a kill between the two left zeros that
/// counted as host data.
#[test]
fn a_block_is_listed_before_zeros_take_its_place() {
    let setup = Setup { unsynced: true, ..Setup::new(Level::Raid5, 4) };
    let mut sim = setup.sim(54, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    let (first, second) = (data(&setup, STRIPE, 1), data(&setup, STRIPE, 2));
    all[usize::from(first.0)].make_unreadable(range(first.1, SECTOR));
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let zeros_first = Rc::new(Cell::new(None));
        let (seen, of) = (zeros_first.clone(), all[usize::from(second.0)].clone());
        bench.refuse(move |kind| {
            if let ReportKind::PuncturedBlocks { drive, punctured: true, .. } = kind {
                if drive.0 == first.0 {
                    // The block is known to be readable by now, and is read again for the new
                    // parity.
                    of.make_unreadable(range(second.1, SECTOR));
                } else if drive.0 == second.0 {
                    seen.set(Some(of.peek(ByteOffset(second.1), ByteCount(SECTOR)).is_some()));
                }
            }
            None
        });
        bench.wait(Duration::from_secs(30)).await;
        assert_eq!(zeros_first.get(), Some(false), "the block was written before it was listed");
        assert!(bench.volume().recorded_state().unsynced().is_empty());
        let start = setup.geometry().stripe_start(StripeIndex(STRIPE)).0;
        for index in 0..3 {
            let got = read(bench.volume(), start + index * 4096, SECTOR).await;
            assert_eq!(got.is_ok(), index == 0, "strip {index}");
        }
    })
    .expect("no stall");
}

/// A RAID 5 without the drive of its first strip, whose second strip has a block with this state.
async fn degraded(envs: Vec<platform::Env>, setup: &Setup, changes: &[Change]) -> Bench {
    let missing = data(setup, STRIPE, 0).0;
    let mut attachment = setup.attachment(&envs[0]).await;
    let left: Vec<u16> = (0..4).filter(|slot| *slot != missing).collect();
    attachment.state.apply(&Change::InService(slots(&left)));
    changes.iter().for_each(|change| attachment.state.apply(change));
    Bench::attach(envs, attachment).await
}

/// A drive was missing, and a block of another one was punctured and excluded: parity counted it as
/// zeros. A host's write of the block began, though only the drive that refused it would have had
/// its content. Until the refusal was recorded again, parity gave the missing drive's block
/// wrongly. Where the write did not begin, the missing drive's block was given up with the
/// punctured one.
#[test]
fn a_write_is_not_begun_whose_content_no_drive_would_have() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(55, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let (slot, offset) = data(&setup, STRIPE, 1);
        let (slot, ranges) = (DriveIndex(slot), vec![range(offset, SECTOR)]);
        let changes =
            [Change::Punctured { slot, ranges: ranges.clone() }, Change::Excluded { slot, ranges }];
        let bench = degraded(envs, &setup, &changes).await;
        all[slot.as_usize()].refuse_writes(range(offset, SECTOR));
        let (p, at) = parity(&setup, STRIPE);
        let (p, clock, changed) =
            (all[usize::from(p)].clone(), bench.env.clone(), Rc::new(Cell::new(false)));
        let seen = changed.clone();
        bench.env.spawn("watch parity", async move {
            loop {
                clock.sleep(Duration::from_micros(5)).await;
                let held = p.peek(ByteOffset(at), ByteCount(SECTOR));
                seen.set(seen.get() || held.is_none_or(|held| held != [0; 512]));
            }
        });
        let start = setup.geometry().stripe_start(StripeIndex(STRIPE)).0;
        let refused = write(bench.volume(), start + 4096, &[2; 512]).await;
        assert_eq!(refused.expect_err("no drive would have it").kind, IoErrorKind::Medium);
        assert!(!changed.get(), "parity counts no block that no drive has");
        assert_eq!(read(bench.volume(), start, SECTOR).await.expect("from parity"), [0; 512]);
    })
    .expect("no stall");
}

/// A drive was missing, and a write of an unreadable block was refused. The block was listed as
/// punctured, and counted as zeros, while parity still counted the refused data: after a crash the
/// missing drive's block was computed wrongly.
#[test]
fn a_refused_block_is_punctured_when_parity_counts_zeros() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(56, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let (slot, offset) = data(&setup, STRIPE, 1);
        let bench = degraded(envs, &setup, &[]).await;
        let volume = bench.volume();
        let start = setup.geometry().stripe_start(StripeIndex(STRIPE)).0;
        let bytes = pattern(3, setup.geometry().stripe_bytes().0);
        write(volume, start, &bytes).await.expect("writable");
        let of = all[usize::from(slot)].clone();
        of.refuse_writes(range(offset, SECTOR));
        let old: Vec<u8> = (0..512).map(|byte| bytes[byte] ^ bytes[8192 + byte]).collect();
        let (p, at) = parity(&setup, STRIPE);
        let (p, seen) = (all[usize::from(p)].clone(), Rc::new(RefCell::new(Vec::new())));
        let durable = seen.clone();
        bench.refuse(move |kind| {
            match kind {
                // The block is readable until the write begins.
                ReportKind::ExcludedBlocks { excluded: true, .. } => {
                    of.make_stuck(range(offset, SECTOR), None)
                }
                ReportKind::PuncturedBlocks { drive, punctured: true, .. } if drive.0 == slot => {
                    durable.borrow_mut().push(p.read_durable(ByteOffset(at), ByteCount(SECTOR)));
                }
                _ => {}
            }
            None
        });
        assert!(write(volume, start + 4096, &[2; 512]).await.is_err(), "no drive has it");
        assert_eq!(*seen.borrow(), [old], "parity when the block is listed");
        assert!(read(volume, start, SECTOR).await.expect("from parity") == bytes[..512]);
    })
    .expect("no stall");
}
