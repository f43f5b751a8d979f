//! Messages between shards that are not delivered: the request fails, or waits until there is
//! space, and never hangs.

use crate::common::{Bench, Setup, envs, pattern, read, write};
use engine::ShardMessage;
use layout::Level;
use platform::{IoErrorKind, mailbox};
use std::time::Duration;

/// The owner shard of a stripe did not take a part of a request: the part was lost, and its host
/// waited without end.
#[test]
fn a_part_of_a_request_that_another_shard_does_not_take_fails_the_request() {
    let setup = Setup { shards: 2, ..Setup::new(Level::Raid5, 4) };
    let mut sim = setup.sim(1, 0);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let volume = bench.volume();
        let bytes = pattern(1, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("both shards have requests");
        let (nobody, ends) = mailbox::mailbox(&bench.env, 1);
        drop(ends);
        let peers = |peers| assert!(bench.senders[0].send(ShardMessage::Peers(peers)).is_ok());
        peers(vec![bench.senders[0].clone(), nobody]);
        bench.wait(Duration::from_millis(1)).await;
        let lost =
            read(volume, 0, bytes.len() as u64).await.expect_err("one shard does not answer");
        assert_eq!(lost.kind, IoErrorKind::Gone);
        assert_eq!(write(volume, 0, &bytes).await.expect_err("nor here").kind, IoErrorKind::Gone);
        peers(bench.senders.clone());
        bench.wait(Duration::from_millis(1)).await;
        write(volume, 0, &bytes).await.expect("both shards have requests");
        assert!(read(volume, 0, bytes.len() as u64).await.expect("readable") == bytes);
    })
    .expect("no stall");
}

/// A reply found the other shard's mailbox full: it was lost, and the host of the request waited
/// without end.
#[test]
fn an_answer_waits_until_there_is_room_for_it() {
    let setup = Setup { shards: 2, ..Setup::new(Level::Raid5, 4) };
    let mut sim = setup.sim(2, 0);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let bench = Bench::start(envs, &setup).await;
        let (narrow, mut answers) = mailbox::mailbox::<ShardMessage>(&bench.env, 1);
        let (home, clock) = (bench.senders[0].clone(), bench.env.clone());
        bench.env.spawn("a slow way", async move {
            while let Some(message) = answers.receive().await {
                clock.sleep(Duration::from_millis(20)).await;
                assert!(home.send(message).is_ok());
            }
        });
        let peers = ShardMessage::Peers(vec![narrow, bench.senders[1].clone()]);
        assert!(bench.senders[1].send(peers).is_ok());
        bench.wait(Duration::from_millis(1)).await;
        let volume = bench.volume();
        let bytes = pattern(2, volume.spec().capacity.0);
        write(volume, 0, &bytes).await.expect("every reply arrives");
        assert!(read(volume, 0, bytes.len() as u64).await.expect("every reply arrives") == bytes);
    })
    .expect("no stall");
}
