//! Initialised stripes: whole stripes without host data.

use crate::common::{drive, slots};
use crate::reshape::{MEMBER, Scene, TO, WAYS, order, scene};
use engine::{Change, Moved, ReshapeOrder, ShardMessage};
use units::{ByteOffset, DriveCount, DriveSet};

/// A whole stripe was initialised in parts, each as long as a record may be, while a drive was
/// missing. The first part was planned from the old parity on the drives, and left wrong parity.
#[test]
fn a_stripe_is_laid_as_one_whatever_lay_there() {
    let scene = Scene { is_full: true, ..scene(WAYS[9], 31) };
    let sim = &mut scene.sim();
    let drives: Vec<_> = (0..scene.drives()).map(|slot| drive(sim, slot)).collect();
    for (nth, drive) in drives.iter().enumerate() {
        let noise: Vec<u8> =
            (0..MEMBER.0).map(|at| (at as usize * 7 + nth * 31 + 1) as u8).collect();
        drive.poke(ByteOffset::ZERO, &noise);
    }
    let (envs, stripes) = (scene.envs(sim), scene.reshape().to().stripes().0);
    sim.run(async move {
        let bench = scene.start(envs, Moved::default(), false).await;
        let left = DriveSet::first(DriveCount(scene.drives())).minus(&slots(&[1]));
        let change = Change::InService(left);
        bench.tell(|done| ShardMessage::Apply(TO, change.clone(), None, Some(done))).await;
        bench.tell(|done| order(ReshapeOrder::Widen(0..stripes), done)).await;
        let (done, mut answers) = platform::mailbox::mailbox(&bench.env, 1);
        assert!(bench.senders[0].send(order(ReshapeOrder::Fill(0..stripes), done)).is_ok());
        answers.receive().await.expect("an answer").expect("the stripe is initialised");
    })
    .expect("no stall");
    // All redundancy of zeros is zeros.
    for (slot, drive) in drives.iter().enumerate().filter(|(slot, _)| *slot != 1) {
        let found = drive.peek(ByteOffset::ZERO, MEMBER).expect("readable");
        assert_eq!(found.iter().position(|byte| *byte != 0), None, "drive {slot}");
    }
}
