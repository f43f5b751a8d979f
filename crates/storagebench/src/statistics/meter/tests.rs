//! Tests of the meter.

use super::*;

/// A window of 3 µs from 1 µs, in thirty slices.
fn meter() -> Meter {
    Meter::new(1000, 4000, 100)
}

fn ios(reading: &Reading) -> Vec<u64> {
    reading.slices.iter().map(Slice::ios).collect()
}

#[test]
fn few_latencies_and_many_make_the_same_bins() {
    let mut random = crate::generator::random::Random::new(3);
    for many in [0, 1, FEW - 1, FEW, FEW + 1, 5 * FEW] {
        let (mut recorder, mut all) = (Recorder::new(), histogram::<u64>());
        for round in 0..2 {
            let latencies: Vec<u64> =
                (0..many).map(|_| random.below(1 << 30) >> random.below(30)).collect();
            latencies.iter().for_each(|latency| recorder.record(*latency, 1));
            latencies.iter().for_each(|latency| all.saturating_record(*latency));
            let mut seen = 0;
            recorder.each(|_, count| seen += count);
            let (part, each) = (recorder.take(), all.iter_recorded());
            let bins: Vec<(u64, u64)> =
                each.map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
            assert_eq!((seen, &part.bins), (many as u64, &bins), "{many}, {round}");
            let worst = latencies.iter().max().copied();
            assert_eq!(
                part.quantile_ns(1.0),
                worst.map(|worst| worst.min(part.count.latency_max_ns))
            );
            let median = all.value_at_quantile(0.5).min(part.count.latency_max_ns);
            assert_eq!(part.quantile_ns(0.5), (many > 0).then_some(median));
            all.reset();
        }
    }
}

#[test]
fn only_what_completes_in_the_window_counts() {
    let meter = meter();
    for now in [0, 999, 1000, 2500, 3999, 4000, 9000] {
        meter.complete(now, now, Operation::Read, 512);
    }
    let reading = meter.finish();
    let Count { ios, bytes, latency_sum_ns, latency_max_ns, errors } = reading.read.count;
    assert_eq!(
        (ios, bytes, latency_sum_ns, latency_max_ns, errors),
        (3, 1536, 1000 + 2500 + 3999, 3999, 0)
    );
    assert_eq!((reading.read.latencies_ns.len(), reading.read.quantile_ns(1.0)), (3, 3999));
    assert_eq!((reading.write.count.ios, reading.duration_ns), (0, 3000));
}

#[test]
fn every_counted_completion_is_in_one_slice() {
    let meter = meter();
    for now in (1000..4000).step_by(50) {
        meter.complete(now, 7, if now % 100 == 0 { Operation::Read } else { Operation::Write }, 1);
    }
    let reading = meter.finish();
    assert_eq!((reading.slice_ns, ios(&reading)), (100, vec![2; 30]));
    assert!(
        reading
            .slices
            .iter()
            .all(|slice| slice.latency_sum_ns() == 14 && slice.both().bins == [(7, 2)])
    );
    assert_eq!(reading.read.sum(&reading.write).count.ios, 60);
}

#[test]
fn silence_gives_empty_slices_and_a_stop_drops_the_broken_one_from_the_spread_alone() {
    let meter = meter();
    meter.complete(1050, 1, Operation::Read, 1);
    meter.complete(1450, 1, Operation::Read, 1);
    meter.complete(1610, 1, Operation::Read, 1);
    meter.stop(1620);
    meter.stop(9999);
    meter.complete(1620, 1, Operation::Read, 1);
    let reading = meter.finish();
    assert_eq!((reading.read.count.ios, reading.duration_ns), (3, 620));
    assert_eq!(ios(&reading), [1, 0, 0, 0, 1, 0]);
}

#[test]
fn a_stop_before_the_window_leaves_nothing() {
    let meter = meter();
    meter.complete(500, 1, Operation::Read, 512);
    let look = meter.look();
    assert_eq!((look.ios, look.bytes, look.errors), (1, 512, 0));
    meter.stop(600);
    let reading = meter.finish();
    assert_eq!((reading.duration_ns, reading.read.count.ios, reading.slices.len()), (0, 0, 0));
}

#[test]
fn errors_count_in_the_window_and_have_no_latency() {
    let meter = meter();
    meter.fail(10, Operation::Write);
    meter.fail(1500, Operation::Write);
    assert_eq!(meter.look().errors, 1);
    let reading = meter.finish();
    let count = reading.write.count;
    assert_eq!((count.errors, count.ios, reading.write.latencies_ns.len()), (1, 0, 0));
}

#[test]
fn a_window_may_be_extended_and_its_beginning_forgotten() {
    let meter = meter();
    meter.extend(5000);
    meter.extend(2000);
    for now in (1000..6000).step_by(100) {
        meter.complete(now, now, Operation::Write, 1);
    }
    assert_eq!(meter.with_slices(6000, <[Slice]>::len), 40);
    meter.forget(30);
    assert_eq!(meter.window_start_ns(), 4000);
    let reading = meter.finish();
    assert_eq!(
        (reading.duration_ns, reading.write.count.ios, reading.slices.len()),
        (1000, 10, 10)
    );
    assert_eq!(reading.write.count.latency_sum_ns, (4000..5000).step_by(100).sum::<u64>());
}

#[test]
fn what_completes_after_a_stop_at_a_slices_boundary_is_not_counted_but_failures_are() {
    let meter = meter();
    meter.complete(1999, 1, Operation::Read, 1);
    // No clock reading since 2000, when the window is to end.
    meter.complete(2005, 1, Operation::Read, 1);
    meter.fail(2105, Operation::Read);
    meter.complete(2205, 1, Operation::Read, 1);
    meter.stop(2000);
    let reading = meter.finish();
    assert_eq!(reading.read.count.errors, 1);
    assert_eq!((reading.read.count.ios, reading.duration_ns, reading.slices.len()), (1, 1000, 10));
}

#[test]
fn many_slices_become_fewer_longer_ones_and_nothing_is_lost() {
    let meter = Meter::new(0, u64::MAX, 10);
    for now in 0..20_000 {
        meter.complete(now, now, if now % 3 == 0 { Operation::Read } else { Operation::Write }, 1);
    }
    meter.stop(20_000);
    let reading = meter.finish();
    assert_eq!((reading.slice_ns, reading.slices.len()), (80, 250));
    assert!(reading.slices.iter().all(|slice| slice.ios() == 80));
    let all = reading.read.sum(&reading.write);
    assert_eq!((all.count.ios, all.latencies_ns.len()), (20_000, 20_000));
    let middle = all.latencies_ns.value_at_quantile(0.5);
    assert!((9990..=10_010).contains(&middle), "{middle}");
}

#[test]
fn the_share_below_a_latency_counts_whole_bins() {
    let meter = meter();
    for latency in [10, 20, 20, 30] {
        meter.complete(1500, latency, Operation::Read, 1);
    }
    let part = meter.finish().slices[5].both();
    assert_eq!([5, 10, 25, 30].map(|latency| part.at_most(latency)), [0, 1, 3, 4]);
}

#[test]
fn a_look_shows_the_latencies_by_powers_of_two() {
    let meter = meter();
    for latency in [1, 3, 1000, 1023, 1024, LONGEST_NS] {
        meter.complete(1500, latency, Operation::Read, 1);
    }
    let shape = meter.look().shape;
    assert_eq!((shape[0], shape[1], shape[9], shape[10], shape[41]), (1, 1, 2, 1, 1));
    assert_eq!(shape.iter().sum::<u64>(), 6);
}
