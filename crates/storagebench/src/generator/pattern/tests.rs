use super::*;

fn pattern(profile: &str, start: u64, len: u64) -> Pattern {
    let area = ByteRange::new(ByteOffset(start), ByteCount(len));
    Pattern::new(&profile.parse().unwrap(), area, ByteCount(512)).unwrap()
}

fn refusal(profile: &str, len: u64, sector: u64) -> Error {
    let area = ByteRange::new(ByteOffset(0), ByteCount(len));
    Pattern::new(&profile.parse().unwrap(), area, ByteCount(sector)).unwrap_err()
}

fn walk(pattern: &Pattern, seed: u64) -> impl FnMut() -> Request {
    let walk = Walk::new(pattern, seed, 0, 1);
    move || walk.next(pattern, &Asker::default(), 0)
}

#[test]
fn sequential_streams_go_block_by_block_and_wrap_around() {
    let pattern = pattern("sequential,read,4K", 8192, 5 * 4096 + 100);
    let mut next = walk(&pattern, 1);
    let offsets: Vec<u64> = (0..7).map(|_| next().offset.0).collect();
    assert_eq!(offsets, [8192, 12288, 16384, 20480, 24576, 8192, 12288]);
}

#[test]
fn the_streams_of_several_workers_start_apart() {
    let pattern = pattern("sequential,write,4K", 0, 100 * 4096);
    let start = |worker| Walk::new(&pattern, 1, worker, 4).next(&pattern, &Asker::default(), 0);
    let starts: Vec<u64> = (0..4).map(|worker| start(worker).offset.0 / 4096).collect();
    assert_eq!(starts, [0, 25, 50, 75]);
}

#[test]
fn random_offsets_are_whole_blocks_all_over_the_area_and_nowhere_else() {
    let pattern = pattern("random,50%read,4K", 4096, 10 * 4096 + 4095);
    let mut next = walk(&pattern, 3);
    let mut hits = [0_u32; 10];
    for _ in 0..100_000 {
        let offset = next().offset.0 - 4096;
        assert_eq!(offset % 4096, 0);
        hits[(offset / 4096) as usize] += 1;
    }
    assert!(hits.iter().all(|count| (9500..10_500).contains(count)), "{hits:?}");
}

#[test]
fn the_share_of_reads_is_the_profiles() {
    for (percent, low, high) in
        [("0", 0, 0), ("1", 900, 1100), ("66.7", 66_100, 67_300), ("100", 100_000, 100_000)]
    {
        let pattern = pattern(&format!("random,{percent}%read,4K"), 0, 1 << 20);
        let mut next = walk(&pattern, 3);
        let reads = (0..100_000).filter(|_| next().operation == Operation::Read).count();
        assert!((low..=high).contains(&reads), "{percent}: {reads}");
    }
}

#[test]
fn mixed_blocks_come_with_their_shares_and_alignments() {
    let pattern = pattern("random,80%read,512/10:4K/60:64K/30,align=4K", 0, 1 << 20);
    let mut next = walk(&pattern, 1);
    let mut counts = std::collections::BTreeMap::<u64, f64>::new();
    for _ in 0..100_000 {
        let request = next();
        assert!(
            request.offset.0.is_multiple_of(4096) && request.offset.0 + request.block.0 <= 1 << 20
        );
        *counts.entry(request.block.0).or_default() += 1e-5;
    }
    let expected = [(512, 0.1), (4096, 0.6), (65_536, 0.3)];
    assert!(
        counts.iter().zip(expected).all(|((block, share), (size, wanted))| {
            *block == size
                && (share - wanted).abs() < 4.0 * (wanted * (1.0 - wanted) / 1e5_f64).sqrt()
        }),
        "{counts:?}"
    );
    assert_eq!(pattern.granule, ByteCount(512));
}

#[test]
fn sequential_requests_of_a_mix_continue_where_the_last_one_ended() {
    let pattern = pattern("80%random,read,8K,align=sector", 0, 1 << 30);
    let mut next = walk(&pattern, 7);
    let (mut end, mut followed) = (next().offset.0 + 8192, 0);
    for _ in 0..100_000 {
        let request = next();
        followed += u32::from(request.offset.0 == end);
        end = request.offset.0 + 8192;
    }
    // A fifth of 100,000, with a deviation of 126.
    assert!((19_500..20_500).contains(&followed), "{followed}");
}

#[test]
fn streams_keep_to_their_ranges() {
    let pattern = pattern("sequential,read,64K,streams=3x1M", 0, 4 << 20);
    let walk = Walk::new(&pattern, 1, 0, 1);
    let ask = |number, of, turn| walk.next(&pattern, &Asker { number, of, turn }, 0).offset.0 >> 16;
    // As many outstanding I/Os as streams: each has its own.
    assert_eq!([ask(0, 3, 0), ask(1, 3, 0), ask(2, 3, 0), ask(1, 3, 1)], [0, 16, 32, 17]);
    // Fewer: each alternates between several streams.
    assert_eq!((0..4).map(|turn| ask(0, 1, turn)).collect::<Vec<_>>(), [1, 18, 33, 2]);
    // They wrap within their megabyte.
    let last: Vec<u64> = (0..13).map(|_| ask(2, 3, 0)).collect();
    assert_eq!(last, [34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46]);
    assert_eq!([ask(2, 3, 0), ask(2, 3, 0)], [47, 32]);
}

#[test]
fn streams_are_dealt_out_to_workers() {
    let pattern = pattern("sequential,read,64K,streams=4", 0, 4 << 20);
    let first = |worker, turn| {
        let walk = Walk::new(&pattern, 1, worker, 2);
        walk.next(&pattern, &Asker { number: 0, of: 1, turn }, 0).offset.0 >> 20
    };
    assert_eq!([first(0, 0), first(0, 1), first(1, 0), first(1, 1)], [0, 2, 1, 3]);
}

#[test]
fn components_have_areas_of_their_own() {
    let kind = |block, random_percent| RequestKind {
        share: 1.0,
        block: ByteCount(block),
        read_percent: 0.0,
        random_percent,
        align: Align::Block,
    };
    let data = Component {
        share: 9.0,
        area: "0..90%".parse().unwrap(),
        ..Component::of(vec![kind(8192, 100.0)])
    };
    let log = Component {
        share: 1.0,
        area: "90%..".parse().unwrap(),
        ..Component::of(vec![kind(512, 0.0)])
    };
    let profile = Profile::new("both", crate::load::profile::Load::of(vec![data, log])).unwrap();
    let area = ByteRange::new(ByteOffset(1 << 20), ByteCount(100 << 20));
    let pattern = Pattern::new(&profile, area, ByteCount(512)).unwrap();
    let mut next = walk(&pattern, 1);
    let mut expected_log = (1 << 20) + (90 << 20);
    for _ in 0..20_000 {
        let request = next();
        let offset = request.offset.0;
        if request.block == ByteCount(512) {
            assert_eq!(offset, expected_log);
            expected_log += 512;
        } else {
            assert!(((1 << 20)..(91 << 20)).contains(&offset));
        }
    }
    assert!(expected_log > (91 << 20) + 512 * 1800);
}

#[test]
fn a_hot_spot_is_where_the_clock_says() {
    let pattern = pattern("random,read,4K,hot=100%:10%,moves=1s", 0, 100 << 20);
    let walk = Walk::new(&pattern, 1, 0, 1);
    for second in 0..25 {
        let offset = walk.next(&pattern, &Asker::default(), second * 1_000_000_000).offset.0 >> 20;
        let start = second % 10 * 10;
        assert!((start..start + 10).contains(&offset), "{offset} after {second} s");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() {
    for (profile, len, sector, part) in [
        (
            "database",
            4096,
            512,
            "has 4 KiB, less than one block of 8 KiB of the profile 'database'",
        ),
        ("random,read,512", 1 << 20, 4096, "blocks of 512 B, which are not whole 4 KiB sectors"),
        ("random,read,8K,align=512", 1 << 20, 4096, "an alignment of 512 B, which are not whole"),
        ("random,read,8K,hot=90%:4K", 1 << 20, 512, "a hot spot of the profile"),
        (
            "random,read,8K,hot=90%:4G",
            1 << 20,
            512,
            "has 4 GiB, more than the area's 1 MiB; give a larger target",
        ),
        ("random,read,64K,zones=50/1:50/99", 1 << 20, 512, "a zone of the profile"),
        ("sequential,read,64K,streams=8x1G", 1 << 30, 512, "8 streams of the profile"),
        ("sequential,read,64K,streams=2x100K", 1 << 20, 512, "no multiple of 64 KiB"),
        ("database,area=1G..2G", 1 << 30, 512, "is not within the 1 GiB of the target"),
    ] {
        let error = refusal(profile, len, sector).to_string();
        assert!(error.contains(part), "{profile}: {error}");
    }
}

#[test]
fn a_walk_is_a_function_of_its_seed() {
    let pattern = pattern("random,67%read,8K", 0, 1 << 30);
    let requests = |seed| {
        let mut next = walk(&pattern, seed);
        (0..100).map(|_| next()).collect::<Vec<_>>()
    };
    assert_eq!(requests(5), requests(5));
    assert_ne!(requests(5), requests(6));
}
