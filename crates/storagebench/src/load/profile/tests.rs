use super::*;

fn parse(text: &str) -> Profile {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn the_standard_profiles_are_the_white_papers() {
    let table: Vec<String> = Profile::standard()
        .iter()
        .map(|profile| format!("{}: {}", profile.name(), profile.description()))
        .collect();
    assert_eq!(
        table,
        [
            "file-copy: random, 50% read, 64 KiB",
            "file-server: random, 67% read, 64 KiB",
            "database: random, 67% read, 8 KiB",
            "streaming: sequential, read, 64 KiB",
            "restore: sequential, write, 64 KiB",
        ]
    );
}

#[test]
fn inline_profiles_say_what_they_are() {
    for (text, access, reads, block, name) in [
        ("random,67%read,8K", Access::Random, 67, 8 << 10, "random,67%read,8K"),
        (
            "Sequential, 100% read, 64k",
            Access::Sequential,
            100,
            64 << 10,
            "sequential,100%read,64K",
        ),
        ("seq,write,1M", Access::Sequential, 0, 1 << 20, "sequential,0%read,1M"),
        ("rand,30%write,1536", Access::Random, 70, 1536, "random,70%read,1536"),
        ("random,read,512", Access::Random, 100, 512, "random,100%read,512"),
        ("80%random,66.5%read,4K", Access::Mixed, 67, 4096, "80%random,66.5%read,4K"),
        (
            "seq,read,64K,streams=8X2G",
            Access::Sequential,
            100,
            65_536,
            "sequential,100%read,64K,streams=8x2g",
        ),
    ] {
        let profile = parse(text);
        assert_eq!((profile.access(), profile.read_percent()), (access, reads), "{text}");
        assert_eq!((profile.block(), profile.name()), (Some(ByteCount(block)), name));
        assert_eq!(parse(name), profile, "the name is parsed back");
    }
}

#[test]
fn options_change_any_profile() {
    for (text, description) in [
        ("random,read,4K/60:64K/40", "random, read, 4 KiB to 64 KiB"),
        ("database,zipf=1.1", "random, 67% read, 8 KiB, Zipf 1.1"),
        ("database,pareto=0.2", "random, 67% read, 8 KiB, Pareto 0.2"),
        ("database,normal=10%", "random, 67% read, 8 KiB, normal 10%"),
        ("database,hot=90%:4G", "random, 67% read, 8 KiB, 90% of it to 4 GiB"),
        (
            "db, hot=90%:10%, moves=10s",
            "random, 67% read, 8 KiB, 90% of it to 10% of the area moving every 10s",
        ),
        ("random,read,4K,zones=50/5:30/15:20/80", "random, read, 4 KiB, in 3 zones"),
        ("streaming,streams=8x2G", "sequential, read, 64 KiB, 8 streams 2 GiB apart"),
        ("database,rate=5000/s,arrivals=fixed", "random, 67% read, 8 KiB, 5000/s (fixed)"),
        ("database,rate=0.5", "random, 67% read, 8 KiB, 0.5/s (poisson)"),
        ("database,think=5ms:4", "random, 67% read, 8 KiB, 5ms pause after 4"),
        ("restore,compressible=50%", "sequential, write, 64 KiB, 50% compressible"),
        ("restore,area=0..10%", "sequential, write, 64 KiB, in 0..10%"),
    ] {
        let profile = parse(text);
        assert_eq!(profile.description(), description, "{text}");
        assert_eq!(parse(profile.name()), profile, "the name is parsed back");
    }
}

#[test]
fn an_open_loop_is_one_point_and_an_own_ladder_is_kept() {
    let ladder: Ladder = "1..16".parse().unwrap();
    assert_eq!(parse("database").rungs(&ladder), [1, 2, 4, 8, 16]);
    assert_eq!(parse("database,rate=100").rungs(&ladder), [16]);
    assert_eq!(parse("access-time").rungs(&ladder), [1]);
    assert_eq!(parse("access-time").on_any_ladder().rungs(&ladder).len(), 5);
}

#[test]
fn shares_are_averages_over_everything() {
    let profile = parse("iometer-file-server");
    assert!(
        (profile.mean_block_bytes() / 1024.0 - 11.1).abs() < 0.05,
        "{}",
        profile.mean_block_bytes()
    );
    assert_eq!((profile.blocks().len(), profile.block()), (8, None));
    assert!((profile.blocks()[3].share - 0.6).abs() < 1e-12);
    assert_eq!(profile.largest_block(), ByteCount(65_536));
    let drive = parse("os-drive");
    assert_eq!((drive.access(), drive.read_percent()), (Access::Mixed, 63));
    assert_eq!(drive.description(), "90% random, 63% read, 4 KiB, 2 components");
}

#[test]
fn a_wrong_profile_gets_a_sentence_that_names_the_part() {
    for (text, part) in [
        ("databse", "'databse' is not a load profile; choose one of file-copy, file-server"),
        ("random,67%read", "has 2 parts"),
        (
            "random,67%read,8K,9K",
            "'9k' is not an option; expected KEY=VALUE with one of align, zipf",
        ),
        ("random,67%read,8K,speed=9", "'speed=9' is not an option"),
        ("zigzag,67%read,8K", "in 'zigzag,67%read,8K', 'zigzag' is not a load profile"),
        ("random,67%reed,8K", "'67%reed' is not a share of reads"),
        ("random,167%read,8K", "'167%read' is not a share of reads"),
        ("random,67read,8K", "'67read' is not a share of reads"),
        ("random,67%read,8X", "the block size '8x' is not a size"),
        ("random,67%read,0", "a block of 0 B"),
        ("random,67%read,1000", "a block of 1000 B"),
        ("random,67%read,1G", "a block of 1 GiB"),
        ("random,67%read,4K/60:8K/30", "the shares of the blocks add up to 90% instead of 100%"),
        ("random,67%read,4K/x:8K/30", "'x' is not a share of the blocks"),
        ("database,zipf=steep", "'zipf=steep' is not understood; expected zipf= with 1.1"),
        ("database,pareto=1", "a Pareto share of 1 is not between 0.0001 and 0.9999"),
        ("database,normal=10%,zipf=1.1", "normal= and zipf= exclude one another; give one of them"),
        ("database,zipf=99", "a Zipf exponent of 99 is not between 0 and 10"),
        (
            "database,moves=10s",
            "'moves=10s' is not understood; expected moves= with 10s after hot=",
        ),
        ("database,arrivals=fixed", "expected arrivals= with poisson or fixed after rate="),
        ("database,rate=0", "0 requests a second is not a rate"),
        ("database,think=5", "expected think= with 5ms or 5ms:4"),
        ("database,think=5ms:0", "a burst of 0 requests"),
        ("database,zones=50/50:40/50", "the zones' shares of the requests add up to 90%"),
        ("database,hot=90%:0", "a hot spot of no bytes"),
        ("database,zipf=1.1,zipf=1.2", "zipf= is given twice; give it once"),
        ("database,zipf=1.1,hot=90%:10%", "zipf= and hot= exclude one another; give one of them"),
        ("database,rate=5/s,think=1ms", "rate= and think= exclude one another"),
        ("database,streams=4", "'streams=4' has no effect, since no request is sequential"),
        ("streaming,zipf=1.1", "'zipf=1.1' has no effect, since no request is random"),
        ("streaming,compressible=50%", "'compressible=50%' has no effect, since it writes nothing"),
        ("streaming,streams=0", "'streams=0' is not understood"),
        ("streaming,streams=5000", "5000 streams are too many"),
        ("database,align=1000", "an alignment of 1000 B is not whole 512-byte sectors"),
        ("database,compressible=200%", "'compressible=200%' is not understood"),
        ("standard", "'standard' names 5 load profiles where one is expected"),
    ] {
        let Err(error) = text.parse::<Profile>() else { panic!("{text} is taken") };
        assert_eq!(error.kind, ErrorKind::BadProfile);
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}
