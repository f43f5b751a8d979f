//! The histories of the model. `DESTAGE_MODEL=all` runs forty times as many, in minutes
//! (docs/develop/testing.md).

use super::defects::{DEFECTS, Defect};
use super::walk::{Counts, explore};
use super::{ELSEWHERE, Job, LogPlace, Setup, StripWrite};

fn put(column: usize, strip: usize, value: u8) -> StripWrite {
    StripWrite { column, strip, value }
}

/// A record of one column: strips and values.
fn log(strips: &[(usize, u8)]) -> Job {
    Job::Log(strips.iter().map(|(strip, value)| put(0, *strip, *value)).collect())
}

fn setup(data: usize, redundancy: usize, jobs: &[Job]) -> Setup {
    Setup {
        data,
        redundancy,
        columns: 1,
        jobs: jobs.to_vec(),
        place: LogPlace::Members,
        memory: false,
        fails: 0,
        returns: 0,
        device_fails: 0,
        serves: false,
        has_older: false,
        defect: Defect::None,
    }
}

fn failing(fails: u8, returns: u8, setup: Setup) -> Setup {
    Setup { fails, returns, ..setup }
}

fn on_devices(device_fails: u8, setup: Setup) -> Setup {
    Setup { place: LogPlace::Devices, device_fails, ..setup }
}

fn in_memory(setup: Setup) -> Setup {
    Setup { memory: true, ..setup }
}

fn served(setup: Setup) -> Setup {
    Setup { serves: true, ..setup }
}

/// Chosen histories: every rule matters in one of them.
fn stories() -> Vec<Setup> {
    let mut stories = plain_stories();
    stories.extend(stories_of_more());
    stories
}

/// Histories of plans and crashes, and the first of each other kind, so that planted defects are
/// found early.
fn plain_stories() -> Vec<Setup> {
    let (one, other) = (log(&[(0, 1)]), log(&[(1, 1)]));
    let (again, both) = (log(&[(0, 2)]), log(&[(0, 2), (1, 1)]));
    let back = log(&[(0, 0)]);
    let whole = Job::Whole([2, 3, 0]);
    vec![
        Setup { has_older: true, ..setup(2, 1, std::slice::from_ref(&one)) },
        on_devices(0, Setup { has_older: true, ..setup(2, 1, std::slice::from_ref(&one)) }),
        // A device that fails, a drive that returns, a full-stripe write without a record before
        // and after others.
        on_devices(1, setup(2, 1, std::slice::from_ref(&one))),
        failing(2, 1, setup(2, 1, std::slice::from_ref(&one))),
        setup(2, 1, &[one.clone(), whole.clone()]),
        setup(2, 1, &[whole, one.clone()]),
        // One strip, the other one, the same again, both; the previous content.
        setup(2, 1, &[one.clone(), other.clone()]),
        setup(2, 1, &[one.clone(), again.clone()]),
        setup(2, 1, &[one.clone(), both.clone()]),
        setup(2, 1, &[both.clone(), one.clone()]),
        setup(2, 1, &[one.clone(), back.clone()]),
        setup(2, 2, &[one.clone(), both.clone()]),
        setup(3, 1, &[one.clone(), other.clone()]),
        // The redundancy of both plans is equal by chance.
        setup(3, 1, &[back.clone(), log(&[(0, 1), (1, 1)])]),
        // A trim of all strips is a record as any other.
        setup(2, 1, &[one.clone(), log(&[(0, 0), (1, 0)])]),
    ]
}

/// Histories with further events.
fn stories_of_more() -> Vec<Setup> {
    let (one, other) = (log(&[(0, 1)]), log(&[(1, 1)]));
    let (again, both) = (log(&[(0, 2)]), log(&[(0, 2), (1, 1)]));
    let back = log(&[(0, 0)]);
    let whole = Job::Whole([2, 3, 0]);
    let elsewhere = Job::Log(vec![put(ELSEWHERE, 0, 1)]);
    let two = |jobs: &[Job]| Setup { columns: 2, ..setup(2, 1, jobs) };
    let wide = Job::Log(vec![put(0, 0, 1), put(1, 0, 1)]);
    vec![
        // Persistent memory.
        in_memory(setup(2, 1, &[one.clone(), other.clone()])),
        in_memory(setup(2, 2, std::slice::from_ref(&both))),
        // Drives that fail and return.
        failing(2, 1, on_devices(0, setup(2, 1, std::slice::from_ref(&one)))),
        failing(1, 1, setup(2, 2, std::slice::from_ref(&one))),
        failing(2, 0, setup(2, 2, std::slice::from_ref(&one))),
        failing(1, 0, setup(2, 1, &[one.clone(), both.clone()])),
        // Full-stripe writes without a record, before and after others.
        setup(2, 1, std::slice::from_ref(&whole)),
        failing(1, 0, setup(2, 1, &[whole.clone(), one.clone()])),
        failing(1, 0, setup(3, 1, &[whole.clone(), one.clone()])),
        setup(2, 2, &[whole.clone(), one.clone()]),
        // A record that stays dirty: later records stay in the log, earlier ones do not.
        setup(2, 1, &[one.clone(), elsewhere.clone(), both.clone()]),
        setup(2, 1, &[both.clone(), elsewhere.clone(), one.clone()]),
        setup(2, 1, &[one.clone(), elsewhere.clone(), log(&[(1, 2)])]),
        setup(3, 1, &[one.clone(), elsewhere, other.clone()]),
        // A drive that returns while a plan's records count, and another plan begins.
        failing(1, 1, setup(2, 1, &[one.clone(), other.clone()])),
        // Two devices, one of which fails.
        on_devices(1, setup(2, 1, &[one.clone(), both.clone()])),
        on_devices(1, in_memory(setup(2, 1, &[one.clone(), again.clone()]))),
        // Hosts are served while the replay goes on.
        served(setup(2, 1, &[one.clone(), both.clone()])),
        served(setup(2, 2, std::slice::from_ref(&both))),
        served(setup(3, 1, std::slice::from_ref(&both))),
        // Two columns: plans of both, of either, of the one again.
        two(std::slice::from_ref(&wide)),
        two(&[wide.clone(), Job::Log(vec![put(1, 0, 2)])]),
        two(&[Job::Log(vec![put(0, 0, 1)]), Job::Log(vec![put(0, 1, 1), put(1, 1, 1)])]),
        // Three plans.
        setup(2, 1, &[one.clone(), other.clone(), again.clone()]),
        setup(2, 1, &[one, both, back]),
    ]
}

/// Histories with partly overlapping plans and failures: they take minutes.
fn long_stories() -> Vec<Setup> {
    let (one, other, both) = (log(&[(0, 1)]), log(&[(1, 1)]), log(&[(0, 2), (1, 3)]));
    let two = |redundancy, jobs: &[Job]| Setup { columns: 2, ..setup(2, redundancy, jobs) };
    let wide = Job::Log(vec![put(0, 0, 1), put(1, 0, 1)]);
    let right = Job::Log(vec![put(1, 0, 2)]);
    let across = Job::Log(vec![put(0, 1, 1), put(1, 1, 3)]);
    let whole = Job::Whole([2, 3, 0]);
    vec![
        two(1, &[wide.clone(), right.clone(), across.clone()]),
        two(1, &[wide.clone(), across.clone()]),
        two(2, &[wide.clone(), right.clone()]),
        failing(1, 1, two(1, &[wide.clone(), right])),
        failing(1, 1, setup(2, 2, &[one.clone(), other.clone()])),
        failing(2, 1, setup(2, 2, &[one.clone(), both.clone()])),
        failing(2, 1, setup(2, 1, &[one.clone(), both.clone()])),
        failing(1, 1, setup(3, 1, &[one.clone(), other.clone()])),
        failing(1, 1, on_devices(1, in_memory(setup(2, 1, &[one.clone(), other.clone()])))),
        failing(1, 1, setup(2, 1, &[one.clone(), whole.clone(), other.clone()])),
        setup(2, 2, &[one.clone(), whole, both.clone()]),
        served(setup(2, 2, &[one.clone(), both.clone()])),
        served(failing(1, 1, setup(2, 1, &[one, both]))),
    ]
}

/// Every write of some strips.
fn writes(data: usize) -> Vec<Vec<(usize, u8)>> {
    let mut all: Vec<Vec<(usize, u8)>> = vec![Vec::new()];
    for strip in 0..data {
        let with = all.iter().flat_map(|some| (0..4).map(move |value| (some, value)));
        let with: Vec<_> =
            with.map(|(some, value)| some.iter().copied().chain([(strip, value)]).collect()).collect();
        all.extend(with);
    }
    all.retain(|some| !some.is_empty());
    all
}

/// Every history of that many records; factors do not matter, so the first value that is not zero
/// is one.
fn histories(data: usize, records: usize) -> Vec<Vec<Job>> {
    let mut all: Vec<Vec<Vec<(usize, u8)>>> = vec![Vec::new()];
    for _ in 0..records {
        let with = |history: Vec<Vec<(usize, u8)>>| {
            writes(data).into_iter().map(move |write| history.iter().cloned().chain([write]).collect())
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all.retain(|history| history.iter().flatten().find(|put| put.1 > 0).is_none_or(|put| put.1 == 1));
    all.iter().map(|history| history.iter().map(|write| log(write)).collect()).collect()
}

fn is_all() -> bool {
    std::env::var("DESTAGE_MODEL").is_ok_and(|model| model == "all")
}

/// An evenly spaced selection; forty times as many with `DESTAGE_MODEL=all`.
fn some<T: Clone>(of: &[T], most: usize) -> Vec<T> {
    let most = if is_all() { most * 40 } else { most };
    let stride = of.len().div_ceil(most).max(1);
    // A stride without a common factor with the pattern's period.
    let stride = if stride > 1 { stride | 1 } else { 1 };
    of.iter().step_by(stride).cloned().collect()
}

fn sampled() -> Vec<(&'static str, Vec<Setup>)> {
    let of = |data, redundancy, records, most| -> Vec<Setup> {
        let histories = some(&histories(data, records), most);
        histories.iter().map(|jobs| setup(data, redundancy, jobs)).collect()
    };
    let with = |setups: Vec<Setup>, change: &dyn Fn(Setup) -> Setup| setups.into_iter().map(change).collect();
    vec![
        ("RAID 5 x 3, two records", of(2, 1, 2, 20)),
        ("RAID 6 x 4, two records", of(2, 2, 2, 3)),
        ("RAID 5 x 4, two records", of(3, 1, 2, 5)),
        ("RAID 6 x 5, two records", of(3, 2, 2, 1)),
        ("RAID 5 x 3, three records", of(2, 1, 3, 2)),
        (
            "RAID 5 x 3, two records, a drive fails and comes back",
            with(of(2, 1, 2, 2), &|one| failing(1, 1, one)),
        ),
        (
            "RAID 5 x 3, two records in memory, on devices",
            with(of(2, 1, 2, 3), &|one| on_devices(1, in_memory(one))),
        ),
    ]
}

fn pass(what: &str, setups: Vec<Setup>) -> Counts {
    let mut sum = Counts::default();
    let histories = setups.len();
    for setup in setups {
        let counts = explore(&setup).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
        sum.running += counts.running;
        sum.crashed += counts.crashed;
    }
    println!("{what}: {histories} histories, {} states, {} after crashes", sum.running, sum.crashed);
    sum
}

#[test]
fn everything_reads_as_it_was_written_whenever_the_machine_dies() {
    for (number, story) in stories().into_iter().enumerate() {
        pass(&format!("story {number}"), vec![story]);
    }
    for (number, story) in long_stories().into_iter().enumerate().filter(|_| is_all()) {
        pass(&format!("long story {number}"), vec![story]);
    }
}

#[test]
fn whatever_the_values_are() {
    for (what, setups) in sampled() {
        let counts = pass(what, setups);
        assert!(counts.crashed > 1000, "{what}: only {counts:?}");
    }
}

#[test]
fn defects_in_the_protocol_are_found() {
    let mut missed = Vec::new();
    for defect in DEFECTS {
        let found = stories().into_iter().enumerate().find_map(|(number, story)| {
            let wrong = explore(&Setup { defect, ..story }).err()?;
            Some((number, wrong))
        });
        match found {
            Some((number, wrong)) => println!("{defect:?}: story {number}\n{wrong}\n"),
            None => missed.push(defect),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
