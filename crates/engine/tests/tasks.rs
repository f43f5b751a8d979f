//! Background tasks in virtual time: rebuilds under load, their rate with hosts, stop and pause.

use engine::{
    Attachment, Change, FaultPolicy, RegionSet, Regions, Report, ReportKind, ShardIndex,
    ShardMessage, ShardSeed, TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace, TaskProgress,
    Volume, VolumeId, VolumeSpec, VolumeState,
};
use layout::{Geometry, Level};
use platform::mailbox::{Receiver, Sender};
use platform::{Buf, Durability, Env};
use platform_sim::{DriveOptions, Latency, Rng, Sim, SimDrive, SimOptions};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{
    ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, SectorSize, StripSize,
};

pub(crate) const VOLUME: VolumeId = VolumeId(1);
pub(crate) const TASK: TaskId = TaskId(7);
pub(crate) const FULL_SPEED: TaskPace =
    TaskPace { share_percent: 30, paused: false, max_bytes_per_s: None };

pub(crate) struct Setup {
    pub(crate) level: Level,
    pub(crate) drives: u16,
    pub(crate) shards: u16,
    pub(crate) member: ByteCount,
}

/// The reports that the controller of a test got.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) progress: RefCell<BTreeMap<u16, TaskProgress>>,
    pub(crate) outcomes: RefCell<Vec<TaskOutcome>>,
    pub(crate) current: RefCell<RegionSet>,
    pub(crate) punctured: RefCell<Vec<(DriveIndex, ByteRange)>>,
    pub(crate) wrong: RefCell<Vec<Option<DriveIndex>>>,
    pub(crate) relocated: RefCell<RegionSet>,
    pub(crate) out: Cell<DriveSet>,
}

/// A volume on its shards, and the controller's end of its channel.
pub(crate) struct Rig {
    pub(crate) env: Env,
    pub(crate) shards: Vec<Sender<ShardMessage>>,
    pub(crate) volumes: Vec<Rc<Volume>>,
    pub(crate) told: Rc<Told>,
}

impl Setup {
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry::new(self.level, DriveCount(self.drives), StripSize::KIB_64, self.member)
            .expect("an array")
    }

    pub(crate) fn sim(&self, seed: u64) -> Sim {
        let mut options = SimOptions::seeded(seed);
        options.shards = usize::from(self.shards);
        let mut sim = Sim::new(options);
        for drive in 0..self.drives {
            let latency = Latency::range_us(400, 600);
            let options = DriveOptions { latency, ..DriveOptions::sized(self.member) };
            sim.add_drive(&format!("d{drive}"), options);
        }
        sim
    }

    /// Starts the volume with `slot` stale in every region.
    pub(crate) async fn serve(&self, envs: Vec<Env>, slot: Option<DriveIndex>) -> Rig {
        let regions = RegionSet::first(Regions::of(&self.geometry()).count);
        self.serve_as(envs, |attachment| {
            if let Some(slot) = slot {
                attachment.state = attachment.state.clone().with_stale(slot, &regions);
            }
        })
        .await
    }

    pub(crate) async fn serve_as(
        &self,
        envs: Vec<Env>,
        change: impl FnOnce(&mut Attachment),
    ) -> Rig {
        let (env, geometry, count) = (envs[0].clone(), self.geometry(), envs.len() as u16);
        let (reports, receiver) =
            platform::mailbox::mailbox(&env, usize::from(count) * engine::REPORTS_OPEN);
        let seeds: Vec<ShardSeed> = envs.iter().map(|env| ShardSeed::new(env, count)).collect();
        let senders: Vec<_> = seeds.iter().map(ShardSeed::sender).collect();
        let mut shards = Vec::new();
        for (index, seed) in seeds.into_iter().enumerate() {
            shards.push(seed.start(ShardIndex(index as u16), count, reports.clone()));
        }
        let mut sources = Vec::new();
        for drive in 0..self.drives {
            sources.push(Some(
                env.world().open_drive(&format!("d{drive}")).await.expect("the drive opens"),
            ));
        }
        let all = DriveSet::first(geometry.drives());
        let spec = VolumeSpec {
            id: VOLUME,
            name: "v".into(),
            geometry,
            sector: SectorSize::B512,
            data_start: ByteOffset::ZERO,
            capacity: geometry.capacity(),
            policy: FaultPolicy::default(),
        };
        let regions = Regions::of(&geometry);
        let mut attachment =
            Attachment::new(Arc::new(spec), sources, VolumeState::optimal(&regions));
        change(&mut attachment);
        let told = Rc::new(Told::default());
        env.spawn("controller", control(receiver, senders.clone(), told.clone(), all));
        let mut rig = Rig { env, shards: senders, volumes: Vec::new(), told };
        let peers = rig.shards.clone();
        peers
            .iter()
            .for_each(|shard| assert!(shard.send(ShardMessage::Peers(peers.clone())).is_ok()));
        rig.tell(|done| ShardMessage::Attach(Box::new(attachment.clone()), done)).await;
        rig.volumes = shards.iter().map(|shard| shard.volume(VOLUME).expect("attached")).collect();
        rig
    }
}

/// The controller as far as tasks need one: every report is durable at once.
pub(crate) async fn control(
    mut reports: Receiver<Report>,
    shards: Vec<Sender<ShardMessage>>,
    told: Rc<Told>,
    health: DriveSet,
) {
    while let Some(Report { from, number, volume, kind }) = reports.receive().await {
        let to_all = |message: &dyn Fn() -> ShardMessage| {
            shards.iter().for_each(|shard| assert!(shard.send(message()).is_ok()));
        };
        match kind {
            ReportKind::Current { drive, regions, .. } => {
                told.current.borrow_mut().insert_all(&regions);
                to_all(&|| {
                    ShardMessage::Apply(
                        volume,
                        Change::Current { slot: drive, regions: regions.clone() },
                        None,
                        None,
                    )
                });
            }
            ReportKind::TaskProgress { progress, .. } => {
                told.progress.borrow_mut().insert(from.0, progress);
            }
            ReportKind::TaskDone { outcome, .. } => told.outcomes.borrow_mut().push(outcome),
            ReportKind::DriveFailed { drive, .. } => {
                told.out.set(told.out.get().with(drive));
                let left = health.minus(&told.out.get());
                let health = left;
                to_all(&|| ShardMessage::Apply(volume, Change::InService(health), None, None));
            }
            ReportKind::PuncturedBlocks { drive, ranges, punctured } => {
                told.punctured.borrow_mut().extend(ranges.iter().map(|range| (drive, *range)));
                let change = match punctured {
                    true => Change::Punctured { slot: drive, ranges },
                    false => Change::Rewritten { slot: drive, ranges },
                };
                to_all(&|| ShardMessage::Apply(volume, change.clone(), None, None));
            }
            ReportKind::Mismatch { wrong, .. } => told.wrong.borrow_mut().push(wrong),
            ReportKind::Moved { drive, regions, to_spare } => {
                let all = match to_spare {
                    true => told.relocated.take().union(&regions),
                    false => told.relocated.take().minus(&regions),
                };
                told.relocated.replace(all.clone());
                let change = Change::Moved { slot: drive, regions, to_spare };
                to_all(&|| ShardMessage::Apply(volume, change.clone(), None, None));
            }
            ReportKind::Synced(regions) => {
                to_all(&|| ShardMessage::Apply(volume, Change::Synced(regions.clone()), None, None))
            }
            ReportKind::Unsynced(regions) => to_all(&|| {
                ShardMessage::Apply(volume, Change::Unsynced(regions.clone()), None, None)
            }),
            _ => {}
        }
        let done = ShardMessage::ReportDone { report: number, result: Ok(()) };
        assert!(shards[usize::from(from.0)].send(done).is_ok());
    }
}

impl Rig {
    pub(crate) async fn tell(&self, message: impl Fn(engine::Done) -> ShardMessage) {
        let (done, mut answers) = platform::mailbox::mailbox(&self.env, self.shards.len());
        for shard in &self.shards {
            assert!(shard.send(message(done.clone())).is_ok());
        }
        drop(done);
        while let Some(answer) = answers.receive().await {
            answer.expect("the shard succeeds");
        }
    }

    pub(crate) async fn start(&self, kind: TaskKind, pace: TaskPace) {
        let order = TaskOrder { volume: VOLUME, task: TASK, kind, regions: None, pace };
        self.tell(|done| ShardMessage::StartTask(Box::new(order.clone()), done)).await;
    }

    /// Waits until every shard has reported the end of its part.
    pub(crate) async fn outcomes(&self) -> Vec<TaskOutcome> {
        while self.told.outcomes.borrow().len() < self.shards.len() {
            self.env.sleep(Duration::from_millis(1)).await;
        }
        self.told.outcomes.borrow().clone()
    }

    pub(crate) fn progress(&self) -> TaskProgress {
        let mut sum = TaskProgress::default();
        for part in self.told.progress.borrow().values() {
            sum.done_stripes += part.done_stripes;
            sum.total_stripes += part.total_stripes;
            sum.drive_bytes += part.drive_bytes;
            sum.mismatches += part.mismatches;
            sum.repaired += part.repaired;
        }
        sum
    }
}

pub(crate) fn envs(sim: &Sim, setup: &Setup) -> Vec<Env> {
    (0..usize::from(setup.shards)).map(|shard| sim.shard(shard)).collect()
}

pub(crate) fn drives(sim: &Sim, setup: &Setup) -> Vec<SimDrive> {
    (0..setup.drives).map(|i| sim.drive(&format!("d{i}")).expect("a drive")).collect()
}

pub(crate) async fn read(
    volume: &Rc<Volume>,
    start: u64,
    len: u64,
) -> Result<Vec<u8>, platform::IoError> {
    let range = ByteRange::new(ByteOffset(start), ByteCount(len));
    let (result, buf) = volume.read(range, Buf::unpooled(ByteCount(len))).await;
    result.map(|()| buf.expect("the buffer comes back").bytes().to_vec())
}

pub(crate) async fn write(
    volume: &Rc<Volume>,
    start: u64,
    bytes: &[u8],
) -> Result<(), platform::IoError> {
    let range = ByteRange::new(ByteOffset(start), ByteCount::of(bytes));
    volume.write(range, Buf::copy_of(bytes).freeze(), Durability::Cached).await
}

/// Bytes that identify where and when they were written.
pub(crate) fn content(at: u64, len: usize, stamp: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((at + i) / 7 + stamp * 31) as u8).collect()
}

/// Writes across the volume; returns its content.
pub(crate) async fn fill(volume: &Rc<Volume>, rng: &mut Rng) -> Vec<u8> {
    let mut model = vec![0; volume.spec().capacity.as_usize()];
    for stamp in 0..200 {
        put(volume, rng, &mut model, 64 << 10, stamp).await;
    }
    model
}

/// Writes up to `most` bytes somewhere.
pub(crate) async fn put(
    volume: &Rc<Volume>,
    rng: &mut Rng,
    model: &mut [u8],
    most: u64,
    stamp: u64,
) {
    let at = rng.below(model.len() as u64 - most);
    let bytes = content(at, 1 + rng.below(most) as usize, stamp);
    write(volume, at, &bytes).await.expect("writable");
    model[at as usize..][..bytes.len()].copy_from_slice(&bytes);
}

pub(crate) async fn compare(volume: &Rc<Volume>, model: &[u8]) {
    for (i, part) in model.chunks(4 << 20).enumerate() {
        let got = read(volume, (i as u64) << 22, part.len() as u64).await.expect("readable");
        assert!(got == part, "the volume differs from the model near {} MiB", i * 4);
    }
}

#[test]
fn a_rebuild_under_writes_makes_the_drive_current() {
    for (level, drives_count, shards, member_mib) in [
        (Level::Raid1, 2, 1, 96),
        (Level::Raid5, 4, 2, 40),
        (Level::Raid6, 5, 2, 40),
        (Level::Raid10, 4, 2, 64),
        (Level::Raid50, 6, 2, 32),
    ] {
        let setup =
            Setup { level, drives: drives_count, shards, member: ByteCount::MIB * member_mib };
        let mut sim = setup.sim(u64::from(drives_count));
        let (envs, all) = (envs(&sim, &setup), drives(&sim, &setup));
        sim.run(async move {
            let slot = DriveIndex(1);
            let rig = setup.serve(envs, Some(slot)).await;
            let volume = rig.volumes[0].clone();
            let mut rng = Rng::new(5, "content", "");
            let mut model = fill(&volume, &mut rng).await;
            rig.start(TaskKind::Rebuild { slot }, FULL_SPEED).await;
            // A concurrent writer, everywhere.
            let mut stamp = 1000;
            while rig.told.outcomes.borrow().len() < usize::from(setup.shards) {
                put(&volume, &mut rng, &mut model, 5000, stamp).await;
                rig.env.sleep(Duration::from_millis(3)).await;
                stamp += 1;
            }
            assert_eq!(rig.outcomes().await, vec![TaskOutcome::Done; usize::from(setup.shards)]);
            assert_eq!(
                rig.told.current.borrow().len(),
                Regions::of(&setup.geometry()).count,
                "{level}"
            );
            assert_eq!(rig.progress().done_stripes, rig.progress().total_stripes);
            // The rebuilt drive serves its own data, and the redundancy for another drive.
            compare(&volume, &model).await;
            all[0].fail_now();
            compare(&volume, &model).await;
        })
        .expect("no stall");
    }
}

#[test]
fn a_task_pauses_goes_on_and_stops() {
    let setup = Setup { level: Level::Raid5, drives: 4, shards: 2, member: ByteCount::MIB * 256 };
    let mut sim = setup.sim(11);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let slot = DriveIndex(0);
        let rig = setup.serve(envs, Some(slot)).await;
        let slow = TaskPace { max_bytes_per_s: Some(1 << 24), ..FULL_SPEED };
        rig.start(TaskKind::Rebuild { slot }, TaskPace { paused: true, ..slow }).await;
        rig.env.sleep(Duration::from_secs(2)).await;
        assert_eq!(rig.progress().done_stripes, 0, "paused from the start");
        for shard in &rig.shards {
            assert!(shard.send(ShardMessage::SetPace(TASK, slow)).is_ok());
        }
        rig.env.sleep(Duration::from_secs(4)).await;
        let moved = rig.progress().drive_bytes;
        // Two shards at 16 MiB/s for four seconds, and the I/O in progress.
        assert!((100 << 20..150 << 20).contains(&moved), "{} MiB", moved >> 20);
        rig.tell(|done| ShardMessage::StopTask(TASK, done)).await;
        assert_eq!(rig.outcomes().await, [TaskOutcome::Stopped; 2]);
        assert!(
            rig.told.current.borrow().len() < Regions::of(&setup.geometry()).count,
            "the task has not ended"
        );
    })
    .expect("no stall");
}

/// All workers of a task began a batch before the first one was complete and counted: a whole small
/// volume was rebuilt at one byte per second. And the debt by that limit stayed after its end.
#[test]
fn a_limit_holds_from_the_first_batch_and_not_after_its_end() {
    let setup = Setup { level: Level::Raid1, drives: 2, shards: 1, member: ByteCount::MIB * 256 };
    let mut sim = setup.sim(13);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let slot = DriveIndex(1);
        let rig = setup.serve(envs, Some(slot)).await;
        let slow = TaskPace { max_bytes_per_s: Some(1), ..FULL_SPEED };
        rig.start(TaskKind::Rebuild { slot }, slow).await;
        rig.env.sleep(Duration::from_secs(20)).await;
        let first = rig.progress().drive_bytes;
        assert!(first <= 1 << 20, "{first} bytes in 20 s");
        let limit = TaskPace { max_bytes_per_s: Some(4 << 20), ..FULL_SPEED };
        for shard in &rig.shards {
            assert!(shard.send(ShardMessage::SetPace(TASK, limit)).is_ok());
        }
        rig.env.sleep(Duration::from_secs(10)).await;
        let then = rig.progress().drive_bytes - first;
        assert!((36 << 20..=41 << 20).contains(&then), "{then} bytes in 10 s");
        for shard in &rig.shards {
            assert!(shard.send(ShardMessage::SetPace(TASK, FULL_SPEED)).is_ok());
        }
        rig.env.sleep(Duration::from_secs(10)).await;
        assert_eq!(rig.outcomes().await, [TaskOutcome::Done]);
    })
    .expect("no stall");
}

/// While a rebuild is paused, its drive is replaced, and a second rebuild fills the new drive. When
/// the first one was resumed, it reported regions of the new drive as current.
#[test]
fn a_paused_rebuild_whose_drive_was_replaced_touches_nothing_of_the_next_drive() {
    let setup = Setup { level: Level::Raid1, drives: 2, shards: 1, member: ByteCount::MIB * 256 };
    let mut sim = setup.sim(12);
    sim.add_drive("new", DriveOptions::sized(setup.member));
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let (slot, second) = (DriveIndex(1), TaskId(8));
        let rig = setup.serve(envs, Some(slot)).await;
        let volume = rig.volumes[0].clone();
        let slow = TaskPace { max_bytes_per_s: Some(1 << 24), ..FULL_SPEED };
        rig.start(TaskKind::Rebuild { slot }, slow).await;
        rig.env.sleep(Duration::from_secs(1)).await;
        let paused = TaskPace { paused: true, ..slow };
        rig.shards
            .iter()
            .for_each(|shard| assert!(shard.send(ShardMessage::SetPace(TASK, paused)).is_ok()));
        rig.env.sleep(Duration::from_secs(1)).await;

        let source = rig.env.world().open_drive("new").await.expect("the drive opens");
        let stale = RegionSet::first(Regions::of(&setup.geometry()).count);
        let in_service = DriveSet::first(setup.geometry().drives());
        let change = Change::Drive { slot, stale, in_service };
        rig.tell(|done| {
            ShardMessage::Apply(VOLUME, change.clone(), Some(source.clone()), Some(done))
        })
        .await;
        let kind = TaskKind::Rebuild { slot };
        let order =
            TaskOrder { volume: VOLUME, task: second, kind, regions: None, pace: FULL_SPEED };
        rig.tell(|done| ShardMessage::StartTask(Box::new(order.clone()), done)).await;
        assert_eq!(rig.outcomes().await, [TaskOutcome::Done]);

        rig.told.current.take();
        let goes_on = ShardMessage::SetPace(TASK, FULL_SPEED);
        assert!(rig.shards[0].send(goes_on).is_ok());
        while rig.told.outcomes.borrow().len() < 2 {
            assert_eq!(volume.check_invariants(), Ok(()));
            rig.env.sleep(Duration::from_micros(100)).await;
        }
        let gone = platform::IoError::new(platform::IoErrorKind::Gone);
        assert_eq!(rig.told.outcomes.borrow()[1], TaskOutcome::Failed(gone));
        assert!(
            rig.told.current.borrow().is_empty(),
            "the first rebuild reports no region of the next drive"
        );
    })
    .expect("no stall");
}

/// A replacement is filled while the old drive serves and hosts write; then it takes the slot.
#[test]
fn a_copy_beside_writes_makes_a_drive_that_can_take_the_place() {
    let setup = Setup { level: Level::Raid5, drives: 4, shards: 2, member: ByteCount::MIB * 40 };
    let mut sim = setup.sim(21);
    sim.add_drive("new", DriveOptions::sized(setup.member));
    let (envs, all) = (envs(&sim, &setup), drives(&sim, &setup));
    sim.run(async move {
        let slot = DriveIndex(2);
        let rig = setup.serve(envs, None).await;
        let volume = rig.volumes[0].clone();
        let mut rng = Rng::new(6, "content", "");
        let mut model = fill(&volume, &mut rng).await;
        // Sectors that the old drive cannot read are computed from the others.
        all[2].make_unreadable(ByteRange::new(ByteOffset(1 << 20), ByteCount(4096)));
        let source = rig.env.world().open_drive("new").await.expect("the drive opens");
        rig.tell(|done| {
            ShardMessage::Apply(
                VOLUME,
                Change::ReplacementBegan { slot, left: RegionSet::EMPTY },
                Some(source.clone()),
                Some(done),
            )
        })
        .await;
        rig.start(TaskKind::Copy { slot }, FULL_SPEED).await;
        let mut stamp = 1000;
        while rig.told.outcomes.borrow().len() < usize::from(setup.shards) {
            put(&volume, &mut rng, &mut model, 5000, stamp).await;
            rig.env.sleep(Duration::from_millis(3)).await;
            stamp += 1;
        }
        assert_eq!(rig.outcomes().await, [TaskOutcome::Done; 2]);
        rig.tell(|done| {
            ShardMessage::Apply(
                VOLUME,
                Change::Promoted { slot, stale: RegionSet::EMPTY },
                None,
                Some(done),
            )
        })
        .await;
        all[2].fail_now(); // The old drive is unused now.
        compare(&volume, &model).await;
        all[0].fail_now();
        compare(&volume, &model).await;
    })
    .expect("no stall");
}

/// A check finds silent corruption; with RAID 6 it locates the drive, and repairs it.
#[test]
fn a_check_finds_rot_and_names_the_drive_where_the_level_can() {
    for (level, count, repair) in
        [(Level::Raid6, 5, true), (Level::Raid5, 4, false), (Level::Raid1, 3, true)]
    {
        let setup = Setup { level, drives: count, shards: 1, member: ByteCount::MIB * 8 };
        let mut sim = setup.sim(31);
        let (envs, all) = (envs(&sim, &setup), drives(&sim, &setup));
        sim.run(async move {
            let rig = setup.serve(envs, None).await;
            let volume = rig.volumes[0].clone();
            let model = fill(&volume, &mut Rng::new(7, "content", "")).await;
            let rotten = ByteRange::new(ByteOffset(3 << 20), ByteCount(512));
            all[1].rot(rotten);
            rig.start(TaskKind::Check { repair }, FULL_SPEED).await;
            assert_eq!(rig.outcomes().await, [TaskOutcome::Done]);
            assert_eq!(rig.progress().mismatches, 1, "{level}");
            let expected = (level != Level::Raid5).then_some(DriveIndex(1));
            assert_eq!(*rig.told.wrong.borrow(), [expected], "{level}");
            if repair {
                rig.told.outcomes.borrow_mut().clear();
                rig.start(TaskKind::Check { repair: false }, FULL_SPEED).await;
                rig.outcomes().await;
                assert_eq!(
                    rig.told.wrong.borrow().len(),
                    1,
                    "{level}: a second check finds nothing"
                );
                compare(&volume, &model).await;
            }
        })
        .expect("no stall");
    }
}

#[test]
fn a_full_initialisation_leaves_zeroes_and_redundancy_that_agrees() {
    let setup = Setup { level: Level::Raid6, drives: 4, shards: 2, member: ByteCount::MIB * 40 };
    let mut sim = setup.sim(51);
    let (envs, all) = (envs(&sim, &setup), drives(&sim, &setup));
    for drive in &all {
        drive.poke(ByteOffset(5 << 20), &[0xAB; 102_400]);
    }
    sim.run(async move {
        let rig = setup.serve(envs, None).await;
        rig.start(TaskKind::Initialise { full: true }, FULL_SPEED).await;
        assert_eq!(rig.outcomes().await, [TaskOutcome::Done; 2]);
        all[0].fail_now();
        all[2].fail_now();
        compare(&rig.volumes[0], &vec![0; setup.geometry().capacity().as_usize()]).await;
    })
    .expect("no stall");
}

/// Both drives needed to rebuild a third one had the same unreadable sector: that sector is lost
/// and listed, and the rest is rebuilt.
#[test]
fn a_rebuild_lists_what_is_lost_and_goes_on() {
    let setup = Setup { level: Level::Raid5, drives: 4, shards: 1, member: ByteCount::MIB * 8 };
    let mut sim = setup.sim(61);
    let (envs, all) = (envs(&sim, &setup), drives(&sim, &setup));
    sim.run(async move {
        let slot = DriveIndex(0);
        let rig = setup.serve(envs, Some(slot)).await;
        let volume = rig.volumes[0].clone();
        let mut rng = Rng::new(9, "content", "");
        let mut model = fill(&volume, &mut rng).await;
        let place = ByteRange::new(ByteOffset(2 << 20), ByteCount(4096));
        all[1].make_unreadable(place);
        rig.start(TaskKind::Rebuild { slot }, FULL_SPEED).await;
        assert_eq!(rig.outcomes().await, [TaskOutcome::Done]);
        let lost: u64 = rig.told.punctured.borrow().iter().map(|(_, range)| range.len.0).sum();
        let mut failed = 0;
        for at in (0..model.len() as u64).step_by(4096) {
            match read(&volume, at, 4096).await {
                Ok(got) => assert!(got == model[at as usize..][..4096], "at {at}"),
                Err(error) => {
                    assert_eq!(error.kind, platform::IoErrorKind::Medium);
                    failed += 4096;
                    // A write of the block removes it from the list.
                    write(&volume, at, &content(at, 4096, 77)).await.expect("writable");
                    model[at as usize..][..4096].copy_from_slice(&content(at, 4096, 77));
                }
            }
        }
        assert_eq!(failed, lost, "only the lost block is listed");
        assert!(failed > 0 && failed <= 8192, "{failed} bytes");
        compare(&volume, &model).await;
        all[2].fail_now();
        compare(&volume, &model).await;
    })
    .expect("no stall");
}

/// p99 latency of a database's I/O: 8 KiB, random, 67 % reads, eight outstanding.
fn database_p99(rebuilding: bool) -> Duration {
    const REQUESTS: usize = 4000;
    let setup = Setup { level: Level::Raid5, drives: 5, shards: 1, member: ByteCount::MIB * 256 };
    let mut sim = setup.sim(71);
    let envs = envs(&sim, &setup);
    sim.run(async move {
        let slot = DriveIndex(2);
        // Both runs are degraded alike: they differ in the rebuild.
        let rig = setup.serve(envs, Some(slot)).await;
        let latencies = Rc::new(RefCell::new(Vec::new()));
        for worker in 0..8 {
            let (volume, env, latencies) =
                (rig.volumes[0].clone(), rig.env.clone(), latencies.clone());
            let mut rng = Rng::new(10, "host", &worker.to_string());
            rig.env.spawn("host", async move {
                while latencies.borrow().len() < REQUESTS {
                    let at = rng.below(volume.spec().capacity.0 / 8192) * 8192;
                    let began = env.now();
                    if rng.below(100) < 67 {
                        read(&volume, at, 8192).await.expect("readable");
                    } else {
                        write(&volume, at, &[7; 8192]).await.expect("writable");
                    }
                    latencies.borrow_mut().push(env.now().since(began));
                }
            });
        }
        rig.env.sleep(Duration::from_millis(200)).await;
        if rebuilding {
            rig.start(TaskKind::Rebuild { slot }, FULL_SPEED).await;
        }
        while latencies.borrow().len() < REQUESTS {
            rig.env.sleep(Duration::from_millis(10)).await;
        }
        assert!(
            rig.told.outcomes.borrow().is_empty(),
            "the rebuild lasted longer than the measurement"
        );
        let mut sorted = latencies.take();
        sorted.sort_unstable();
        sorted[sorted.len() * 99 / 100]
    })
    .expect("no stall")
}

#[test]
fn a_rebuild_with_thirty_percent_leaves_hosts_their_latency() {
    let (without, with) = (database_p99(false), database_p99(true));
    assert!(with <= without * 3 / 2, "p99 {without:?} without, {with:?} with a rebuild");
}
