//! The command line: every command and flag, defined once. Help, and whatever else describes them, comes from here.

mod account;
mod attach;
mod bench;
mod cache;
mod config;
mod create;
mod drive;
mod explain;
pub mod foreign;
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
pub use bench::{Bench, BenchCommand, BenchCompare, BenchImport, BenchMerge, BenchProfiles, BenchRun, Files};

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
use clap::{Args, Parser, Subcommand, ValueEnum};
use controller::UpsAddress;
use platform::Address;
use std::path::PathBuf;
use units::ByteCount;

/// SoftROC: the RAID-on-Chip controller in software.
#[derive(Parser, Debug)]
#[command(name = "softroc", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Start with 'softroc quickstart'. Sizes take binary suffixes: 64K = 65536 bytes.")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,

    /// Print JSON instead of text, also of errors.
    #[arg(long, global = true)]
    pub json: bool,

    /// The control socket of the running controller [default: STATE/control.sock].
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// The state folder of the controller: its sockets, events and list of drives [default: ./softroc-data, or
    /// /var/lib/softroc where the service runs].
    #[arg(long, global = true, value_name = "DIR", env = "SOFTROC_STATE")]
    pub state: Option<PathBuf>,

    /// How a controller on another machine is reached.
    #[command(flatten)]
    pub remote: Remote,
}

/// The form of a command's answer.
#[derive(Args, Clone, Copy, Debug)]
pub struct Output {
    /// Print JSON instead of text.
    #[arg(long)]
    pub json: bool,
}

/// What a look at things says with its exit code.
#[derive(Args, Clone, Copy, Debug)]
pub struct Checked {
    /// End with exit code 1 if something is not well: a volume that is not optimal, a drive that is out or warns, an
    /// array without a spare.
    #[arg(long)]
    pub check: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// The nouns.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Take the tour: create a RAID volume on file drives, measure it, and rebuild it after a drive failure.
    Quickstart(Quickstart),
    /// Run the controller in the foreground.
    Serve(Box<Serve>),
    /// Manage drives: add, list, show, fail, replace.
    #[command(subcommand)]
    Drive(DriveCommand),
    /// Manage volumes (virtual drives): create, list, show, start, delete.
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Make volumes disks of this machine (/dev/softroc/NAME), or list those that are.
    Attach(Attach),
    /// Remove disks of this machine that are volumes. The volumes stay.
    Detach(Detach),
    /// Manage hot spares: add, list, remove.
    #[command(subcommand)]
    Spare(tasks::SpareCommand),
    /// Import volumes of other systems, and clear drives for use.
    #[command(subcommand)]
    Foreign(foreign::ForeignCommand),
    /// Manage drives for journals (log devices): add, list, remove; give up what a volume waits for.
    #[command(subcommand)]
    Log(LogCommand),
    /// Manage memory that the caches of other controllers left behind: list, remove.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Manage background tasks (rebuilds, consistency checks, patrol reads), their rates and schedules.
    #[command(subcommand)]
    Task(tasks::TaskCommand),
    /// Manage accounts for the network: add, list, set, remove, login, logout.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Manage notifications: the channels (mail, syslog, journal, webhooks, SNMP, programs) that are told of events.
    #[command(subcommand)]
    Notify(NotifyCommand),
    /// Save or restore the configuration: policies, names, spares, schedules, notifications, accounts. Data and secrets are not part
    /// of it.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Tell how all is, in a sentence, and what to do. Ends with 0 if nothing has to be done, with 1 if something has, and with 2 if data is
    /// in danger; with 3 if no controller answers.
    Health(Output),
    /// Show what volumes and drives do now, on a terminal until 'q' is pressed.
    Top(Top),
    /// Switch the alarm on or off, or silence it.
    #[command(subcommand)]
    Alarm(AlarmCommand),
    /// Be asked by SNMP: answer the daemon of net-snmp.
    #[command(subcommand)]
    Snmp(SnmpCommand),
    /// Write a file for whoever helps: configuration, state, events, metrics, log, machine. There is neither data nor a secret in it.
    Support(Support),
    /// List events: every change of state with its cause and effect.
    Events(Events),
    /// Show the audit trail: every order, who gave it from where, and whether it was carried out.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Explain a request: which drives are read and written, what is computed, and why.
    Explain(Explain),
    /// Measure a disk subsystem with the standard load profiles (StorageBench).
    Bench(Box<Bench>),
    /// Predict the performance of a server from models of its drives and controller.
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
    /// Speak StorCLI: look at the controller and change it with the words of StorCLI and PercCLI, such as '/c0 show all J'. A link to
    /// softroc with the name storcli64, storcli, perccli64 or perccli needs no more words. 'softroc storcli help' lists them.
    Storcli(Storcli),
    /// Show the version, what this machine offers, and the running controller.
    Info(Output),
    /// Write man pages and completions for shells, for packages.
    #[command(hide = true)]
    Manual(Manual),
}

/// See [`Command::Manual`].
#[derive(Args, Debug)]
pub struct Manual {
    /// The folder for them.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// See [`Command::Storcli`].
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Storcli {
    /// The words.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// See [`Command::Quickstart`].
#[derive(Args, Debug)]
pub struct Quickstart {
    /// The folder for the drives, the controller's state and the report. The tour makes it, or takes one that is empty or that an earlier tour made;
    /// it touches no controller and no folder that it has not made.
    #[arg(long, value_name = "DIR", default_value = "./softroc-tour")]
    pub dir: PathBuf,

    /// Keep the drive files afterwards. The report is always kept.
    #[arg(long)]
    pub keep: bool,

    /// The measuring time at each number of outstanding I/Os.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub runtime: std::time::Duration,
}

/// See [`Command::Serve`].
#[derive(Args, Debug)]
pub struct Serve {
    /// The address of the NBD port: HOST:PORT or unix:PATH. May be given several times. Listening sockets that are handed
    /// over by LISTEN_FDS are served, too [default: unix:STATE/nbd.sock].
    #[arg(long, value_name = "ADDR")]
    pub nbd: Vec<Address>,

    /// How many connections of hosts the NBD port takes at a time. Each is an open file and 80 KiB of memory beside --memory,
    /// with TLS about 200.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=i64::from(ports::MOST_CONNECTIONS)))]
    pub nbd_connections: u32,

    /// The permissions of the Unix sockets of NBD, such as 0660. Who may write to such a socket may use every volume, unless
    /// --nbd-access says otherwise. Sockets that are handed over keep theirs [default: 0600, or 0660 with a group].
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub nbd_socket_mode: Option<u32>,

    /// The group of the Unix sockets of NBD, by name or number: its members may use the volumes there [default: that of the
    /// process].
    #[arg(long, value_name = "GROUP")]
    pub nbd_socket_group: Option<String>,

    /// Who may use them over NBD.
    #[command(flatten)]
    pub security: NbdSecurity,

    /// Serve volumes to virtual machines by vhost-user, each at DIR/VOLUME.sock: who may open that may use the volume.
    #[arg(long, value_name = "DIR")]
    pub vhost_user: Option<PathBuf>,

    /// Also register these drives, and assemble their arrays.
    #[arg(long, value_name = "DRIVE", num_args = 1..)]
    pub drives: Vec<String>,

    /// Put the journals of volumes on this drive, as 'softroc log add' does, unless a log is in use already. May be given twice,
    /// for two drives that hold the same.
    #[arg(long, value_name = "DRIVE")]
    pub log: Vec<String>,

    /// How long a stop waits while nothing of it is finished, such as for a drive that hangs. Then the process ends as if it had
    /// been killed: acknowledged writes are kept, and the next start resyncs what was being written.
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = parse_duration)]
    pub stop_limit: std::time::Duration,

    /// The number of threads that serve I/O [default: half the cores, at least one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub shards: Option<u16>,

    /// The memory for data of all shards together.
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub memory: ByteCount,

    /// The most memory for the cache of all shards together; 0 for no cache. It is taken when the first volume is write-back,
    /// and is there besides --memory [default: an eighth of the machine's memory, 4 GiB at most].
    #[arg(long, value_name = "SIZE")]
    pub cache: Option<ByteCount>,

    /// How long drives may take for an operation, such as remote.write=5s: the class (solid, rotating, remote), the operation
    /// (short-read, read, write, flush, discard), and a time. May be given several times [default: short-read 2s, read and
    /// write 30s, flush and discard 60s; remote: short-read 500ms, write 2s, flush 10s]. A read that redundancy can serve waits for short-read; a drive that exceeds
    /// another limit is suspended until it answers, unless data are on it alone.
    #[arg(long, value_name = "CLASS.OPERATION=TIME", value_parser = parse_time_limit)]
    pub time_limit: Vec<(String, std::time::Duration)>,

    /// The UPS that this machine hangs on, as Network UPS Tools know it: NAME@HOST or NAME@HOST:PORT. While it is on battery, or is not
    /// heard, volumes that are write-back are write-through; when its battery is nearly empty, all are, and everything is flushed.
    #[arg(long, value_name = "NAME@HOST")]
    pub ups: Option<UpsAddress>,

    /// The most memory for what is kept of reads, of all shards together; 0 for none. It is taken as it is used, by volumes that read
    /// ahead or are cached, and is there besides --cache and --memory [default: an eighth of the machine's memory, 4 GiB at most].
    #[arg(long, value_name = "SIZE")]
    pub read_cache: Option<ByteCount>,

    /// The folder for the cache's memory, on a file system of memory (tmpfs). Each state folder has a folder of its own in it,
    /// named by a checksum of its path: give both as they were to find what an earlier process left [default: what systemd
    /// gives with RuntimeDirectory= (set RuntimeDirectoryPreserve=yes), or /run/softroc, or /dev/shm/softroc-UID].
    #[arg(long, value_name = "DIR")]
    pub cache_folder: Option<PathBuf>,

    /// Serve metrics for Prometheus at http://HOST:PORT/metrics, and nothing else there. The control socket answers GET /metrics
    /// in any case.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<Address>,

    /// Tell volumes as another exporter would, too, so that its rules and panels can be used as they are: node-md is
    /// node_exporter on arrays of Linux md (node_md_disks{device="md_VOLUME"}).
    #[arg(long, value_name = "NAME")]
    pub metrics_compat: Option<MetricsCompat>,

    /// Serve management at https://HOST:PORT: the same as the control socket, to those who have an account ('softroc account').
    /// The first start makes a certificate, and an account 'admin' whose password is in the file first-password of the state
    /// folder until it is changed.
    #[arg(long, value_name = "ADDR")]
    pub manage: Option<Address>,

    /// The certificate for --manage, and those that vouch for it, as PEM [default: one that is made, in the state folder].
    #[arg(long, value_name = "FILE", requires = "manage", requires = "manage_key")]
    pub manage_certificate: Option<PathBuf>,

    /// The key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "manage", requires = "manage_certificate")]
    pub manage_key: Option<PathBuf>,

    /// Allow addresses for NBD and metrics that other machines can reach. Metrics are not encrypted, nor is NBD without --nbd-tls;
    /// use a trusted network. NBD with '--nbd-tls required' and --nbd-clients does not need it.
    #[arg(long)]
    pub allow_remote: bool,

    /// The permissions of the control socket, such as 0660. Who may write to it may use the controller: root and the user who
    /// runs it do everything, members of the socket's group what --socket-role says, others only look [default: 0600, or
    /// 0660 with a group].
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub socket_mode: Option<u32>,

    /// The group of the control socket, by name or number. Its members may use the controller [default: softroc, where root
    /// runs the controller and there is such a group].
    #[arg(long, value_name = "GROUP")]
    pub socket_group: Option<String>,

    /// What members of the control socket's group may: read-only, operator or administrator.
    #[arg(long, value_name = "ROLE", default_value_t = Role::Operator)]
    pub socket_role: Role,
}

/// See [`Serve::metrics_compat`].
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricsCompat {
    /// node_exporter on arrays of Linux md.
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

    /// Then show events as they come, until interrupted; with --json one object a line.
    #[arg(long)]
    pub follow: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Command::Audit`].
#[derive(Subcommand, Debug)]
pub enum AuditCommand {
    /// List the latest orders, newest last. This takes an administrator.
    List(AuditList),
}

/// See [`AuditCommand::List`].
#[derive(Args, Debug)]
pub struct AuditList {
    /// The number of latest orders to show.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub last: usize,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

/// See [`Command::Rescue`].
#[derive(Args, Clone, Debug)]
pub struct Rescue {
    /// The drives, or images of drives. They are only read.
    #[arg(required = true, value_name = "DRIVE")]
    pub drives: Vec<String>,

    /// Serve the readable volumes over NBD, read-only, until interrupted: HOST:PORT or unix:PATH. May be given several
    /// times.
    #[arg(long, value_name = "ADDR")]
    pub serve: Vec<Address>,

    /// The serial number of the drive that an image was taken of. Intel metadata identify drives by serial number.
    #[arg(long, value_name = "DRIVE=NUMBER", value_parser = parse_serial)]
    pub serial: Vec<(String, String)>,

    /// The size of a drive before it was copied to a larger one, such as 16MiB or 500107862016: of all drives that are larger, or
    /// of one. Only so much is looked at, so that metadata that are counted from its end are found. May be given several times.
    #[arg(long, value_name = "[DRIVE=]SIZE", value_parser = parse_size_was)]
    pub size_was: Vec<(Option<String>, ByteCount)>,

    /// The file of `mdadm --grow --backup-file`, for an array whose reshape was interrupted and whose drives alone do not have all
    /// of it. It is only read.
    #[arg(long, value_name = "FILE", conflicts_with = "guess")]
    pub backup_file: Option<String>,

    /// Guess level, drive order, layout, strip size and data offset from the contents, for drives without metadata; of
    /// Intel's arrays, whose metadata know drives by serial number, the order of those that tell none.
    #[arg(long)]
    pub guess: bool,

    /// The number of the guess to serve, from the table [default: the best one, if no other is as good].
    #[arg(long, value_name = "N", requires = "guess", requires = "serve")]
    pub candidate: Option<usize>,

    /// The memory for data while serving.
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    pub memory: ByteCount,

    /// Allow NBD addresses that other machines can reach. Connections are not encrypted; use a trusted network.
    #[arg(long)]
    pub allow_remote: bool,

    /// The output format.
    #[command(flatten)]
    pub output: Output,
}

fn parse_serial(text: &str) -> Result<(String, String), String> {
    let parts = text.rsplit_once('=').filter(|(drive, serial)| !drive.is_empty() && !serial.is_empty());
    let (drive, serial) =
        parts.ok_or_else(|| format!("'{text}' is not DRIVE=NUMBER, as in a.img=WD-WX12345"))?;
    Ok((drive.into(), serial.into()))
}

fn parse_size_was(text: &str) -> Result<(Option<String>, ByteCount), String> {
    let (drive, size) = match text.rsplit_once('=') {
        Some((drive, size)) => (Some(drive.to_owned()), size),
        None => (None, text),
    };
    let wrong =
        |why: String| format!("'{text}' is not SIZE or DRIVE=SIZE, as in 16MiB or a.img=16MiB ({why})");
    if drive.as_ref().is_some_and(String::is_empty) {
        return Err(wrong("no drive is named before '='".into()));
    }
    let size: ByteCount = size.parse().map_err(|error: units::ParseSizeError| wrong(error.to_string()))?;
    Ok((drive, size))
}

/// Reads permissions such as `0660`.
fn parse_mode(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a mode; expected permissions in octal, such as 0660");
    let mode = u32::from_str_radix(text, 8).map_err(|_| wrong())?;
    match mode {
        0o1000.. => Err(wrong()),
        mode if mode & 0o600 != 0o600 => {
            Err(format!("'{text}' keeps out the user that runs the controller; expected such as 0660"))
        }
        mode => Ok(mode),
    }
}

/// Reads a time such as `30s`, `500ms`, `2m` or `7d`.
pub fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("'{text}' is not a time; expected a number with ms, s, m, h or d, such as 30s");
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
    let wrong =
        || format!("'{text}' is not a time limit; expected CLASS.OPERATION=TIME, such as remote.write=5s");
    let (name, time) = text.split_once('=').ok_or_else(wrong)?;
    let limit = parse_duration(time)?;
    platform::LimitsByClass::default().set(name, limit)?;
    Ok((name.to_owned(), limit))
}

/// Reads a time of whole seconds.
pub fn parse_seconds(text: &str) -> Result<u32, String> {
    let time = parse_duration(text)?;
    let seconds = u32::try_from(time.as_secs())
        .map_err(|_| format!("'{text}' is too long a time; the longest is {} s", u32::MAX))?;
    match time.subsec_nanos() {
        0 => Ok(seconds),
        _ => Err(format!("'{text}' is not a time of whole seconds; expected such as 30s or 5m")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
            Cli::try_parse_from(["softroc", "bench", "run", "/tmp/x", "--profile", "database"]).unwrap();
        let without = Cli::try_parse_from(["softroc", "bench", "/tmp/x", "--profile", "database"]).unwrap();
        assert!(matches!(with.command, Command::Bench(b) if matches!(b.command, Some(BenchCommand::Run(_)))));
        assert!(
            matches!(without.command, Command::Bench(b) if b.command.is_none() && b.run.targets == ["/tmp/x"])
        );
    }
}
