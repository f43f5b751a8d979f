//! Doubts about a row, from the row and from observations of the machine. Each has a sentence with
//! the observation and its meaning.

use crate::row::Row;
use crate::statistics::surroundings::Surrounded;
use crate::text::{count, duration, number};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a note, for programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// The measuring thread or the whole machine was saturated: the figures show the generator's
    /// limit.
    CpuSaturated,
    /// The CPU clock changed.
    ClockUnstable,
    /// The processors or the device were throttled by heat, or are close to it.
    Thermal,
    /// A hypervisor took CPU time.
    StolenTime,
    /// Other processes ran, or used the device.
    BackgroundLoad,
    /// A cache served requests instead of the device.
    CacheHits,
    /// The target did not reach a steady state.
    NotSteady,
    /// The interval is wider than requested.
    Unsure,
    /// The rate or the latency varies more slowly than the run can average.
    SlowSwings,
    /// Too few requests for some figures.
    FewRequests,
    /// Requests failed.
    Errors,
}

/// A doubt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Its kind.
    pub kind: NoteKind,
    /// A sentence.
    pub text: String,
}

impl NoteKind {
    /// What the note means for the figures of a row.
    pub fn grade(self) -> Grade {
        match self {
            NoteKind::Errors | NoteKind::CacheHits => Grade::Invalid,
            NoteKind::CpuSaturated
            | NoteKind::ClockUnstable
            | NoteKind::Thermal
            | NoteKind::StolenTime
            | NoteKind::BackgroundLoad
            | NoteKind::NotSteady
            | NoteKind::SlowSwings => Grade::Warning,
            NoteKind::Unsure | NoteKind::FewRequests => Grade::Information,
        }
    }
}

/// How far a note touches the figures of its row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grade {
    /// The figures do not describe the target.
    Invalid,
    /// The figures describe the target under the noted conditions.
    Warning,
    /// The figures are correct, and less precise.
    Information,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grade::Invalid => "invalid",
            Grade::Warning => "warning",
            Grade::Information => "information",
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A thread with this CPU share is saturated.
const SATURATED_PERCENT: f64 = 95.0;
/// The tolerated CPU share of other processes, in percent of a core.
const OTHERS_PERCENT: f64 = 20.0;
/// The tolerated share of a hypervisor, in percent of a core.
const STOLEN_PERCENT: f64 = 2.0;
/// The tolerated change of the clock.
const CLOCK_PERCENT: f64 = 10.0;
/// The tolerated difference between the device's counters and this measurement's.
const DEVICE_PERCENT: f64 = 10.0;
/// Other device activity below this rate is ignored.
const DEVICE_FLOOR_BYTES_S: f64 = 1_048_576.0;
/// No rotating drive has a lower mean latency for random requests: a revolution takes 4 ms at
/// 15,000 rpm, half of one 2 ms, and seeks add to it.
const ROTATING_US: f64 = 1000.0;
/// From this correlation between batches, longer batches are needed.
pub(crate) const SLOW_CORRELATION: f64 = 0.5;
/// With fewer requests the 99th percentile is one of the two longest.
const FEW_REQUESTS: u64 = 200;

/// The criteria for doubts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// Whether the target is one rotating drive.
    pub(crate) rotating: bool,
    /// The requested half width of intervals, in percent.
    pub(crate) confidence_percent: Option<f64>,
    /// The maximum number of rounds, if a steady state was requested.
    pub(crate) max_rounds: Option<u32>,
}

/// The doubts about a row.
pub(crate) fn judge(row: &Row, around: &Surrounded, expected: &Expected) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut add = |kind, text: Option<String>| notes.extend(text.map(|text| Note { kind, text }));
    add(NoteKind::Errors, errors(row));
    add(NoteKind::NotSteady, not_steady(row, expected));
    add(NoteKind::SlowSwings, slow_swings(row));
    add(NoteKind::Unsure, unsure(row, expected));
    add(NoteKind::FewRequests, few_requests(row));
    add(NoteKind::CpuSaturated, saturated(around));
    add(NoteKind::StolenTime, stolen(around));
    add(NoteKind::BackgroundLoad, others(around));
    add(NoteKind::BackgroundLoad, device_busy(row, around));
    add(NoteKind::CacheHits, cached(row, around, expected));
    add(NoteKind::ClockUnstable, clock(around));
    add(NoteKind::Thermal, thermal(around));
    notes
}

fn errors(row: &Row) -> Option<String> {
    let first = row.first_error.as_ref()?;
    Some(match row.errors {
        0 | 1 => format!("A request failed: {first}."),
        many => format!("{} requests failed; the first was {first}.", count(many)),
    })
}

fn not_steady(row: &Row, expected: &Expected) -> Option<String> {
    let steady = row.steady_state.filter(|steady| !steady.reached)?;
    let seen = format!(
        "five rounds of {} differ by {:.0} % of their average and drift by {:.0} % (20 % and 10 % \
            would be steady)",
        duration(steady.round_s * 1e6),
        steady.range_percent,
        steady.slope_percent
    );
    Some(match expected.max_rounds {
        Some(_) => format!(
            "No steady state within {} rounds: the last {seen}. The figures describe these rounds, \
                not the target.",
            steady.rounds
        ),
        None => format!(
            "Not steady: {seen}. A longer ramp, preconditioning or --steady-state may show the \
             target's steady state."
        ),
    })
}

fn slow_swings(row: &Row) -> Option<String> {
    let interval = row.ci95.filter(|interval| interval.correlation >= SLOW_CORRELATION)?;
    Some(format!(
        "The rate or the latency swings slowly (neighbouring parts of the run correlate by \
         {:.2}): the intervals are widened for it, and may still be too narrow. Measure longer.",
        interval.correlation
    ))
}

fn unsure(row: &Row, expected: &Expected) -> Option<String> {
    let wanted = expected.confidence_percent?;
    let Some(interval) = row.ci95 else {
        return Some("The run was too short for intervals.".to_owned());
    };
    let half = |[low, high]: [f64; 2], value: f64| (high - low) / 2.0 / value * 100.0;
    let rate = half(interval.iops, row.iops);
    let latency =
        row.latency_us.map_or(0.0, |latency| half(interval.latency_us_mean, latency.mean));
    let widest = rate.max(latency);
    // A deviation below the displayed precision needs no note.
    (widest > wanted * 1.005).then(|| {
        format!(
            "The rate and the mean latency are known to ± {widest:.1} % only, not to the ± \
             {wanted} % asked for; increase --max-runtime."
        )
    })
}

fn few_requests(row: &Row) -> Option<String> {
    (row.ios < FEW_REQUESTS)
        .then(|| format!("Only {} requests completed: percentiles are unreliable.", count(row.ios)))
}

fn saturated(around: &Surrounded) -> Option<String> {
    if let Some(thread) = around.thread_percent().filter(|percent| *percent >= SATURATED_PERCENT) {
        return Some(format!(
            "The measuring thread used {thread:.0} % of its core: the figures may be the \
                generator's limit, not the target's."
        ));
    }
    let (machine, cores) = (around.machine_percent()?, f64::from(around.cores()?));
    (machine >= SATURATED_PERCENT * cores).then(|| {
        format!(
            "All {cores} processors were busy ({machine:.0} % of {:.0} %): the figures may be the \
                machine's limit, not the target's.",
            cores * 100.0
        )
    })
}

fn stolen(around: &Surrounded) -> Option<String> {
    let (stolen, cores) = (around.stolen_percent()?, f64::from(around.cores()?));
    (stolen >= STOLEN_PERCENT * cores).then(|| {
        format!(
            "The hypervisor took {stolen:.0} % of a core away: this machine is shared, and figures \
                vary with its neighbours."
        )
    })
}

fn others(around: &Surrounded) -> Option<String> {
    let own = around.process_percent()? + around.server_percent().unwrap_or_default();
    let others = around.machine_percent()? - own;
    (others >= OTHERS_PERCENT).then(|| {
        format!(
            "Other processes and the kernel's own threads used {others:.0} % of a core meanwhile."
        )
    })
}

/// Bytes that the row read and wrote.
fn moved(row: &Row) -> (f64, f64) {
    let bytes = |mib_s: f64| mib_s * row.duration_s * f64::from(1 << 20);
    (bytes(row.read.throughput_mib_s), bytes(row.write.throughput_mib_s))
}

fn device_busy(row: &Row, around: &Surrounded) -> Option<String> {
    let ((read, written), (ours_read, ours_written)) = (around.device_bytes()?, moved(row));
    let name = &around.looks.last()?.device.as_ref()?.name;
    let floor = DEVICE_FLOOR_BYTES_S * row.duration_s;
    let beyond =
        |device: f64, ours: f64| device - ours > (ours * DEVICE_PERCENT / 100.0).max(floor);
    (beyond(read, ours_read) || beyond(written, ours_written)).then(|| {
        let rate = |bytes: f64| number(bytes / row.duration_s / f64::from(1 << 20));
        format!(
            "The device {name} read {} MiB/s and wrote {} MiB/s, more than this measurement asked \
             for ({} and {}): other programs used it too.",
            rate(read),
            rate(written),
            rate(ours_read),
            rate(ours_written)
        )
    })
}

fn cached(row: &Row, around: &Surrounded, expected: &Expected) -> Option<String> {
    if let Some((read, _)) = around.device_bytes() {
        let name = &around.looks.last()?.device.as_ref()?.name;
        let (ours, _) = moved(row);
        let floor = DEVICE_FLOOR_BYTES_S * row.duration_s;
        if ours - read > (ours * DEVICE_PERCENT / 100.0).max(floor) {
            return Some(format!(
                "{:.0} % of the read data did not come from the device {name}: a cache served \
                 them, or blocks were never written; the figures are not the device's alone.",
                (1.0 - read / ours) * 100.0
            ));
        }
    }
    let median = row.read.latency_us.filter(|_| row.access == crate::Access::Random)?.p50;
    (expected.rotating && median < ROTATING_US).then(|| {
        format!(
            "Half of the random reads took no more than {}, which no rotating drive can do: a \
             cache served them.",
            duration(median)
        )
    })
}

fn clock(around: &Surrounded) -> Option<String> {
    let (low, high) = around.clock_mhz()?;
    (high - low > high * CLOCK_PERCENT / 100.0).then(|| {
        format!(
            "The processors' clock moved between {} and {} MHz: CPU-bound figures vary with it.",
            number(low),
            number(high)
        )
    })
}

fn thermal(around: &Surrounded) -> Option<String> {
    if let Some(times) = around.throttles().filter(|times| *times > 0.0) {
        return Some(format!("The processors were slowed down {times} times because of heat."));
    }
    let look = around.looks.last()?;
    let (celsius, limit) = look.device_celsius?;
    let name = look.device.as_ref().map_or("target", |device| device.name.as_str());
    (celsius >= limit).then(|| {
        format!("The device {name} is at {celsius:.0} °C; from {limit:.0} °C on it may slow down.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::statistics::steady::SteadyState;
    use crate::statistics::surroundings::{DeviceCounters, MachineTime, Snapshot};

    const SECOND: u64 = 1_000_000_000;

    fn around(change: impl Fn(&mut Snapshot)) -> Surrounded {
        let first = Snapshot {
            process_cpu_ns: Some(0),
            thread_cpu_ns: Some(0),
            server_cpu_ns: None,
            machine: Some(MachineTime { cores: 2, busy_ns: 0, stolen_ns: 0 }),
            clock_mhz: Some(3000.0),
            throttles: Some(7),
            device: Some(DeviceCounters {
                name: "sda".to_owned(),
                read_bytes: 0,
                written_bytes: 0,
            }),
            device_celsius: None,
        };
        let row = sample::row("database", 8, 10_000.0, 800.0);
        let (read, written) = moved(&row);
        let mut last = first.clone();
        last.process_cpu_ns = Some(15 * SECOND);
        last.thread_cpu_ns = Some(15 * SECOND);
        last.machine = Some(MachineTime { cores: 2, busy_ns: 17 * SECOND, stolen_ns: 0 });
        last.device = Some(DeviceCounters {
            name: "sda".to_owned(),
            read_bytes: read as u64,
            written_bytes: written as u64,
        });
        change(&mut last);
        Surrounded { seconds: 30.0, looks: vec![first, last] }
    }

    fn kinds(row: &Row, around: &Surrounded, expected: &Expected) -> Vec<NoteKind> {
        judge(row, around, expected).into_iter().map(|note| note.kind).collect()
    }

    /// The daemon on this machine that serves the measured volume was "another program".
    #[test]
    fn the_process_that_serves_the_target_is_no_background_load() {
        let row = sample::row("database", 8, 10_000.0, 800.0);
        let busy = |look: &mut Snapshot| {
            look.machine = Some(MachineTime { cores: 2, busy_ns: 30 * SECOND, stolen_ns: 0 });
        };
        let mut around = around(busy);
        assert_eq!(kinds(&row, &around, &Expected::default()), [NoteKind::BackgroundLoad]);
        around.looks[0].server_cpu_ns = Some(0);
        around.looks[1].server_cpu_ns = Some(13 * SECOND);
        assert_eq!(kinds(&row, &around, &Expected::default()), []);
    }

    #[test]
    fn only_errors_and_caches_make_a_row_invalid() {
        assert_eq!(NoteKind::CacheHits.grade(), Grade::Invalid);
        assert_eq!(NoteKind::BackgroundLoad.grade(), Grade::Warning);
        assert_eq!(NoteKind::FewRequests.grade().to_string(), "information");
    }

    #[test]
    fn a_quiet_machine_gives_no_note() {
        let row = sample::row("database", 8, 10_000.0, 800.0);
        let expected = Expected { confidence_percent: Some(2.0), ..Expected::default() };
        assert_eq!(judge(&row, &around(|_| ()), &expected), []);
        let unknown = Surrounded { seconds: 30.0, looks: vec![Snapshot::default(); 2] };
        assert_eq!(judge(&row, &unknown, &expected), []);
        assert_eq!(judge(&row, &Surrounded { seconds: 0.0, looks: vec![] }, &expected), []);
    }

    #[test]
    fn what_is_seen_around_a_run_is_noted() {
        type Change = fn(&mut Snapshot);
        let cases: [(Change, NoteKind, &str); 9] = [
            (
                |look| look.thread_cpu_ns = Some(29 * SECOND),
                NoteKind::CpuSaturated,
                "used 97 % of its core",
            ),
            (
                |look| {
                    look.machine =
                        Some(MachineTime { cores: 2, busy_ns: 59 * SECOND, stolen_ns: 0 });
                    look.process_cpu_ns = Some(58 * SECOND);
                },
                NoteKind::CpuSaturated,
                "All 2 processors were busy (197 % of 200 %)",
            ),
            (
                |look| {
                    look.machine =
                        Some(MachineTime { cores: 2, busy_ns: 17 * SECOND, stolen_ns: 3 * SECOND });
                },
                NoteKind::StolenTime,
                "took 10 % of a core",
            ),
            (
                |look| {
                    look.machine =
                        Some(MachineTime { cores: 2, busy_ns: 30 * SECOND, stolen_ns: 0 });
                },
                NoteKind::BackgroundLoad,
                "used 50 % of a core",
            ),
            (
                |look| look.device.as_mut().unwrap().written_bytes += 30 << 20 << 6,
                NoteKind::BackgroundLoad,
                "other programs used it too",
            ),
            (
                |look| look.device.as_mut().unwrap().read_bytes /= 2,
                NoteKind::CacheHits,
                "50 % of the read data did not come from the device sda",
            ),
            (
                |look| look.clock_mhz = Some(2000.0),
                NoteKind::ClockUnstable,
                "between 2000 and 3000 MHz",
            ),
            (|look| look.throttles = Some(9), NoteKind::Thermal, "slowed down 2 times"),
            (
                |look| look.device_celsius = Some((84.0, 80.0)),
                NoteKind::Thermal,
                "sda is at 84 °C; from 80 °C on",
            ),
        ];
        let row = sample::row("database", 8, 10_000.0, 800.0);
        for (change, kind, words) in cases {
            let notes = judge(&row, &around(change), &Expected::default());
            assert_eq!(notes.len(), 1, "{words}: {notes:?}");
            assert!(notes[0].kind == kind && notes[0].text.contains(words), "{words}: {notes:?}");
        }
    }

    #[test]
    fn a_rotating_drive_that_is_too_quick_has_a_cache() {
        let expected = Expected { rotating: true, ..Expected::default() };
        let quick = sample::row("database", 8, 10_000.0, 800.0);
        assert_eq!(kinds(&quick, &around(|_| ()), &expected), [NoteKind::CacheHits]);
        let slow = sample::row("random,read,4K", 1, 100.0, 10_000.0);
        assert_eq!(kinds(&slow, &around(|look| look.device = None), &expected), []);
        // Sequential reads may come from the drive's own buffer.
        let streaming = sample::row("streaming", 8, 3000.0, 300.0);
        assert_eq!(kinds(&streaming, &around(|look| look.device = None), &expected), []);
    }

    #[test]
    fn what_the_figures_themselves_show_is_noted() {
        let mut row = sample::row("streaming", 8, 5.0, 800.0);
        let steady = SteadyState {
            reached: false,
            rounds: 25,
            round_s: 60.0,
            range_percent: 31.0,
            slope_percent: 4.0,
        };
        row.steady_state = Some(steady);
        row.ci95.as_mut().unwrap().correlation = 0.7;
        row.first_error = Some("a read failed".to_owned());
        let around = Surrounded { seconds: 0.0, looks: vec![] };
        let expected =
            Expected { confidence_percent: Some(1.0), max_rounds: Some(25), ..Expected::default() };
        use NoteKind::{Errors, FewRequests, NotSteady, SlowSwings, Unsure};
        assert_eq!(
            kinds(&row, &around, &expected),
            [Errors, NotSteady, SlowSwings, Unsure, FewRequests]
        );
        let texts: Vec<String> =
            judge(&row, &around, &expected).iter().map(Note::to_string).collect();
        assert!(
            texts[1].starts_with(
                "No steady state within 25 rounds: the last five rounds of \
            60.0 s differ by 31 % of their average and drift by 4 %"
            ),
            "{}",
            texts[1]
        );
        assert!(texts[3].contains("± 2.0 % only, not to the ± 1 % asked for"), "{}", texts[3]);
    }
}
