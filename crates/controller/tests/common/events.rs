//! Ends the process, or the power, at any event of a scene.

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

/// How sparse events are taken: a change of labels alone has dozens. `CRASH_TESTS=all` takes every `step`th.
fn sparse() -> u64 {
    // Coprime to the writes of an update, so that each of them is met.
    if std::env::var("CRASH_TESTS").is_ok_and(|which| which == "all") { 1 } else { 5 }
}

/// Runs `scene` to its end once, to learn how many events it has; then again and again, ended at every
/// `step`th of them, or fewer; each time `check` looks at what is left.
pub fn at_every_event<T>(
    step: u64,
    how: End,
    prepare: impl Fn() -> Bench,
    scene: impl Fn(&mut Bench) -> Option<T>,
    check: impl Fn(&mut Bench, Option<T>, u64),
) {
    let mut bench = prepare();
    let first = bench.sim.events();
    assert!(scene(&mut bench).is_some(), "the scene plays to its end when nothing stops it");
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
