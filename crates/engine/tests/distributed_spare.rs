//! RAID 5EE: the distributed spare takes a failed drive's strips, and a copyback returns them.

use crate::tasks::{FULL_SPEED, Setup, VOLUME, compare, content, drives, envs, fill, put};
use engine::{Attachment, Change, RegionSet, Regions, ShardMessage, TaskKind, TaskOutcome};
use layout::Level;
use platform_sim::{DriveOptions, Rng};
use std::time::Duration;
use units::{ByteCount, ByteOffset, DriveIndex, DriveSet};

/// RAID 5EE: a drive fails, its strips move into the distributed spare, another drive fails; then a
/// copyback to a new drive.
#[test]
fn a_distributed_spare_takes_a_failed_drive_in_and_gives_it_back() {
    let setup = Setup { level: Level::Raid5ee, drives: 5, shards: 2, member: ByteCount::MIB * 40 };
    let mut sim = setup.sim(41);
    sim.add_drive("new", DriveOptions::sized(setup.member));
    let (envs, all) = (envs(&sim, &setup), drives(&sim, &setup));
    sim.run(async move {
        let slot = DriveIndex(1);
        let rig = setup.serve(envs, None).await;
        let volume = rig.volumes[0].clone();
        let mut rng = Rng::new(8, "content", "");
        let mut model = fill(&volume, &mut rng).await;
        all[1].fail_now();
        put(&volume, &mut rng, &mut model, 60_000, 900).await;
        compare(&volume, &model).await;
        let mut stamp = 1000;
        for kind in [TaskKind::Relocate { slot }, TaskKind::Restore { slot }] {
            rig.told.outcomes.borrow_mut().clear();
            rig.start(kind, FULL_SPEED).await;
            while rig.told.outcomes.borrow().len() < usize::from(setup.shards) {
                put(&volume, &mut rng, &mut model, 5000, stamp).await;
                rig.env.sleep(Duration::from_millis(3)).await;
                stamp += 1;
            }
            assert_eq!(rig.outcomes().await, [TaskOutcome::Done; 2], "{kind:?}");
            compare(&volume, &model).await;
            if matches!(kind, TaskKind::Relocate { .. }) {
                // Another drive takes the slot. Its data is in the spare strips.
                let source = rig.env.world().open_drive("new").await.expect("the drive opens");
                let all = DriveSet::first(setup.geometry().drives());
                let change = Change::Drive { slot, stale: RegionSet::EMPTY, in_service: all };
                rig.told.out.set(DriveSet::EMPTY);
                rig.tell(|done| {
                    ShardMessage::Apply(VOLUME, change.clone(), Some(source.clone()), Some(done))
                })
                .await;
                compare(&volume, &model).await;
            }
        }
        assert!(rig.told.relocated.borrow().is_empty(), "all strips are back in their slots");
        all[3].fail_now();
        compare(&volume, &model).await;
    })
    .expect("no stall");
}

/// RAID 5EE: a relocation skipped uninitialised stripes. The background initialisation wrote their
/// zeros as if no strip was relocated: unwritten sectors read as the old content of the spare
/// strip.
#[test]
fn what_is_initialised_beside_a_relocation_is_zeros_in_the_distributed_spare() {
    for seed in 60..64 {
        let setup =
            Setup { level: Level::Raid5ee, drives: 5, shards: 2, member: ByteCount::MIB * 48 };
        let mut sim = setup.sim(seed);
        let (envs, all) = (envs(&sim, &setup), drives(&sim, &setup));
        for (stamp, drive) in (1..).zip(&all) {
            drive.poke(ByteOffset(0), &content(stamp, setup.member.as_usize(), stamp));
        }
        let regions = RegionSet::first(Regions::of(&setup.geometry()).count);
        sim.run(async move {
            let slot = DriveIndex(1);
            let change = |attachment: &mut Attachment| {
                attachment.state = attachment.state.clone().with_initialisation(&regions, []);
                attachment.initialises = true;
            };
            let rig = setup.serve_as(envs, change).await;
            let volume = rig.volumes[0].clone();
            let mut rng = Rng::new(seed, "content", "");
            let mut model = vec![0; volume.spec().capacity.as_usize()];
            all[1].fail_now();
            put(&volume, &mut rng, &mut model, 60_000, 900).await;
            rig.start(TaskKind::Relocate { slot }, FULL_SPEED).await;
            assert_eq!(rig.outcomes().await, [TaskOutcome::Done; 2]);
            // Each shard knows its own regions only.
            let is_initialised = |region| {
                rig.volumes
                    .iter()
                    .any(|volume| volume.recorded_state().is_region_initialised(region))
            };
            for _ in 0..600 {
                if regions.iter().all(is_initialised) {
                    break;
                }
                rig.env.sleep(Duration::from_secs(1)).await;
            }
            assert!(regions.iter().all(is_initialised));
            compare(&volume, &model).await;
        })
        .expect("no stall");
    }
}
