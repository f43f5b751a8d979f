//! Storms: drives fail, hang, lose sectors, are replaced, rebuilt and promoted while hosts write
//! and read, and the controller replies with delays. Within the fault tolerance of the level, every
//! acknowledged byte is there, no request fails, and at the end redundancy agrees with the data on
//! every drive.

mod host;
mod kept;
mod weather;

use crate::common::{MEMBER, Setup, VOLUME, drive, envs, pattern, write};
use engine::{
    Attachment, FaultPolicy, ReadTerms, Report, Shard, ShardIndex, ShardMessage, ShardSeed,
    TaskKind,
};
use host::{Part, host};
use kept::Kept;
use layout::Level;
use platform::LimitsByClass;
use platform::mailbox::mailbox;
use platform_sim::{Rng, SimDrive};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset};
use weather::{blow, calm, hail};

/// The size of a shard's read cache: a part of the volume.
const READ_ROOM: ByteCount = ByteCount(256 << 10);

/// Drives in addition to those of the new volume.
const SPARES: u16 = 24;

/// Drives have short time limits, and none fails because of unrepaired blocks.
const POLICY: FaultPolicy =
    FaultPolicy { limits: LimitsByClass::uniform(Duration::from_millis(200)), unrepaired_limit: 0 };

fn storm(level: Level, drives: u16, seed: u64, some_lost: bool) {
    let setup = Setup { policy: POLICY, ..Setup::new(level, drives) };
    let mut sim = setup.sim(seed, SPARES);
    let all: Vec<SimDrive> = (0..drives + SPARES).map(|index| drive(&sim, index)).collect();
    let envs = envs(&sim, &setup);
    all[usize::from(drives)..].iter().enumerate().for_each(|(index, drive)| {
        drive.poke(ByteOffset(0), &pattern(100 + index as u64, MEMBER.0));
    });
    sim.run(async move {
        let env = envs[0].clone();
        let (reports, receiver) = mailbox::<Report>(&env, engine::REPORTS_OPEN);
        let seeding = ShardSeed::new(&env, 1);
        let shards = vec![seeding.sender()];
        let shard: Shard = seeding.start(ShardIndex(0), 1, reports);
        assert!(shards[0].send(ShardMessage::Peers(shards.clone())).is_ok());
        // Every other storm has a read cache.
        let is_kept = seed.is_multiple_of(2);
        let reads = ReadTerms { read_ahead: is_kept, cached: is_kept, most_ahead: None };
        assert!(shards[0].send(ShardMessage::ReadRoom(READ_ROOM)).is_ok());
        let attachment = Attachment { reads, ..setup.attachment(&env).await };
        let kept = Rc::new(Kept::new(&env, shards, &setup, attachment.state.in_service()));
        env.spawn("controller", kept.clone().keep(receiver, Rng::new(seed, "controller", "")));
        kept.tell(|done| ShardMessage::Attach(Box::new(attachment.clone()), done)).await;
        let volume = shard.volume(VOLUME).expect("attached");
        let capacity = volume.spec().capacity.0;
        write(&volume, 0, &pattern(seed, capacity)).await.expect("writable");
        let (end, busy) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(6)));
        for part in 0..6 {
            let len = capacity / 6 / 512 * 512;
            let rng = Rng::new(seed, "host", &part.to_string());
            env.spawn(
                "host",
                host(
                    volume.clone(),
                    Part { start: part * len, len, seed, some_lost },
                    rng,
                    end.clone(),
                    busy.clone(),
                ),
            );
        }
        let mut rng = Rng::new(seed, "storm", "");
        for _ in 0..25 {
            match some_lost {
                true => hail(&kept, &all, drives, &mut rng).await,
                false => blow(&kept, &all, drives, &mut rng).await,
            }
            env.sleep(Duration::from_micros(rng.below(60_000))).await;
        }
        calm(&kept, &all, drives).await;
        end.set(true);
        while busy.get() > 0 {
            env.sleep(Duration::from_millis(1)).await;
        }
        kept.begin(TaskKind::Check { repair: false }).await;
        assert!(kept.wait_ended().await);
        assert_eq!(kept.mismatches.get(), 0, "redundancy does not agree");
        assert_eq!(*kept.failed.borrow(), Vec::<String>::new());
    })
    .unwrap_or_else(|stall| panic!("{level}, seed {seed}: {stall:?}"));
}

#[test]
fn hail_storms() {
    let seeds = std::env::var("STORMS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1);
    let first = std::env::var("FIRST").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        for (level, drives) in [
            (Level::Raid0, 3),
            (Level::Raid1, 2),
            (Level::Raid1e, 3),
            (Level::Raid10, 4),
            (Level::Raid5, 4),
            (Level::Raid6, 5),
            (Level::Raid50, 6),
        ] {
            println!("{level} of {drives}, seed {seed}");
            storm(level, drives, seed, true);
        }
    }
}

#[test]
fn storms() {
    let seeds = std::env::var("STORMS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1);
    let first = std::env::var("FIRST").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        for (level, drives) in [
            (Level::Raid1, 2),
            (Level::Raid1, 3),
            (Level::Raid1e, 3),
            (Level::Raid10, 4),
            (Level::Raid5, 4),
            (Level::Raid6, 5),
            (Level::Raid50, 6),
            (Level::Raid5ee, 5),
        ] {
            println!("{level} of {drives}, seed {seed}");
            storm(level, drives, seed, false);
        }
    }
}
