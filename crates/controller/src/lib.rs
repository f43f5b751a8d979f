//! The controller: drives, arrays, volumes, events, and the [`Command`]s that every interface speaks.
//!
//! It lives on shard 0, in the world like the engine. [`Controller::start`] opens the drives it knows, starts the
//! volumes on them and returns a [`ControllerHandle`], which takes [`Command`]s from any thread and answers with
//! [`Reply`]s. What shards report (failures, regions to be marked) it makes durable, and only then lets them go on.
//!
//! # Rooms
//! Each room is a folder that owns its state in a struct with private fields; its `mod.rs` says what it owns, what holds,
//! and who may call it. A room is given those that it needs when it is made, and knows no others: arrows point down
//! this table, from each row to rows below it (`ARCHITECTURE.md` draws them, `softroc/tests/architecture/main.rs` holds them).
//!
//! | room | what | its files |
//! | --- | --- | --- |
//! | `commands` | commands taken and answered; the rooms joined | `start` joins the rooms and begins their work, `queue` takes commands, `handle` is how interfaces reach it, `info` what is said of drives and volumes, `metrics` what monitoring is told, `report` how all is, `explain` the plan of a request, `explain_cache` what the cache has of a volume, `audit` orders recorded before they are answered, `revisions` of what is said, `numbering` of what has no number yet, `disks` of this machine, `stop` the end of the controller, `on_its_way` what volumes that go to another layout have to wait with |
//! | `reconcile` | what is wanted against what there is | `reconciler` decides, `choose` chooses a spare, `spares` are asked for and looked at, `returns` drives that come back by themselves, `changed` drives that are not what they were |
//! | `foreign` | arrays of other controllers | `plan` whether a volume can be imported, `on_its_way` (one in the middle of a reshape), `import`, `clear` |
//! | `ups` | what a UPS says of the power | `protocol` its lines |
//! | `policy` | what operators wish for an array, for good | `attach` which volumes are disks of this machine |
//! | `lifecycle` | volumes made, found, started, ended; drives that come and go | `scan` from labels to arrays, `assemble` arrays started and stopped, `candidates` drives that are to be taken, `shape` what a volume is like on them, `preview` the same before anybody makes one, `create`, `grow` (to another layout), `along` (what an array's other volumes do then), `fewer` (drives or room), `delete`, `change` names and starts by order, `failed` failures that are cleared, `returning` drives back online or replaced, `rescan` of drives that became larger, `logs` given and taken back, `repair` of structures, `unfinished_imports` |
//! | `tasks` | background tasks | `list` of them, `task`, `steps` on shards, `next` what is to do, `run` it, `rate` how fast, `reshape` a volume moved to another layout, `store` over restarts, `asked` by operators, `plans` (schedules), `begin` by the reconciler, `schedule` and `due`, `patrol` |
//! | `arrays` | **the promises while an array is started** | `array` and `volume` as they are kept, `failures` (failures and marks), `record` (labels), `bitmap_clearer` (how marks go), `reports` of shards, `noting` changes in the label, `journal` after a crash, `carrying_out` what it holds, `write_hole` (journals that come and go), `initialised` (which stripes hold what hosts wrote), `cache` (its memory, and when writes are answered), `lost_memory` (memory that is not here), `other_memory` (that of other controllers), `reads` (how reads use it), `protection` (what follows from the power), `drive_cache` (the drives' own write caches), `sectors` (those that hosts are told of), `reshape` (volumes on their way to another layout), `way` (what that takes, as labels say it), `arriving` (the end of that), `following` (volumes that come to other drives after one of their array), `unbegun` (what a beginning that was cut off leaves), `leaving` (members that no volume lies on then), `shifted` (a part of a drive), `members` that come and are replaced, `replacement` drives that fail, `draining` drives, `silent` ones (who is waited for), `suspended` ones, `work` that shards reported, `starting` and `serve` (volumes given to shards), `shards` (the way to them), `extents` (where volumes lie), `marks` as others may read and change them, `find` by name, `hosts` that are connected, `spare_labels`, `logs` (which log is in use), `on_log` (journals on its devices), `data_log` (what hosts flushed, on its devices), `discarding` what they or the cache had |
//! | `inventory` | drives | `drive`, `access` to labels and maps on it, `structures` written step by step, `health`, `failed` drives that are not trusted, `numbers` that are given once and their `rows`, `apart` (drives that are one storage), `seen` arrays that were there once, those that were `deleted`, drives that have `grown`, `made_for` a drive or a document, `opening` at a start and for commands, `probe` with a deadline, `undo_log`, `log_labels` of log devices |
//! | `audit` | every order, and what became of it | `fields` of an order without secrets, `refusals` for want of rights, counted |
//! | `events` | what happened | `codes` every kind of event, `folding` of repeats, `storing` over restarts, `subscription` of those who follow them, `alarm` that some begin, `channels` of notifications that fail, `state_files` that cannot be read or stored |
//! | `interface` | what interfaces see: values only | `command`, `coercion` of sizes, `event`, `audit` (orders as they are recorded), `caller` (who asks), `costs` of taking a drive out, `drives`, `limits` of drives, `numbers` of drives, `reply`, `error`, `disks` of this machine and who makes them, `ups` (where it is asked, what it says), `presets` of the cache, `tasks`, `foreign`, `health`, `hosts` that are connected, `logs`, `metrics`, `memories` of the cache, `report` (how all is), `reshape` (from one layout to another), `alarm`, `modes` (what write modes mean) |
//! | `append_log` | lines in the state folder, in two files written in turn | |
//! | `statefile` | how files of the state folder are kept | `frame`, the line that a file begins with |
//! | `signals` | waiting for what others do | `attention`, `waiting` |
//!
//! # What is where
//! The truth is on the drives: labels and write-intent maps (crate `ondisk`). The state store keeps hints and
//! history: `drives.toml`, the names of drives to look at, `arrays.toml`, what was seen on them, `deleted-arrays.toml`, what was
//! deleted, `numbers.toml`, by what numbers they are known, `attach.toml`, which volumes are disks of this machine, `alarm.toml`, whether the alarm
//! is on, `events.jsonl`, and `audit.jsonl`, the orders that were given. Losing it loses no data.
//!
//! # A kill at any point
//! Each file that writes to drives states its order and what a kill leaves at each step. In short: a label says
//! *creating* before anything else is written, and *online* after everything; a failure and a mark are durable
//! before they are answered; a mark goes only after a flush; a start raises the generation before it serves; and a
//! volume that has lost more than its level survives acknowledges nothing and records nothing, so that it is
//! whole when its drives are back.

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
    Answer, Asked, Controller, ControllerHandle, Note, Occurrence, Options, Phase, Request, Unfinished,
};
pub use events::{EventCode, EventFeed, EventSubscription};
pub use interface::{
    AddSpare, AlarmInfo, AlarmSetting, AttachPolicy, AuditEntry, AuditOutcome, Blamed, CacheInfo, Caller,
    Coercion, Command, ControllerInfo, CountersInfo, CoverageInfo, CreateVolume, DiscardLog, Discarded,
    DiskAnswer, DiskInfo, DiskKind, DiskMaker, DiskRequest, DiskState, DiskVolume, Disks, DriveCost,
    DriveCounters, DriveInfo, DriveLimit, DriveMetrics, DriveNumber, DriveNumbers, DriveState, DriveWork,
    Error, ErrorKind, Event, EventCount, Explain, FailureInfo, Finding, ForeignArray, ForeignDrive,
    ForeignMember, ForeignOther, ForeignVolume, Found, HealthInfo, HealthReport, HostInfo, LayoutInfo,
    LimitSource, LogDeviceInfo, LogDeviceState, LogInfo, LogPlaceInfo, MemoryInfo, MemoryVolume, MetricsInfo,
    Numbered, OrderGiven, Origin, Policy, Preset, Progress, ProtectionState, Reply, ReshapeInfo,
    ReshapeVolume, Result, ScheduleInfo, Scheduled, SetNumbers, SetPolicy, SetSchedule, SetTask, Settings,
    Severity, SpareInfo, SpareKind, StartTask, Startable, SuspendedBy, SuspensionInfo, TaskInfo, TaskKind,
    TaskState, UpsAddress, UpsInfo, VolumeCounters, VolumeInfo, VolumeMetrics, VolumeState, WellBeing,
    WorkInfo,
};
pub use lifecycle::{DriveOperations, Preview, preview};
pub use ondisk::{CacheMode, DriveCache, ReadMode, SectorFormat, StartDegraded, WriteHole, WriteMode};
pub use statefile::{Loaded, Place, StateFile, Trouble, document, put_aside};
