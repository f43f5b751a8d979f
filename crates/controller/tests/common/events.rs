//! Ends the process, or cuts the power, at any event of a scene.

use super::Bench;

/// How the process ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum End {
    Killed,
    PowerCut,
}

pub fn end(bench: &mut Bench, how: End) {
    bench.sim.stop_at_event(None);
    bench.forget();
    match how {
        End::Killed => bench.sim.kill(),
        End::PowerCut => bench.sim.power_cut(),
    }
    bench.sim.restart_process();
}

/// The density of tested events: a change of labels alone has dozens. `CRASH_TESTS=all` takes every
/// `step`th.
fn sparse() -> u64 {
    // Coprime to the writes of an update, so that each of them is hit.
    if std::env::var("CRASH_TESTS").is_ok_and(|which| which == "all") { 1 } else { 5 }
}

/// Runs `scene` once to count its events; then again and again, ended at every `step`th event, or
/// fewer. `check` examines the drives after each run.
pub fn at_every_event<T>(
    step: u64,
    how: End,
    prepare: impl Fn() -> Bench,
    scene: impl Fn(&mut Bench) -> Option<T>,
    check: impl Fn(&mut Bench, Option<T>, u64),
) {
    let mut bench = prepare();
    let first = bench.sim.events();
    assert!(scene(&mut bench).is_some(), "the scene completes when it is not interrupted");
    let last = bench.sim.events();
    assert!(last > first + 10, "a scene of {} events", last - first);
    for event in (first..last).step_by((step * sparse()) as usize) {
        let mut bench = prepare();
        assert_eq!(bench.sim.events(), first, "every run is the same");
        bench.sim.stop_at_event(Some(event));
        let outcome = scene(&mut bench);
        end(&mut bench, how);
        check(&mut bench, outcome, event);
    }
}
