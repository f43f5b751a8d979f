//! `softroc serve`: the controller in the foreground.
//!
//! Shard 0 runs on the main thread, with the controller and the listeners; the other shards and the
//! control socket's HTTP have their own threads. SIGINT, SIGTERM or SIGHUP starts an orderly stop:
//! no new connections, outstanding requests finish, volumes are destaged, flushed, stopped and
//! marked clean. A second signal exits at once, without loss of acknowledged writes.

use crate::attach::LocalDisks;
use crate::cache;
use crate::cli::{MetricsCompat, Serve};
use crate::control::Control;
use crate::ending::Ending;
use crate::failure::{Failure, Outcome};
use crate::guests::Guests;
use crate::nbd_security;
use crate::output;
use crate::service::{self, Pulse};
use crate::shards::{self, Node, PortOptions};
use crate::signals;
use crate::workbench::Workbench;
use control_api::{
    CertificateFiles, ManagePort, Metrics, MetricsOptions, MetricsPort, Setup, SocketAccess,
};
use controller::{
    Command, Controller, ControllerHandle, DiskMaker, Options, Phase, Reply, UpsAddress,
};
use platform::{Address, Env, ErrorKind, Hosts, LimitsByClass, mailbox};
use platform_linux::{InheritedSocket, SocketPermissions, StateFolder};
use ports::nbd::Nbd;
use ports::{Encryption, Server, ServerOptions, SessionOptions};
use rustix::process::{Resource, Rlimit};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, counted};

/// The file in the state folder that contains the NBD addresses, one per line.
pub const ENDPOINTS: &str = "nbd.addresses";

/// How long outstanding requests may take at a stop.
const LAST_REQUESTS: Duration = Duration::from_secs(20);

/// The memory of each shard.
///
/// # Errors
/// It is too small.
fn memory_of_each(all: ByteCount, shards: u16) -> Outcome<ByteCount> {
    let memory = ByteCount(all.0 / u64::from(shards));
    if memory < SMALLEST_MEMORY {
        return Err(Failure::usage(format!(
            "{all} of memory for {} is too small; give at least {SMALLEST_MEMORY} for each with \
             --memory",
            counted(shards, "shard")
        )));
    }
    Ok(memory)
}

/// Runs the controller until a signal stops it.
pub fn run(serve: &Serve, control: &Control) -> Outcome {
    start_log();
    end_with_a_shard();
    serve_the_machine_itself();
    have_files(serve.nbd_connections);
    let shards = serve.shards.unwrap_or_else(default_shards);
    let memory = memory_of_each(serve.memory, shards)?;
    let sockets = platform_linux::inherited_sockets()?;
    let nbd = nbd_addresses(serve, control, &sockets)?;
    let sessions = nbd_security::sessions(&serve.security)?;
    let cache = cache::size(serve.cache)?;
    let read_cache = cache::read_size(serve.read_cache)?;
    let kept = cache::folder(serve.cache_folder.as_deref(), control.state())?;
    say_where(cache, kept.as_deref());
    let settings = platform_linux::Settings {
        state: Some(control.state().to_owned()),
        kept,
        sockets,
        permissions: nbd_permissions(serve)?,
        ..platform_linux::Settings::with_memory(memory)
    };
    let shard = platform_linux::Shard::new(&settings)?;
    let env = shard.env().clone();
    let plan = Plan {
        shards,
        memory,
        cache,
        ups: serve.ups.clone(),
        read_cache,
        limits: time_limits(&serve.time_limit)?,
        nbd,
        connections: serve.nbd_connections,
        sessions,
        drives: serve
            .drives
            .iter()
            .map(|drive| crate::control::absolute(drive))
            .collect::<Outcome<_>>()?,
        logs: serve
            .log
            .iter()
            .map(|drive| crate::control::absolute(drive))
            .collect::<Outcome<_>>()?,
        allow_remote: serve.allow_remote,
        vhost_user: serve.vhost_user.clone(),
        socket: control.socket().to_owned(),
        access: socket_access(serve)?,
        metrics: serve.metrics.clone(),
        told: MetricsOptions { node_md: serve.metrics_compat == Some(MetricsCompat::NodeMd) },
        manage: serve.manage.clone(),
        certificate: certificate(serve),
        state: control.state().to_owned(),
        stop_limit: serve.stop_limit,
    };
    shard.run(async move { plan.serve(&env).await })
}

/// Starts the log on standard error, with the filter `SOFTROC_LOG`.
fn start_log() {
    tracing_subscriber::fmt()
        .with_writer(output::Log::to_stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("SOFTROC_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info")),
        )
        .with_ansi(false)
        .log_internal_errors(false) // A closed terminal cannot take them.
        .init();
}

/// Declares this process an I/O flusher, since its volumes may be disks of this machine. Otherwise
/// the kernel, short of memory, could make it wait for its own writeback. (Threads inherit the
/// setting.)
fn serve_the_machine_itself() {
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(
            "cannot become an I/O flusher; low memory may cause a deadlock with attached disks: \
             {error}"
        );
    }
}

/// Open files besides host connections: drives, rings, listeners, virtual machines, the connections
/// of the other ports.
const OTHER_FILES: u64 = 3072;

/// Raises the limit of open files for the host connections: shells set a soft limit of 1,024.
fn have_files(connections: u32) {
    let need = u64::from(connections) + OTHER_FILES;
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let [now, most] = [limit.current, limit.maximum].map(|files| files.unwrap_or(u64::MAX));
    if now >= need {
        return;
    }
    let raised = rustix::process::setrlimit(
        Resource::Nofile,
        Rlimit { current: Some(need.min(most)), ..limit },
    );
    if raised.is_err() || most < need {
        let has = if raised.is_ok() { most } else { now };
        tracing::warn!(
            "the limit of {has} open files is too low for {connections} host connections, which \
             need {need}: further connections are refused; run 'ulimit -Hn {need}' before the \
             start, or set a smaller --nbd-connections"
        );
    }
}

/// Aborts the process after a panic of a shard: its state is unreliable, and it must not write any
/// more. The next start recovers as after a crash. Panics of other threads do not abort.
fn end_with_a_shard() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        let thread = std::thread::current();
        // The first shard is the main thread.
        if thread.name().is_some_and(|name| name == "main" || name.starts_with("shard ")) {
            tracing::error!(
                "a thread of SoftROC has panicked: the controller exits and writes nothing more; \
                 start it again"
            );
            std::process::abort();
        }
    }));
}

/// Logs the location of the cache memory, or why there is no cache.
fn say_where(cache: ByteCount, folder: Option<&Path>) {
    let trouble = folder.filter(|_| !cache.is_zero()).and_then(platform_linux::trouble_with_kept);
    if let Some(trouble) = trouble.filter(|trouble| trouble.kind == ErrorKind::Denied) {
        return tracing::warn!(
            "all volumes are write-through, because protected memory is not available: {trouble}"
        );
    }
    match folder {
        _ if cache.is_zero() => tracing::info!("no cache: all volumes are write-through"),
        None => {
            tracing::warn!(
                "no cache: neither /run nor /dev/shm is on tmpfs, and --cache-folder is not given"
            )
        }
        Some(folder) if !platform_linux::is_in_memory(folder) => {
            tracing::warn!(
                "no cache: {} is not on tmpfs; give another --cache-folder",
                folder.display()
            );
        }
        Some(folder) if !platform_linux::outlives_process(folder) => {
            tracing::warn!(
                "all volumes are write-through, because {} is on a private tmpfs of this process; \
                 give a --cache-folder on a tmpfs of the machine",
                folder.display()
            );
        }
        Some(folder) => {
            tracing::info!(
                "cache: at most {cache} for write-back volumes, in {}",
                folder.display()
            );
        }
    }
}

/// The least memory of a shard.
const SMALLEST_MEMORY: ByteCount = ByteCount(16 << 20);

/// How much of the write cache is reserved at a time for a shard: a few milliseconds, in which
/// hosts fill half of it.
const CACHE_STEP: ByteCount = ByteCount(16 << 20);

fn default_shards() -> u16 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, 256) as u16
}

/// The access to the control socket: this user; with a group, its members too.
fn socket_access(serve: &Serve) -> Outcome<SocketAccess> {
    let group = match serve.socket_group.as_deref() {
        Some(group) => Some(group_number(group)?),
        // An explicit mode is not extended by the default group.
        None if serve.socket_mode.is_some() || !rustix::process::geteuid().is_root() => None,
        None => std::fs::read_to_string("/etc/group")
            .ok()
            .and_then(|groups| group_in(&groups, OWN_GROUP)),
    };
    let usual = if group.is_some() { 0o660 } else { 0o600 };
    Ok(SocketAccess { mode: serve.socket_mode.unwrap_or(usual), group, role: serve.socket_role })
}

/// The access to the Unix sockets of NBD: this user; with a group, its members too.
fn nbd_permissions(serve: &Serve) -> Outcome<SocketPermissions> {
    let group = serve.nbd_socket_group.as_deref().map(group_number).transpose()?;
    let usual = if group.is_some() { 0o660 } else { 0o600 };
    Ok(SocketPermissions { mode: serve.nbd_socket_mode.unwrap_or(usual), group })
}

/// The group with access to a controller of root, if it exists.
const OWN_GROUP: &str = "softroc";

/// The certificate from the command line, if any.
fn certificate(serve: &Serve) -> Option<CertificateFiles> {
    let (certificate, key) = (serve.manage_certificate.clone()?, serve.manage_key.clone()?);
    Some(CertificateFiles { certificate, key })
}

/// The number of a group of this machine.
fn group_number(name: &str) -> Outcome<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string("/etc/group").map_err(|error| {
        Failure::refused(format!("cannot read /etc/group: {error}; give the group's number"))
    })?;
    group_in(&groups, name).ok_or_else(|| {
        Failure::not_found(format!(
            "there is no group '{name}' in /etc/group; create it with 'groupadd {name}', or give \
             a group number"
        ))
    })
}

/// Lines of group(5): name, password, number, members.
fn group_in(groups: &str, name: &str) -> Option<u32> {
    let line = groups.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

fn path_text(path: &Path) -> Outcome<String> {
    let path = std::path::absolute(path).map_err(Failure::refused)?;
    path.into_os_string().into_string().map_err(|path| {
        Failure::refused(format!("the path {} is not text", path.to_string_lossy()))
    })
}

/// The NBD addresses: those of the command line and the inherited sockets; otherwise a socket in
/// the state folder.
fn nbd_addresses(
    serve: &Serve,
    control: &Control,
    sockets: &[InheritedSocket],
) -> Outcome<Vec<Address>> {
    let control_socket = Address::Unix(path_text(control.socket())?);
    if sockets.iter().any(|socket| *socket.address() == control_socket) {
        return Err(Failure::refused(format!(
            "LISTEN_FDS contains the control socket {control_socket}, but only NBD sockets may be \
             inherited; remove it"
        )));
    }
    let handed = sockets.iter().map(|socket| socket.address().clone());
    let mut addresses = serve.nbd.clone();
    addresses.extend(handed.filter(|address| !serve.nbd.contains(address)));
    if addresses.is_empty() {
        addresses.push(Address::Unix(path_text(&control.state().join("nbd.sock"))?));
    }
    Ok(addresses)
}

/// The time limits of drives: the defaults, changed by `given`.
fn time_limits(given: &[(String, Duration)]) -> Outcome<LimitsByClass> {
    let mut limits = LimitsByClass::default();
    given
        .iter()
        .try_for_each(|(name, limit)| limits.set(name, *limit))
        .map_err(Failure::refused)?;
    Ok(limits)
}

/// The evaluated options of `serve`.
struct Plan {
    shards: u16,
    memory: ByteCount,
    cache: ByteCount,
    ups: Option<UpsAddress>,
    read_cache: ByteCount,
    limits: LimitsByClass,
    nbd: Vec<Address>,
    connections: u32,
    sessions: SessionOptions,
    drives: Vec<String>,
    logs: Vec<String>,
    allow_remote: bool,
    vhost_user: Option<PathBuf>,
    socket: PathBuf,
    access: SocketAccess,
    metrics: Option<Address>,
    told: MetricsOptions,
    manage: Option<Address>,
    certificate: Option<CertificateFiles>,
    state: PathBuf,
    stop_limit: Duration,
}

impl Plan {
    async fn serve(self, env: &Env) -> Outcome {
        let pulse = Pulse::watched(self.shards);
        let guests = self.vhost_user.as_deref().map(Guests::new).transpose()?;
        let port = PortOptions {
            pulse: pulse.clone(),
            sessions: self.sessions.clone(),
            offers: guests.as_ref().map(Guests::offers),
            ..PortOptions::default()
        };
        env.spawn("watchdog", pulse.report(env.clone()));
        let hosts = port.hosts.clone();
        let mut node = Node::start(env, self.shards, self.memory, port)?;
        let (stops, threads) = node.take_threads();
        let outcome = self.serve_on(env, node, hosts, guests).await;
        shards::stop(stops, threads)?;
        outcome
    }

    async fn serve_on(
        &self,
        env: &Env,
        node: Node,
        hosts: Hosts,
        guests: Option<Guests>,
    ) -> Outcome {
        let (ask_to_end, mut asked_to_end) = mailbox::mailbox(env, 4);
        let kept_out =
            self.sessions.encryption.as_ref().is_some_and(Encryption::keeps_strangers_out);
        let allow_remote = self.allow_remote || kept_out;
        let options = ServerOptions { allow_remote, ..ServerOptions::taking(self.connections) };
        let disks = LocalDisks::start(node.ports.clone(), node.guests.clone())?;
        let guests = guests.map(|guests| guests.start(node.guests)).transpose()?;
        // Bind addresses first: an address in use is detected before any access to drives.
        let mut nbd = Server::<Nbd>::listen(env, &self.nbd, node.ports, options)
            .await
            .map_err(Failure::refused)?;
        let metrics =
            self.metrics.iter().map(|address| MetricsPort::bind(address, self.allow_remote));
        let metrics =
            Metrics { options: self.told, ports: metrics.collect::<platform::Result<_>>()? };
        let setup = self.setup(metrics)?;
        let (drives, logs) = (self.drives.clone(), self.logs.clone());
        let maker = DiskMaker(Some(disks.clone()));
        let options = Options {
            drives,
            hosts,
            cache_size: self.cache,
            cache_step: CACHE_STEP,
            read_cache: self.read_cache,
            limits: self.limits,
            logs,
            disks: maker,
            ups: self.ups.clone(),
            nbd: nbd.addresses().iter().map(Address::to_string).collect(),
        };
        let controller = Controller::begin(env, options, node.engines, node.reports);
        let workbench =
            Workbench::new(&Control::new(&self.state, Some(&self.socket)), controller.clone());
        let end = (ask_to_end, &mut asked_to_end);
        let served =
            self.serve_until_asked(env, &mut nbd, &controller, (setup, &workbench), end).await;
        let (ending, served) = match served {
            Ok(ending) => (ending, Ok(())),
            Err(failure) => (self.stopping(&controller)?, Err(failure)),
        };
        ending.waits_for("a measurement");
        workbench.close(env).await;
        ending.waits_for("disks of this machine");
        disks.close(env).await;
        if let Some(guests) = guests {
            ending.waits_for("virtual machines");
            guests.close(env).await;
        }
        ending.waits_for("outstanding requests of hosts");
        nbd.shut_down(LAST_REQUESTS).await;
        ending.waits_for("the drives");
        match controller.command(env, Command::Shutdown {}).await {
            Ok(Reply::Done { notes }) => notes.iter().for_each(|note| tracing::info!("{note}")),
            Ok(_) => {}
            Err(error) if error.kind == controller::ErrorKind::Stopping => {}
            Err(error) => return Err(Failure::failed(error)),
        }
        ending.waits_for("the threads of this process");
        served
    }

    /// Begins the stop: notifies its listeners, and starts the time limit.
    fn stopping(&self, controller: &ControllerHandle) -> Outcome<Ending> {
        tracing::info!("stopping: outstanding requests finish first");
        service::stopping();
        Ending::begin(self.stop_limit, controller.unfinished())
    }

    /// Binds the HTTP ports, without serving them yet.
    fn setup(&self, metrics: Metrics) -> Outcome<Setup> {
        let manage = self
            .manage
            .iter()
            .map(|address| ManagePort::bind(address, self.certificate.as_ref(), &self.state));
        Ok(Setup {
            socket: self.socket.clone(),
            access: self.access,
            state: self.state.clone(),
            metrics,
            manage: manage.collect::<platform::Result<Vec<_>>>()?.pop(),
        })
    }

    async fn serve_until_asked(
        &self,
        env: &Env,
        nbd: &mut Server<Nbd>,
        controller: &ControllerHandle,
        (setup, workbench): (Setup, &Workbench),
        (ask_to_end, asked_to_end): (mailbox::Sender<()>, &mut mailbox::Receiver<()>),
    ) -> Outcome<Ending> {
        for port in &setup.metrics.ports {
            tracing::info!("metrics for Prometheus at http://{}/metrics", port.address());
        }
        if let Some(port) = &setup.manage {
            let (address, fingerprint) = (port.address(), port.fingerprint());
            tracing::info!(
                "management at https://{address}; its certificate's SHA-256 is {fingerprint}"
            );
        }
        let addresses: Vec<String> = nbd.addresses().iter().map(Address::to_string).collect();
        let endpoints = addresses.join("\n") + "\n";
        if let Err(error) = StateFolder::new(&self.state).write(ENDPOINTS, endpoints.as_bytes()) {
            tracing::warn!(
                "cannot write {ENDPOINTS} in the state folder ({error}): only 'softroc volume \
                 show' shows the NBD addresses; free space there, and restart"
            );
        }
        let stopped = ask_to_end.clone();
        let workbench = Arc::new(workbench.clone());
        let control =
            control_api::Server::start(setup, controller.clone(), workbench, move || {
                // Repeated requests count as one.
                let _ = stopped.send(());
            })?;
        if let Some(first) = control.first_account() {
            // Logs may be stored elsewhere: they contain only the name of the file.
            tracing::info!(
                "the first account is '{}'; its password is in {}, and must be changed at the \
                 first login; this removes the file",
                first.name,
                self.state.join(first.file).display()
            );
        }
        signals::send_on_interrupt(ask_to_end)?;
        if !starts(env, controller, asked_to_end).await {
            return self.stopping(controller);
        }
        // Early connections wait until the volumes exist.
        nbd.accept();
        let volumes = match controller.command(env, Command::VolumeList {}).await {
            Ok(Reply::Volumes { volumes }) => volumes,
            _ => Vec::new(),
        };
        for volume in &volumes {
            tracing::info!("volume '{}' is {}", volume.name, volume.state);
        }
        tracing::info!(
            "serving {} over NBD at {}; control socket {}; {}",
            counted(volumes.len(), "volume"),
            addresses.join(" "),
            self.socket.display(),
            counted(self.shards, "shard")
        );
        service::ready(&format!("serving {}", counted(volumes.len(), "volume")));
        asked_to_end.receive().await;
        self.stopping(controller)
    }
}

/// Waits until the controller serves volumes; `false`: a stop was requested before.
async fn starts(
    env: &Env,
    controller: &ControllerHandle,
    asked_to_end: &mut mailbox::Receiver<()>,
) -> bool {
    let mut serves = std::pin::pin!(controller.reaches(env, Phase::Serving));
    let mut ends = std::pin::pin!(asked_to_end.receive());
    std::future::poll_fn(|context| match serves.as_mut().poll(context) {
        std::task::Poll::Ready(()) => std::task::Poll::Ready(true),
        std::task::Poll::Pending => ends.as_mut().poll(context).map(|_| false),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let groups = "root:x:0:\nsoftroc-old:x:7:\nsoftroc:x:998:ada,grace\nbroken\n";
        assert_eq!(group_in(groups, "softroc"), Some(998));
        assert_eq!(group_in(groups, "root"), Some(0));
        for none in ["soft", "", "ada", "broken"] {
            assert_eq!(group_in(groups, none), None, "{none}");
        }
    }
}
