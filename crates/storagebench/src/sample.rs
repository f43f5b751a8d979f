//! Sample rows for the tests of this crate.

use crate::load::profile::Profile;
use crate::measurement::settings::Settings;
use crate::results::{Environment, Method, Results};
use crate::row::detail::{Detail, LatencyHistogram, Trace};
use crate::row::{Latency, Row, Split};
use crate::statistics::intervals::Interval95;
use crate::statistics::meter::{Count, Direction, Part};
use crate::text::rounded;

pub(crate) fn row(profile: &str, outstanding: u32, iops: f64, mean: f64) -> Row {
    let profile: Profile = profile.parse().unwrap();
    let latency = Latency {
        mean,
        p50: mean * 0.9,
        p90: mean * 1.5,
        p99: Some(mean * 3.0),
        p999: Some(mean * 6.0),
        max: mean * 9.5,
    };
    let share = f64::from(profile.read_percent()) / 100.0;
    let mib = profile.mean_block_bytes() / (1 << 20) as f64;
    let split = |share: f64| Split {
        ios: (iops * share * 30.0) as u64,
        iops: rounded(iops * share),
        throughput_mib_s: rounded(iops * share * mib),
        latency_us: (share > 0.0).then_some(latency),
        errors: 0,
        ci95: None,
    };
    let all = split(1.0);
    Row {
        target: "mem:1G".to_owned(),
        profile: profile.name().to_owned(),
        access: profile.access(),
        read_percent: profile.read_percent(),
        block_bytes: profile.block().map(|block| block.0),
        blocks: None,
        outstanding,
        workers: 1,
        duration_s: 30.0,
        ios: all.ios,
        iops,
        throughput_mib_s: all.throughput_mib_s,
        latency_us: all.latency_us,
        cpu_percent: Some(42.5),
        errors: 0,
        read: split(share),
        write: split(1.0 - share),
        ci95: Some(Interval95 {
            iops: [iops * 0.98, iops * 1.02].map(rounded),
            latency_us_mean: [mean * 0.98, mean * 1.02].map(rounded),
            freedom: 29.0,
            ..Interval95::default()
        }),
        resources: None,
        first_error: None,
        open_loop: None,
        steady_state: None,
        notes: Vec::new(),
        detail: None,
    }
}

/// A row with details: 120 slices of a quarter of a second, latencies from 100 µs.
pub(crate) fn detailed(profile: &str, outstanding: u32) -> Row {
    let mut row = row(profile, outstanding, 4000.0, 250.0);
    let (mut read, mut write) = (Direction::new(), Direction::new());
    for at in 0..10_000_u64 {
        let part = Part {
            count: Count { ios: 1, ..Count::default() },
            bins: vec![(100_000 + at * at, 1)],
        };
        if at % 3 == 0 { write.add(&part) } else { read.add(&part) }
    }
    let trace = |ios: u64| Trace {
        ios: (0..120).map(|at| ios + at % 7).collect(),
        bytes: vec![ios * 8192; 120],
        latency_ns_sum: vec![ios * 250_000; 120],
    };
    row.detail = Some(Box::new(Detail {
        slice_s: 0.25,
        read: trace(670),
        write: trace(330),
        latency_us_p99: (0..120).map(|at| (at != 5).then_some(700.0 + f64::from(at))).collect(),
        read_latency_ns: LatencyHistogram::of(&read.latencies_ns),
        write_latency_ns: LatencyHistogram::of(&write.latencies_ns),
    }));
    row
}

pub(crate) fn results() -> Results {
    let environment = Environment(vec![
        ("processor".to_owned(), "2 cores".to_owned()),
        ("kernel".to_owned(), "6.1.0".to_owned()),
    ]);
    let mut results = Results::new(Method::of(&Settings::default()), environment);
    for (outstanding, iops, mean) in
        [(1, 5000.0, 200.0), (8, 20_000.5, 400.25), (16, 19_000.0, 842.0)]
    {
        results.add_row(row("database", outstanding, iops, mean));
    }
    for (outstanding, iops, mean) in [(1, 700.0, 1428.0), (8, 900.0, 8888.0), (16, 850.0, 18_823.0)]
    {
        results.add_row(row("streaming", outstanding, iops, mean));
    }
    results
}
