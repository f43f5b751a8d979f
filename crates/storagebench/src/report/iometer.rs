//! Results in the layout of an Iometer 1.1 results file: comma-separated, a block per access
//! specification, with the same column order, for existing spreadsheets and scripts. Sizes in
//! `MiBps` are binary, in `MBps` decimal; times are in milliseconds. Columns for networks,
//! interrupts and the like are empty.

use crate::load::profile::Access;
use crate::results::{Results, quoted};
use crate::row::{Row, Split};

/// The columns before the latency bins.
const COLUMNS: &str = "'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# \
    Disks,IOps,Read IOps,Write IOps,MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),MBps \
    (Decimal),Read MBps (Decimal),Write MBps (Decimal),Transactions per Second,Connections per \
    Second,Average Response Time,Average Read Response Time,Average Write Response Time,Average \
    Transaction Time,Average Connection Time,Maximum Response Time,Maximum Read Response \
    Time,Maximum Write Response Time,Maximum Transaction Time,Maximum Connection Time,Errors,Read \
    Errors,Write Errors,Bytes Read,Bytes Written,Read I/Os,Write I/Os,Connections,Transactions per \
    Connection,Total Raw Read Response Time,Total Raw Write Response Time,Total Raw Transaction \
    Time,Total Raw Connection Time,Maximum Raw Read Response Time,Maximum Raw Write Response \
    Time,Maximum Raw Transaction Time,Maximum Raw Connection Time,Total Raw Run Time,Starting \
    Sector,Maximum Size,Queue Depth,% CPU Utilization,% User Time,% Privileged Time,% DPC Time,% \
    Interrupt Time,Processor Speed,Interrupts per Second,CPU Effectiveness,Packets/Second,Packet \
    Errors,Segments Retransmitted/Second";

/// The upper ends of the latency bins in microseconds; the last bin is open.
const BINS: [(&str, f64); 20] = [
    ("0 to 50 uS", 50.0),
    ("50 to 100 uS", 100.0),
    ("100 to 200 uS", 200.0),
    ("200 to 500 uS", 500.0),
    ("0.5 to 1 mS", 1e3),
    ("1 to 2 mS", 2e3),
    ("2 to 5 mS", 5e3),
    ("5 to 10 mS", 10e3),
    ("10 to 15 mS", 15e3),
    ("15 to 20 mS", 20e3),
    ("20 to 30 mS", 30e3),
    ("30 to 50 mS", 50e3),
    ("50 to 100 mS", 100e3),
    ("100 to 200 mS", 200e3),
    ("200 to 500 mS", 500e3),
    ("0.5 to 1 S", 1e6),
    ("1 to 2 S", 2e6),
    ("2 to 4.7 S", 4.7e6),
    ("4.7 to 5 S", 5e6),
    ("5 to 10 S", 10e6),
];
const LAST_BIN: &str = ">= 10 S";

/// The file; `date` is its timestamp (`2026-11-21 18:30:00`).
pub fn iometer_csv(results: &Results, date: &str) -> String {
    let mut lines = vec![
        "'Test Type,Test Description".to_owned(),
        format!("0,{}", quoted(&results.targets().join(" "))),
        "'Version".to_owned(),
        "1.1.0".to_owned(),
    ];
    for profile in results.profiles() {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.profile == profile).collect();
        let Some(first) = rows.first() else { continue };
        lines.extend(["'Time Stamp".to_owned(), date.to_owned()]);
        lines.extend(access_specification(first));
        let bins: String = BINS.iter().map(|(name, _)| format!(",{name}")).collect();
        lines.extend(["'Results".to_owned(), format!("{COLUMNS}{bins},{LAST_BIN}")]);
        for row in rows {
            lines.extend(["ALL", "DISK"].map(|kind| line(kind, row, results)));
        }
    }
    lines.extend(["'Time Stamp".to_owned(), date.to_owned()]);
    lines.join("\r\n") + "\r\n"
}

/// The access specification: a line for each block size.
fn access_specification(row: &Row) -> Vec<String> {
    let mut lines = vec![
        "'Access specifications".to_owned(),
        "'Access specification name,default assignment".to_owned(),
        format!("{},NONE", quoted(&row.profile)),
        "'size,% of size,% reads,% random,delay,burst,align,reply".to_owned(),
    ];
    let random = if row.access == Access::Random { 100 } else { 0 };
    let spec = |bytes: u64, share: f64| {
        format!("{bytes},{},{},{random},0,1,0,0", (share * 100.0).round(), row.read_percent)
    };
    match (&row.blocks, row.block_bytes) {
        (Some(blocks), _) => {
            lines.extend(blocks.iter().map(|block| spec(block.bytes, block.share)))
        }
        (None, Some(bytes)) => lines.push(spec(bytes, 1.0)),
        (None, None) => {}
    }
    lines.push("'End access specifications".to_owned());
    lines
}

fn line(kind: &str, row: &Row, results: &Results) -> String {
    let all = Split {
        ios: row.ios,
        iops: row.iops,
        throughput_mib_s: row.throughput_mib_s,
        latency_us: row.latency_us,
        errors: row.errors,
        ci95: None,
    };
    let splits = [&all, &row.read, &row.write];
    let each = |value: &dyn Fn(&Split) -> String| splits.map(value);
    let mib = f64::from(1 << 20);
    let ms = |split: &Split, pick: fn(&crate::Latency) -> f64| {
        split.latency_us.map_or(0.0, |latency| pick(&latency) / 1e3)
    };
    let bytes = |split: &Split| (split.throughput_mib_s * mib * row.duration_s).round().to_string();
    let nothing = |count: usize| vec![String::new(); count];
    let name = if kind == "ALL" { "All".to_owned() } else { quoted(&row.target) };
    let mut fields = vec![kind.to_owned(), name, quoted(&row.profile)];
    fields.extend(["1".to_owned(), row.workers.to_string(), "1".to_owned()]);
    fields.extend(each(&|split| split.iops.to_string()));
    fields.extend(each(&|split| split.throughput_mib_s.to_string()));
    fields.extend(each(&|split| format!("{:.6}", split.throughput_mib_s * mib / 1e6)));
    fields.extend([row.iops.to_string(), String::new()]);
    fields.extend(each(&|split| format!("{:.6}", ms(split, |latency| latency.mean))));
    fields.extend(nothing(2));
    fields.extend(each(&|split| format!("{:.6}", ms(split, |latency| latency.max))));
    fields.extend(nothing(2));
    fields.extend(each(&|split| split.errors.to_string()));
    fields.extend([
        bytes(&row.read),
        bytes(&row.write),
        row.read.ios.to_string(),
        row.write.ios.to_string(),
    ]);
    // Connections, raw ticks.
    fields.extend(nothing(11));
    // Starting sector and size: the area is a text here.
    fields.extend(nothing(2));
    fields.push(row.outstanding.to_string());
    fields.push(
        machine_share(row, results).map_or_else(String::new, |percent| format!("{percent:.3}")),
    );
    // The parts of CPU time, speed, interrupts, network.
    fields.extend(nothing(10));
    fields.extend(bins(row));
    fields.join(",")
}

/// The CPU share, 100 = all cores.
fn machine_share(row: &Row, results: &Results) -> Option<f64> {
    let cores =
        results.environment.0.iter().find(|(name, _)| name == "cores")?.1.parse::<f64>().ok()?;
    (cores >= 1.0).then_some(row.cpu_percent? / cores)
}

/// The number of requests in each bin; empty without a histogram.
fn bins(row: &Row) -> Vec<String> {
    let Some(cumulative) = row.detail.as_ref().and_then(|detail| detail.cumulative_us().ok())
    else {
        return vec![String::new(); BINS.len() + 1];
    };
    let at_most = |us: f64| {
        cumulative
            .iter()
            .take_while(|(value, _)| *value <= us)
            .last()
            .map_or(0, |(_, count)| *count)
    };
    let mut below = 0;
    let mut counts: Vec<String> = BINS
        .iter()
        .map(|(_, end)| {
            let count = at_most(*end);
            let own = count - below;
            below = count;
            own.to_string()
        })
        .collect();
    counts.push((cumulative.last().map_or(0, |(_, count)| *count) - below).to_string());
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_line_has_a_field_for_every_column() {
        let mut results = sample::results();
        results.rows[0].target = "a,b".to_owned();
        let text = iometer_csv(&results, "2026-11-21 18:30:00");
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        let header = lines.iter().find(|line| line.starts_with("'Target Type,")).unwrap();
        let columns = header.split(',').count();
        assert_eq!(columns, 59 + 21);
        let rows: Vec<&&str> = lines
            .iter()
            .filter(|line| line.starts_with("ALL,") || line.starts_with("DISK,"))
            .collect();
        assert_eq!(rows.len(), 2 * results.rows.len());
        for row in rows.iter().filter(|row| !row.contains('"')) {
            assert_eq!(row.split(',').count(), columns, "{row}");
        }
        let at = |name: &str| header.split(',').position(|column| column == name).unwrap();
        let second: Vec<&str> = rows[2].split(',').collect();
        assert_eq!((second[at("IOps")], second[at("Queue Depth")]), ("20000.5", "8"));
        assert_eq!(second[at("Average Response Time")], "0.400250");
        assert!(rows[1].starts_with("DISK,\"a,b\",database,"));
        assert_eq!(lines.iter().filter(|line| **line == "'Results").count(), 2);
        assert!(
            lines.contains(&"8192,100,67,100,0,1,0,0")
                && lines.contains(&"65536,100,100,0,0,1,0,0")
        );
    }
}
