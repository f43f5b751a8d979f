//! The command line: the only definition of commands and options, from which help and man pages are
//! generated.

mod account;
mod attach;
mod bench;
mod cache;
mod config;
mod create;
mod drive;
mod explain;
pub mod foreign;
mod help;
#[cfg(test)]
mod hints;
mod log;
mod nbd;
mod notify;
mod predictions;
pub mod tasks;
mod volume;
mod watch;

pub use account::{AccountCommand, Remote};
pub use attach::{Attach, AttachSwitch, Detach};
pub use bench::{
    Bench, BenchCommand, BenchCompare, BenchImport, BenchMerge, BenchProfiles, BenchRun, Files,
};

pub use cache::CacheCommand;
pub use config::{ConfigCommand, ConfigRestore};
pub use create::{VolumeCreate, WriteHole};
pub use drive::DriveCommand;
pub(crate) use explain::levels;
pub use explain::{Explain, LayoutName, Operation};
pub use log::LogCommand;
pub use nbd::{NbdSecurity, TlsMode};
pub use notify::{NotifyCommand, NotifySet};
pub use predictions::{Calibrate, CatalogCommand, MethodName, Predict, Reproduce, Switch};
pub use volume::{Reshaping, VolumeCommand, VolumeExpand, VolumeMigrate};
pub use watch::{AlarmCommand, Sampling, SnmpCommand, StatsSpan, Support, Top};

use access::Role;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use controller::UpsAddress;
use platform::Address;
use std::ffi::OsString;
use std::path::PathBuf;
use units::ByteCount;

/// SoftROC: the RAID-on-Chip controller in software.
#[derive(Parser, Debug)]
#[command(name = "softroc", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Start with 'softroc quickstart'. Sizes take binary suffixes: 64K = 65536 \
        bytes.\nMore: softroc help options, softroc help levels, softroc help event-codes.")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,

    /// Print JSON instead of text, also for errors.
    #[arg(long, global = true)]
    pub json: bool,

    /// The control socket of the running controller [default: STATE/control.sock].
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// The state folder of the controller: its sockets, events and list of drives [default:
    /// ./softroc-data, or /var/lib/softroc if the service runs].
    #[arg(long, global = true, value_name = "DIR", env = "SOFTROC_STATE")]
    pub state: Option<PathBuf>,

    /// Options for a controller on another machine.
    #[command(flatten)]
    pub remote: Remote,
}

impl Cli {
    /// The command line with the options of every command listed once, in `softroc --help`.
    pub fn shaped() -> clap::Command {
        let mut command = Cli::command();
        // Before this, the subcommands do not have the global options.
        command.build();
        without_global_options(command, true)
    }

    /// Parses a command line. Help has a line for each option.
    ///
    /// # Errors
    /// Help and versions are errors too.
    pub fn parsed(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
        let matches = help::in_lines(Cli::shaped()).try_get_matches_from(arguments)?;
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::shaped()))
    }
}

fn without_global_options(command: clap::Command, is_root: bool) -> clap::Command {
    let names: Vec<String> =
        command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let mut command = names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |subcommand| without_global_options(subcommand, false))
    });
    if is_root {
        return command;
    }
    if command.get_after_help().is_none() {
        command = command.after_help("Options of every command: 'softroc help options'.");
    }
    command.mut_args(|option| match option.is_global_set() {
        true => option.hide(true),
        false => option,
    })
}

/// The output format of a command.
#[derive(Args, Clone, Copy, Debug)]
pub struct Output {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The exit code of a command that shows states.
#[derive(Args, Clone, Copy, Debug)]
pub struct Checked {
    /// Exit with code 1 if there is a problem: a volume that is not optimal, a drive that is
    /// failed, offline, missing or has a warning, or an array without a spare.
    #[arg(long)]
    pub check: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Take the tour: create a RAID volume on file drives, measure it, and rebuild it after a drive
    /// failure.
    Quickstart(Quickstart),
    /// Run the controller in the foreground.
    Serve(Box<Serve>),
    /// Manage drives: add, list, show, fail, replace.
    #[command(subcommand)]
    Drive(DriveCommand),
    /// Manage volumes (virtual drives): create, list, show, start, delete.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Attach volumes as disks of this machine (/dev/softroc/NAME), or list attached volumes.
    Attach(Attach),
    /// Detach volumes from this machine. The volumes stay.
    Detach(Detach),
    /// Manage hot spares: add, list, remove.
    #[command(subcommand)]
    Spare(tasks::SpareCommand),
    /// Import volumes of other systems, and clear drives for use.
    #[command(subcommand)]
    Foreign(foreign::ForeignCommand),
    /// Manage log devices (drives for journals): add, list, remove, discard.
    #[command(subcommand)]
    Log(LogCommand),
    /// Manage persistent cache memory of other controllers: list, remove.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Manage background tasks (rebuilds, consistency checks, patrol reads), their rates and
    /// schedules.
    #[command(subcommand)]
    Task(tasks::TaskCommand),
    /// Manage accounts for the network: add, list, set, remove, login, logout.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Manage notification channels: mail, syslog, journal, webhooks, SNMP, programs.
    #[command(subcommand)]
    Notify(NotifyCommand),
    /// Save or restore the configuration: policies, names, spares, schedules, notifications,
    /// accounts. Data and secrets are not part of it.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show overall health and recommended actions. Exit code 0: no action needed; 1: action
    /// needed; 2: data at risk; 3: no controller responds.
    Health(Output),
    /// Show the current load of volumes and drives, on a terminal until 'q' is pressed.
    Top(Top),
    /// Switch the alarm on or off, or silence it.
    #[command(subcommand)]
    Alarm(AlarmCommand),
    /// Serve SNMP through the daemon of net-snmp (snmpd).
    #[command(subcommand)]
    Snmp(SnmpCommand),
    /// Create a support bundle: configuration, state, events, metrics, log, machine. It contains no
    /// data and no secrets.
    Support(Support),
    /// List events: every change of state with its cause and effect.
    Events(Events),
    /// Show the audit trail: every command, its user and origin, and whether it succeeded.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Explain a request: its reads, computations and writes, and their reasons.
    Explain(Explain),
    /// Measure a disk subsystem with the standard load profiles (StorageBench).
    Bench(Box<Bench>),
    /// Predict performance from models of drives and controllers.
    Predict(Box<Predict>),
    /// Compare predictions with published measurements.
    Reproduce(Reproduce),
    /// Fit the parameters of a drive's model to its published figures.
    Calibrate(Calibrate),
    /// List or show the drives and controllers for predictions.
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Find arrays of other systems and of failed controllers on drives, and serve them read-only.
    Rescue(Rescue),
    /// Run a command of StorCLI or PercCLI, such as '/c0 show all J'. With a link to softroc named
    /// storcli64, storcli, perccli64 or perccli, the word storcli is not needed. 'softroc storcli
    /// help' lists the commands.
    Storcli(Storcli),
    /// Show the version, kernel features and the running controller.
    Info(Output),
    /// Write man pages and completions for shells, for packages.
    #[command(hide = true)]
    Manual(Manual),
}

/// See [`Command::Manual`].
#[derive(Args, Debug)]
pub struct Manual {
    /// The output folder.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// See [`Command::Storcli`].
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Storcli {
    /// The StorCLI command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// See [`Command::Quickstart`].
#[derive(Args, Debug)]
pub struct Quickstart {
    /// The folder for the drives, the controller's state and the report. It must be new, empty or
    /// from an earlier tour. The tour changes no other folder and no other controller.
    #[arg(long, value_name = "DIR", default_value = "./softroc-tour")]
    pub dir: PathBuf,

    /// Keep the drive files afterwards. The report is always kept.
    #[arg(long)]
    pub keep: bool,

    /// The measuring time at each number of outstanding I/Os.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub runtime: std::time::Duration,
}

/// See [`Command::Serve`].
#[derive(Args, Debug)]
pub struct Serve {
    /// The address of the NBD port: HOST:PORT or unix:PATH. May be given several times. Sockets
    /// inherited through LISTEN_FDS are served, too [default: unix:STATE/nbd.sock].
    #[arg(long, value_name = "ADDR")]
    pub nbd: Vec<Address>,

    /// The largest number of host connections. Each takes a file descriptor and 80 KiB of memory in
    /// addition to --memory, with TLS about 200 KiB.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=i64::from(ports::MOST_CONNECTIONS)))]
    pub nbd_connections: u32,

    /// The permissions of the Unix sockets of NBD, such as 0660. Users with write permission may
    /// use every volume, unless --nbd-access restricts it. Inherited sockets keep their permissions
    /// [default: 0600, or 0660 with a group].
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub nbd_socket_mode: Option<u32>,

    /// The group of the Unix sockets of NBD, by name or number. Its members may use the volumes
    /// [default: that of the process].
    #[arg(long, value_name = "GROUP")]
    pub nbd_socket_group: Option<String>,

    /// TLS and access rights of NBD.
    #[command(flatten)]
    pub security: NbdSecurity,

    /// Serve volumes over vhost-user: each at the Unix socket DIR/VOLUME.sock. Users with
    /// permission to open the socket can read and write the volume.
    #[arg(long, value_name = "DIR")]
    pub vhost_user: Option<PathBuf>,

    /// Also register these drives, and assemble their arrays.
    #[arg(long, value_name = "DRIVE", num_args = 1..)]
    pub drives: Vec<String>,

    /// Put the journals of volumes on this log device, as 'softroc log add' does, unless a log is
    /// in use already. May be given twice for two mirrored log devices.
    #[arg(long, value_name = "DRIVE")]
    pub log: Vec<String>,

    /// How long a shutdown waits without progress, for example for a drive that hangs. After that,
    /// SoftROC exits as in a crash: acknowledged writes survive, and the next start resyncs the
    /// stripes of interrupted writes.
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = parse_duration)]
    pub stop_limit: std::time::Duration,

    /// The number of threads that serve I/O [default: half the cores, at least one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub shards: Option<u16>,

    /// The memory for I/O buffers of all shards.
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub memory: ByteCount,

    /// The largest size of the write cache; 0 for none. Its memory is reserved in steps, as writes
    /// need it, in addition to --memory [default: an eighth of the machine's memory, at most
    /// 4 GiB].
    #[arg(long, value_name = "SIZE")]
    pub cache: Option<ByteCount>,

    /// The time limit of drive operations, such as remote.write=5s: the class (solid, rotating,
    /// remote), the operation (short-read, read, write, flush, discard), and a time. May be given
    /// several times [default: short-read 2s, read and write 30s, flush and discard 60s; remote:
    /// short-read 500ms, write 2s, flush 10s]. A read with redundancy waits for short-read. A drive
    /// that exceeds another limit is suspended until it responds, unless it has the only copy of
    /// data.
    #[arg(long, value_name = "CLASS.OPERATION=TIME", value_parser = parse_time_limit)]
    pub time_limit: Vec<(String, std::time::Duration)>,

    /// The UPS that powers this host, as NAME@HOST or NAME@HOST:PORT of Network UPS Tools. On
    /// battery or without contact to the UPS, write-back volumes act as write-through. When the
    /// battery is nearly empty, all volumes do, and the controller flushes everything.
    #[arg(long, value_name = "NAME@HOST")]
    pub ups: Option<UpsAddress>,

    /// The largest size of the read cache; 0 for none. Volumes with read-ahead or cached mode
    /// allocate it as needed, in addition to --cache and --memory [default: an eighth of the
    /// machine's memory, at most 4 GiB].
    #[arg(long, value_name = "SIZE")]
    pub read_cache: Option<ByteCount>,

    /// The folder for persistent cache memory, on tmpfs. Each state folder has its own folder
    /// there, named by a checksum of its path: keep both paths to find the memory of an earlier
    /// process [default: RuntimeDirectory= of systemd (set RuntimeDirectoryPreserve=yes), or
    /// /run/softroc, or /dev/shm/softroc-UID].
    #[arg(long, value_name = "DIR")]
    pub cache_folder: Option<PathBuf>,

    /// Serve Prometheus metrics, and nothing else, at http://HOST:PORT/metrics. The control socket
    /// always serves GET /metrics.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<Address>,

    /// Use metric names of another exporter, too, for existing rules and dashboards: node-md uses
    /// the names of node_exporter for Linux md arrays (node_md_disks{device="md_VOLUME"}).
    #[arg(long, value_name = "NAME")]
    pub metrics_compat: Option<MetricsCompat>,

    /// Serve management at https://HOST:PORT, with the same functions as the control socket, for
    /// accounts ('softroc account'). The first start creates a certificate and an account 'admin'.
    /// Its initial password is in the file first-password of the state folder until it is changed.
    #[arg(long, value_name = "ADDR")]
    pub manage: Option<Address>,

    /// The certificate chain for --manage, as PEM [default: a generated certificate in the state
    /// folder].
    #[arg(long, value_name = "FILE", requires = "manage", requires = "manage_key")]
    pub manage_certificate: Option<PathBuf>,

    /// The key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "manage", requires = "manage_certificate")]
    pub manage_key: Option<PathBuf>,

    /// Allow addresses that other machines reach, for NBD and metrics. Metrics are not encrypted,
    /// nor is NBD without --nbd-tls; use a trusted network. NBD with '--nbd-tls required' and
    /// --nbd-clients does not need this option.
    #[arg(long)]
    pub allow_remote: bool,

    /// The permissions of the control socket, such as 0660. Write permission gives access to the
    /// controller: full access for root and the user of the controller, the role --socket-role for
    /// members of the socket's group, read-only access for others [default: 0600, or 0660 with a
    /// group].
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub socket_mode: Option<u32>,

    /// The group of the control socket, by name or number. Its members may use the controller
    /// [default: softroc, if root runs the controller and the group exists].
    #[arg(long, value_name = "GROUP")]
    pub socket_group: Option<String>,

    /// The role of the control socket's group: read-only, operator or administrator.
    #[arg(long, value_name = "ROLE", default_value_t = Role::Operator)]
    pub socket_role: Role,
}

/// See [`Serve::metrics_compat`].
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricsCompat {
    /// Names of node_exporter for Linux md arrays.
    NodeMd,
}

/// See [`Command::Events`].
#[derive(Args, Debug)]
pub struct Events {
    /// The number of latest events to show.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub last: usize,

    /// Show only the history of this volume or drive.
    #[arg(long, value_name = "NAME", conflicts_with = "follow")]
    pub about: Option<String>,

    /// Then follow new events until interrupted; with --json, one object per line.
    #[arg(long)]
    pub follow: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Command::Audit`].
#[derive(Subcommand, Debug)]
pub enum AuditCommand {
    /// List the latest commands, newest last. Needs an administrator.
    List(AuditList),
}

/// See [`AuditCommand::List`].
#[derive(Args, Debug)]
pub struct AuditList {
    /// The number of latest commands to show.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub last: usize,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Command::Rescue`].
#[derive(Args, Clone, Debug)]
pub struct Rescue {
    /// The drives, or images of drives. They are opened read-only.
    #[arg(required = true, value_name = "DRIVE")]
    pub drives: Vec<String>,

    /// Serve the readable volumes over NBD, read-only, until interrupted: HOST:PORT or unix:PATH.
    /// May be given several times.
    #[arg(long, value_name = "ADDR")]
    pub serve: Vec<Address>,

    /// The serial number of the original drive of an image. Intel metadata identify drives by
    /// serial number.
    #[arg(long, value_name = "DRIVE=NUMBER", value_parser = parse_serial)]
    pub serial: Vec<(String, String)>,

    /// The size of a drive before its copy to a larger one, such as 16MiB or 500107862016: of all
    /// larger drives, or of one. The scan ends there, so that metadata at the end of the drive are
    /// found. May be given several times.
    #[arg(long, value_name = "[DRIVE=]SIZE", value_parser = parse_size_was)]
    pub size_was: Vec<(Option<String>, ByteCount)>,

    /// The file of `mdadm --grow --backup-file`, for an array with an interrupted reshape whose
    /// drives do not contain all data. It is opened read-only.
    #[arg(long, value_name = "FILE", conflicts_with = "guess")]
    pub backup_file: Option<String>,

    /// Guess the layout from the contents, for drives without metadata: level, drive order, layout,
    /// strip size and data offset. For Intel arrays, guess the order of drives without a serial
    /// number.
    #[arg(long)]
    pub guess: bool,

    /// The number of the guess to serve, from the table [default: the best one, if no other is as
    /// good].
    #[arg(long, value_name = "N", requires = "guess", requires = "serve")]
    pub candidate: Option<usize>,

    /// The memory for data while serving.
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub memory: ByteCount,

    /// Allow NBD addresses that other machines can reach. Connections are not encrypted; use a
    /// trusted network.
    #[arg(long)]
    pub allow_remote: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

fn parse_serial(text: &str) -> Result<(String, String), String> {
    let parts =
        text.rsplit_once('=').filter(|(drive, serial)| !drive.is_empty() && !serial.is_empty());
    let (drive, serial) =
        parts.ok_or_else(|| format!("'{text}' is not DRIVE=NUMBER, as in a.img=WD-WX12345"))?;
    Ok((drive.into(), serial.into()))
}

fn parse_size_was(text: &str) -> Result<(Option<String>, ByteCount), String> {
    let (drive, size) = match text.rsplit_once('=') {
        Some((drive, size)) => (Some(drive.to_owned()), size),
        None => (None, text),
    };
    let wrong = |why: String| {
        format!("'{text}' is not SIZE or DRIVE=SIZE, as in 16MiB or a.img=16MiB ({why})")
    };
    if drive.as_ref().is_some_and(String::is_empty) {
        return Err(wrong("no drive is named before '='".into()));
    }
    let size: ByteCount =
        size.parse().map_err(|error: units::ParseSizeError| wrong(error.to_string()))?;
    Ok((drive, size))
}

/// Reads permissions such as `0660`.
fn parse_mode(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a mode; expected permissions in octal, such as 0660");
    let mode = u32::from_str_radix(text, 8).map_err(|_| wrong())?;
    match mode {
        0o1000.. => Err(wrong()),
        mode if mode & 0o600 != 0o600 => Err(format!(
            "'{text}' locks out the user of the controller; expected a mode such as 0660"
        )),
        mode => Ok(mode),
    }
}

/// Reads a time such as `30s`, `500ms`, `2m` or `7d`.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let wrong =
        || format!("'{text}' is not a time; expected a number with ms, s, m, h or d, such as 30s");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "ms" => number / 1000.0,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return Err(wrong()),
    };
    let time = std::time::Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if time.is_zero() { Err(format!("'{text}' is zero; give at least 1ms")) } else { Ok(time) }
}

/// Reads a time limit such as `remote.write=5s`.
fn parse_time_limit(text: &str) -> Result<(String, std::time::Duration), String> {
    let wrong = || {
        format!(
            "'{text}' is not a time limit; expected CLASS.OPERATION=TIME, such as remote.write=5s"
        )
    };
    let (name, time) = text.split_once('=').ok_or_else(wrong)?;
    let limit = parse_duration(time)?;
    platform::LimitsByClass::default().set(name, limit)?;
    Ok((name.to_owned(), limit))
}

/// Reads a time of whole seconds.
pub fn parse_seconds(text: &str) -> Result<u32, String> {
    let time = parse_duration(text)?;
    let seconds = u32::try_from(time.as_secs())
        .map_err(|_| format!("'{text}' is too long; the maximum is {} s", u32::MAX))?;
    match time.subsec_nanos() {
        0 => Ok(seconds),
        _ => Err(format!(
            "'{text}' is not a time of whole seconds; expected a time such as 30s or 5m"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_read_with_their_unit() {
        assert_eq!(parse_duration("1.5s").unwrap().as_millis(), 1500);
        assert_eq!(parse_duration("500ms").unwrap().as_millis(), 500);
        assert_eq!(parse_duration("2m").unwrap().as_secs(), 120);
        for wrong in ["", "5", "s", "-1s", "0s", "1 year", "1e3s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn modes_are_octal_and_let_the_owner_in() {
        assert_eq!(parse_mode("0660"), Ok(0o660));
        assert_eq!(parse_mode("600"), Ok(0o600));
        for wrong in ["", "rw-rw----", "0o660", "0690", "02770", "1777", "060", "-660"] {
            assert!(parse_mode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bench_may_leave_out_run() {
        let with =
            Cli::try_parse_from(["softroc", "bench", "run", "/tmp/x", "--profile", "database"])
                .unwrap();
        let without =
            Cli::try_parse_from(["softroc", "bench", "/tmp/x", "--profile", "database"]).unwrap();
        let Command::Bench(with) = with.command else { panic!() };
        assert!(matches!(with.command, Some(BenchCommand::Run(_))));
        let Command::Bench(without) = without.command else { panic!() };
        assert!(without.command.is_none() && without.run.targets == ["/tmp/x"]);
    }
}
