// A small deterministic world: virtual time, and a drive that is a queue before a few servers whose
// service time is known, so that what StorageBench must measure can be computed. (Plain comments:
// the guide in lib.rs includes this file.)

use platform::sync::split_mix;
use platform::{
    Address, BlockStatus, Buf, BufferPool, Completion, Drive, DriveIdentity, DriveInfo, DriveKind,
    DriveSource, Env, Error, ErrorKind, Executor, Instant, IoError, IoErrorKind, IoOutcome,
    IoRequest, KeptMemory, KeptSize, Listener, LocalFuture, Schedule, StateStore, StatusExtent,
    StreamSource, Unpark, Work, World,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, SectorSize};

struct NoThread;

impl Unpark for NoThread {
    fn unpark(&self) {}
}

struct NoState;

impl StateStore for NoState {
    fn load<'a>(&'a self, _: &'a str) -> LocalFuture<'a, platform::Result<Option<Vec<u8>>>> {
        Box::pin(async { Ok(None) })
    }
    fn store<'a>(&'a self, _: &'a str, _: Vec<u8>) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn replace<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Vec<u8>,
    ) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn set_aside<'a>(&'a self, _: &'a str, _: &'a str) -> LocalFuture<'a, platform::Result<bool>> {
        Box::pin(async { Ok(true) })
    }
    fn append<'a>(&'a self, _: &'a str, _: Vec<u8>) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

struct VirtualWorld {
    now: Cell<Instant>,
    random: Cell<u64>,
    // The advance of the clock at each reading: for targets that complete within the call.
    look_ns: u64,
    state: NoState,
}

fn absent<T>() -> platform::Result<T> {
    Err(Error::new(ErrorKind::NotFound, "this world has only the drives that a test makes"))
}

impl World for VirtualWorld {
    fn now(&self) -> Instant {
        let now = self.now.get();
        self.now.set(Instant { ns: now.ns + self.look_ns });
        now
    }
    fn unix_time(&self) -> u64 {
        1_700_000_000
    }
    fn random(&self) -> u64 {
        let (state, value) = split_mix(self.random.get());
        self.random.set(state);
        value
    }
    fn charge(&self, _: Work) -> Duration {
        Duration::ZERO
    }
    fn open_drive<'a>(
        &'a self,
        _: &'a str,
    ) -> LocalFuture<'a, platform::Result<Arc<dyn DriveSource>>> {
        Box::pin(async { absent() })
    }
    fn open_drive_for_reading<'a>(
        &'a self,
        _: &'a str,
    ) -> LocalFuture<'a, platform::Result<Arc<dyn DriveSource>>> {
        Box::pin(async { absent() })
    }
    fn create_drive<'a>(
        &'a self,
        _: &'a str,
        _: ByteCount,
    ) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(async { absent() })
    }
    fn listen<'a>(&'a self, _: &'a Address) -> LocalFuture<'a, platform::Result<Rc<dyn Listener>>> {
        Box::pin(async { absent() })
    }
    fn connect<'a>(
        &'a self,
        _: &'a Address,
    ) -> LocalFuture<'a, platform::Result<Box<dyn StreamSource>>> {
        Box::pin(async { absent() })
    }
    fn kept_memory<'a>(
        &'a self,
        _: &'a str,
        _: Option<KeptSize>,
    ) -> LocalFuture<'a, platform::Result<Option<KeptMemory>>> {
        Box::pin(async { absent() })
    }
    fn forget_kept_memory<'a>(&'a self, _: &'a str) -> LocalFuture<'a, platform::Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn boot_id(&self) -> u128 {
        1
    }
    fn state(&self) -> &dyn StateStore {
        &self.state
    }
    fn trace(&self, _: &'static str, _: u64, _: u64) {}
}

/// A world and its event loop.
pub struct TestWorld {
    world: Rc<VirtualWorld>,
    executor: Rc<Executor>,
    pub env: Env,
}

impl TestWorld {
    pub fn new(seed: u64) -> TestWorld {
        TestWorld::with(seed, 0, ByteCount(1 << 30))
    }

    pub fn with(seed: u64, look_ns: u64, memory: ByteCount) -> TestWorld {
        let executor = Executor::new(Schedule::Fifo, Arc::new(NoThread));
        let now = Cell::new(Instant::default());
        let world = Rc::new(VirtualWorld { now, random: Cell::new(seed), look_ns, state: NoState });
        let env = Env::new(executor.clone(), world.clone(), BufferPool::new(memory));
        TestWorld { world, executor, env }
    }

    /// Runs until `future` is done.
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let task = self.env.spawn("the test", future);
        loop {
            while self.executor.run_ready(256) {
                self.executor.fire_timers(self.world.now.get());
            }
            if let Some(output) = task.try_take() {
                return output;
            }
            let next = self.executor.next_deadline();
            let next =
                next.unwrap_or_else(|| panic!("stalled: {:?}", self.executor.unfinished_tasks()));
            self.world.now.set(self.world.now.get().max(next));
            self.executor.fire_timers(self.world.now.get());
            self.executor.expire_operations(self.world.now.get());
        }
    }
}

/// The service time of a request.
#[derive(Clone, Copy)]
pub enum Service {
    Fixed(u64),
    /// With this mean.
    Exponential(u64),
    /// With this mean, and a correlation: its logarithm has this factor from request to request (a
    /// first-order autoregressive process with a deviation of 0.3).
    Remembering(u64, f64),
    /// The value of this function at the start time.
    At(fn(u64) -> u64),
    /// Completes within the call.
    None,
}

/// The faults of a drive.
#[derive(Clone, Copy)]
pub enum Fault {
    None,
    /// Every request after this number fails.
    After(u64, IoErrorKind),
    /// Every Nth request fails.
    Every(u64, IoErrorKind),
    /// Every Nth request transfers only half.
    ShortEvery(u64),
    /// Requests after this number never complete.
    Silent(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub write: bool,
    pub offset: u64,
    pub at_ns: u64,
}

/// A drive: a queue before `servers` servers.
pub struct TestDrive {
    env: Env,
    info: DriveInfo,
    servers: RefCell<Vec<u64>>,
    service: Cell<Service>,
    fault: Cell<Fault>,
    random: Cell<u64>,
    memory: Cell<Option<f64>>,
    pub seen: RefCell<Vec<Seen>>,
    /// Whether requests are recorded in `seen`, and counted while in flight.
    pub remembers: Cell<bool>,
    pub requests: Cell<u64>,
    pub in_flight: Rc<Cell<u32>>,
    /// The nanoseconds with each number of requests in flight.
    pub time_at: Rc<RefCell<BTreeMap<u32, u64>>>,
    changed_ns: Rc<Cell<u64>>,
    /// The content from byte 0; the rest is zero.
    pub content: RefCell<Vec<u8>>,
    held: RefCell<Vec<Completion>>,
}

impl TestDrive {
    pub fn new(env: &Env, size: u64, servers: usize, service: Service) -> TestDrive {
        TestDrive {
            env: env.clone(),
            info: DriveInfo {
                name: "test".to_owned(),
                identity: DriveIdentity("test".to_owned()),
                kind: DriveKind::BlockDevice,
                size: ByteCount(size),
                logical_sector: SectorSize::B512,
                physical_sector: SectorSize::B4096,
                rotational: false,
                read_only: false,
                exclusive: true,
                hardware: platform::Hardware::default(),
            },
            servers: RefCell::new(vec![0; servers]),
            service: Cell::new(service),
            fault: Cell::new(Fault::None),
            random: Cell::new(99),
            memory: Cell::new(None),
            seen: RefCell::default(),
            remembers: Cell::new(true),
            requests: Cell::new(0),
            in_flight: Rc::default(),
            time_at: Rc::default(),
            changed_ns: Rc::default(),
            content: RefCell::default(),
            held: RefCell::default(),
        }
    }

    pub fn with_info(mut self, change: impl FnOnce(&mut DriveInfo)) -> TestDrive {
        change(&mut self.info);
        self
    }

    pub fn with_fault(self, fault: Fault) -> TestDrive {
        self.fault.set(fault);
        self
    }

    pub fn with_seed(self, seed: u64) -> TestDrive {
        self.random.set(seed);
        self
    }

    /// Changes the service from now on.
    pub fn serve(&self, service: Service) {
        self.service.set(service);
    }

    fn draw(&self) -> f64 {
        let (state, value) = split_mix(self.random.get());
        self.random.set(state);
        (value >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&self) -> f64 {
        let (u, v) = (1.0 - self.draw(), self.draw());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// The mean of exp(d x) with x normal is exp(d² / 2).
    fn remembered(&self, mean: u64, factor: f64) -> u64 {
        const DEVIATION: f64 = 0.3;
        let last = self.memory.get().unwrap_or_else(|| self.normal());
        let x = factor * last + (1.0 - factor * factor).sqrt() * self.normal();
        self.memory.set(Some(x));
        (mean as f64 * (DEVIATION * x - DEVIATION * DEVIATION / 2.0).exp()) as u64
    }

    fn outcome(&self, request: IoRequest) -> IoOutcome {
        let len = request.range().len;
        match request {
            IoRequest::Read { offset, mut buffers } => {
                let content = self.content.borrow();
                for buf in &mut buffers {
                    fill(buf, offset.0 as usize, &content);
                }
                IoOutcome::done(len.0).with_buffers(buffers)
            }
            IoRequest::Status { range } => {
                // Its content in pages, written or not.
                let content = self.content.borrow();
                let is_data = |at: u64| {
                    let from = (at as usize).min(content.len());
                    content[from..(from + 4096).min(content.len())].iter().any(|byte| *byte != 0)
                };
                let status = |at| if is_data(at) { BlockStatus::Data } else { BlockStatus::Hole };
                let pages = (range.start.0..range.end().0).step_by(4096);
                let mut outcome = IoOutcome::done(len.0);
                outcome.extents = pages
                    .map(|at| StatusExtent { len: ByteCount(4096), status: status(at) })
                    .collect();
                outcome
            }
            _ => IoOutcome::done(len.0),
        }
    }

    fn faulty(&self, number: u64, outcome: IoOutcome) -> IoOutcome {
        let result = match self.fault.get() {
            Fault::After(count, kind) if number > count => Err(IoError::new(kind)),
            Fault::Every(count, kind) if number.is_multiple_of(count) => Err(IoError::new(kind)),
            Fault::ShortEvery(count) if number.is_multiple_of(count) => {
                outcome.result.map(|len| len / 2)
            }
            _ => outcome.result,
        };
        IoOutcome { result, ..outcome }
    }

    fn count_to(&self, change: i32) -> impl Fn() + 'static {
        let (in_flight, time_at) = (self.in_flight.clone(), self.time_at.clone());
        let (changed, env) = (self.changed_ns.clone(), self.env.clone());
        move || {
            let now = env.now().ns;
            *time_at.borrow_mut().entry(in_flight.get()).or_default() += now - changed.replace(now);
            in_flight.set(in_flight.get().wrapping_add_signed(change));
        }
    }
}

fn fill(buf: &mut Buf, offset: usize, content: &[u8]) {
    let bytes = buf.bytes_mut();
    bytes.fill(0);
    let from = offset.min(content.len());
    let len = bytes.len().min(content.len() - from);
    bytes[..len].copy_from_slice(&content[from..from + len]);
}

impl Drive for TestDrive {
    fn info(&self) -> &DriveInfo {
        &self.info
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        let (number, now) = (self.requests.get() + 1, self.env.now().ns);
        self.requests.set(number);
        let write = matches!(request, IoRequest::Write { .. });
        if self.remembers.get() {
            self.seen.borrow_mut().push(Seen {
                write,
                offset: request.range().start.0,
                at_ns: now,
            });
        }
        if matches!(self.fault.get(), Fault::Silent(count) if number > count) {
            self.held.borrow_mut().push(completion);
            return;
        }
        let outcome = self.faulty(number, self.outcome(request));
        let service = match self.service.get() {
            Service::None => return completion.complete(outcome),
            Service::Fixed(ns) => ns,
            Service::Remembering(mean, factor) => self.remembered(mean, factor),
            Service::At(service) => service(now),
            Service::Exponential(mean) => (-(1.0 - self.draw()).ln() * mean as f64) as u64,
        };
        let mut servers = self.servers.borrow_mut();
        let free = servers.iter_mut().min().expect("a drive has a server");
        *free = (*free).max(now) + service;
        let done = Instant { ns: *free };
        let env = self.env.clone();
        if !self.remembers.get() {
            self.env.spawn("a request", async move {
                env.sleep_until(done).await;
                completion.complete(outcome);
            });
            return;
        }
        self.count_to(1)();
        let left = self.count_to(-1);
        self.env.spawn("a request", async move {
            env.sleep_until(done).await;
            left();
            completion.complete(outcome);
        });
    }
}
