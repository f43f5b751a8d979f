//! Lists of several commands: topology, virtual drives, physical drives, enclosures.

use crate::forms::{size, unit};
use crate::tree::{
    Column, Pairs, Table, Value, column, left, number, number_or_dash, right, text, y_n,
};
use crate::view::{Pd, Vd, View, level, policy, volume_state};
use controller::{DriveInfo, DriveState, VolumeInfo};

pub(crate) const PD: &[Column] = &[
    left("EID:Slt"),
    column("DID"),
    left("State"),
    column("DG"),
    right("Size"),
    left("Intf"),
    left("Med"),
    left("SED"),
    left("PI"),
    left("SeSz"),
    left("Model"),
    left("Sp"),
    left("Type"),
];

pub(crate) const PD_LEGEND: &str = "EID=Enclosure Device ID|Slt=Slot No|DID=Device ID|DG=DriveGroup
DHS=Dedicated Hot Spare|UGood=Unconfigured Good|GHS=Global Hotspare
UBad=Unconfigured Bad|Onln=Online|Offln=Offline|Intf=Interface|Med=Media Type
SED=Self Encryptive Drive|PI=Protection Info|SeSz=Sector Size|Sp=Spun|U=Up|F=Foreign
Cpybck=CopyBack|Rbld=Rebuild";

pub(crate) const VD: &[Column] = &[
    left("DG/VD"),
    left("TYPE"),
    left("State"),
    left("Access"),
    left("Consist"),
    left("Cache"),
    left("Cac"),
    left("sCC"),
    right("Size"),
    left("Name"),
];

pub(crate) const VD_LEGEND: &str = "VD=Virtual Drive|DG=Drive Group|Cac=CacheCade|OfLn=OffLine
Pdgd=Partially Degraded|Dgrd=Degraded|Optl=Optimal|RW=Read Write|Consist=Consistent
R=Read Ahead|NR=No Read Ahead|WB=WriteBack|AWB=Always WriteBack|WT=WriteThrough
C=Cached IO|D=Direct IO
sCC=Scheduled Check Consistency";

const TOPOLOGY: &[Column] = &[
    column("DG"),
    left("Arr"),
    left("Row"),
    left("EID:Slot"),
    left("DID"),
    left("Type"),
    left("State"),
    left("BT"),
    right("Size"),
    left("PDC"),
    left("PI"),
    left("SED"),
    left("DS3"),
    left("FSpace"),
    left("TR"),
];

const TOPOLOGY_LEGEND: &str =
    "DG=Disk Group Index|Arr=Array Index|Row=Row Index|EID=Enclosure Device ID
DID=Device ID|Type=Drive or RAID Type|Onln=Online|Rbld=Rebuild|Optl=Optimal
Dgrd=Degraded|Pdgd=Partially degraded|Offln=Offline|BT=Background Task Active
PDC=PD Cache|PI=Protection Info|SED=Self Encrypting Drive|DS3=Dimmer Switch 3
dflt=Default|Msng=Missing|FSpace=Free Space Present|TR=Transport Ready";

const ENCLOSURES: &[Column] = &[
    column("EID"),
    left("State"),
    column("Slots"),
    column("PD"),
    column("PS"),
    column("Fans"),
    column("TSs"),
    column("Alms"),
    column("SIM"),
    left("Port#"),
    left("ProdID"),
    left("VendorSpecific"),
];

const ENCLOSURES_LEGEND: &str =
    "EID=Enclosure Device ID|PD=Physical drive count|PS=Power Supply count
TSs=Temperature sensor count|Alms=Alarm count|SIM=SIM Count|ProdID=Product ID";

/// Drives as rows.
pub(crate) fn drive_table(view: &View, drives: &[Pd<'_>]) -> Table {
    let rows = drives.iter().map(|pd| drive_row(view, pd)).collect();
    Table { legend: PD_LEGEND, ..Table::new(PD, rows) }
}

/// Volumes as rows.
pub(crate) fn volume_table(view: &View, volumes: &[Vd<'_>]) -> Table {
    let rows = volumes.iter().map(|volume| volume_row(view, volume)).collect();
    Table { legend: VD_LEGEND, ..Table::new(VD, rows) }
}

/// The interface of a drive, as far as its name shows it.
pub(crate) fn interface(drive: &DriveInfo) -> &'static str {
    match drive.kind.as_deref() {
        Some("file") => "File",
        Some("memory" | "null") => "Mem",
        _ if drive.name.starts_with("nbd") => "NBD",
        _ if drive.name.starts_with("/dev/nvme") => "NVMe",
        _ if drive.name.starts_with("/dev/sd") => "SCSI",
        _ => "Block",
    }
}

/// The model of a drive, or the end of its path.
pub(crate) fn model(drive: &DriveInfo) -> String {
    let model = drive.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
    let name = drive.name.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("-");
    model.unwrap_or(name).replace(|c: char| c.is_control(), "_")
}

fn drive_row(view: &View, pd: &Pd<'_>) -> Vec<Value> {
    let (drive, numbers) = (pd.drive, pd.numbers);
    let group = match pd.group {
        _ if drive.state == DriveState::Foreign => text("F"),
        group => number_or_dash(group),
    };
    vec![
        text(format!("{}:{}", numbers.enclosure, numbers.slot)),
        number(numbers.device),
        text(view.drive_state(drive)),
        group,
        text(size(drive.size_bytes.unwrap_or(0))),
        text(interface(drive)),
        text(if drive.rotational { "HDD" } else { "SSD" }),
        text("N"),
        text("N"),
        text(unit(drive.logical_sector_bytes.unwrap_or(512))),
        text(model(drive)),
        text("U"),
        text("-"),
    ]
}

/// The effective cache modes of reads and writes.
fn cache_mode(volume: &VolumeInfo) -> String {
    let now = |name| policy(volume, name).map(|(_, current)| current);
    let reads = if now("read-mode") == Some("read-ahead") { "R" } else { "NR" };
    let writes = match now("write-mode") {
        Some("write-back" | "logged-write-back") => "WB",
        Some("always-write-back") => "AWB",
        _ => "WT",
    };
    let kept = if now("cache-mode") == Some("cached") { "C" } else { "D" };
    format!("{reads}{writes}{kept}")
}

fn volume_row(view: &View, vd: &Vd<'_>) -> Vec<Value> {
    let volume = vd.volume;
    vec![
        text(format!("{}/{}", vd.group, vd.number)),
        text(level(volume)),
        text(volume_state(volume)),
        text("RW"),
        text(if volume.resync.is_none() { "Yes" } else { "No" }),
        text(cache_mode(volume)),
        text("-"),
        text(if view.is_checked(volume) { "ON" } else { "OFF" }),
        text(size(volume.capacity_bytes)),
        text(&volume.name),
    ]
}

/// A row of the topology: position, type, state, size, and free space.
struct TopologyRow {
    group: u32,
    place: [Value; 4],
    kind: String,
    state: &'static str,
    busy: bool,
    bytes: u64,
    free: Value,
}

impl TopologyRow {
    fn values(self) -> Vec<Value> {
        let [array, row, slot, device] = self.place;
        vec![
            number(self.group),
            array,
            row,
            slot,
            device,
            text(self.kind),
            text(self.state),
            y_n(self.busy),
            text(size(self.bytes)),
            text("dflt"),
            text("N"),
            text("N"),
            text("none"),
            self.free,
            text("N"),
        ]
    }
}

/// The groups with their spans and drives.
pub(crate) fn topology(view: &View, groups: &[Vec<Vd<'_>>]) -> Table {
    let rows =
        groups.iter().flat_map(|group| group_rows(view, group)).map(TopologyRow::values).collect();
    Table { legend: TOPOLOGY_LEGEND, ..Table::new(TOPOLOGY, rows) }
}

/// The severity of a state.
fn badness(state: &str) -> usize {
    ["Optl", "Pdgd", "Dgrd", "OfLn"].iter().position(|known| *known == state).unwrap_or(0)
}

fn group_rows(view: &View, group: &[Vd<'_>]) -> Vec<TopologyRow> {
    let Some(first) = group.first() else { return Vec::new() };
    let dash = || text("-");
    let states = group.iter().map(|volume| volume_state(volume.volume));
    let state = states.max_by_key(|state| badness(state)).unwrap_or("Optl");
    let is_about = |task: &controller::TaskInfo| {
        task.state == controller::TaskState::Running
            && group.iter().any(|volume| task.volume.as_deref() == Some(&volume.volume.name))
    };
    let busy = view.metrics.tasks.iter().any(is_about);
    let bytes: u64 = group.iter().map(|volume| volume.volume.capacity_bytes).sum();
    let free = || y_n(first.volume.array_free_bytes > 0);
    let row = |place, kind, bytes| TopologyRow {
        group: first.group,
        place,
        kind,
        state,
        busy,
        bytes,
        free: free(),
    };
    let mut rows = vec![row([dash(), dash(), dash(), dash()], level(first.volume), bytes)];
    let spans = usize::from(first.volume.spans.max(1));
    let of_span = first.volume.drives.len().div_ceil(spans).max(1);
    for (span, drives) in first.volume.drives.chunks(of_span).enumerate() {
        let place = [number(span), dash(), dash(), dash()];
        rows.push(row(place, span_level(first.volume), bytes / spans as u64));
        rows.extend(drives.iter().enumerate().map(|(at, drive)| {
            let is_there = drive.state != DriveState::Missing;
            let numbers = drive.numbers.filter(|_| is_there);
            let slot = numbers.map_or_else(dash, |numbers| {
                text(format!("{}:{}", numbers.enclosure, numbers.slot))
            });
            let device = numbers.map_or_else(dash, |numbers| number(numbers.device));
            TopologyRow {
                group: first.group,
                place: [number(span), number(at), slot, device],
                kind: "DRIVE".into(),
                state: if is_there { view.drive_state(drive) } else { "Msng" },
                busy: matches!(drive.state, DriveState::Rebuilding | DriveState::Filling),
                bytes: drive.size_bytes.unwrap_or(0),
                free: dash(),
            }
        }));
    }
    rows
}

/// The level of one span.
fn span_level(volume: &controller::VolumeInfo) -> String {
    let of_span = match volume.level.as_str() {
        "raid00" => "RAID0",
        "raid10" => "RAID1",
        "raid50" => "RAID5",
        "raid60" => "RAID6",
        _ => return level(volume),
    };
    of_span.to_owned()
}

/// The enclosures with these numbers.
pub(crate) fn enclosure_table(view: &View, numbers: &[u32]) -> Table {
    let drives = view.drives();
    let row = |enclosure: &u32| {
        let there = drives.iter().filter(|pd| pd.numbers.enclosure == *enclosure);
        let slots = there.clone().map(|pd| pd.numbers.slot + 1).max().unwrap_or(0);
        let known = there.clone().find_map(|pd| pd.drive.enclosure.clone());
        vec![
            number(*enclosure),
            text("OK"),
            number(slots),
            number(there.count()),
            number(0),
            number(0),
            number(0),
            number(0),
            number(0),
            text("-"),
            text(known.unwrap_or_else(|| "SoftROC".to_owned()).replace(char::is_whitespace, "_")),
            text("-"),
        ]
    };
    Table { legend: ENCLOSURES_LEGEND, ..Table::new(ENCLOSURES, numbers.iter().map(row).collect()) }
}

/// All lists of a controller.
pub(crate) fn all(view: &View) -> Pairs {
    let (groups, volumes, drives) = (view.groups(), view.volumes(), view.drives());
    let mut data: Pairs = Vec::new();
    let mut add = |name: &str, value| data.push((name.to_owned(), value));
    add("Drive Groups", number(groups.len()));
    if !groups.is_empty() {
        add("TOPOLOGY", Value::Table(topology(view, &groups)));
    }
    add("Virtual Drives", number(volumes.len()));
    add("VD LIST", Value::Table(volume_table(view, &volumes)));
    add("Physical Drives", number(drives.len()));
    add("PD LIST", Value::Table(drive_table(view, &drives)));
    let enclosures = view.enclosures();
    add("Enclosures", number(enclosures.len()));
    add("Enclosure LIST", Value::Table(enclosure_table(view, &enclosures)));
    data
}
