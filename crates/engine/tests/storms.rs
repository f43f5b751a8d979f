//! Storms: drives fail, hang, cannot read, are replaced, filled, promoted and swapped again while hosts write and
//! read, and the controller takes its time. Whatever happens within what the level survives, every byte that was
//! acknowledged is there, no request fails, and at the end redundancy agrees with the data on every drive.

mod common;

use common::{MEMBER, NewDrive, Setup, VOLUME, drive, envs, open, pattern, range, read, write};
use engine::{
    Change, FaultPolicy, RegionSet, Regions, Relocated, Report, ReportKind, Shard, ShardIndex, ShardMessage,
    ShardSeed, TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace, Volume,
};
use env::mailbox::{Receiver, Sender, mailbox};
use env::{Env, IoErrorKind};
use layout::Level;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use units::{ByteOffset, DriveIndex, DriveSet};
use world_sim::{Rng, SimDrive};

const SPARES: u16 = 24;

/// The controller's side: what it knows, and what it was told.
struct Kept {
    env: Env,
    shards: Vec<Sender<ShardMessage>>,
    health: Cell<DriveSet>,
    relocated: RefCell<Option<Relocated>>,
    /// Which drive each slot has, and which is being filled for it.
    places: RefCell<Vec<u16>>,
    replacement: Cell<Option<(u16, u16)>>,
    next_spare: Cell<u16>,
    next_task: Cell<u64>,
    running: Cell<Option<TaskId>>,
    outcomes: RefCell<Vec<(TaskId, TaskOutcome)>>,
    mismatches: Cell<u32>,
    failed: RefCell<Vec<String>>,
    stale: Cell<DriveSet>,
    regions: RegionSet,
    level: Level,
}

impl Kept {
    async fn tell(&self, message: impl Fn(engine::Done) -> ShardMessage) {
        let (done, mut answers) = mailbox(&self.env, self.shards.len());
        self.shards.iter().for_each(|shard| assert!(shard.send(message(done.clone())).is_ok()));
        drop(done);
        while let Some(answer) = answers.receive().await {
            if let Err(why) = answer {
                self.failed.borrow_mut().push(why);
            }
        }
    }

    fn tell_others(&self, from: ShardIndex, message: impl Fn() -> ShardMessage) {
        for (_, shard) in self.shards.iter().enumerate().filter(|(index, _)| *index != usize::from(from.0)) {
            assert!(shard.send(message()).is_ok());
        }
    }

    async fn keep(self: Rc<Self>, mut reports: Receiver<Report>, mut rng: Rng) {
        while let Some(Report { from, number, volume, kind }) = reports.receive().await {
            if rng.chance(1, 3) {
                self.env.sleep(Duration::from_micros(rng.below(4000))).await;
            }
            let mut result = Ok(());
            match kind {
                ReportKind::DriveFailed { drive, .. } => {
                    let view = self.health.get().without(drive);
                    self.health.set(view);
                    self.stale.set(self.stale.get().with(drive));
                    self.tell(|done| ShardMessage::Apply(volume, Change::InService(view), None, Some(done)))
                        .await;
                }
                ReportKind::Current { drive, regions, .. } => {
                    if self.health.get().contains(drive) {
                        self.stale.set(self.stale.get().without(drive));
                        for shard in &self.shards {
                            assert!(
                                shard
                                    .send(ShardMessage::Apply(
                                        volume,
                                        Change::Current { slot: drive, regions: regions.clone() },
                                        None,
                                        None
                                    ))
                                    .is_ok()
                            );
                        }
                    } else {
                        result = Err(env::IoError::new(IoErrorKind::Gone));
                    }
                }
                ReportKind::Synced(regions) => self.tell_others(from, || {
                    ShardMessage::Apply(volume, Change::Synced(regions.clone()), None, None)
                }),
                ReportKind::Unsynced(regions) => self.tell_others(from, || {
                    ShardMessage::Apply(volume, Change::Unsynced(regions.clone()), None, None)
                }),
                ReportKind::MarkDirty(regions) => self.tell_others(from, || {
                    ShardMessage::Apply(volume, Change::Marked(regions.clone()), None, None)
                }),
                ReportKind::PuncturedBlocks { drive, ranges, punctured } => {
                    let change = match punctured {
                        true => Change::Punctured { slot: drive, ranges },
                        false => Change::Rewritten { slot: drive, ranges },
                    };
                    let message = |done| ShardMessage::Apply(volume, change.clone(), None, Some(done));
                    self.tell(message).await;
                }
                ReportKind::ReplacementFailed { drive, .. } => {
                    let is_replacement = self.replacement.get().is_some_and(|(slot, _)| slot == drive.0);
                    self.replacement.set(self.replacement.get().filter(|_| !is_replacement));
                    if is_replacement {
                        self.tell(|done| {
                            ShardMessage::Apply(
                                volume,
                                Change::ReplacementEnded { slot: drive },
                                None,
                                Some(done),
                            )
                        })
                        .await;
                    }
                }
                ReportKind::Moved { drive, regions, to_spare } => {
                    let before = self.relocated.take().map(|relocated| relocated.regions).unwrap_or_default();
                    let after = if to_spare { before.union(&regions) } else { before.minus(&regions) };
                    let now = (!after.is_empty()).then_some(Relocated { slot: drive, regions: after });
                    *self.relocated.borrow_mut() = now;
                    let change = Change::Moved { slot: drive, regions, to_spare };
                    self.tell(|done| ShardMessage::Apply(volume, change.clone(), None, Some(done))).await;
                }
                ReportKind::Mismatch { .. } => self.mismatches.set(self.mismatches.get() + 1),
                ReportKind::TaskDone { task, outcome } => self.outcomes.borrow_mut().push((task, outcome)),
                _ => {}
            }
            let done = ShardMessage::ReportDone { report: number, result };
            assert!(self.shards[usize::from(from.0)].send(done).is_ok());
        }
    }

    async fn begin(&self, kind: TaskKind) {
        let task = TaskId(self.next_task.get());
        self.next_task.set(task.0 + 1);
        self.running.set(Some(task));
        let pace = TaskPace { share_percent: 50, paused: false, max_bytes_per_s: None };
        let order = TaskOrder { volume: VOLUME, task, kind, regions: None, pace };
        self.tell(|done| ShardMessage::StartTask(Box::new(order.clone()), done)).await;
    }

    async fn stop(&self) {
        if let Some(task) = self.running.take() {
            self.tell(|done| ShardMessage::StopTask(task, done)).await;
        }
    }

    fn ended(&self) -> Option<bool> {
        let task = self.running.get()?;
        let outcomes = self.outcomes.borrow();
        let of_task: Vec<_> = outcomes.iter().filter(|(of, _)| *of == task).collect();
        (of_task.len() == self.shards.len())
            .then(|| of_task.iter().all(|(_, outcome)| *outcome == TaskOutcome::Done))
    }

    async fn wait_ended(&self) -> bool {
        while self.ended().is_none() {
            self.env.sleep(Duration::from_millis(1)).await;
        }
        self.ended() == Some(true)
    }

    fn spare(&self) -> Option<u16> {
        let spare = self.next_spare.get();
        self.next_spare.set(spare + 1);
        (spare < self.places.borrow().len() as u16 + SPARES).then_some(spare)
    }

    /// Another drive in a slot, stale everywhere, and rebuilt.
    async fn replace(&self, slot: u16) {
        let Some(spare) = self.spare() else { return };
        self.stop().await;
        let source = open(&self.env, spare).await;
        self.places.borrow_mut()[usize::from(slot)] = spare;
        let index = DriveIndex(slot);
        let mut view = self.health.get();
        view = view.with(index);
        self.health.set(view);
        self.stale.set(self.stale.get().with(index));
        let change =
            NewDrive { slot: index, source: Some(source), stale: self.regions.clone(), in_service: view };
        self.tell(|done| change.message(done)).await;
        self.begin(TaskKind::Rebuild { slot: index }).await;
    }
}

/// A part of the volume.
#[derive(Clone, Copy)]
struct Part {
    start: u64,
    len: u64,
    /// What the volume was filled with.
    seed: u64,
    /// Some of it may be lost: then an error is an answer.
    some_lost: bool,
}

/// Writes and reads a part of the volume of its own until told to end.
async fn host(volume: Rc<Volume>, part: Part, mut rng: Rng, end: Rc<Cell<bool>>, busy: Rc<Cell<u32>>) {
    let Part { start, len, seed, some_lost } = part;
    let mut model = pattern(seed, volume.spec().capacity.0)[start as usize..][..len as usize].to_vec();
    let is_lost = |error: &env::IoError| some_lost && error.kind == IoErrorKind::Medium;
    let mut stamp = 0;
    while !end.get() {
        let at = rng.below(len);
        let most = (len - at).min(9000);
        let count = 1 + rng.below(most);
        let (at, count) = match rng.chance(2, 3) {
            true => (at / 512 * 512, count.div_ceil(512) * 512),
            false => (at, count),
        };
        let count = count.min(len - at);
        let now = volume.shard().env().now().ns;
        match rng.below(10) {
            0 => volume.flush().await.unwrap_or_else(|error| panic!("flush at {now}: {error}")),
            1..=5 => {
                stamp += 1;
                let bytes = pattern(stamp * 7 + start, count);
                let result = write(&volume, start + at, &bytes).await;
                if (at % 512 > 0 || count % 512 > 0) && result.as_ref().is_err_and(is_lost) {
                    // What of it came before the lost edge is written, or not.
                    model[at as usize..][..count as usize].copy_from_slice(&bytes);
                    let whole = (at / 512 * 512, (at + count).div_ceil(512) * 512);
                    let (at, count) = (whole.0, (whole.1 - whole.0).min(len - whole.0));
                    let bytes = model[at as usize..][..count as usize].to_vec();
                    write(&volume, start + at, &bytes).await.expect("whole sectors");
                    continue;
                }
                result.unwrap_or_else(|error| panic!("write {count} at {at} at {now}: {error}"));
                model[at as usize..][..count as usize].copy_from_slice(&bytes);
            }
            _ => {
                let got = read(&volume, start + at, count).await;
                if got.as_ref().is_err_and(is_lost) {
                    continue;
                }
                let got = got.unwrap_or_else(|error| panic!("read {count} at {at} at {now}: {error}"));
                let wanted = &model[at as usize..][..count as usize];
                let first = got.iter().zip(wanted).position(|(got, wanted)| got != wanted);
                assert!(
                    first.is_none(),
                    "{count} bytes at {} differ from byte {first:?} on, at {now} ns",
                    start + at
                );
            }
        }
        if rng.chance(1, 3) {
            volume.shard().env().sleep(Duration::from_micros(rng.below(2000))).await;
        }
    }
    for at in (0..len).step_by(512) {
        match read(&volume, start + at, 512).await {
            Ok(got) => assert!(got == model[at as usize..][..512], "at the end, at {at}"),
            Err(error) => assert!(is_lost(&error), "at the end, at {at}: {error}"),
        }
    }
    if some_lost {
        write(&volume, start, &model).await.expect("everything is healed by writing it");
        assert!(read(&volume, start, len).await.expect("healed") == model);
    }
    busy.set(busy.get() - 1);
}

fn storm(level: Level, drives: u16, seed: u64, some_lost: bool) {
    let policy = FaultPolicy { time_limit: Duration::from_millis(200), unrepaired_limit: 0 };
    let setup = Setup { policy, ..Setup::new(level, drives) };
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
        let attachment = setup.attachment(&env).await;
        let kept = Rc::new(Kept {
            env: env.clone(),
            shards,
            health: Cell::new(attachment.state.in_service()),
            relocated: RefCell::default(),
            places: RefCell::new((0..drives).collect()),
            replacement: Cell::default(),
            next_spare: Cell::new(drives),
            next_task: Cell::new(1),
            running: Cell::default(),
            outcomes: RefCell::default(),
            mismatches: Cell::default(),
            failed: RefCell::default(),
            stale: Cell::default(),
            level,
            regions: RegionSet::first(Regions::of(&setup.geometry()).count),
        });
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

/// One thing that happens, within what any level survives: one drive at a time.
async fn blow(kept: &Rc<Kept>, all: &[SimDrive], drives: u16, rng: &mut Rng) {
    // What happened before is known by now.
    kept.env.sleep(Duration::from_millis(20)).await;
    let view = kept.health.get();
    let out = (0..drives).find(|slot| !view.contains(DriveIndex(*slot)));
    let stale = (0..drives).find(|slot| kept.stale.get().contains(DriveIndex(*slot)));
    let of = |slot: u16| &all[usize::from(kept.places.borrow()[usize::from(slot)])];
    match (out, stale) {
        (Some(slot), None) if kept.level == Level::Raid5ee => to_spare_and_back(kept, all, slot, rng).await,
        (Some(slot), _)
            if kept.level == Level::Raid5ee && kept.stale.get().iter().count() == 1 && rng.chance(1, 2) =>
        {
            to_spare_and_back(kept, all, slot, rng).await;
        }
        (Some(slot), _) => {
            if rng.chance(2, 3) {
                kept.replacement.set(None);
                kept.tell(|done| {
                    ShardMessage::Apply(
                        VOLUME,
                        Change::ReplacementEnded { slot: DriveIndex(slot) },
                        None,
                        Some(done),
                    )
                })
                .await;
                kept.replace(slot).await;
            }
        }
        (None, Some(slot)) => match rng.below(5) {
            0 => of(slot).fail_now(),
            1 => kept.replace(slot).await,
            2 => of(slot).fail_next(1 + rng.below(2), Some("write"), IoErrorKind::Medium),
            3 if kept.running.get().is_none() || kept.ended().is_some() => {
                kept.begin(TaskKind::Rebuild { slot: DriveIndex(slot) }).await;
            }
            _ => {}
        },
        (None, None) => {
            let slot = rng.below(u64::from(drives)) as u16;
            let index = DriveIndex(slot);
            match rng.below(9) {
                0 => of(slot).fail_now(),
                1 => {
                    let held = of(slot).clone();
                    held.hold();
                    let env = kept.env.clone();
                    let later = Duration::from_millis(rng.below(500));
                    kept.env.spawn("later", async move {
                        env.sleep(later).await;
                        held.release();
                    });
                    kept.env.sleep(Duration::from_millis(900)).await;
                }
                2 => {
                    of(slot).fail_next(1, Some("write"), IoErrorKind::Medium);
                    kept.env.sleep(Duration::from_millis(20)).await;
                    of(slot).cancel_failures();
                }
                3 => {
                    let view = kept.health.get();
                    let health = view.without(index);
                    kept.health.set(health);
                    kept.stale.set(kept.stale.get().with(index));
                    let stale = kept.regions.clone();
                    let change = NewDrive { slot: index, source: None, stale, in_service: health };
                    kept.tell(|done| change.message(done)).await;
                }
                4 => {
                    let at = rng.below(MEMBER.0 / 512) * 512;
                    of(slot).make_unreadable(range(at, 512 * (1 + rng.below(4))));
                    kept.env.sleep(Duration::from_millis(5)).await;
                    of(slot).heal(range(0, MEMBER.0));
                }
                5 | 6 => {
                    let Some(spare) = kept.spare() else { return };
                    kept.stop().await;
                    if kept.replacement.get().is_some() {
                        return;
                    }
                    kept.replacement.set(Some((slot, spare)));
                    let source = open(&kept.env, spare).await;
                    kept.tell(|done| {
                        ShardMessage::Apply(
                            VOLUME,
                            Change::ReplacementBegan { slot: index, left: RegionSet::EMPTY },
                            Some(source.clone()),
                            Some(done),
                        )
                    })
                    .await;
                    kept.begin(TaskKind::Copy { slot: index }).await;
                    if rng.chance(1, 4) {
                        all[usize::from(spare)].fail_next(1, Some("write"), IoErrorKind::Medium);
                    }
                    if rng.chance(1, 5) {
                        of(slot).fail_now();
                    }
                    let whole = kept.wait_ended().await;
                    let view = kept.health.get();
                    if whole && kept.replacement.get() == Some((slot, spare)) && view.contains(index) {
                        kept.replacement.set(None);
                        kept.places.borrow_mut()[usize::from(slot)] = spare;
                        kept.tell(|done| {
                            ShardMessage::Apply(
                                VOLUME,
                                Change::Promoted { slot: index, stale: RegionSet::EMPTY },
                                None,
                                Some(done),
                            )
                        })
                        .await;
                    } else {
                        kept.replacement.set(None);
                        kept.tell(|done| {
                            ShardMessage::Apply(
                                VOLUME,
                                Change::ReplacementEnded { slot: index },
                                None,
                                Some(done),
                            )
                        })
                        .await;
                    }
                    kept.running.set(None);
                }
                7 => {
                    kept.stop().await;
                    kept.begin(TaskKind::Check { repair: true }).await;
                }
                _ => kept.env.sleep(Duration::from_millis(30)).await,
            }
        }
    }
}

/// Sectors that cannot be read, many at a time, while drives are rebuilt and copied.
async fn hail(kept: &Rc<Kept>, all: &[SimDrive], drives: u16, rng: &mut Rng) {
    let slot = rng.below(u64::from(drives)) as u16;
    let of = |slot: u16| &all[usize::from(kept.places.borrow()[usize::from(slot)])];
    let whole = kept.stale.get().is_empty();
    match rng.below(6) {
        0 if whole && kept.level != Level::Raid0 => kept.replace(slot).await,
        1 if whole => {
            let Some(spare) = kept.spare() else { return };
            let index = DriveIndex(slot);
            kept.stop().await;
            let source = open(&kept.env, spare).await;
            kept.tell(|done| {
                ShardMessage::Apply(
                    VOLUME,
                    Change::ReplacementBegan { slot: index, left: RegionSet::EMPTY },
                    Some(source.clone()),
                    Some(done),
                )
            })
            .await;
            kept.begin(TaskKind::Copy { slot: index }).await;
            assert!(kept.wait_ended().await, "copied but for what is lost");
            kept.places.borrow_mut()[usize::from(slot)] = spare;
            kept.tell(|done| {
                ShardMessage::Apply(
                    VOLUME,
                    Change::Promoted { slot: index, stale: RegionSet::EMPTY },
                    None,
                    Some(done),
                )
            })
            .await;
        }
        2 if whole => {
            kept.stop().await;
            kept.begin(TaskKind::Check { repair: true }).await;
        }
        _ => {
            // Neighbours on several drives: columns in which more is unreadable than there is redundancy.
            let at = rng.below(MEMBER.0 / 512 - 8) * 512;
            for slot in 0..drives {
                if rng.chance(1, 2) {
                    of(slot).make_unreadable(range(at + 512 * rng.below(3), 512 * (1 + rng.below(4))));
                }
            }
        }
    }
}

/// RAID 5EE: what a failed drive held moves into the distributed spare, another drive is replaced, and all comes back.
async fn to_spare_and_back(kept: &Rc<Kept>, all: &[SimDrive], slot: u16, rng: &mut Rng) {
    let index = DriveIndex(slot);
    kept.replacement.set(None);
    kept.tell(|done| ShardMessage::Apply(VOLUME, Change::ReplacementEnded { slot: index }, None, Some(done)))
        .await;
    kept.stop().await;
    kept.begin(TaskKind::Relocate { slot: index }).await;
    assert!(kept.wait_ended().await, "all is moved");
    kept.env.sleep(Duration::from_millis(rng.below(50))).await;
    let drives = kept.places.borrow().len() as u16;
    if rng.chance(1, 2) {
        let other = (slot + 1 + rng.below(u64::from(drives) - 1) as u16) % drives;
        let place = kept.places.borrow()[usize::from(other)];
        all[usize::from(place)].fail_now();
        kept.env.sleep(Duration::from_millis(300)).await;
        kept.replace(other).await;
        if rng.chance(1, 2) {
            kept.wait_ended().await;
        }
    }
    while !kept.stale.get().without(index).is_empty() {
        kept.env.sleep(Duration::from_millis(1)).await;
    }
    let Some(spare) = kept.spare() else { return };
    kept.stop().await;
    kept.places.borrow_mut()[usize::from(slot)] = spare;
    let source = open(&kept.env, spare).await;
    let view = kept.health.get();
    let health = view.with(index);
    kept.health.set(health);
    kept.stale.set(kept.stale.get().without(index));
    let stale = RegionSet::EMPTY;
    let change = NewDrive { slot: index, source: Some(source), stale, in_service: health };
    kept.tell(|done| change.message(done)).await;
    kept.begin(TaskKind::Restore { slot: index }).await;
    assert!(kept.wait_ended().await, "all is back");
    kept.running.set(None);
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

/// Everything is made whole.
async fn calm(kept: &Rc<Kept>, all: &[SimDrive], drives: u16) {
    for _ in 0..6 {
        kept.env.sleep(Duration::from_secs(1)).await;
        let view = kept.health.get();
        all.iter().for_each(SimDrive::cancel_failures);
        let behind = (0..drives).find(|slot| {
            let index = DriveIndex(*slot);
            !view.contains(index) || kept.stale.get().contains(index)
        });
        let Some(slot) = behind else { break };
        kept.replace(slot).await;
        kept.wait_ended().await;
    }
    kept.stop().await;
    assert!(kept.stale.get().is_empty(), "all is rebuilt");
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
