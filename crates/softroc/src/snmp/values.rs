//! Values by OID, as defined in `docs/SOFTROC-MIB.txt`.

use crate::control::{Control, within};
use controller::{
    Command, DriveMetrics, DriveState, HealthReport, MetricsInfo, Reply, TaskInfo, TaskState,
    VolumeMetrics, VolumeState, WellBeing,
};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The root OID: below the number for examples (RFC 5612), as for notifications.
const STATE: [u32; 9] = [1, 3, 6, 1, 4, 1, 32473, 1, 3];

const VOLUMES: u32 = 10;
const DRIVES: u32 = 11;
const TASKS: u32 = 12;

/// The OID of a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Oid(Vec<u32>);

impl FromStr for Oid {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Oid, Self::Err> {
        text.trim_start_matches('.').split('.').map(str::parse).collect::<Result<_, _>>().map(Oid)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|number| write!(f, ".{number}"))
    }
}

/// All values, in the format of the daemon: the type, and the value on the next line.
#[derive(Default)]
pub struct Tree(BTreeMap<Oid, String>);

impl Tree {
    /// The value of that OID.
    pub fn get(&self, oid: &Oid) -> Option<(Oid, String)> {
        self.0.get_key_value(oid).map(|(oid, value)| (oid.clone(), value.clone()))
    }

    /// The first value after that OID.
    pub fn next(&self, oid: &Oid) -> Option<(Oid, String)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let mut behind = self.0.range((Excluded(oid), Unbounded));
        behind.next().map(|(oid, value)| (oid.clone(), value.clone()))
    }

    fn put(&mut self, below: &[u32], value: Value<'_>) {
        self.0.insert(Oid([&STATE, below].concat()), value.to_string());
    }

    fn column(&mut self, table: u32, row: u32, column: u32, value: Value<'_>) {
        self.put(&[table, 1, column, row], value);
    }
}

enum Value<'v> {
    Integer(i64),
    Gauge(u64),
    Counter(u64),
    Text(&'v str),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(number) => write!(f, "integer\n{number}"),
            Value::Gauge(number) => write!(f, "gauge\n{}", (*number).min(u32::MAX.into())),
            Value::Counter(number) => write!(f, "counter64\n{number}"),
            // A value is one line.
            Value::Text(text) => write!(f, "string\n{}", text.replace(['\n', '\r'], " ")),
        }
    }
}

/// The time limit of a reply of the controller: snmpd blocks meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests the state of the controller. If it does not respond, that is the state.
pub fn look(control: &Control) -> Tree {
    let mut tree = Tree::default();
    let ask = |command: Command| {
        within(PATIENCE, control.place(), move |place| control_api::client::call(place, &command))
    };
    let health = ask(Command::Health {});
    // Without this reply, do not wait for the next one.
    let metrics = if health.is_ok() {
        ask(Command::Metrics {})
    } else {
        Ok(Reply::Done { notes: Vec::new() })
    };
    match (health, metrics) {
        (Ok(Reply::Health { health }), Ok(Reply::Metrics { metrics })) => {
            scalars(&mut tree, &health, &metrics);
            metrics.volumes.iter().for_each(|one| volume(&mut tree, one));
            metrics.drives.iter().for_each(|one| drive(&mut tree, one));
            metrics
                .tasks
                .iter()
                .filter(|one| !one.state.is_over())
                .for_each(|one| task(&mut tree, one));
        }
        (Err(failure), _) | (_, Err(failure)) => unknown(&mut tree, &failure.to_string()),
        _ => unknown(&mut tree, "unexpected answer of the controller; see its log"),
    }
    tree
}

fn unknown(tree: &mut Tree, why: &str) {
    tree.put(&[1, 0], Value::Integer(3));
    tree.put(&[2, 0], Value::Text(why));
}

fn scalars(tree: &mut Tree, health: &HealthReport, metrics: &MetricsInfo) {
    let status = match health.status {
        WellBeing::Ok => 0,
        WellBeing::Warning => 1,
        WellBeing::Critical => 2,
    };
    tree.put(&[1, 0], Value::Integer(status));
    tree.put(&[2, 0], Value::Text(&health.sentence));
    let of = &metrics.controller;
    tree.put(&[3, 0], Value::Gauge(of.volumes_degraded.into()));
    tree.put(&[4, 0], Value::Gauge(u64::from(of.volumes_offline) + u64::from(of.volumes_missing)));
    let drives = || metrics.drives.iter().map(|one| &one.drive);
    let failed = drives().filter(|drive| drive.state == DriveState::Failed).count();
    let warns = drives()
        .filter(|drive| drive.health.as_ref().is_some_and(|health| health.warning.is_some()));
    tree.put(&[5, 0], Value::Gauge(failed as u64));
    tree.put(&[6, 0], Value::Gauge(warns.count() as u64));
    let alarm = match (of.alarm.on, of.alarm.sounds) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    };
    tree.put(&[7, 0], Value::Integer(alarm));
}

fn volume(tree: &mut Tree, of: &VolumeMetrics) {
    let volume = &of.volume;
    // A new volume has no number yet.
    let Some(row) = volume.number else { return };
    let state = match volume.state {
        VolumeState::Optimal => 1,
        VolumeState::Degraded => 2,
        VolumeState::Offline => 3,
        VolumeState::Missing => 4,
    };
    let counted = |kind: &str| {
        of.work.iter().find(|work| work.operation == kind).cloned().unwrap_or_default()
    };
    let (reads, writes) = (counted("read"), counted("write"));
    let mut put = |column, value: Value<'_>| tree.column(VOLUMES, row, column, value);
    put(2, Value::Text(&volume.name));
    put(3, Value::Integer(state));
    put(4, Value::Text(&volume.level));
    put(5, Value::Gauge(volume.may_lose.into()));
    put(6, Value::Gauge(volume.capacity_bytes >> 20));
    put(7, Value::Gauge(volume.cache.dirty_bytes >> 10));
    put(8, Value::Counter(reads.completed));
    put(9, Value::Counter(reads.bytes));
    put(10, Value::Counter(writes.completed));
    put(11, Value::Counter(writes.bytes));
}

fn drive(tree: &mut Tree, of: &DriveMetrics) {
    let drive = &of.drive;
    let Some(numbers) = drive.numbers else { return };
    let row = numbers.device;
    // The order of the list is stable: it only grows.
    let state = DriveState::ALL
        .iter()
        .position(|state| *state == drive.state)
        .map_or(0, |at| at as i64 + 1);
    let health = drive.health.as_deref();
    let mut put = |column, value: Value<'_>| tree.column(DRIVES, row, column, value);
    put(2, Value::Text(&drive.name));
    put(3, Value::Integer(state));
    put(4, Value::Text(drive.model.as_deref().unwrap_or_default()));
    put(5, Value::Text(drive.serial.as_deref().unwrap_or_default()));
    put(6, Value::Text(drive.volumes.first().map_or("", String::as_str)));
    // As in TruthValue: true is 1, false is 2.
    put(
        7,
        Value::Integer(if health.is_some_and(|health| health.warning.is_some()) { 1 } else { 2 }),
    );
    put(8, Value::Gauge(drive.medium_errors));
    if let Some(celsius) = health.and_then(|health| health.temperature_c) {
        put(9, Value::Integer(celsius.into()));
    }
}

fn task(tree: &mut Tree, task: &TaskInfo) {
    let Ok(row) = u32::try_from(task.task) else { return };
    let state = match task.state {
        TaskState::Running => 1,
        TaskState::Paused => 2,
        TaskState::Waiting
        | TaskState::Stopped
        | TaskState::Done
        | TaskState::Failed
        | TaskState::Cancelled => 3,
    };
    let mut put = |column, value: Value<'_>| tree.column(TASKS, row, column, value);
    put(2, Value::Text(&task.kind.to_string()));
    put(3, Value::Text(&task.subject));
    put(4, Value::Integer(state));
    put(5, Value::Gauge(task.percent.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_value_once_in_the_order_of_numbers() {
        let mut tree = Tree::default();
        for row in [10, 2, 300] {
            tree.column(VOLUMES, row, 2, Value::Text("two\nlines"));
            tree.column(VOLUMES, row, 3, Value::Integer(1));
        }
        tree.put(&[1, 0], Value::Integer(0));
        let mut at: Oid = ".1.3.6.1.4.1.32473.1.3".parse().unwrap();
        let mut seen = Vec::new();
        while let Some((next, value)) = tree.next(&at) {
            assert!(next > at && tree.get(&next) == Some((next.clone(), value.clone())));
            assert_eq!(value.lines().count(), 2, "{value}");
            seen.push(next.to_string().trim_start_matches(".1.3.6.1.4.1.32473.1.3").to_owned());
            at = next;
        }
        assert_eq!(
            seen,
            [
                ".1.0",
                ".10.1.2.2",
                ".10.1.2.10",
                ".10.1.2.300",
                ".10.1.3.2",
                ".10.1.3.10",
                ".10.1.3.300"
            ]
        );
        assert!("1.x".parse::<Oid>().is_err() && "".parse::<Oid>().is_err());
    }
}
