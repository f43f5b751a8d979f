//! The options of a simulation.

use platform::{DriveKind, Hardware, HealthScript, Work};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// The order of ready tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// First woken, first polled.
    #[default]
    Fifo,
    /// A random order by the seed, in which due events and ready tasks mix.
    Shuffled,
}

/// The options of a simulation. `seed` determines all random numbers.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The order of ready tasks.
    pub order: Order,
    /// The number of shards (executors) of a process, at least one.
    pub shards: usize,
    /// Each shard's buffer memory.
    pub memory: ByteCount,
    /// The costs of processor work.
    pub costs: Costs,
    /// The properties of streams.
    pub network: NetworkOptions,
    /// The duration of storing small state.
    pub state_latency: Latency,
    /// The options of drives that the tested code creates (`Env::create_drive`).
    pub file_drives: DriveOptions,
    /// The total space for drives that the tested code creates; `None`: unlimited.
    pub file_space: Option<ByteCount>,
    /// The space for persistent memory on one machine; `None`: unlimited.
    pub kept_space: Option<ByteCount>,
    /// Whether the bytes of persistent memory are data-less (its words never are): saves memory in
    /// predictions.
    pub kept_hollow: bool,
    /// The maximum number of polls and events without time passing; more count as tasks that wake
    /// endlessly.
    pub steps_per_instant: u64,
    /// The maximum number of events without [progress](crate::SimHandle::progress); more count as a
    /// simulation that does not end, even if time passes.
    pub events_without_progress: u64,
    /// The maximum virtual time; more counts as a simulation that does not end.
    pub time_limit: Duration,
    /// The date at the start, in seconds since 1970.
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
    /// The default options with that seed and a random order of ready tasks.
    pub fn seeded(seed: u64) -> SimOptions {
        SimOptions { seed, order: Order::Shuffled, ..SimOptions::default() }
    }
}

/// The costs of processor work in virtual time; zero by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// The intake of one host request, in nanoseconds.
    pub host_request_ns: u64,
    /// The start of one drive request, in nanoseconds.
    pub drive_request_ns: u64,
    /// Parity over one KiB of sources, in picoseconds.
    pub xor_ps_per_kib: u64,
    /// A copy of one KiB, in picoseconds.
    pub copy_ps_per_kib: u64,
}

impl Costs {
    /// The time `work` takes.
    pub fn of(&self, work: Work) -> Duration {
        let per_kib = |ps: u64, bytes: ByteCount| {
            (u128::from(ps) * u128::from(bytes.0) / (1024 * 1000)) as u64
        };
        Duration::from_nanos(match work {
            Work::HostRequest => self.host_request_ns,
            Work::DriveRequest => self.drive_request_ns,
            Work::Xor(bytes) => per_kib(self.xor_ps_per_kib, bytes),
            Work::Copy(bytes) => per_kib(self.copy_ps_per_kib, bytes),
        })
    }
}

/// A duration: uniform between two bounds, occasionally ten times as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latency {
    /// The minimum, in nanoseconds.
    pub min_ns: u64,
    /// The maximum, in nanoseconds.
    pub max_ns: u64,
    /// One in this many takes ten times as long; zero: none.
    pub slow_one_in: u64,
}

impl Latency {
    /// Zero.
    pub const ZERO: Latency = Latency { min_ns: 0, max_ns: 0, slow_one_in: 0 };

    /// Bounds in microseconds.
    pub const fn range_us(min: u64, max: u64) -> Latency {
        Latency { min_ns: min * 1000, max_ns: max * 1000, slow_one_in: 0 }
    }

    /// A random duration.
    pub(crate) fn draw(&self, rng: &mut crate::Rng) -> Duration {
        if self.max_ns == 0 {
            return Duration::ZERO;
        }
        let ns = rng.between(self.min_ns, self.max_ns);
        let slow = self.slow_one_in > 0 && rng.chance(1, self.slow_one_in);
        Duration::from_nanos(if slow { ns.saturating_mul(10) } else { ns })
    }
}

/// The properties of streams.
#[derive(Clone, Copy, Debug)]
pub struct NetworkOptions {
    /// The latency of a fragment.
    pub latency: Latency,
    /// The buffer for sent bytes, per direction.
    pub buffer: ByteCount,
    /// Whether data arrives in fragments of random length, otherwise as long as possible.
    pub fragments: bool,
}

impl Default for NetworkOptions {
    fn default() -> NetworkOptions {
        NetworkOptions {
            latency: Latency::range_us(1, 50),
            buffer: ByteCount(64 << 10),
            fragments: true,
        }
    }
}

/// The content of blocks that were never written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unwritten {
    /// Zeroes.
    #[default]
    Zeroes,
    /// Noise that drive and address determine: detects reads of unwritten blocks.
    Noise,
}

/// The content of trimmed blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trimmed {
    /// Zeros, without space.
    #[default]
    Zeroes,
    /// The old content.
    Unchanged,
    /// Zeros, the old content, or noise: random for each trim.
    Anything,
}

/// The properties of a simulated drive.
#[derive(Clone, Debug)]
pub struct DriveOptions {
    /// Its reported kind.
    pub kind: DriveKind,
    /// Its capacity, rounded down to whole sectors.
    pub size: ByteCount,
    /// The smallest unit of I/O, which is never torn.
    pub logical_sector: SectorSize,
    /// The smallest write without a read first.
    pub physical_sector: SectorSize,
    /// Whether it rotates.
    pub rotational: bool,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// The size of the volatile cache for completed writes; zero: every completed write is durable.
    pub cache: ByteCount,
    /// The content of blocks that were never written.
    pub unwritten: Unwritten,
    /// The content of trimmed blocks.
    pub trimmed: Trimmed,
    /// Below this address, whole writes are not stored and read as zeros: saves memory if only time
    /// is measured.
    pub forgets_below: ByteOffset,
    /// The duration of an operation.
    pub latency: Latency,
    /// Spontaneous faults.
    pub faults: DriveFaults,
    /// Its make and its location.
    pub hardware: Hardware,
    /// Its reported health; `None`: not reported.
    pub health: Option<HealthScript>,
}

/// Spontaneous faults, random by the seed. None by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveFaults {
    /// The affected range; `None`: the whole drive. Slow periods always affect the whole drive.
    pub within: Option<ByteRange>,
    /// The mean time between latent sector errors: good sectors become unreadable.
    pub unreadable_every: Option<Duration>,
    /// The mean time between rotting sectors: they read as wrong data, without an error.
    pub rot_every: Option<Duration>,
    /// The maximum number of adjacent sectors per fault; the minimum is one.
    pub longest_run_sectors: u64,
    /// One sector in this many is unwritable, always the same ones; zero: none.
    pub unwritable_one_in: u64,
    /// One write in this many is acknowledged but lost; zero: none.
    pub lost_write_one_in: u64,
    /// One write in this many is acknowledged but misdirected; zero: none.
    pub misdirected_write_one_in: u64,
    /// The mean time between slow periods.
    pub slow_every: Option<Duration>,
    /// The length of a slow period.
    pub slow_for: Duration,
    /// The factor on the duration of operations in a slow period.
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
    /// The default drive of that size.
    pub fn sized(size: ByteCount) -> DriveOptions {
        DriveOptions { size, ..DriveOptions::default() }
    }
}
