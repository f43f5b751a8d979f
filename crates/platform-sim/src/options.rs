//! What a simulation is made of.

use platform::{DriveKind, Hardware, HealthScript, Work};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// In which order ready tasks run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// First woken, first run.
    #[default]
    Fifo,
    /// Any ready task may be next, by the seed, and due events mix with ready tasks.
    Shuffled,
}

/// A simulation's parameters. Everything random follows from `seed`.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The seed of every random number.
    pub seed: u64,
    /// In which order ready tasks run.
    pub order: Order,
    /// How many shards (executors) a process has, at least one.
    pub shards: usize,
    /// Each shard's buffer memory.
    pub memory: ByteCount,
    /// What processor work costs.
    pub costs: Costs,
    /// How streams behave.
    pub network: NetworkOptions,
    /// How long storing small state takes.
    pub state_latency: Latency,
    /// What drives are like that the code above creates itself (`Env::create_drive`).
    pub file_drives: DriveOptions,
    /// How much all drives that the code above creates may take together; `None` is no limit.
    pub file_space: Option<ByteCount>,
    /// How much memory that outlives processes may take on one machine; `None` is no limit.
    pub kept_space: Option<ByteCount>,
    /// Whether the bytes of such memory are hollow (its words never are): for predictions, where they would cost memory.
    pub kept_hollow: bool,
    /// More polls and events than this without time passing are taken for tasks that wake for ever.
    pub steps_per_instant: u64,
    /// More events than this without [progress](crate::SimHandle::progress) are taken for a simulation that does not end, though time passes.
    pub events_without_progress: u64,
    /// More virtual time than this is taken for a simulation that does not end.
    pub time_limit: Duration,
    /// The date at which the world begins, in seconds since 1970.
    pub unix_epoch: u64,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions {
            seed: 0,
            order: Order::Fifo,
            shards: 1,
            memory: ByteCount(64 << 20),
            costs: Costs::default(),
            network: NetworkOptions::default(),
            state_latency: Latency::range_us(100, 2000),
            file_drives: DriveOptions::default(),
            file_space: None,
            kept_space: None,
            kept_hollow: false,
            steps_per_instant: 1_000_000,
            events_without_progress: u64::MAX,
            time_limit: Duration::from_secs(7 * 24 * 3600),
            unix_epoch: 1_700_000_000,
        }
    }
}

impl SimOptions {
    /// The usual parameters with that seed, ready tasks in any order.
    pub fn seeded(seed: u64) -> SimOptions {
        SimOptions { seed, order: Order::Shuffled, ..SimOptions::default() }
    }
}

/// What processor work costs in virtual time; nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Taking in one host request, in nanoseconds.
    pub host_request_ns: u64,
    /// Handing one request to a drive, in nanoseconds.
    pub drive_request_ns: u64,
    /// Parity over one KiB of sources, in picoseconds.
    pub xor_ps_per_kib: u64,
    /// Copying one KiB, in picoseconds.
    pub copy_ps_per_kib: u64,
}

impl Costs {
    /// The time `work` takes.
    pub fn of(&self, work: Work) -> Duration {
        let per_kib =
            |ps: u64, bytes: ByteCount| (u128::from(ps) * u128::from(bytes.0) / (1024 * 1000)) as u64;
        Duration::from_nanos(match work {
            Work::HostRequest => self.host_request_ns,
            Work::DriveRequest => self.drive_request_ns,
            Work::Xor(bytes) => per_kib(self.xor_ps_per_kib, bytes),
            Work::Copy(bytes) => per_kib(self.copy_ps_per_kib, bytes),
        })
    }
}

/// How long something takes: uniformly between two bounds, now and then ten times as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// At least, in nanoseconds.
    pub min_ns: u64,
    /// At most, in nanoseconds.
    pub max_ns: u64,
    /// One in this many takes ten times as long; zero: none.
    pub slow_one_in: u64,
}

impl Latency {
    /// No time at all.
    pub const ZERO: Latency = Latency { min_ns: 0, max_ns: 0, slow_one_in: 0 };

    /// Between two bounds in microseconds.
    pub const fn range_us(min: u64, max: u64) -> Latency {
        Latency { min_ns: min * 1000, max_ns: max * 1000, slow_one_in: 0 }
    }

    /// A draw.
    pub(crate) fn draw(&self, rng: &mut crate::Rng) -> Duration {
        if self.max_ns == 0 {
            return Duration::ZERO;
        }
        let ns = rng.between(self.min_ns, self.max_ns);
        let slow = self.slow_one_in > 0 && rng.chance(1, self.slow_one_in);
        Duration::from_nanos(if slow { ns.saturating_mul(10) } else { ns })
    }
}

/// How streams behave.
#[derive(Clone, Copy, Debug)]
pub struct NetworkOptions {
    /// How long a piece is under way.
    pub latency: Latency,
    /// How many sent bytes may wait for a receiver, per direction.
    pub buffer: ByteCount,
    /// Whether pieces arrive cut at arbitrary places; otherwise as large as they fit.
    pub fragments: bool,
}

impl Default for NetworkOptions {
    fn default() -> NetworkOptions {
        NetworkOptions { latency: Latency::range_us(1, 50), buffer: ByteCount(64 << 10), fragments: true }
    }
}

/// What blocks read as that were never written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unwritten {
    /// Zeroes.
    #[default]
    Zeroes,
    /// Noise that is a function of the drive and the address: to catch who reads what nobody wrote.
    Noise,
}

/// What trimmed blocks read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trimmed {
    /// Zeroes, and they take no space.
    #[default]
    Zeroes,
    /// What they held.
    Unchanged,
    /// Zeroes, what they held, or noise: each trim draws.
    Anything,
}

/// A simulated drive's nature.
#[derive(Clone, Debug)]
pub struct DriveOptions {
    /// What it says that it is.
    pub kind: DriveKind,
    /// Its capacity, rounded down to whole sectors.
    pub size: ByteCount,
    /// The smallest unit it reads and writes, and never tears.
    pub logical_sector: SectorSize,
    /// The unit it writes without reading first.
    pub physical_sector: SectorSize,
    /// Whether it has a spindle.
    pub rotational: bool,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// How much completed writes may wait in a cache that a power cut empties, until they are flushed or
    /// pushed out; zero: every completed write is durable.
    pub cache: ByteCount,
    /// What never-written blocks read as.
    pub unwritten: Unwritten,
    /// What trimmed blocks read as.
    pub trimmed: Trimmed,
    /// What is written as a whole below this address is not kept, and reads as zeroes: for measurements of time, where content would only
    /// cost memory.
    pub forgets_below: ByteOffset,
    /// How long an operation takes.
    pub latency: Latency,
    /// Faults that come by themselves.
    pub faults: DriveFaults,
    /// Who made it and where it sits.
    pub hardware: Hardware,
    /// What it tells of its health; `None`: nothing.
    pub health: Option<HealthScript>,
}

/// Faults that come by themselves, as the seed has it. None by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveFaults {
    /// Where on the drive; `None`: everywhere. Slow spells concern the whole drive.
    pub within: Option<ByteRange>,
    /// The mean time until sectors become unreadable that were fine: latent sector errors.
    pub unreadable_every: Option<Duration>,
    /// The mean time until sectors rot: they read as something else, without an error.
    pub rot_every: Option<Duration>,
    /// The most neighbouring sectors that become unreadable, or rot, at a time; at least one does.
    pub longest_run_sectors: u64,
    /// One sector in so many cannot be written, always the same ones; zero: none.
    pub unwritable_one_in: u64,
    /// One write in so many is acknowledged and not carried out; zero: none.
    pub lost_write_one_in: u64,
    /// One write in so many is acknowledged and carried out somewhere else; zero: none.
    pub misdirected_write_one_in: u64,
    /// The mean time until the drive is slow for a while.
    pub slow_every: Option<Duration>,
    /// How long it is slow then.
    pub slow_for: Duration,
    /// How many times as long operations take meanwhile.
    pub slow_times: u32,
}

impl Default for DriveOptions {
    fn default() -> DriveOptions {
        DriveOptions {
            kind: DriveKind::File,
            size: ByteCount(64 << 20),
            logical_sector: SectorSize::B512,
            physical_sector: SectorSize::B4096,
            rotational: false,
            read_only: false,
            cache: ByteCount(8 << 20),
            unwritten: Unwritten::Zeroes,
            trimmed: Trimmed::Zeroes,
            forgets_below: ByteOffset::ZERO,
            latency: Latency::range_us(50, 500),
            faults: DriveFaults::default(),
            hardware: Hardware::default(),
            health: None,
        }
    }
}

impl DriveOptions {
    /// The usual drive of that size.
    pub fn sized(size: ByteCount) -> DriveOptions {
        DriveOptions { size, ..DriveOptions::default() }
    }
}
