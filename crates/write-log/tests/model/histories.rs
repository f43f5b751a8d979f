//! Histories for the model of the journal, and the walk through all states of each.

use super::defects::{DEFECTS, Defect};
use super::{Job, Setup, start};
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

/// Visits all states; returns their number.
///
/// # Errors
/// A failure.
fn explore(setup: &Setup) -> Result<usize, String> {
    let first = start(setup);
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut known: HashSet<u64> = HashSet::from([hasher.hash_one(&first)]);
    // Many states differ only in details without effect on a crash.
    let mut crashed: HashSet<u64> = HashSet::new();
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        if crashed.insert(hasher.hash_one(state.left()))
            && let Some(wrong) = state.crash(setup)
        {
            return Err(format!("{wrong}\n{state:#?}"));
        }
        for next in state.next(setup) {
            if known.insert(hasher.hash_one(&next)) {
                open.push(next);
            }
        }
    }
    Ok(known.len())
}

fn block(strip: usize, column: usize, value: u8) -> Job {
    Job::Block { strip, column, value, durable: true }
}

/// The same without FUA: it may be lost in a power cut.
fn cached(strip: usize, column: usize, value: u8) -> Job {
    Job::Block { strip, column, value, durable: false }
}

fn twice(setup: Setup) -> Setup {
    Setup { twice: true, ..setup }
}

fn coarse(setup: Setup) -> Setup {
    Setup { coarse: true, ..setup }
}

/// Coarse with two parity strips, which have more states.
fn coarse_with_two(setup: Setup) -> Setup {
    Setup { coarse: setup.parity > 1, ..setup }
}

fn tight(places: u64, setup: Setup) -> Setup {
    Setup { places, ..coarse(setup) }
}

fn failing(setup: Setup) -> Setup {
    Setup { failures: 1, ..setup }
}

/// Chosen histories, for one parity strip or two.
fn setups(parity: usize) -> Vec<Setup> {
    let setup = |columns, missing, one: &[Job], other: &[Job]| Setup {
        parity,
        columns,
        missing,
        jobs: [one.to_vec(), other.to_vec()],
        defect: Defect::None,
        failures: 0,
        places: 60,
        coarse: false,
        twice: false,
    };
    let whole = Job::Whole { values: [3, 3] };
    vec![
        // Two strips of one column: one after the other, in either order.
        twice(setup(1, None, &[block(0, 0, 3)], &[block(1, 0, 1)])),
        // Two columns concurrently, in separate records or in one.
        twice(coarse(setup(2, None, &[block(0, 0, 3)], &[block(1, 1, 1)]))),
        setup(2, None, &[block(0, 0, 3)], &[block(1, 1, 1)]),
        // A drive is offline: of the written strip, of the other one, of parity.
        twice(setup(1, Some(0), &[block(0, 0, 3)], &[block(1, 0, 1)])),
        twice(setup(1, Some(1), &[block(0, 0, 3)], &[block(1, 0, 1)])),
        setup(1, Some(2), &[block(0, 0, 3)], &[block(1, 0, 1)]),
        // Places that are reused while other records are under way.
        twice(tight(2, setup(1, None, &[block(0, 0, 3), block(0, 0, 0), block(0, 0, 3)], &[]))),
        // A record that fails, and a host that continues: the same block again, the other strip.
        failing(setup(1, None, &[block(0, 0, 3), block(0, 0, 0)], &[])),
        failing(setup(1, Some(1), &[block(0, 0, 3), block(0, 0, 0)], &[])),
        coarse_with_two(failing(setup(1, None, &[block(0, 0, 3)], &[block(1, 0, 1)]))),
        // The same with a concurrent record that continues.
        failing(coarse(setup(2, None, &[block(0, 0, 3)], &[block(1, 1, 1)]))),
        // A notice that fails after a record, and earlier records of a stripe that has been written
        // whole since.
        Setup {
            failures: 2,
            ..coarse(setup(1, None, &[cached(0, 0, 3), whole, block(0, 0, 0)], &[]))
        },
        // A write without a record after writes with a record.
        setup(1, Some(0), &[block(1, 0, 3), block(0, 0, 3)], &[]),
        // A full-stripe write over logged blocks, and blocks over it.
        setup(1, None, &[block(0, 0, 3), whole], &[]),
        setup(1, None, &[cached(0, 0, 3), whole], &[]),
        setup(1, None, &[whole, block(0, 0, 2)], &[]),
        coarse_with_two(setup(1, None, &[cached(0, 0, 3), whole, block(1, 0, 1)], &[])),
        setup(1, None, &[block(0, 0, 3), cached(1, 0, 0), whole], &[]),
        // Durable writes in it, concurrent with others, and with durable writes of another column.
        coarse(setup(1, None, &[whole, block(0, 0, 2)], &[cached(1, 0, 1)])),
        coarse(setup(2, None, &[whole, block(0, 0, 2)], &[block(1, 1, 1)])),
        // The longest at the end: places that are reused concurrently with another column, ...
        tight(2, setup(2, None, &[block(0, 0, 3), block(0, 0, 0)], &[block(1, 1, 1)])),
        // ... and the same block again, while the other strip is written.
        coarse_with_two(setup(1, None, &[block(0, 0, 3), block(0, 0, 0)], &[block(1, 0, 1)])),
    ]
}

#[test]
fn nothing_that_nobody_wrote_changes_whenever_the_machine_dies() {
    let mut states = 0;
    for setup in setups(1).into_iter().chain(setups(2)) {
        match explore(&setup) {
            Ok(count) => states += count,
            Err(wrong) => panic!("{setup:?}: {wrong}"),
        }
    }
    println!("{states} states");
    assert!(states > 10_000, "only {states} states were tried");
}

#[test]
fn defects_in_the_protocol_are_found() {
    for defect in DEFECTS {
        let planted = setups(1).into_iter().chain(setups(2)).map(|setup| Setup { defect, ..setup });
        assert!(
            planted.into_iter().any(|setup| explore(&setup).is_err()),
            "{defect:?} is not found"
        );
    }
}
