//! Lost and possibly lost blocks of a reshaping volume.

use crate::common::{self, slots};
use crate::reshape::{SECTOR, VOLUME, WAYS, carry_out, order, scene};
use engine::{CopyWay, Moved, Mover, ReportKind, ReshapeOrder, ShardMessage, Step};
use platform::IoErrorKind;
use std::cell::Cell;
use units::{ByteCount, ByteOffset, ByteRange, DriveCount, DriveSet};

/// Unreadable sectors of a drive's first strip, with readable ones between them.
const LOST: [u64; 4] = [0, 2, 4, 6];

fn sector(nth: u64) -> ByteRange {
    ByteRange::new(ByteOffset(nth * SECTOR), ByteCount(SECTOR))
}

/// Each lost sector was reported alone, at the cost of a label write, while hosts waited for the
/// window. The sectors of a window are reported together.
#[test]
fn lost_sectors_of_a_window_are_reported_together() {
    let scene = scene(WAYS[0], 21);
    let sim = &mut scene.sim();
    let (envs, drives) = (scene.envs(sim), [0, 1].map(|slot| common::drive(sim, slot)));
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &vec![7; 64 << 10]).await.expect("written");
        bench.volume().flush().await.expect("flushed");
        for drive in &drives {
            LOST.iter().for_each(|nth| drive.make_unreadable(sector(*nth)));
        }
        let (mut mover, recorded) =
            (Mover::new(scene.reshape(), Moved::default()), Cell::new(Moved::default()));
        let mut is_moved = false;
        while !is_moved {
            let step = mover.step().expect("there are more steps");
            is_moved = matches!(step, Step::Open(moved) if moved > ByteCount::ZERO);
            carry_out(&bench, step, &recorded).await;
            mover.done();
        }
        assert!(recorded.get().saved.is_zero(), "the window was saved and moved");
        let listed = |kind: &ReportKind| match kind {
            ReportKind::PuncturedBlocks { ranges, punctured: true, .. } => Some(ranges.len()),
            _ => None,
        };
        let ranges: Vec<usize> = bench.reports.borrow().iter().filter_map(listed).collect();
        let lost = ranges.iter().filter(|count| **count == 1).count();
        let carried: usize = ranges.iter().sum::<usize>() - lost;
        assert_eq!(
            (lost, carried),
            (LOST.len() * 2, LOST.len() * 4),
            "found once, and moved twice: {ranges:?}"
        );
        assert!(ranges.len() - lost <= 4, "a report for each drive: {ranges:?}");
        let strip = common::read(bench.volume(), 0, SECTOR).await;
        assert_eq!(strip.expect_err("it is lost").kind, IoErrorKind::Medium);
    })
    .expect("no stall");
}

/// A sector is unreadable, and a drive out of service may have the data to compute it: it is not
/// listed as lost, and the window is not moved.
#[test]
fn a_sector_is_not_lost_while_a_drive_is_away_that_may_have_it() {
    let scene = scene(WAYS[0], 22);
    let sim = &mut scene.sim();
    let (envs, first) = (scene.envs(sim), common::drive(sim, 0));
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &vec![7; 64 << 10]).await.expect("written");
        let away = engine::Change::InService(DriveSet::first(DriveCount(3)).minus(&slots(&[1])));
        bench.tell(|done| ShardMessage::Apply(VOLUME, away.clone(), None, Some(done))).await;
        first.make_unreadable(sector(0));
        let (mut mover, recorded) =
            (Mover::new(scene.reshape(), Moved::default()), Cell::new(Moved::default()));
        let window = loop {
            match mover.step().expect("there are more steps") {
                Step::Save(window) => break window,
                step => carry_out(&bench, step, &recorded).await,
            }
            mover.done();
        };
        let (done, mut answers) = platform::mailbox::mailbox(&bench.env, 1);
        let copy = ReshapeOrder::Copy(window, CopyWay::Save);
        assert!(bench.senders[0].send(order(copy, done)).is_ok());
        let why = answers.receive().await.expect("an answer").expect_err("it may come back");
        assert!(why.contains("medium") || why.contains("read"), "{why}");
        let is_lost = |kind: &ReportKind| matches!(kind, ReportKind::PuncturedBlocks { .. });
        assert!(!bench.reports.borrow().iter().any(is_lost));
        // Hosts continue.
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount::ZERO), done)).await;
        common::write(bench.volume(), 0, &[8; 512]).await.expect("written");
        assert_eq!(common::read(bench.volume(), 0, 512).await.expect("readable"), vec![8; 512]);
    })
    .expect("no stall");
}
