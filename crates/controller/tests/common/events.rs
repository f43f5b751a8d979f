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

/// Runs `scene` to its end once, to learn how many events it has; then again and again, ended at every
/// `step`th of them; each time `check` looks at what is left.
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
    for event in (first..last).step_by(step as usize) {
        let mut bench = prepare();
        assert_eq!(bench.sim.events(), first, "every run is the same");
        bench.sim.stop_at_event(Some(event));
        let outcome = scene(&mut bench);
        end(&mut bench, how);
        check(&mut bench, outcome, event);
    }
}
