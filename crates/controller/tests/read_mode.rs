//! The read cache policies (`volume set --read-mode`, `--cache-mode`): the configured setting is
//! kept, and the setting in effect is reported and used by the shards.

use crate::common::{Bench, MIB};
use controller::{CacheMode, Command, ReadMode, SetPolicy};
use engine::ReadTerms;
use units::ByteCount;

const DRIVES: [&str; 3] = ["a", "b", "c"];

fn set(read_mode: Option<ReadMode>, cache_mode: Option<CacheMode>) -> Command {
    let volume = "data".to_owned();
    Command::VolumePolicy(SetPolicy { volume, read_mode, cache_mode, ..SetPolicy::default() })
}

/// A policy's configured and effective setting, the reason, and since when.
fn policy(bench: &mut Bench, name: &str) -> (String, String, String, u64) {
    let policies = bench.show("data").policies;
    let policy =
        policies.into_iter().find(|policy| policy.name == name).expect("the policy is listed");
    (policy.configured, policy.current, policy.reason, policy.since_unix_s)
}

fn terms(bench: &Bench) -> Vec<ReadTerms> {
    let of = |shard: &engine::Shard| {
        shard.volume_named("data").expect("the volume is online").read_terms()
    };
    bench.shards.iter().map(of).collect()
}

fn booted(seed: u64, cache: u64) -> Bench {
    let mut bench = Bench::in_order(seed, 2, 3);
    bench.read_cache = ByteCount(cache);
    bench.boot(&[]);
    bench
}

#[test]
fn a_volume_is_as_it_always_was_until_somebody_asks() {
    let mut bench = booted(1, MIB);
    bench.create_with("data", "raid5", &DRIVES, |_| {}).expect("created");
    assert_eq!(policy(&mut bench, "read-mode").1, "no-read-ahead");
    assert_eq!(policy(&mut bench, "cache-mode").1, "direct");
    assert_eq!(terms(&bench), [ReadTerms::default(); 2]);
}

#[test]
fn what_is_asked_for_reaches_every_shard_and_outlives_the_process() {
    let mut bench = booted(2, MIB);
    bench
        .create_with("data", "raid5", &DRIVES, |wanted| {
            wanted.read_mode = Some(ReadMode::ReadAhead)
        })
        .unwrap();
    let ahead = ReadTerms { read_ahead: true, ..ReadTerms::default() };
    assert_eq!(terms(&bench), [ahead; 2], "from the start");
    bench.ask(set(None, Some(CacheMode::Cached))).expect("the policy is set");
    let both = ReadTerms { read_ahead: true, cached: true, most_ahead: None };
    assert_eq!(terms(&bench), [both; 2], "the other policy is unchanged");
    assert!(bench.events().iter().any(|event| event.code == "volume.reads-changed"));
    bench.restart(&DRIVES);
    assert_eq!(terms(&bench), [both; 2], "the label has it");
    bench
        .ask(set(Some(ReadMode::NoReadAhead), Some(CacheMode::Direct)))
        .expect("the policy is set");
    assert_eq!(terms(&bench), [ReadTerms::default(); 2]);
}

#[test]
fn without_a_cache_it_is_wished_and_not_in_effect() {
    let mut bench = booted(3, 0);
    bench.create_with("data", "raid1", &DRIVES[..2], |_| {}).expect("created");
    bench.ask(set(Some(ReadMode::ReadAhead), None)).expect("recorded");
    let (configured, current, why, _) = policy(&mut bench, "read-mode");
    assert_eq!((configured.as_str(), current.as_str()), ("read-ahead", "no-read-ahead"));
    assert!(why.contains("--read-cache SIZE"), "{why}");
    assert_eq!(terms(&bench), [ReadTerms::default(); 2]);
    bench.read_cache = ByteCount(MIB);
    bench.restart(&DRIVES[..2]);
    assert_eq!(policy(&mut bench, "read-mode").1, "read-ahead");
    assert!(terms(&bench).iter().all(|terms| terms.read_ahead));
}

#[test]
fn since_when_does_not_change_where_nothing_changes() {
    let mut bench = booted(4, MIB);
    bench.create_with("data", "raid5", &DRIVES, |_| {}).expect("created");
    let first = policy(&mut bench, "read-mode").3;
    bench.wait(20);
    bench.ask(set(None, Some(CacheMode::Cached))).expect("the policy is set");
    assert_eq!(policy(&mut bench, "read-mode").3, first);
    assert!(policy(&mut bench, "cache-mode").3 >= first + 20);
}
