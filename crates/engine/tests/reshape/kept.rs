//! Windows that are kept in place, and errors while they are.

use crate::common::{self, Bench, drive};
use crate::reshape::{IN_PLACE, Scene, TO, carry_out, order, scene};
use engine::{Moved, Mover, ReshapeOrder, Step, Volume};
use platform::IoErrorKind;
use std::cell::Cell;
use std::rc::Rc;
use units::ByteCount;
use volume_state::Window;

fn in_place(seed: u64) -> Scene {
    scene((IN_PLACE[0], IN_PLACE[0]), seed)
}

/// Does steps until the next one is to keep a window.
async fn close_what_is_kept(
    scene: &Scene,
    bench: &Bench,
    mover: &mut Mover,
    recorded: &Cell<Moved>,
) -> Window {
    loop {
        match scene.next_step(mover).expect("there are more steps") {
            Step::Keep(window) => return window,
            step => carry_out(bench, step, recorded).await,
        }
        mover.done();
    }
}

async fn keep(bench: &Bench, window: &Window) -> Result<(), String> {
    bench.ask(|done| order(ReshapeOrder::Keep(window.clone()), done)).await
}

async fn first_byte(volume: &Rc<Volume>) -> Option<u8> {
    common::read(volume, 0, 512).await.ok().map(|bytes| bytes[0])
}

/// The volume in the new layout, on the first shard.
fn to(bench: &Bench) -> Rc<Volume> {
    bench.shards[0].volume(TO).expect("the volume is online")
}

/// A shard checked that a window was intact, and flushed afterwards. A drive failed in that flush;
/// only the old layout knew its missed writes, and the new one read the stale drive.
#[test]
fn a_window_is_not_kept_whose_flush_a_drive_fails() {
    let scene = in_place(40);
    let sim = &mut scene.sim();
    let (envs, failing) = (scene.envs(sim), drive(sim, 1));
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 512]).await.expect("written");
        let (mut mover, recorded) =
            (Mover::new(scene.reshape(), Moved::default()), Cell::default());
        let window = close_what_is_kept(&scene, &bench, &mut mover, &recorded).await;
        failing.fail_next(1, Some("flush"), IoErrorKind::Gone);
        assert!(keep(&bench, &window).await.is_err(), "a drive failed meanwhile");
        // The window belongs to the old layout again, and is moved like any other.
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount::ZERO), done)).await;
        assert_eq!(first_byte(bench.volume()).await, Some(7));
        common::write(bench.volume(), 0, &[8; 512]).await.expect("written");
        let mut mover = Mover::new(scene.reshape(), Moved::default());
        while let Some(step) = mover.step() {
            carry_out(&bench, step, &recorded).await;
            mover.done();
        }
        assert_eq!(first_byte(bench.volume()).await, Some(8));
    })
    .expect("no stall");
}

/// A kept window could not be recorded. The new layout kept using it: its repairs would have
/// overwritten writes of hosts in the old layout. The old layout no longer used it, though hosts
/// were to read it there.
#[test]
fn a_kept_window_whose_record_failed_is_the_old_layouts_again() {
    let scene = in_place(42);
    let sim = &mut scene.sim();
    let envs = scene.envs(sim);
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 512]).await.expect("written");
        let (mut mover, recorded) =
            (Mover::new(scene.reshape(), Moved::default()), Cell::default());
        let window = close_what_is_kept(&scene, &bench, &mut mover, &recorded).await;
        keep(&bench, &window).await.expect("the window is intact");
        assert_eq!(first_byte(&to(&bench)).await, Some(7), "the new layout uses it");
        bench.tell(|done| order(ReshapeOrder::Leave { is_saved: false }, done)).await;
        assert_eq!(first_byte(bench.volume()).await, Some(7), "hosts read it");
        assert!(
            common::write(bench.volume(), 0, &[8; 512]).await.is_err(),
            "hosts do not write it"
        );
        assert_eq!(first_byte(&to(&bench)).await, None, "the new layout does not use it");
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount::ZERO), done)).await;
        common::write(bench.volume(), 0, &[9; 512]).await.expect("written");
        let (mut mover, window) = (Mover::new(scene.reshape(), Moved::default()), window);
        assert_eq!(close_what_is_kept(&scene, &bench, &mut mover, &recorded).await, window);
        keep(&bench, &window).await.expect("the window is intact");
        // Without a prior release: the next attempt begins at once.
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount::ZERO), done)).await;
        assert_eq!(first_byte(&to(&bench)).await, None, "the new layout does not use it");
        assert_eq!(first_byte(bench.volume()).await, Some(9));
    })
    .expect("no stall");
}

/// The new layout cached reads of such a window, and hosts wrote in the old layout. When the window
/// was kept again, reads returned the stale cache.
#[test]
fn what_the_new_layout_read_of_a_window_that_was_given_back_is_forgotten() {
    let scene = Scene { is_full: true, ..in_place(44) };
    let sim = &mut scene.sim();
    let envs = scene.envs(sim);
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 4096]).await.expect("written");
        let (mut mover, recorded) =
            (Mover::new(scene.reshape(), Moved::default()), Cell::default());
        let window = close_what_is_kept(&scene, &bench, &mut mover, &recorded).await;
        keep(&bench, &window).await.expect("the window is intact");
        // As by read-ahead of a stream from below.
        assert_eq!(first_byte(&to(&bench)).await, Some(7));
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount::ZERO), done)).await;
        common::write(bench.volume(), 0, &[8; 4096]).await.expect("written");
        let mut mover = Mover::new(scene.reshape(), Moved::default());
        let window = close_what_is_kept(&scene, &bench, &mut mover, &recorded).await;
        keep(&bench, &window).await.expect("the window is intact");
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount(window.bytes.end().0)), done)).await;
        assert_eq!(first_byte(bench.volume()).await, Some(8));
    })
    .expect("no stall");
}
