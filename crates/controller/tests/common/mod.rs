//! A controller in a simulation: shards, drives, commands, hosts' reads and writes.

pub mod events;
pub mod work;

use controller::{
    CacheMode, Command, Controller, ControllerHandle, CreateVolume, DiskMaker, DriveCache,
    DriveInfo, Error, ErrorKind, Event, Options, Phase, ReadMode, Reply, VolumeInfo, WriteMode,
};
use engine::{Report, Shard, ShardIndex, ShardMessage, ShardSeed};
use platform::{Buf, Durability, Hosts, IoError, JoinHandle, mailbox};
use platform_sim::{DriveOptions, Latency, Order, Sim, SimOptions, Stall};
use units::{ByteCount, ByteOffset, ByteRange};

pub const MIB: u64 = 1 << 20;

/// The default drive: 32 MiB for the label, a little over 1 MiB for data.
pub const DRIVE: u64 = 33 * MIB + (128 << 10);

pub struct Bench {
    pub sim: Sim,
    pub shards: Vec<Shard>,
    /// The connected hosts, as ports report them.
    pub hosts: Hosts,
    /// The cache size of controllers that are started from now on.
    pub cache_size: ByteCount,
    /// How much of it is reserved at a time for a shard.
    pub cache_step: ByteCount,
    pub read_cache: ByteCount,
    /// The drives' time limits, for controllers that are started from now on.
    pub limits: platform::LimitsByClass,
    /// The log devices that controllers are started with.
    pub logs: Vec<String>,
    /// Attaches volumes as disks.
    pub disks: DiskMaker,
    /// The UPS that controllers started from now on monitor.
    pub ups: Option<controller::UpsAddress>,
    count: usize,
    /// The channel on which shards report to the controller.
    pub reports: Option<mailbox::Sender<Report>>,
    pub handle: Option<ControllerHandle>,
}

pub fn options(seed: u64, shards: usize) -> SimOptions {
    // A command is acknowledged when it is recorded. If drives take that long, short tasks have
    // ended by then.
    let state_latency = Latency::range_us(1, 10);
    SimOptions { shards, memory: ByteCount(16 * MIB), state_latency, ..SimOptions::seeded(seed) }
}

pub fn drive_options() -> DriveOptions {
    DriveOptions { latency: Latency::range_us(20, 200), ..DriveOptions::sized(ByteCount(DRIVE)) }
}

impl Bench {
    /// A host with drives `a`, `b`, `c`, …; no controller yet.
    pub fn new(seed: u64, shards: usize, drives: usize) -> Bench {
        let mut bench = Bench {
            sim: Sim::new(options(seed, shards)),
            shards: Vec::new(),
            hosts: Hosts::default(),
            cache_size: ByteCount::ZERO,
            cache_step: ByteCount::ZERO,
            read_cache: ByteCount::ZERO,
            limits: platform::LimitsByClass::default(),
            logs: Vec::new(),
            disks: DiskMaker::default(),
            ups: None,
            count: shards,
            reports: None,
            handle: None,
        };
        for name in names(drives) {
            bench.sim.add_drive(&name, drive_options());
        }
        bench
    }

    /// The same in strict order, so that events can be counted.
    pub fn in_order(seed: u64, shards: usize, drives: usize) -> Bench {
        let mut bench = Bench::new(seed, shards, 0);
        bench.sim = Sim::new(SimOptions { order: Order::Fifo, ..options(seed, shards) });
        for name in names(drives) {
            bench.sim.add_drive(&name, drive_options());
        }
        bench
    }

    /// Sets the number of shards of controllers started from now on, at most the CPUs of the host.
    pub fn use_shards(&mut self, count: usize) {
        self.count = count;
    }

    /// Starts a controller with these drives.
    pub fn boot(&mut self, drives: &[&str]) {
        self.try_boot(drives).unwrap();
    }

    pub fn try_boot(&mut self, drives: &[&str]) -> Result<(), Stall> {
        self.try_boot_until(drives, Phase::Started)
    }

    /// Kills the process and restarts it; returns when the start has progressed this far.
    pub fn restart_until(&mut self, drives: &[&str], phase: Phase) {
        self.forget();
        self.sim.restart_process();
        self.try_boot_until(drives, phase).unwrap();
    }

    fn try_boot_until(&mut self, drives: &[&str], phase: Phase) -> Result<(), Stall> {
        self.handle = None;
        self.reports = None;
        self.shards.clear();
        let env = self.sim.env();
        let count = self.count;
        let (reports, receiver) = Controller::reports(&env, count as u16);
        let seeds: Vec<ShardSeed> =
            (0..count).map(|shard| ShardSeed::new(&self.sim.shard(shard), count as u16)).collect();
        let senders: Vec<_> = seeds.iter().map(ShardSeed::sender).collect();
        for (index, seed) in seeds.into_iter().enumerate() {
            self.shards.push(seed.start(ShardIndex(index as u16), count as u16, reports.clone()));
        }
        self.reports = Some(reports);
        for sender in &senders {
            sender.send(ShardMessage::Peers(senders.clone())).ok().unwrap();
        }
        let options = Options {
            drives: drives.iter().map(ToString::to_string).collect(),
            hosts: self.hosts.clone(),
            cache_size: self.cache_size,
            cache_step: self.cache_step,
            read_cache: self.read_cache,
            limits: self.limits,
            logs: self.logs.clone(),
            disks: self.disks.clone(),
            ups: self.ups.clone(),
            nbd: vec!["unix:/run/nbd.sock".to_owned()],
        };
        let handle = Controller::begin(&env, options, senders, receiver);
        self.handle = Some(handle.clone());
        self.sim.run(async move { handle.reaches(&env, phase).await })?;
        Ok(())
    }

    /// Kills the process and restarts it with the same drives.
    pub fn restart(&mut self, drives: &[&str]) {
        self.forget();
        self.sim.restart_process();
        self.boot(drives);
    }

    /// Cuts the power, and restarts.
    pub fn power_cycle(&mut self, drives: &[&str]) {
        self.forget();
        self.sim.power_cut();
        self.sim.restart_process();
        self.boot(drives);
    }

    pub fn forget(&mut self) {
        self.shards.clear();
        self.reports = None;
        self.handle = None;
    }

    pub fn try_ask(&mut self, command: Command) -> Result<Result<Reply, Error>, Stall> {
        let handle = self.handle.clone().unwrap();
        let env = self.sim.env();
        self.sim.run(async move { handle.command(&env, command).await })
    }

    /// Sends a command and does not wait for its reply.
    pub fn begin_ask(&mut self, command: Command) -> JoinHandle<Result<Reply, Error>> {
        let (handle, env) = (self.handle.clone().unwrap(), self.sim.env());
        let here = env.clone();
        env.spawn("ask", async move { handle.command(&here, command).await })
    }

    pub fn ask(&mut self, command: Command) -> Result<Reply, Error> {
        self.try_ask(command).unwrap()
    }

    /// Sends a command for an account.
    pub fn ask_as(
        &mut self,
        caller: &controller::Caller,
        command: Command,
    ) -> Result<Reply, Error> {
        let (handle, env) = (self.handle.clone().unwrap(), self.sim.env());
        let caller = Some(caller.clone());
        self.sim.run(async move { handle.command_as(&env, caller, command).await }).unwrap()
    }

    /// The message of a refused command, whose kind must be as expected.
    pub fn refused(&mut self, kind: ErrorKind, command: Command) -> String {
        let what = format!("{command:?}");
        let error = self.ask(command).expect_err(&what);
        assert_eq!(error.kind, kind, "{error}");
        error.message
    }

    pub fn create(
        &mut self,
        name: &str,
        level: &str,
        drives: &[&str],
    ) -> (VolumeInfo, Vec<String>) {
        volume(self.ask(create(name, level, drives)))
    }

    /// A volume without a journal.
    pub fn create_resyncing(&mut self, name: &str, level: &str, drives: &[&str]) -> VolumeInfo {
        let resync =
            |wanted: &mut CreateVolume| wanted.write_hole = Some(controller::WriteHole::Resync);
        self.create_with(name, level, drives, resync).unwrap()
    }

    /// Whether the volume exists, and one of its drives.
    pub fn has(&mut self, name: &str) -> bool {
        let shown = self.ask(Command::VolumeShow { volume: name.into() });
        let Ok(Reply::Volume { volume, .. }) = shown else { return false };
        volume.state != controller::VolumeState::Missing
    }

    pub fn show(&mut self, name: &str) -> VolumeInfo {
        volume(self.ask(Command::VolumeShow { volume: name.into() })).0
    }

    pub fn drive(&mut self, name: &str) -> DriveInfo {
        drive(self.ask(Command::DriveShow { drive: name.into() }))
    }

    pub fn events(&mut self) -> Vec<Event> {
        match self.ask(Command::EventsList { last: None, about: None }) {
            Ok(Reply::Events { events }) => events,
            other => panic!("{other:?}"),
        }
    }

    /// Whether some event's text contains `text`.
    pub fn has_event(&mut self, text: &str) -> bool {
        self.events().iter().any(|event| event.text.contains(text))
    }

    /// Starts a volume with stale parity accepted.
    pub fn start_accepting(&mut self, name: &str) {
        let (volume, accept_stale_parity, degraded) = (name.into(), true, false);
        self.ask(Command::VolumeStart { volume, accept_stale_parity, degraded }).unwrap();
    }

    /// Starts a volume without drives that could have served it alone, and were not used. Lets the
    /// controller begin the work that a command has caused.
    pub fn pause_ms(&mut self, milliseconds: u64) {
        let env = self.sim.env();
        self.sim
            .run(async move { env.sleep(std::time::Duration::from_millis(milliseconds)).await })
            .unwrap();
    }

    pub fn start_degraded(&mut self, name: &str) {
        let (volume, accept_stale_parity, degraded) = (name.into(), false, true);
        self.ask(Command::VolumeStart { volume, accept_stale_parity, degraded }).unwrap();
    }

    pub fn count_events(&mut self, text: &str) -> usize {
        self.events().iter().filter(|event| event.text.contains(text)).count()
    }

    pub fn shut_down(&mut self) -> Vec<String> {
        match self.ask(Command::Shutdown {}) {
            Ok(Reply::Done { notes }) => notes,
            other => panic!("{other:?}"),
        }
    }

    pub fn try_write(
        &mut self,
        name: &str,
        at: u64,
        byte: u8,
        len: u64,
    ) -> Result<Result<(), IoError>, Stall> {
        let volume = self.shards[0].volume_named(name).expect("the volume is online");
        let data = Buf::copy_of(&vec![byte; len as usize]).freeze();
        let range = ByteRange::new(ByteOffset(at), ByteCount(len));
        self.sim.run(async move { volume.write(range, data, Durability::Cached).await })
    }

    /// Begins a write that runs concurrently with the following operations.
    pub fn begin_write(
        &mut self,
        name: &str,
        at: u64,
        byte: u8,
        len: u64,
    ) -> JoinHandle<Result<(), IoError>> {
        let volume = self.shards[0].volume_named(name).expect("the volume is online");
        let data = Buf::copy_of(&vec![byte; len as usize]).freeze();
        let range = ByteRange::new(ByteOffset(at), ByteCount(len));
        let env = volume.shard().env().clone();
        env.spawn("write", async move { volume.write(range, data, Durability::Cached).await })
    }

    pub fn write(&mut self, name: &str, at: u64, byte: u8, len: u64) {
        self.try_write(name, at, byte, len).unwrap().unwrap();
    }

    /// Reads through a shard: the bytes, or the error.
    pub fn try_read(&mut self, name: &str, at: u64, len: u64) -> Result<Vec<u8>, IoError> {
        let volume =
            self.shards[self.shards.len() - 1].volume_named(name).expect("the volume is online");
        let range = ByteRange::new(ByteOffset(at), ByteCount(len));
        let buf = Buf::unpooled(range.len);
        let reading = volume
            .shard()
            .env()
            .clone()
            .spawn("read", async move { volume.read(range, buf).await });
        let (result, buf) = self.sim.finish(&reading).unwrap();
        result.map(|()| buf.unwrap().bytes().to_vec())
    }

    /// Checks that all `len` bytes at `at` are `byte`.
    pub fn expect(&mut self, name: &str, at: u64, byte: u8, len: u64) {
        let bytes = self.try_read(name, at, len).unwrap();
        let wrong = bytes.iter().position(|&other| other != byte);
        assert_eq!(wrong, None, "{name}+{at}: {:?} instead of {byte}", wrong.map(|at| bytes[at]));
    }

    /// Adds drives of that size, named by letters.
    pub fn add_drives(&mut self, names: &[&str], size: u64) {
        for name in names {
            self.sim.add_drive(name, DriveOptions { size: ByteCount(size), ..drive_options() });
        }
    }

    /// Creates a volume, with changes to the default.
    pub fn create_with(
        &mut self,
        name: &str,
        level: &str,
        drives: &[&str],
        change: impl FnOnce(&mut CreateVolume),
    ) -> Result<VolumeInfo, Error> {
        let Command::VolumeCreate(mut wanted) = create(name, level, drives) else { unreachable!() };
        change(&mut wanted);
        match self.ask(Command::VolumeCreate(wanted))? {
            Reply::Volume { volume, .. } => Ok(*volume),
            other => panic!("{other:?}"),
        }
    }

    /// The counted flushes by hosts of the first volume.
    pub fn flushes_of_hosts(&mut self) -> u64 {
        let Ok(Reply::Metrics { metrics }) = self.ask(Command::Metrics {}) else {
            panic!("the counters are listed")
        };
        metrics.volumes[0]
            .work
            .iter()
            .find(|work| work.operation == "flush")
            .expect("counted")
            .completed
    }

    /// Advances virtual time.
    pub fn wait(&mut self, seconds: u64) {
        let until = self.sim.now() + std::time::Duration::from_secs(seconds);
        self.sim.run_until(until).unwrap();
    }

    /// Advances time until the volume has no unsynced and no marked region. Waits until all of a
    /// volume is initialised.
    pub fn settle_initialisation(&mut self, name: &str) {
        for _ in 0..100 {
            if self.show(name).initialisation.is_none() {
                return;
            }
            self.wait(3);
        }
        panic!("{name} is not initialised: {:?}", self.show(name));
    }

    pub fn settle(&mut self, name: &str) {
        for _ in 0..100 {
            let info = self.show(name);
            let is_done = info.resync.is_none() && info.initialisation.is_none();
            if is_done && info.dirty_regions == 0 {
                return;
            }
            self.wait(3);
        }
        panic!("{name} does not settle: {:?}", self.show(name));
    }
}

pub fn names(count: usize) -> Vec<String> {
    (b'a'..).take(count).map(|letter| (letter as char).to_string()).collect()
}

/// Fails a drive, unless data would be lost.
pub fn fail_drive(drive: &str) -> Command {
    Command::DriveFail {
        drive: drive.into(),
        accept_data_loss: false,
        accepted: None,
        dry_run: false,
    }
}

/// Takes a drive offline, unless data would be lost.
pub fn take_offline(drive: &str) -> Command {
    Command::DriveOffline {
        drive: drive.into(),
        accept_data_loss: false,
        accepted: None,
        dry_run: false,
    }
}

pub fn create(name: &str, level: &str, drives: &[&str]) -> Command {
    Command::VolumeCreate(CreateVolume {
        name: name.into(),
        level: level.into(),
        drives: drives.iter().map(ToString::to_string).collect(),
        // The drives are hardly larger than the volume needs.
        coercion: Some(controller::Coercion::None),
        // Most tests are about volumes without a cache.
        write_mode: Some(WriteMode::default()),
        read_mode: Some(ReadMode::default()),
        cache_mode: Some(CacheMode::default()),
        drive_cache: Some(DriveCache::default()),
        ..CreateVolume::default()
    })
}

pub fn volume(reply: Result<Reply, Error>) -> (VolumeInfo, Vec<String>) {
    match reply {
        Ok(Reply::Volume { volume, notes }) => (*volume, notes),
        other => panic!("{other:?}"),
    }
}

pub fn drive(reply: Result<Reply, Error>) -> DriveInfo {
    match reply {
        Ok(Reply::Drive { drive, .. }) => *drive,
        other => panic!("{other:?}"),
    }
}
