//! A server: a controller with its drives and its host, in one simulation.

use crate::catalog::{ControllerSpec, DriveKind, DriveSpec};
use crate::device::Prepared;
use crate::drive_port::{DrivePort, Source, info};
use crate::host_port::HostPort;
use crate::link::{DriveLink, Link, LinkShares, transfer_ns};
use crate::resource::{Pool, Resource};
use crate::rotating::Rotating;
use crate::ssd::{Ssd, moved_in_steady_state};
use platform::{Drive, DriveSource, Env, IoRequest, Service, Work};
use platform_sim::{ProcessId, SimDrive, SimHandle, SimId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use units::ByteCount;

/// The parts of a server.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// Its controller.
    pub controller: ControllerSpec,
    /// Its drives, in slot order.
    pub drives: Vec<DriveSpec>,
    /// Log devices outside of the array: each on its own link to the host, with its default cache.
    pub log: Vec<DriveSpec>,
    /// Whether the drives' write caches are on; `None`: each drive's default.
    pub drive_cache: Option<bool>,
    /// The usable share of links' theoretical rates.
    pub shares: LinkShares,
    /// The drives' content before the run.
    pub prepared: Prepared,
    /// The host.
    pub host: HostSpec,
    /// The commands that use the controller's FastPath; `None`: none.
    pub fast_path: Option<FastPath>,
}

/// The host's processor, if it may be the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSpec {
    /// CPU time per I/O, in nanoseconds; 0: not modelled.
    pub io_ns: u64,
    /// The number of cores for I/O.
    pub cores: u64,
}

impl HostSpec {
    /// A processor without CPU time per I/O.
    pub const INFINITELY_FAST: HostSpec = HostSpec { io_ns: 0, cores: 1 };
}

/// Commands that a controller passes to a drive without a cache lookup: those within one strip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastPath {
    /// The strip.
    pub strip: ByteCount,
    /// Whether writes are included: only for levels without parity.
    pub writes: bool,
}

impl FastPath {
    fn takes(self, request: &IoRequest) -> bool {
        let is_one = match request {
            IoRequest::Read { .. } => true,
            IoRequest::Write { .. } => self.writes,
            _ => false,
        };
        let (range, strip) = (request.range(), self.strip.0.max(1));
        is_one && !range.is_empty() && range.start.0 / strip == (range.end().0 - 1) / strip
    }
}

/// Lanes of a wide port: they carry the total of all drives; no drive waits for another busy drive.
struct Lanes {
    count: u64,
    /// The rate of a lane for any drive: expanders of 12 Gb/s buffer data of slower drives. Behind
    /// older expanders a lane has the rate of the drive that uses it.
    bytes_per_s: Option<u64>,
    down: Resource,
    up: Resource,
}

/// The host: the resources that its controllers share.
struct Host {
    processor: Pool,
    /// CPU time per I/O; 0: not modelled.
    io_ns: u64,
    /// The number of controllers in it.
    controllers: Cell<usize>,
}

/// The controller's internals: the resources that its ports share.
pub(crate) struct Core {
    pub sim: SimHandle,
    pub controller: ControllerSpec,
    machine: Rc<Host>,
    fast_path: Option<FastPath>,
    processor: Pool,
    /// The parity unit, separate from the processor.
    parity: Resource,
    /// The memory of the cache.
    memory: Resource,
    host: Rc<Link>,
    read_path: Resource,
    write_path: Resource,
    data_path: Resource,
    /// The lanes of the ports, if more drives than ports share them (an expander).
    lanes: Option<Lanes>,
    /// Whether read data are stored in the cache's memory before the transfer to the host.
    reads_wait: bool,
}

impl Core {
    /// A host command arrives, with its data if it writes. Returns when the engine gets it.
    pub fn host_command(&self, now_ns: u64, request: &IoRequest) -> u64 {
        let Host { processor, io_ns, .. } = &*self.machine;
        let asked = if *io_ns == 0 { now_ns } else { processor.book(now_ns, *io_ns) };
        let usual_ns = self.controller.host_command_ns;
        let command_ns = match (self.fast_path, &self.controller.cache) {
            (Some(fast), Some(cache)) if fast.takes(request) => cache.spec.fast_path_command_ns,
            _ => usual_ns,
        };
        let ready = self.processor.book(asked, command_ns) + self.host_latency_ns() / 2;
        let written = match request {
            IoRequest::Write { .. } => request.range().len.0,
            _ => return ready,
        };
        let ready = ready + self.controller.write_latency_ns;
        let here = self.host.down().book(ready, self.host.duration_ns(written));
        let here = narrower(&self.write_path, self.controller.write_path_mib_s, here, written);
        narrower(&self.data_path, self.controller.data_path_mib_s, here, written)
    }

    /// A host command completes, with its data if it reads. Returns when the host gets it.
    pub fn host_answer(&self, now_ns: u64, read: u64) -> u64 {
        let mut at = now_ns + self.host_latency_ns() / 2;
        if read > 0 {
            // Data from drives are forwarded to the host while they arrive; data in the
            // controller's memory are sent afterwards.
            let duration = self.host.duration_ns(read);
            let begins = if self.reads_wait { at } else { at.saturating_sub(duration) };
            at = self.host.up().book(begins, duration).max(at);
            at = narrower(&self.read_path, self.controller.read_path_mib_s, at, read);
            at = narrower(&self.data_path, self.controller.data_path_mib_s, at, read);
        }
        at
    }

    /// Additional latency of every host command, in nanoseconds; behind a cache, only of commands
    /// without drive I/O.
    fn host_latency_ns(&self) -> u64 {
        match &self.controller.cache {
            Some(cache) => cache.spec.hit_latency_ns,
            None => self.controller.latency_ns,
        }
    }

    /// The processor issues a command to a drive. Returns when it is sent.
    pub fn drive_command(&self, now_ns: u64) -> u64 {
        let missed_ns = self.controller.latency_ns.saturating_sub(self.host_latency_ns());
        self.processor.book(now_ns, self.controller.drive_command_ns) + missed_ns
    }

    /// Transfers data to a drive. Returns when they have arrived.
    pub fn carry_down(&self, link: &Link, now_ns: u64, bytes: u64) -> u64 {
        self.carry(link, link.down(), self.lanes.as_ref().map(|lanes| &lanes.down), now_ns, bytes)
    }

    /// Transfers data from a drive. Returns when they have arrived.
    pub fn carry_up(&self, link: &Link, now_ns: u64, bytes: u64) -> u64 {
        self.carry(link, link.up(), self.lanes.as_ref().map(|lanes| &lanes.up), now_ns, bytes)
    }

    /// A connection uses the drive's link for its time, and a share of the capacity of all lanes.
    fn carry(
        &self,
        link: &Link,
        way: &Resource,
        lanes: Option<&Resource>,
        now_ns: u64,
        bytes: u64,
    ) -> u64 {
        let duration = link.duration_ns(bytes);
        let carried = way.book(now_ns, duration);
        let Some(wide) = self.lanes.as_ref() else { return carried };
        let on_a_lane = wide.bytes_per_s.map_or(duration, |rate| transfer_ns(bytes, rate));
        match lanes.filter(|_| !link.is_apart()) {
            None => carried,
            Some(lanes) => lanes.book(now_ns, on_a_lane / wide.count).max(carried),
        }
    }

    /// The time for the controller's work for the engine.
    fn charge(&self, work: Work) -> Duration {
        let now_ns = self.sim.now().ns;
        let controller = &self.controller;
        let done_ns = match (work, &controller.cache) {
            (Work::Xor(bytes), _) => {
                let begun_ns = self.processor.book(now_ns, controller.parity_ns);
                self.parity.book(begun_ns, bytes.0 * controller.xor_ps_per_byte / 1000)
            }
            (Work::Copy(bytes), Some(cache)) => {
                let begun_ns = self.processor.book(now_ns, cache.spec.cached_command_ns);
                // Into the memory, and out again.
                self.memory.book(begun_ns, transfer_ns(2 * bytes.0, cache.spec.memory_mib_s << 20))
            }
            // Charged where commands pass the ports.
            (Work::Copy(_), None) | (Work::HostRequest | Work::DriveRequest, _) => now_ns,
        };
        Duration::from_nanos(done_ns - now_ns)
    }
}

/// The ports of a controller, if contemporary expanders buffer for slower drives.
fn buffering(controller: &ControllerSpec) -> Option<DriveLink> {
    controller.drive_link.filter(|port| matches!(port, DriveLink::Sas { gigabit: 12 }))
}

/// Data pass a path that may be slower than the links, while they arrive.
fn narrower(path: &Resource, mib_s: u64, at_ns: u64, bytes: u64) -> u64 {
    match mib_s {
        0 => at_ns,
        mib_s => {
            let duration = transfer_ns(bytes, mib_s << 20);
            path.book(at_ns.saturating_sub(duration), duration).max(at_ns)
        }
    }
}

/// The ports of all servers on this thread.
type Ports = BTreeMap<(SimId, u64), Vec<Weak<DrivePort>>>;

thread_local! {
    static PORTS: RefCell<Ports> = const { RefCell::new(BTreeMap::new()) };
    static SERVERS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn find_port(sim: SimId, server: u64, index: usize) -> Option<Rc<DrivePort>> {
    PORTS.with(|ports| ports.borrow().get(&(sim, server))?.get(index)?.upgrade())
}

/// A controller in a host, with its drives, in a simulation. It exists until this is dropped.
pub struct Server {
    core: Rc<Core>,
    number: u64,
    ports: Vec<Rc<DrivePort>>,
    /// The number of ports for the array's drives; the others are for log devices.
    members: usize,
}

impl Server {
    /// Adds a server to a simulation: its controller determines the processor time of this process.
    pub fn new(sim: &SimHandle, spec: &ServerSpec) -> Server {
        let processor = Pool::new(spec.host.cores);
        let host = Host { processor, io_ns: spec.host.io_ns, controllers: Cell::new(0) };
        Server::in_host(sim, spec, (Rc::new(host), None), None)
    }

    /// Adds another controller with its own drives to the same host. Its engine is this process,
    /// with processor time by this controller. The controllers share the host's processor and, if
    /// both are parts of its chipset, the chipset link.
    pub fn beside(&self, process: ProcessId, spec: &ServerSpec) -> Server {
        let is_of_chipset = |core: &ControllerSpec| core.host_link.is_some_and(|link| link.dmi);
        let is_shared = is_of_chipset(&self.core.controller) && is_of_chipset(&spec.controller);
        let link = is_shared.then(|| self.core.host.clone());
        Server::in_host(&self.core.sim, spec, (self.core.machine.clone(), link), Some(process))
    }

    fn in_host(
        sim: &SimHandle,
        spec: &ServerSpec,
        (machine, link): (Rc<Host>, Option<Rc<Link>>),
        process: Option<ProcessId>,
    ) -> Server {
        let controller = spec.controller.clone();
        let nth = machine.controllers.replace(machine.controllers.get() + 1);
        let own_link = || {
            Rc::new(Link::new(
                controller.host_link.map_or(u64::MAX, |link| link.bytes_per_s(spec.shares)),
                false,
            ))
        };
        let (shares, count) = (spec.shares, spec.drives.len() as u64);
        let shared = controller.ports < count;
        let core = Rc::new(Core {
            sim: sim.clone(),
            machine,
            fast_path: spec.fast_path,
            processor: Pool::new(controller.cores),
            parity: Resource::default(),
            memory: Resource::default(),
            host: link.unwrap_or_else(own_link),
            read_path: Resource::default(),
            write_path: Resource::default(),
            data_path: Resource::default(),
            lanes: shared.then(|| Lanes {
                count: controller.ports.max(1),
                bytes_per_s: buffering(&controller).map(|port| port.bytes_per_s(shares)),
                down: Resource::default(),
                up: Resource::default(),
            }),
            reads_wait: controller.cache.is_some() && controller.reads_ahead_kib > 0,
            controller,
        });
        let charged = Rc::downgrade(&core);
        let charge = move |work| {
            charged.upgrade().map_or(Duration::ZERO, |core: Rc<Core>| core.charge(work))
        };
        match process {
            None => sim.charge_by(charge),
            Some(process) => sim.charge_process_by(process, charge),
        }
        let number = SERVERS.with(|servers| servers.replace(servers.get() + 1));
        let behind = spec
            .drives
            .iter()
            .map(|drive| (drive, Connection::Controller(spec.drive_cache, spec.prepared)));
        let both = behind.chain(spec.log.iter().map(|drive| (drive, Connection::Host))).enumerate();
        let ports: Vec<Rc<DrivePort>> = both
            .map(|(slot, (drive, place))| port(&core, shares, (nth, slot), drive, place))
            .collect();
        let weak = ports.iter().map(Rc::downgrade).collect();
        PORTS.with(|all| all.borrow_mut().insert((sim.id(), number), weak));
        Server { core, number, ports, members: spec.drives.len() }
    }

    /// Its drives, in slot order.
    pub fn drives(&self) -> Vec<Arc<dyn DriveSource>> {
        let mut all = self.sources();
        all.truncate(self.members);
        all
    }

    /// The log devices.
    pub fn log(&self) -> Vec<Arc<dyn DriveSource>> {
        self.sources().split_off(self.members)
    }

    /// Gives a simulated drive the timing of the drive in a slot, including its link and
    /// controller. The simulated drive stores the content, and its faults apply. The slot must
    /// exist.
    pub fn pace(&self, slot: usize, drive: &SimDrive) {
        drive.pace_by(self.ports[slot].clone());
    }

    fn sources(&self) -> Vec<Arc<dyn DriveSource>> {
        let sim = self.core.sim.id();
        let source = |(index, port): (usize, &Rc<DrivePort>)| {
            Source { sim, server: self.number, index, info: port.info.clone() }.shared()
        };
        self.ports.iter().enumerate().map(source).collect()
    }

    /// The engine's volume as the host uses it.
    pub fn host_port(&self, env: &Env, volume: impl Service + 'static) -> Rc<dyn Drive> {
        Rc::new(HostPort::new(env, &self.core, volume))
    }

    /// The busy time of each kind of resource so far, in nanoseconds, as the mean over its
    /// instances.
    pub fn busy(&self) -> BTreeMap<String, u64> {
        let now_ns = self.core.sim.now().ns;
        let core = &self.core;
        let mut busy = BTreeMap::new();
        let mut add = |name: &str, ns: u64| *busy.entry(name.to_owned()).or_insert(0) += ns;
        add("controller processor", core.processor.busy_ns(now_ns));
        add("host link down", core.host.down().busy_ns(now_ns));
        add("host link up", core.host.up().busy_ns(now_ns));
        if core.machine.io_ns > 0 {
            add("host processor", core.machine.processor.busy_ns(now_ns));
        }
        if core.controller.read_path_mib_s > 0 {
            add("controller data path up", core.read_path.busy_ns(now_ns));
        }
        if core.controller.write_path_mib_s > 0 {
            add("controller data path down", core.write_path.busy_ns(now_ns));
        }
        if core.controller.data_path_mib_s > 0 {
            add("controller data path", core.data_path.busy_ns(now_ns));
        }
        if core.controller.xor_ps_per_byte > 0 {
            add("controller parity", core.parity.busy_ns(now_ns));
        }
        if core.controller.cache.is_some() {
            add("controller memory", core.memory.busy_ns(now_ns));
        }
        if let Some(lanes) = &core.lanes {
            add("port lanes down", lanes.down.busy_ns(now_ns));
            add("port lanes up", lanes.up.busy_ns(now_ns));
        }
        let (members, log) = self.ports.split_at(self.members);
        for (ports, of_the) in [(members, ""), (log, "log ")] {
            let drives = ports.len().max(1) as u64;
            for port in ports {
                add(
                    &format!("{of_the}drive links down"),
                    port.link.down().busy_ns(now_ns) / drives,
                );
                add(&format!("{of_the}drive links up"), port.link.up().busy_ns(now_ns) / drives);
                for (name, ns) in port.device.busy(now_ns) {
                    add(&format!("{of_the}{name}"), ns / drives);
                }
            }
        }
        busy
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ =
            PORTS.try_with(|ports| ports.borrow_mut().remove(&(self.core.sim.id(), self.number)));
    }
}

/// The connection of a drive.
#[derive(Clone, Copy)]
enum Connection {
    /// A port of the controller, with this write cache setting and this content.
    Controller(Option<bool>, Prepared),
    /// A direct connection to the host. Its content was written sequentially, as a log is.
    Host,
}

/// The port of a drive: of which controller, and in which slot.
fn port(
    core: &Rc<Core>,
    shares: LinkShares,
    (nth, slot): (usize, usize),
    drive: &DriveSpec,
    place: Connection,
) -> Rc<DrivePort> {
    // Each port has its own random stream, by name.
    let name = if nth == 0 { format!("model:{slot}") } else { format!("model:{nth}.{slot}") };
    let (is_beside, drive_cache, prepared) = match place {
        Connection::Controller(drive_cache, prepared) => (false, drive_cache, prepared),
        Connection::Host => (true, None, Prepared { random_percent: 0 }),
    };
    // Incompatible drives are rejected before a server is created.
    let port = core.controller.drive_link.filter(|_| !is_beside);
    let speed = port.and_then(|port| drive.link.negotiated(port)).unwrap_or(drive.link);
    let link = Link::new(speed.bytes_per_s(shares), speed.is_half_duplex());
    let link = if is_beside { link.apart() } else { link };
    let write_cache = drive_cache.unwrap_or(drive.write_cache);
    let sim = &core.sim;
    let info = info(name.clone(), drive);
    match &drive.kind {
        DriveKind::Rotating(rotating) => {
            DrivePort::new(core, info, link, drive.queue_depth, |done| {
                Rotating::new(sim, &name, drive, rotating, write_cache, done)
            })
        }
        DriveKind::Ssd(ssd) => DrivePort::new(core, info, link, drive.queue_depth, |done| {
            let moved_permille =
                moved_in_steady_state(sim, drive.capacity_bytes, ssd.raw_gb, prepared);
            Ssd::new(sim, &name, ssd, write_cache, moved_permille, done)
        }),
    }
}
