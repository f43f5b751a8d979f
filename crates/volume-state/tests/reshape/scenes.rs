//! The setups that are explored.

use super::defects::{DEFECTS, Defect};
use super::walk::explore;
use super::{BLOCK, MEMBER, Setup};
use layout::{Geometry, Level};
use units::{ByteCount, DriveCount, StripSize};

fn layout(level: Level, drives: u16, strip_blocks: u64) -> Geometry {
    let strip = StripSize::new(ByteCount(strip_blocks * BLOCK)).expect("a strip");
    Geometry::new(level, DriveCount(drives), strip, ByteCount(MEMBER as u64 * BLOCK))
        .expect("a small volume")
}

fn setup(from: Geometry, to: Geometry, blocks: usize, puts: &[(usize, u8)]) -> Setup {
    Setup {
        from,
        to,
        blocks,
        save: 1,
        most: 1,
        puts: puts.to_vec(),
        cached: false,
        fails: 0,
        failing_steps: 0,
        crashes: 1,
        defect: Defect::None,
    }
}

/// A layout on smaller drives.
fn shorter(level: Level, drives: u16) -> Geometry {
    let rows = ByteCount(4 * BLOCK);
    layout(level, drives, 1).with_member_size(rows).expect("a smaller volume")
}

/// One drive more: only the beginning is saved.
fn a_drive_more() -> Setup {
    setup(layout(Level::Raid5, 3, 1), layout(Level::Raid5, 4, 1), 8, &[(3, 12)])
}

/// Setups in which every rule matters, with the cursor going down: the new layout has less data in
/// the same part of each drive.
fn stories_downward() -> Vec<Setup> {
    use Level::{Raid0, Raid5, Raid6, Raid10};
    let less = setup(layout(Raid5, 4, 1), layout(Raid5, 3, 1), 8, &[(3, 12)]);
    vec![
        less.clone(),
        Setup { cached: true, ..less.clone() },
        Setup { puts: vec![], crashes: 2, blocks: 4, ..less.clone() },
        Setup { puts: vec![(1, 12)], fails: 1, blocks: 5, ..less.clone() },
        Setup { save: 2, most: 2, puts: vec![], blocks: 12, ..less.clone() },
        Setup { failing_steps: 1, crashes: 0, ..less.clone() },
        Setup { failing_steps: 1, puts: vec![], blocks: 4, ..less.clone() },
        Setup {
            failing_steps: 2,
            ..setup(layout(Raid0, 3, 1), layout(Raid0, 2, 1), 4, &[(1, 12)])
        },
        // More parity on the same number of drives.
        setup(layout(Raid5, 4, 1), layout(Raid6, 4, 1), 5, &[(2, 12)]),
        Setup { crashes: 2, ..setup(layout(Raid5, 4, 1), layout(Raid6, 4, 1), 4, &[]) },
        setup(layout(Raid0, 3, 1), layout(Raid5, 3, 1), 7, &[(1, 12), (6, 13)]),
        setup(layout(Raid0, 3, 1), layout(Raid0, 2, 1), 9, &[(8, 12), (1, 13)]),
        setup(layout(Raid5, 4, 1), layout(Raid10, 4, 1), 5, &[(2, 12)]),
        setup(layout(Raid10, 4, 1), layout(Raid0, 2, 1), 5, &[(2, 12)]),
        // Fault tolerance of two.
        setup(layout(Raid6, 5, 1), layout(Raid6, 4, 1), 5, &[]),
        // Another strip, longer and shorter.
        Setup { save: 2, ..setup(layout(Raid5, 4, 1), layout(Raid5, 3, 2), 7, &[(5, 12)]) },
        Setup { save: 2, ..setup(layout(Raid5, 4, 2), layout(Raid5, 3, 1), 7, &[(2, 12)]) },
        // The volume fills the new layout.
        setup(layout(Raid0, 3, 1), layout(Raid5, 3, 1), 12, &[(11, 13)]),
    ]
}

/// Setups in which every rule matters, with the cursor going up.
fn stories() -> Vec<Setup> {
    use Level::{Raid0, Raid1, Raid5, Raid6, Raid10};
    let more = a_drive_more();
    vec![
        more.clone(),
        Setup { cached: true, ..more.clone() },
        Setup { puts: vec![], crashes: 2, blocks: 4, ..more.clone() },
        Setup { puts: vec![(4, 12)], fails: 1, blocks: 5, ..more.clone() },
        Setup { save: 2, most: 2, puts: vec![], blocks: 12, ..more.clone() },
        // A step fails, and the mover pauses.
        Setup { failing_steps: 1, crashes: 0, ..more.clone() },
        Setup { failing_steps: 1, puts: vec![], blocks: 4, ..more.clone() },
        Setup {
            failing_steps: 2,
            ..setup(layout(Raid0, 2, 1), layout(Raid0, 3, 1), 4, &[(1, 12)])
        },
        // The same amount of data in the same rows: everything is saved.
        setup(layout(Raid5, 3, 1), layout(Raid6, 4, 1), 4, &[(2, 12)]),
        Setup { crashes: 2, ..setup(layout(Raid5, 3, 1), layout(Raid6, 4, 1), 4, &[]) },
        setup(layout(Raid0, 2, 1), layout(Raid5, 3, 1), 5, &[(1, 12), (4, 13)]),
        setup(layout(Raid1, 2, 1), layout(Raid5, 3, 1), 5, &[(2, 12)]),
        setup(layout(Raid0, 2, 1), layout(Raid0, 3, 1), 9, &[(1, 12), (8, 13)]),
        setup(layout(Raid1, 2, 1), layout(Raid10, 4, 1), 5, &[(2, 12)]),
        setup(layout(Raid10, 4, 1), layout(Raid5, 4, 1), 5, &[(2, 12)]),
        setup(layout(Raid0, 2, 1), layout(Raid10, 4, 1), 5, &[(1, 12)]),
        // Fault tolerance of two.
        setup(layout(Raid6, 4, 1), layout(Raid6, 5, 1), 5, &[]),
        // Another strip, longer and shorter.
        Setup { save: 2, ..setup(layout(Raid5, 3, 1), layout(Raid5, 3, 2), 7, &[(5, 12)]) },
        Setup { save: 2, ..setup(layout(Raid5, 3, 2), layout(Raid5, 3, 1), 7, &[(2, 12)]) },
        Setup { save: 2, ..setup(layout(Raid5, 3, 2), layout(Raid5, 4, 1), 7, &[]) },
        // More rows: intact windows are kept, the others are moved in place.
        setup(shorter(Raid5, 3), layout(Raid5, 3, 1), 7, &[(1, 12), (6, 13)]),
        Setup { fails: 1, ..setup(shorter(Raid5, 3), layout(Raid5, 3, 1), 5, &[(3, 12)]) },
        Setup {
            crashes: 2,
            cached: true,
            ..setup(shorter(Raid5, 3), layout(Raid5, 3, 1), 6, &[(5, 12)])
        },
        Setup { failing_steps: 1, ..setup(shorter(Raid1, 2), layout(Raid1, 2, 1), 4, &[(3, 12)]) },
    ]
}

#[test]
fn nothing_is_lost_whenever_the_machine_dies() {
    for setup in stories().into_iter().chain(stories_downward()) {
        let states = explore(&setup).unwrap_or_else(|story| panic!("{story}"));
        println!("{states:8} states: {} to {}, {:?}", setup.from, setup.to, setup.puts);
    }
}

/// Checks that some setup finds each defect.
fn expect_found(stories: &[Setup], defects: impl IntoIterator<Item = Defect>) {
    for defect in defects {
        let found =
            stories.iter().find_map(|setup| explore(&Setup { defect, ..setup.clone() }).err());
        let story = found.unwrap_or_else(|| panic!("{defect:?} is not found"));
        println!("{defect:?}: {}", story.lines().last().unwrap_or_default());
    }
}

#[test]
fn every_planted_defect_is_found() {
    expect_found(&stories(), DEFECTS.into_iter().filter(|defect| *defect != Defect::BehindFree));
}

#[test]
fn every_planted_defect_is_found_downward() {
    expect_found(&stories_downward(), DEFECTS);
}
