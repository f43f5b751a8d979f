//! Windows that are kept where they lie, and what goes wrong with one.

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

/// Carries out steps until the next one is to keep a window.
async fn close_what_is_kept(
    scene: &Scene,
    bench: &Bench,
    mover: &mut Mover,
    recorded: &Cell<Moved>,
) -> Window {
    loop {
        match scene.next_step(mover).expect("there is more") {
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

/// The volume by the new layout, on the first shard.
fn to(bench: &Bench) -> Rc<Volume> {
    bench.shards[0].volume(TO).expect("it is served")
}

/// A shard looked whether a window was whole, and flushed afterwards. A drive that failed in that flush went out, what it missed was known by the
/// old layout alone, and the new one believed the drive.
#[test]
fn a_window_is_not_kept_whose_flush_a_drive_fails() {
    let scene = in_place(40);
    let sim = &mut scene.sim();
    let (envs, failing) = (scene.envs(sim), drive(sim, 1));
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 512]).await.expect("written");
        let (mut mover, recorded) = (Mover::new(scene.reshape(), Moved::default()), Cell::default());
        let window = close_what_is_kept(&scene, &bench, &mut mover, &recorded).await;
        failing.fail_next(1, Some("flush"), IoErrorKind::Gone);
        assert!(keep(&bench, &window).await.is_err(), "a drive went out under it");
        // It is the old layout's again, and is moved as anything else is.
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

/// It could not be recorded that a window is kept: it stayed in use by the new layout, whose repairs would have written over what hosts write by the old
/// one, and was in use by the old layout no more, by which hosts were to read it.
#[test]
fn a_kept_window_whose_record_failed_is_the_old_layouts_again() {
    let scene = in_place(42);
    let sim = &mut scene.sim();
    let envs = scene.envs(sim);
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 512]).await.expect("written");
        let (mut mover, recorded) = (Mover::new(scene.reshape(), Moved::default()), Cell::default());
        let window = close_what_is_kept(&scene, &bench, &mut mover, &recorded).await;
        keep(&bench, &window).await.expect("it is whole");
        assert_eq!(first_byte(&to(&bench)).await, Some(7), "it is in use by the new layout");
        bench.tell(|done| order(ReshapeOrder::Leave { is_saved: false }, done)).await;
        assert_eq!(first_byte(bench.volume()).await, Some(7), "hosts read it");
        assert!(common::write(bench.volume(), 0, &[8; 512]).await.is_err(), "and do not write it");
        assert_eq!(first_byte(&to(&bench)).await, None, "it is not in use by the new layout");
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount::ZERO), done)).await;
        common::write(bench.volume(), 0, &[9; 512]).await.expect("written");
        let (mut mover, window) = (Mover::new(scene.reshape(), Moved::default()), window);
        assert_eq!(close_what_is_kept(&scene, &bench, &mut mover, &recorded).await, window);
        keep(&bench, &window).await.expect("it is whole");
        // Without being left before: the next attempt begins at once.
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount::ZERO), done)).await;
        assert_eq!(first_byte(&to(&bench)).await, None, "it is not in use by the new layout");
        assert_eq!(first_byte(bench.volume()).await, Some(9));
    })
    .expect("no stall");
}

/// The new layout kept what was read of such a window, hosts wrote by the old one, and were answered what had been there when it was kept once more.
#[test]
fn what_the_new_layout_read_of_a_window_that_was_given_back_is_forgotten() {
    let scene = Scene { is_full: true, ..in_place(44) };
    let sim = &mut scene.sim();
    let envs = scene.envs(sim);
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        common::write(bench.volume(), 0, &[7; 4096]).await.expect("written");
        let (mut mover, recorded) = (Mover::new(scene.reshape(), Moved::default()), Cell::default());
        let window = close_what_is_kept(&scene, &bench, &mut mover, &recorded).await;
        keep(&bench, &window).await.expect("it is whole");
        // As what is read ahead of a host that comes from below.
        assert_eq!(first_byte(&to(&bench)).await, Some(7));
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount::ZERO), done)).await;
        common::write(bench.volume(), 0, &[8; 4096]).await.expect("written");
        let mut mover = Mover::new(scene.reshape(), Moved::default());
        let window = close_what_is_kept(&scene, &bench, &mut mover, &recorded).await;
        keep(&bench, &window).await.expect("it is whole");
        bench.tell(|done| order(ReshapeOrder::Open(ByteCount(window.bytes.end().0)), done)).await;
        assert_eq!(first_byte(bench.volume()).await, Some(8));
    })
    .expect("no stall");
}
