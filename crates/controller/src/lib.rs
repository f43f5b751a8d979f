//! The controller: drives, arrays, volumes, events, and the [`Command`]s of all interfaces.
//!
//! It runs on shard 0 and does all I/O through the platform, like the engine. [`Controller::start`]
//! opens the registered drives, starts their volumes and returns a [`ControllerHandle`]. The handle
//! takes [`Command`]s from any thread and returns [`Reply`]s. Shards report failures and regions to
//! mark. The controller makes these reports durable before the shards continue.
//!
//! # Modules
//! Each module is a folder that owns its state in a struct with private fields. Its `mod.rs` states
//! its state, its invariants and its callers. A module receives its dependencies when it is
//! constructed. Dependencies point down this table, from each row to rows below it
//! (`ARCHITECTURE.md` shows them, `softroc/tests/architecture/main.rs` enforces them).
//!
//! | module | purpose | files |
//! | --- | --- | --- |
//! | `commands` | executes commands; connects the modules | `start` connects the modules and starts their tasks, `queue` receives commands, `handle` is the access for interfaces, `info` describes drives and volumes, `metrics` for monitoring, `report` overall health, `explain` the plan of a request, `explain_cache` the cache content of a volume, `audit` records orders before the reply, `revisions` of descriptions, `numbering` of new objects, `disks` attached volumes, `stop` the shutdown, `on_its_way` restrictions of reshaping volumes |
//! | `reconcile` | compares desired with current state | `reconciler` decides, `choose` selects a spare, `spares` are added and checked, `returns` drives that reappear, `changed` drives whose file or size changed |
//! | `foreign` | arrays of other controllers | `plan` checks whether a volume can be imported, `on_its_way` (an interrupted reshape), `import`, `clear` |
//! | `ups` | state of the UPS | `protocol` of `upsd` |
//! | `policy` | persistent policies of arrays | `attach` volumes that are attached to this host |
//! | `lifecycle` | creates, finds, starts and deletes volumes; adds and removes drives | `scan` from labels to arrays, `assemble` starts and stops arrays, `candidates` drives named by a command, `shape` layout of a new volume, `preview` the same without a change, `create`, `grow` (reshape), `along` (reshape of the array's other volumes), `fewer` (drives or capacity), `delete`, `change` names, offline drives and forced starts, `failed` cleared failures, `returning` drives back online or replaced, `rescan` of drives that became larger, `logs` added and removed, `repair` of structures, `unfinished_imports` |
//! | `tasks` | background tasks | `list` of tasks, `task`, `steps` on shards, `next` selects the next step, `run` executes it, `rate`, `reshape`, `store` persistence, `asked` commands of operators, `plans` (schedules), `begin` for the reconciler, `schedule` and `due`, `patrol` |
//! | `arrays` | **guarantees of started arrays** | `array` and `volume` state, `failures` (failures and marks), `record` (labels), `bitmap_clearer` (clears marks), `reports` of shards, `noting` changes in the label, `journal` after a crash, `carrying_out` replay of the journal, `write_hole` (switches journals on and off), `initialised` (record of initialised stripes), `cache` (its memory, write modes), `cache_growth` (reserves more of it), `lost_memory` (missing cache memory), `other_memory` (memory of other controllers), `reads` (read cache policy), `protection` (effects of the power state), `drive_cache` (the drives' write caches), `sectors` (sector size advertised to hosts), `reshape` (reshaping volumes), `way` (a reshape as the labels describe it), `arriving` (commit of a reshape), `following` (queued reshapes of the same array), `unbegun` (rollback of a reshape), `leaving` (members without volumes), `shifted` (a part of a drive), `members` added and replaced, `replacement` drives that fail, `draining` drives, `silent` drives with a deadline, `suspended` drives, `work` reported by shards, `starting` and `serve` (volumes on shards), `shards` (messages to them), `extents` (location of volumes), `marks` for other modules, `find` by name, `hosts` that are connected, `spare_labels`, `logs` (the log in use), `on_log` (journals on log devices), `data_log` (flushed data on log devices), `discarding` content of logs and cache |
//! | `inventory` | drives | `drive`, `access` to its labels and maps, `structures` written in steps, `health`, `failed` drives, `numbers` (permanent) and their `rows`, `apart` (duplicate paths to one storage), `seen` arrays, `deleted` arrays, drives that have `grown`, `made_for` (rejects documents), `opening` at a start and for commands, `probe` with a deadline, `undo_log`, `log_labels` of log devices |
//! | `audit` | orders and their outcomes | `fields` of an order without secrets, `refusals` (permission denied), counted |
//! | `events` | events | `codes` of all kinds of events, `folding` of repeats, `storing` (persistence), `subscription`, `alarm`, `channels` (failed notification channels), `state_files` that cannot be read or stored |
//! | `interface` | external interface: values only | `command`, `coercion` of sizes, `event`, `audit` (recorded orders), `caller` (user and source of a command), `costs` of removing a drive, `drives`, `limits` of drives, `numbers` of drives, `reply`, `error`, `disks` attached to this host and their maker, `ups` (address and state), `presets` of the cache, `tasks`, `foreign`, `health`, `hosts` that are connected, `logs`, `metrics`, `memories` of the cache, `report` (overall health), `reshape`, `alarm`, `modes` (meaning of write modes) |
//! | `append_log` | logs in the state folder, in two alternating files | |
//! | `statefile` | files of the state folder | `frame`, the first line of a file |
//! | `signals` | notifications between modules | `attention`, `waiting` |
//!
//! # Storage of state
//! Labels and write-intent maps on the drives are authoritative (crate `ondisk`). The state store
//! keeps hints and history: `drives.toml` (names of drives), `arrays.toml` (arrays seen on them),
//! `deleted-arrays.toml`, `numbers.toml` (numbers of drives, arrays and volumes), `attach.toml`
//! (attached volumes), `alarm.toml`, `events.jsonl` and `audit.jsonl` (orders). Losing it loses no
//! data.
//!
//! # A kill at any point
//! Each source file that writes to drives states the order of its writes and the result of a kill
//! at each step. A label says *creating* before any other write, and *online* after all of them.
//! Failures and marks are durable before they are acknowledged. A mark is cleared only after a
//! flush. A start raises the generation before it serves. A volume with more failures than its
//! level tolerates acknowledges and records nothing, so that it is complete when its drives are
//! back.

mod append_log;
mod arrays;
mod audit;
mod commands;
mod events;
mod foreign;
mod interface;
mod inventory;
mod lifecycle;
mod policy;
mod reconcile;
mod signals;
mod statefile;
mod tasks;
mod ups;

pub use audit::order_of;
pub use commands::{
    Answer, Asked, Controller, ControllerHandle, Note, Occurrence, Options, Phase, Request,
    Unfinished,
};
pub use events::{EventCode, EventFeed, EventSubscription};
pub use interface::{
    AddSpare, AlarmInfo, AlarmSetting, AttachPolicy, AuditEntry, AuditOutcome, Blamed, CacheInfo,
    Caller, Coercion, Command, ControllerInfo, CountersInfo, CoverageInfo, CreateVolume,
    DiscardLog, Discarded, DiskAnswer, DiskInfo, DiskKind, DiskMaker, DiskRequest, DiskState,
    DiskVolume, Disks, DriveCost, DriveCounters, DriveInfo, DriveLimit, DriveMetrics, DriveNumber,
    DriveNumbers, DriveState, DriveWork, Error, ErrorKind, Event, EventCount, Explain, FailureInfo,
    Finding, ForeignArray, ForeignDrive, ForeignMember, ForeignOther, ForeignVolume, Found,
    HealthInfo, HealthReport, HostInfo, LayoutInfo, LimitSource, LogDeviceInfo, LogDeviceState,
    LogInfo, LogPlaceInfo, MemoryInfo, MemoryVolume, MetricsInfo, Numbered, OrderGiven, Origin,
    Policy, Preset, Progress, ProtectionState, Reply, ReshapeInfo, ReshapeVolume, Result,
    ScheduleInfo, Scheduled, SetNumbers, SetPolicy, SetSchedule, SetTask, Settings, Severity,
    SpareInfo, SpareKind, StartTask, Startable, SuspendedBy, SuspensionInfo, TaskInfo, TaskKind,
    TaskState, UpsAddress, UpsInfo, VolumeCounters, VolumeInfo, VolumeMetrics, VolumeState,
    WellBeing, WorkInfo,
};
pub use lifecycle::{DriveOperations, Preview, preview};
pub use ondisk::{
    CacheMode, DriveCache, ReadMode, SectorFormat, StartDegraded, WriteHole, WriteMode,
};
pub use policy::default_policies;
pub use statefile::{Loaded, Place, StateFile, Trouble, document, put_aside};
