//! Blocks that a drive does not keep: what has to be durable before a list changes, or before a write is acknowledged.

use crate::common::{
    Bench, PACE, Setup, data, drive, envs, pattern, range, read, slots, stale, stale_on, write,
};
use engine::{Change, ReportKind, TaskKind, TaskOutcome};
use env::IoErrorKind;
use layout::Level;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveIndex, StripeIndex};

const SECTOR: u64 = 512;
/// The stripe of all tests.
const STRIPE: u64 = 3;

/// X1 was flushed while its block was excluded on D1's drive. X2 went into the cache of that drive, and the exclusion ended before
/// a flush: a power cut left X0 on the drive, and nothing said that it must not be read.
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
        assert!(!bench.volume().recorded_state().is_excluded(DriveIndex(slot), range(offset, SECTOR)));
        assert_eq!(*durable.borrow(), [[2; 512]], "what a power cut leaves when the exclusion ends");
    })
    .expect("no stall");
}

/// A drive that the volume could not do without refused a block, and went on reading what it held before. The write was acknowledged
/// with its content in redundancy, and the old content was read.
#[test]
fn a_refused_block_is_listed_before_its_write_is_acknowledged() {
    for is_listed in [true, false] {
        let setup = Setup::new(Level::Raid5, 4);
        let mut sim = setup.sim(52, 0);
        let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
        let envs = envs(&sim, &setup);
        sim.run(async move {
            let (slot, offset) = data(&setup, STRIPE, 1);
            // Another drive lacks a block elsewhere: this one is needed.
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

/// A drive was missing, and a host wrote a punctured block anew, with all of its stripe. The drive of the block acknowledged the write and
/// did not keep it: the block was acknowledged and taken off the list, and could not be read.
#[test]
fn a_punctured_block_that_is_written_anew_is_read_back() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(53, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let (slot, offset) = data(&setup, STRIPE, 1);
        let missing = data(&setup, STRIPE, 0).0;
        let mut attachment = setup.attachment(&envs[0]).await;
        let left: Vec<u16> = (0..4).filter(|slot| *slot != missing).collect();
        attachment.state.apply(&Change::InService(slots(&left)));
        let ranges = vec![range(offset, SECTOR)];
        attachment.state.apply(&Change::Punctured { slot: DriveIndex(slot), ranges });
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        all[usize::from(slot)].make_stuck(range(offset, SECTOR), None);
        let start = setup.geometry().stripe_start(StripeIndex(STRIPE)).0;
        let whole = setup.geometry().stripe_bytes().0;
        let bytes = pattern(2, whole);
        let written = write(volume, start, &bytes).await;
        for at in (0..whole).step_by(SECTOR as usize) {
            match read(volume, start + at, SECTOR).await {
                Ok(got) => assert!(got == bytes[at as usize..][..512], "wrong data at {at}"),
                Err(error) => assert!(written.is_err(), "acknowledged and unreadable at {at}: {error}"),
            }
        }
    })
    .expect("no stall");
}

/// Beside a block that a rebuild gave up, the next one of the column could not be read either. Its place was filled with zeros before it
/// was listed: a kill between the two left zeros that passed for what the host had written.
#[test]
fn a_block_is_listed_before_zeros_take_its_place() {
    let setup = Setup::new(Level::Raid5, 4);
    let mut sim = setup.sim(54, 0);
    let all: Vec<_> = (0..4).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let missing = data(&setup, STRIPE, 0).0;
        let (first, second) = (data(&setup, STRIPE, 1), data(&setup, STRIPE, 2));
        let mut attachment = setup.attachment(&envs[0]).await;
        attachment.state = stale(attachment.state, &stale_on(&setup, missing));
        let bench = Bench::attach(envs, attachment).await;
        let volume = bench.volume();
        write(volume, 0, &pattern(1, volume.spec().capacity.0)).await.expect("writable");
        all[usize::from(first.0)].make_unreadable(range(first.1, SECTOR));
        let zeros_first = Rc::new(Cell::new(None));
        let (seen, of) = (zeros_first.clone(), all[usize::from(second.0)].clone());
        bench.refuse(move |kind| {
            if let ReportKind::PuncturedBlocks { drive, punctured: true, .. } = kind {
                if drive.0 == first.0 {
                    // It is known to be readable by now, and is read again for the new parity.
                    of.make_unreadable(range(second.1, SECTOR));
                } else if drive.0 == second.0 {
                    seen.set(Some(of.peek(ByteOffset(second.1), ByteCount(SECTOR)).is_some()));
                }
            }
            None
        });
        bench.begin(TaskKind::Rebuild { slot: DriveIndex(missing) }, PACE).await;
        assert_eq!(bench.ended().await, [TaskOutcome::Done]);
        assert_eq!(zeros_first.get(), Some(false), "whether it was written before it was listed");
        let start = setup.geometry().stripe_start(StripeIndex(STRIPE)).0;
        for index in 0..3 {
            assert!(read(volume, start + index * 4096, SECTOR).await.is_err(), "strip {index} is lost");
        }
    })
    .expect("no stall");
}
