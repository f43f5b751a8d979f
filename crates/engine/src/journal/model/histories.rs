//! Histories for the model of the journal, and the walk through all states that each can come to.

use super::{Defect, Job, Setup, State, start};
use std::collections::HashSet;

/// Goes through all states. How many there are.
///
/// # Errors
/// What can go wrong.
fn explore(setup: &Setup) -> Result<usize, String> {
    let first = start(setup);
    let mut known: HashSet<State> = HashSet::from([first.clone()]);
    let mut open = vec![first];
    while let Some(state) = open.pop() {
        if let Some(wrong) = state.crash(setup) {
            return Err(format!("{wrong}\n{state:#?}"));
        }
        for next in state.next(setup) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Ok(known.len())
}

fn block(strip: usize, column: usize, value: u8) -> Job {
    Job::Block { strip, column, value, durable: true }
}

/// The same without a promise that it survives a power cut.
fn cached(strip: usize, column: usize, value: u8) -> Job {
    Job::Block { strip, column, value, durable: false }
}

/// Histories that are worth going through, for one parity strip or two.
fn setups(parity: usize) -> Vec<Setup> {
    let setup = |columns, missing, one: &[Job], other: &[Job]| Setup {
        parity,
        columns,
        missing,
        jobs: [one.to_vec(), other.to_vec()],
        defect: Defect::None,
        fails: false,
    };
    let failing = |setup: Setup| Setup { fails: true, ..setup };
    let whole = Job::Whole { values: [3, 3] };
    vec![
        // Two strips of one column: one after the other, in either order.
        setup(1, None, &[block(0, 0, 3)], &[block(1, 0, 1)]),
        // Two columns at the same time, in records of their own or in one.
        setup(2, None, &[block(0, 0, 3)], &[block(1, 1, 1)]),
        // The same block again, while the other strip is written.
        setup(1, None, &[block(0, 0, 3), block(0, 0, 0)], &[block(1, 0, 1)]),
        // A drive is out: of the strip that is written, of the other one, of parity.
        setup(1, Some(0), &[block(0, 0, 3)], &[block(1, 0, 1)]),
        setup(1, Some(1), &[block(0, 0, 3)], &[block(1, 0, 1)]),
        setup(1, Some(2), &[block(0, 0, 3)], &[block(1, 0, 1)]),
        // A record that failed, and a host that goes on: the same block again, the other strip.
        failing(setup(1, None, &[block(0, 0, 3), block(0, 0, 0)], &[])),
        failing(setup(1, Some(1), &[block(0, 0, 3), block(0, 0, 0)], &[])),
        failing(setup(1, None, &[block(0, 0, 3)], &[block(1, 0, 1)])),
        // What was written alone goes on after what was kept.
        setup(1, Some(0), &[block(1, 0, 3), block(0, 0, 3)], &[]),
        // A whole stripe over blocks that were kept, and blocks over it.
        setup(1, None, &[block(0, 0, 3), whole], &[]),
        setup(1, None, &[cached(0, 0, 3), whole], &[]),
        setup(1, None, &[whole, block(0, 0, 2)], &[]),
        setup(1, None, &[cached(0, 0, 3), whole, block(1, 0, 1)], &[]),
        setup(1, None, &[block(0, 0, 3), cached(1, 0, 0), whole], &[]),
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
    for defect in [
        Defect::OneCopyTooFew,
        Defect::WritesBeginEarly,
        Defect::RetiredUnflushed,
        Defect::SettledTooLate,
        Defect::ParityForgotten,
        Defect::DataForgotten,
        Defect::NotRevoked,
        Defect::PromiseRevoked,
        Defect::SingleNotKept,
        Defect::Unlocked,
        Defect::TailTooHigh,
        Defect::FailedForgotten,
    ] {
        let planted = setups(1).into_iter().chain(setups(2)).map(|setup| Setup { defect, ..setup });
        assert!(planted.into_iter().any(|setup| explore(&setup).is_err()), "{defect:?} is not found");
    }
}
