//! A volume on the shards of a simulation. The test's controller only keeps a list of reports.

use engine::{
    Attachment, CellShare, Change, FaultPolicy, RegionSet, Regions, Report, ReportKind, Shard,
    ShardIndex, ShardMessage, ShardSeed, TaskId, TaskKind, TaskOrder, TaskOutcome, TaskPace,
    Volume, VolumeId, VolumeSpec, VolumeState,
};
use layout::{CopyIndex, DataIndex, Geometry, Level, ParityIndex};
use platform::{Buf, Durability, Env, IoErrorKind, mailbox};
use platform_sim::{DriveOptions, Order, Sim, SimDrive, SimOptions};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{
    ByteCount, ByteOffset, ByteRange, DriveCount, DriveIndex, DriveSet, SectorSize, StripSize,
    StripeIndex,
};

pub const MEMBER: ByteCount = ByteCount(256 << 10);
pub const VOLUME: VolumeId = VolumeId(1);
pub const TASK: TaskId = TaskId(3);
pub const PACE: TaskPace = TaskPace { share_percent: 30, paused: false, max_bytes_per_s: None };

#[derive(Clone)]
pub struct Setup {
    pub level: Level,
    pub drives: u16,
    pub shards: u16,
    /// Regions that are unsynced at the start.
    pub unsynced: bool,
    pub strip: StripSize,
    pub member: ByteCount,
    pub policy: FaultPolicy,
}

impl Setup {
    pub fn new(level: Level, drives: u16) -> Setup {
        Setup {
            level,
            drives,
            shards: 1,
            unsynced: false,
            strip: StripSize::MIN,
            member: MEMBER,
            policy: FaultPolicy::default(),
        }
    }

    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.level, DriveCount(self.drives), self.strip, self.member)
            .expect("a small array")
    }

    /// A simulation with the drives `d0`, `d1`, ... and `spares` more of them.
    pub fn sim(&self, seed: u64, spares: u16) -> Sim {
        let mut options = SimOptions::seeded(seed);
        options.order = Order::Shuffled;
        options.shards = usize::from(self.shards);
        let mut sim = Sim::new(options);
        for drive in 0..self.drives + spares {
            sim.add_drive(&format!("d{drive}"), DriveOptions::sized(self.member));
        }
        sim
    }

    pub async fn attachment(&self, env: &Env) -> Attachment {
        let geometry = self.geometry();
        let mut sources = Vec::new();
        for drive in 0..self.drives {
            sources.push(Some(open(env, drive).await));
        }
        let regions = engine::Regions::of(&geometry);
        let unsynced = RegionSet::first(if self.unsynced { regions.count } else { 0 });
        let spec = VolumeSpec {
            id: VOLUME,
            name: "v".into(),
            geometry,
            sector: SectorSize::B512,
            data_start: ByteOffset::ZERO,
            capacity: geometry.capacity(),
            policy: self.policy,
        };
        let mut state = VolumeState::optimal(&regions);
        state.apply(&Change::Unsynced(unsynced.clone()));
        state.apply(&Change::Marked(unsynced));
        Attachment::new(Arc::new(spec), sources, state)
    }
}

/// Volumes of every level with redundancy, on few drives and two shards.
pub fn redundant_shapes() -> Vec<Setup> {
    let shape = |level, drives| Setup { shards: 2, ..Setup::new(level, drives) };
    vec![
        shape(Level::Raid1, 3),
        shape(Level::Raid1e, 5),
        shape(Level::Raid10, 4),
        shape(Level::Raid4, 4),
        shape(Level::Raid5, 4),
        shape(Level::Raid5ee, 5),
        shape(Level::Raid6, 5),
        shape(Level::Raid50, 6),
        shape(Level::Raid60, 8),
    ]
}

/// Another drive, or none, for a slot of an attached volume.
#[derive(Clone)]
pub struct NewDrive {
    pub slot: DriveIndex,
    pub source: Option<Arc<dyn platform::DriveSource>>,
    pub stale: RegionSet,
    pub in_service: DriveSet,
}

impl NewDrive {
    pub fn message(&self, done: engine::Done) -> ShardMessage {
        let NewDrive { slot, source, stale, in_service } = self.clone();
        ShardMessage::Apply(VOLUME, Change::Drive { slot, stale, in_service }, source, Some(done))
    }
}

/// A state in which drives are stale: `stale` by slot.
pub fn stale(state: VolumeState, stale: &[RegionSet]) -> VolumeState {
    let slots = (0..).map(DriveIndex).zip(stale);
    slots.fold(state, |state, (slot, regions)| state.with_stale(slot, regions))
}

pub async fn open(env: &Env, drive: u16) -> Arc<dyn platform::DriveSource> {
    env.world().open_drive(&format!("d{drive}")).await.expect("the drive opens")
}

pub fn envs(sim: &Sim, setup: &Setup) -> Vec<Env> {
    (0..usize::from(setup.shards)).map(|shard| sim.shard(shard)).collect()
}

pub fn drive(sim: &Sim, drive: u16) -> SimDrive {
    sim.drive(&format!("d{drive}")).expect("a drive")
}

/// A volume on its shards.
pub struct Bench {
    pub env: Env,
    pub shards: Vec<Shard>,
    pub volumes: Vec<Rc<Volume>>,
    pub senders: Vec<mailbox::Sender<ShardMessage>>,
    /// The reports, in order.
    pub reports: Rc<RefCell<Vec<ReportKind>>>,
    pub health: DriveSet,
    /// While this is set, reports get no reply.
    pub is_deaf: Rc<Cell<bool>>,
    refuse: Rc<RefCell<Refuse>>,
}

/// The reports that are refused, and the error.
type Refuse = Box<dyn Fn(&ReportKind) -> Option<IoErrorKind>>;

impl Bench {
    pub async fn start(envs: Vec<Env>, setup: &Setup) -> Bench {
        let attachment = setup.attachment(&envs[0]).await;
        Bench::attach(envs, attachment).await
    }

    /// Starts every shard with the volume attached.
    pub async fn attach(envs: Vec<Env>, attachment: Attachment) -> Bench {
        Bench::attach_with_cache(envs, attachment, ByteCount::ZERO).await
    }

    /// The same, with a volatile cache on every shard.
    pub async fn attach_with_cache(
        envs: Vec<Env>,
        attachment: Attachment,
        room: ByteCount,
    ) -> Bench {
        let shares =
            envs.iter().map(|_| CellShare::unkept((room.0 / 4096) as u32, false)).collect();
        Bench::attach_with_cells(envs, attachment, shares).await
    }

    /// The same, with the given cache memory, in the order of the shards.
    pub async fn attach_with_cells(
        envs: Vec<Env>,
        attachment: Attachment,
        shares: Vec<CellShare>,
    ) -> Bench {
        Bench::attach_all(envs, vec![attachment], shares).await
    }

    /// The same with several volumes; the first is [`VOLUME`].
    pub async fn attach_all(
        envs: Vec<Env>,
        attachments: Vec<Attachment>,
        shares: Vec<CellShare>,
    ) -> Bench {
        let count = envs.len() as u16;
        let env = envs[0].clone();
        let (reports, mut receiver) =
            mailbox::mailbox::<Report>(&env, usize::from(count) * engine::REPORTS_OPEN);
        let (kept, inbox) =
            mailbox::mailbox::<Report>(&env, usize::from(count) * engine::REPORTS_OPEN);
        let log: Rc<RefCell<Vec<ReportKind>>> = Rc::default();
        let (noted, is_deaf, clock) = (log.clone(), Rc::new(Cell::new(false)), env.clone());
        let deaf = is_deaf.clone();
        let refuse: Rc<RefCell<Refuse>> = Rc::new(RefCell::new(Box::new(|_| None)));
        let seeds: Vec<ShardSeed> = envs.iter().map(|env| ShardSeed::new(env, count)).collect();
        let senders: Vec<_> = seeds.iter().map(ShardSeed::sender).collect();
        let (refused, answer_to) = (refuse.clone(), senders.clone());
        env.spawn("log", async move {
            while let Some(report) = receiver.receive().await {
                noted.borrow_mut().push(report.kind.clone());
                while deaf.get() {
                    clock.sleep(Duration::from_millis(1)).await;
                }
                let refusal = refused.borrow()(&report.kind);
                if let Some(error) = refusal {
                    let result = Err(platform::IoError::new(error));
                    let answer = ShardMessage::ReportDone { report: report.number, result };
                    assert!(answer_to[usize::from(report.from.0)].send(answer).is_ok());
                    continue;
                }
                assert!(kept.send(report).is_ok());
            }
        });
        let mut shards = Vec::new();
        for (index, seed) in seeds.into_iter().enumerate() {
            shards.push(seed.start(ShardIndex(index as u16), count, reports.clone()));
        }
        for (sender, share) in senders.iter().zip(shares) {
            assert!(sender.send(ShardMessage::Peers(senders.clone())).is_ok());
            assert!(sender.send(ShardMessage::Cells(share)).is_ok());
        }
        let health = attachments[0].state.in_service();
        let states =
            attachments.iter().map(|attachment| (attachment.spec.id, attachment.state.clone()));
        let keeper =
            engine::unkept::keep(env.clone(), inbox, senders.clone(), BTreeMap::from_iter(states));
        env.spawn("keeper", keeper);
        let mut bench = Bench {
            env,
            shards,
            volumes: Vec::new(),
            senders,
            reports: log,
            health,
            is_deaf,
            refuse,
        };
        for attachment in attachments {
            bench.tell(|done| ShardMessage::Attach(Box::new(attachment.clone()), done)).await;
        }
        bench.volumes =
            bench.shards.iter().map(|shard| shard.volume(VOLUME).expect("attached")).collect();
        bench
    }

    /// From now on these reports are refused.
    pub fn refuse(&self, which: impl Fn(&ReportKind) -> Option<IoErrorKind> + 'static) {
        *self.refuse.borrow_mut() = Box::new(which);
    }

    pub fn volume(&self) -> &Rc<Volume> {
        &self.volumes[0]
    }

    /// Sends a message to every shard and waits until all have processed it.
    pub async fn tell(&self, message: impl Fn(engine::Done) -> ShardMessage) {
        self.ask(message).await.expect("every shard succeeds");
    }

    /// The same; returns their replies.
    pub async fn ask(&self, message: impl Fn(engine::Done) -> ShardMessage) -> Result<(), String> {
        let (done, mut answers) = mailbox::mailbox(&self.env, self.senders.len());
        for sender in &self.senders {
            assert!(sender.send(message(done.clone())).is_ok());
        }
        drop(done);
        let mut result = Ok(());
        while let Some(answer) = answers.receive().await {
            result = result.and(answer);
        }
        result
    }

    pub async fn wait(&self, time: Duration) {
        self.env.sleep(time).await;
    }

    pub fn count(&self, is_it: impl Fn(&ReportKind) -> bool) -> usize {
        self.reports.borrow().iter().filter(|kind| is_it(kind)).count()
    }
}

pub async fn read(volume: &Rc<Volume>, start: u64, len: u64) -> Result<Vec<u8>, platform::IoError> {
    let range = ByteRange::new(ByteOffset(start), ByteCount(len));
    let (result, buf) = volume.read(range, Buf::unpooled(ByteCount(len))).await;
    result.map(|()| buf.expect("the buffer comes back").bytes().to_vec())
}

pub async fn write(volume: &Rc<Volume>, start: u64, bytes: &[u8]) -> Result<(), platform::IoError> {
    let range = ByteRange::new(ByteOffset(start), ByteCount::of(bytes));
    volume.write(range, Buf::copy_of(bytes).freeze(), Durability::Cached).await
}

/// Writes in the background. Returns whether it has ended, and the result.
pub fn begin(volume: &Rc<Volume>, at: u64, byte: u8) -> Rc<Cell<Option<bool>>> {
    let (told, volume) = (Rc::new(Cell::new(None)), volume.clone());
    let ended = told.clone();
    volume.shard().env().clone().spawn("write", async move {
        let result = write(&volume, at, &[byte; 512]).await;
        told.set(Some(result.is_ok()));
    });
    ended
}

/// Reads a sector in the background. Returns whether it has ended, and the first byte if it was
/// readable.
pub fn begin_read(volume: &Rc<Volume>, at: u64) -> Rc<Cell<Option<Option<u8>>>> {
    let (told, volume) = (Rc::new(Cell::new(None)), volume.clone());
    let ended = told.clone();
    volume.shard().env().clone().spawn("read", async move {
        let result = read(&volume, at, 512).await;
        told.set(Some(result.ok().map(|bytes| bytes[0])));
    });
    ended
}

/// Bytes that identify their address.
pub fn pattern(seed: u64, len: u64) -> Vec<u8> {
    (0..len).map(|i| ((i / 97) ^ (i >> 9) ^ seed) as u8).collect()
}

pub fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start), ByteCount(len))
}

pub fn slots(slots: &[u16]) -> DriveSet {
    slots.iter().map(|slot| DriveIndex(*slot)).collect()
}

/// The location of a data strip: drive and byte offset.
pub fn data(setup: &Setup, stripe: u64, index: u16) -> (u16, u64) {
    let cell = setup.geometry().data_cell(StripeIndex(stripe), DataIndex(index), CopyIndex(0));
    (cell.drive.0, cell.offset.0)
}

/// The location of a stripe's P.
pub fn parity(setup: &Setup, stripe: u64) -> (u16, u64) {
    let cell = setup.geometry().parity_cell(StripeIndex(stripe), ParityIndex(0)).expect("parity");
    (cell.drive.0, cell.offset.0)
}

/// All regions.
pub fn regions(setup: &Setup) -> RegionSet {
    RegionSet::first(Regions::of(&setup.geometry()).count)
}

/// Only this slot's regions are stale.
pub fn stale_on(setup: &Setup, slot: u16) -> Vec<RegionSet> {
    let mut stale = vec![RegionSet::EMPTY; usize::from(setup.drives)];
    stale[usize::from(slot)] = regions(setup);
    stale
}

impl Bench {
    /// Begins a task.
    pub async fn begin(&self, kind: TaskKind, pace: TaskPace) {
        let order = TaskOrder { volume: VOLUME, task: TASK, kind, regions: None, pace };
        self.tell(|done| ShardMessage::StartTask(Box::new(order.clone()), done)).await;
    }

    /// The result of a task, by shard.
    pub fn outcomes(&self) -> Vec<TaskOutcome> {
        let outcome = |kind: &ReportKind| match kind {
            ReportKind::TaskDone { outcome, .. } => Some(*outcome),
            _ => None,
        };
        self.reports.borrow().iter().filter_map(outcome).collect()
    }

    /// The same, once the task has ended on all shards.
    pub async fn ended(&self) -> Vec<TaskOutcome> {
        while self.outcomes().len() < self.shards.len() {
            self.wait(Duration::from_millis(1)).await;
        }
        self.outcomes()
    }
}
