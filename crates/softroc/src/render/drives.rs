//! Operations, latencies and time limits of a drive as text.

use crate::output::table;
use controller::{DriveLimit, DriveWork, LimitSource, SuspendedBy, SuspensionInfo, WorkInfo};
use std::time::Duration;

/// The time limits of a drive; `None` for one that cannot be opened.
pub(super) fn limits(limits: &[DriveLimit]) -> Option<String> {
    let one = |limit: &DriveLimit| {
        let (operation, time) = (&limit.operation, Duration::from_millis(limit.limit_ms));
        match limit.from {
            LimitSource::Default => format!("{operation} {time:?}"),
            LimitSource::DriveClass => format!("{operation} {time:?} (drive class)"),
            LimitSource::Setting => format!("{operation} {time:?} (serve --time-limit)"),
        }
    };
    let all: Vec<String> = limits.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The cause and the end of a suspension.
pub(super) fn suspension(suspension: &SuspensionInfo) -> String {
    let why = &suspension.why;
    match (suspension.by, suspension.fails_in_s.map(Duration::from_secs)) {
        (SuspendedBy::TimeLimit, Some(left)) => {
            format!("{why}; the drive fails in {left:?} unless it responds")
        }
        (SuspendedBy::TimeLimit, None) => why.clone(),
        (SuspendedBy::Operator, _) => {
            format!("{why}; only 'softroc drive resume' ends the suspension")
        }
    }
}

/// Tables of operations and their latencies; `None` without any operation.
pub(super) fn work(work: &DriveWork) -> Option<String> {
    let asked = |of: &&WorkInfo| of.completed + of.outstanding > 0;
    let operations: Vec<&WorkInfo> = work.operations.iter().filter(asked).collect();
    if operations.is_empty() {
        return None;
    }
    let slow = Duration::from_nanos(work.slow_ns);
    Some(format!(
        "\nOperations since the start of the controller; slow ones took longer than \
         {slow:?}:\n{}\n\n{}",
        sums(&operations),
        histogram(work, &operations)
    ))
}

fn sums(operations: &[&WorkInfo]) -> String {
    let row = |of: &&WorkInfo| {
        let mean = of.time_ns.checked_div(of.completed).map(rounded);
        vec![
            of.operation.clone(),
            of.completed.to_string(),
            of.outstanding.to_string(),
            of.failed.to_string(),
            of.slow.unwrap_or_default().to_string(),
            mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:?}")),
        ]
    };
    let rows: Vec<Vec<String>> = operations.iter().map(row).collect();
    let headers = ["operation", "completed", "outstanding", "failed", "slow", "mean"];
    table(&headers, &rows, &[false, true, true, true, true, true])
}

/// A time with three significant digits.
fn rounded(ns: u64) -> Duration {
    let unit = 10_u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(2));
    Duration::from_nanos(ns / unit * unit)
}

/// A row for each bucket with operations, and a column for each kind of operation.
fn histogram(work: &DriveWork, operations: &[&WorkInfo]) -> String {
    let count = |of: &WorkInfo, bucket: usize| of.buckets.get(bucket).copied().unwrap_or_default();
    let mut rows = Vec::new();
    for bucket in 0..=work.bucket_bounds_ns.len() {
        if operations.iter().all(|of| count(of, bucket) == 0) {
            continue;
        }
        let bound = work.bucket_bounds_ns.get(bucket).copied().map(Duration::from_nanos);
        let mut row = vec![bound.map_or_else(|| "longer".to_owned(), |bound| format!("{bound:?}"))];
        row.extend(operations.iter().map(|of| match count(of, bucket) {
            0 => "-".to_owned(),
            count => count.to_string(),
        }));
        rows.push(row);
    }
    let mut headers = vec!["latency up to"];
    headers.extend(operations.iter().map(|of| of.operation.as_str()));
    let numeric = vec![true; headers.len()];
    table(&headers, &rows, &numeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(operation: &str, buckets: &[u64], time_ns: u64, slow: u64) -> WorkInfo {
        WorkInfo {
            operation: operation.into(),
            completed: buckets.iter().sum(),
            time_ns,
            buckets: buckets.to_vec(),
            slow: Some(slow),
            ..WorkInfo::default()
        }
    }

    #[test]
    fn limits_say_where_they_come_from() {
        let limit = |operation: &str, limit_ms, from| DriveLimit {
            operation: operation.into(),
            limit_ms,
            from,
        };
        let all = [
            limit("short-read", 500, LimitSource::DriveClass),
            limit("read", 30_000, LimitSource::Default),
            limit("write", 5_000, LimitSource::Setting),
        ];
        let text = "short-read 500ms (drive class), read 30s, write 5s (serve --time-limit)";
        assert_eq!((limits(&all).as_deref(), limits(&[])), (Some(text), None));
    }

    #[test]
    fn what_a_drive_was_asked_is_a_table_of_what_took_how_long() {
        let (bucket_bounds_ns, slow_ns) = (vec![10_000, 1_000_000, 2_000_000_000], 1_000_000);
        let operations = vec![WorkInfo::default()];
        let none = DriveWork { slow_ns, bucket_bounds_ns, operations, limits: Vec::new() };
        assert_eq!(work(&none), None);
        let operations = vec![
            of("read", &[7, 0, 2, 1], 4_123_456_789, 3),
            of("write", &[0, 0, 5, 0], 10_000, 5),
            of("trim", &[0, 0, 0, 0], 0, 0),
        ];
        let text = work(&DriveWork { operations, ..none }).expect("something was asked");
        let expected = "
Operations since the start of the controller; slow ones took longer than 1ms:
 operation  completed  outstanding  failed  slow   mean
 read              10            0       0     3  412ms
 write              5            0       0     5    2µs

 latency up to  read  write
          10µs     7      -
            2s     2      5
        longer     1      -";
        let lines =
            |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(lines(&text), lines(expected));
    }
}
