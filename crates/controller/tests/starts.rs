//! Volumes with two concurrent starts.

use crate::common::{Bench, MIB};
use controller::{Command, StartTask, Startable, VolumeState};

/// While a task detached a volume to attach it again, hidden, the volume looked offline. An
/// operator's start replayed its journal concurrently, over possibly newer writes, and attached it
/// a second time.
#[test]
fn a_volume_that_is_offered_anew_is_not_started_beside_that() {
    for seed in 0..4 {
        let mut bench = Bench::new(seed, 2, 3);
        bench.boot(&[]);
        bench.create("data", "raid5", &["a", "b", "c"]);
        bench.settle("data");
        bench.write("data", 4096, 5, 8192);
        let start = StartTask {
            what: Startable::InitFull,
            volume: Some("data".into()),
            limit_bytes_per_s: Some(MIB),
            ..StartTask::default()
        };
        bench.ask(Command::TaskStart(start)).expect("the volume is started");
        let mut steps = 0;
        while bench.shards.iter().any(|shard| !shard.volumes().is_empty()) {
            bench.sim.step();
            steps += 1;
            assert!(steps < 1_000_000, "the volume is detached from the shards");
        }
        // The controller gets the report a moment later.
        let looks_unserved = |bench: &mut Bench| bench.show("data").state == VolumeState::Offline;
        assert!(
            (0..100).any(|_| looks_unserved(&mut bench)),
            "seed {seed}: no concurrent start is possible"
        );
        let start = Command::VolumeStart {
            volume: "data".into(),
            accept_stale_parity: false,
            degraded: false,
        };
        bench.ask(start).expect("the volume is online, whichever start did it");
        assert_eq!(
            bench.count_events("'data' was started"),
            0,
            "seed {seed}: the task attaches it again"
        );
        bench.wait(30);
        let attached: Vec<usize> = bench.shards.iter().map(|shard| shard.volumes().len()).collect();
        assert_eq!(attached, [1, 1], "seed {seed}: hosts have it again");
        bench.expect("data", 0, 0, MIB);
    }
}
