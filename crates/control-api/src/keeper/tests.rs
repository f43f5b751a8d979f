//! Password guessing in simulated time. Tests measure only waits, not the time of hashing.

use super::*;
use crate::gate::Origin;
use access::Source;
use controller::{Controller, DiskMaker, Options};
use engine::ShardSeed;
use platform::Hosts;
use platform_sim::{Sim, SimOptions};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use units::ByteCount;

const CHEAP: Cost = Cost { memory_kib: 8, passes: 1 };

/// A folder that is removed after its test, and a simulated controller that only accepts notes.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    _sim: Sim,
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

pub(super) fn keeper(name: &str) -> (AccountStore, Folder) {
    let sim =
        Sim::new(SimOptions { shards: 1, memory: ByteCount(16 << 20), ..SimOptions::seeded(1) });
    let env = sim.env();
    let (_reports, receiver) = Controller::reports(&env, 1);
    let options = Options {
        drives: Vec::new(),
        hosts: Hosts::default(),
        cache_size: ByteCount::ZERO,
        cache_step: ByteCount::ZERO,
        read_cache: ByteCount::ZERO,
        limits: platform::LimitsByClass::default(),
        logs: Vec::new(),
        disks: DiskMaker::default(),
        ups: None,
        nbd: Vec::new(),
    };
    let seed = ShardSeed::new(&sim.shard(0), 1);
    let controller = Controller::begin(&env, options, vec![seed.sender()], receiver);
    let folder = std::env::temp_dir().join(format!("softroc-keeper-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let keeper = AccountStore::open(&Files::new(&folder), CHEAP, controller).expect("it is opened");
    (keeper, Folder { path: folder, _sim: sim })
}

/// With the account `ada`.
fn run<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Arc<AccountStore>) -> F) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let (keeper, _folder) = keeper(name);
        let by = controller::Caller {
            user: "root".to_owned(),
            origin: controller::Origin::Local { uid: 0, pid: None },
        };
        let hash = Hash::of(&Password::new("right one"), [1; 16], CHEAP).expect("a hash");
        let add = |accounts: &mut Accounts| accounts.add("ada", Role::Administrator, hash, false);
        keeper.change(&by, "ada", "a test", add).expect("it is added");
        test(Arc::new(keeper)).await;
    });
}

fn from(number: u8) -> Origin {
    let address = Ipv4Addr::new(10, 0, 0, number);
    Origin { source: Source::V4(address), text: format!("{address}:4000") }
}

async fn signs_in(keeper: &AccountStore, number: u8, name: &str, password: &str) -> Result<()> {
    keeper.open_session(name, &Password::new(password), &from(number)).await.map(|_| ())
}

/// Regression: after a wrong password of any source, no password was hashed for 200 ms.
#[test]
fn wrong_passwords_of_one_source_delay_no_other() {
    run("delay", |keeper| async move {
        let guesses: Vec<_> = (0..20)
            .map(|number| {
                let keeper = keeper.clone();
                tokio::spawn(async move {
                    signs_in(&keeper, 1, &format!("name-{number}"), "guess").await
                })
            })
            .collect();
        tokio::task::yield_now().await;
        for number in 2..10 {
            let begun = Instant::now();
            signs_in(&keeper, number, "ada", "right one").await.expect("it is right");
            assert!(begun.elapsed() < REST, "{number} waits for {:?}", begun.elapsed());
        }
        let begun = Instant::now();
        for guess in guesses {
            guess.await.expect("it ends").expect_err("it is wrong");
        }
        assert!(
            begun.elapsed() >= REST * 10,
            "the source itself waits after each: {:?}",
            begun.elapsed()
        );
    });
}

#[test]
fn every_wrong_answer_takes_as_long_and_says_the_same() {
    run("time", |keeper| async move {
        let mut answers = Vec::new();
        for (number, name) in [(1, "ada"), (2, "eve"), (3, "x".repeat(1000).as_str())] {
            for _ in 0..14 {
                let begun = Instant::now();
                let why = signs_in(&keeper, number, name, "guess").await.expect_err("it is wrong");
                answers.push((begun.elapsed().as_millis(), why.kind, why.message));
            }
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0].0, REST.as_millis());
    });
}

#[test]
fn a_lock_holds_for_its_source_alone_and_ends_by_itself() {
    run("lock", |keeper| async move {
        let limits = keeper.limits();
        signs_in(&keeper, 1, "ada", "right one").await.expect("it is right");
        for _ in 0..limits.failures {
            signs_in(&keeper, 1, "ada", "guess").await.expect_err("it is wrong");
        }
        signs_in(&keeper, 1, "ada", "right one").await.expect_err("it is locked");
        let told = keeper.show("ada").expect("an account");
        assert_eq!(told.locked_from, ["10.0.0.1"]);
        assert!(told.locked_s.is_some_and(|left_s| left_s <= limits.lock_s));
        signs_in(&keeper, 2, "ada", "right one").await.expect("it is not locked from there");
        tokio::time::sleep(Duration::from_secs(limits.lock_s)).await;
        signs_in(&keeper, 1, "ada", "right one").await.expect("it is over");
        assert_eq!(keeper.show("ada").expect("an account").locked_s, None);
    });
}

/// Regression: a remembered password let a throttled source continue guessing.
#[test]
fn a_remembered_password_tells_nothing_to_a_source_that_has_to_wait() {
    run("known", |keeper| async move {
        let right = Password::new("right one");
        keeper.of_password("ada", &right, &from(1)).await.expect("it is right");
        for _ in 0..keeper.limits().failures {
            signs_in(&keeper, 2, "ada", "guess").await.expect_err("it is wrong");
        }
        keeper.of_password("ada", &right, &from(2)).await.expect_err("it is locked there");
        keeper.of_password("ada", &right, &from(1)).await.expect("it is remembered");
        for _ in 0..keeper.limits().failures {
            signs_in(&keeper, 1, "ada", "guess").await.expect_err("it is wrong");
        }
        keeper.of_password("ada", &right, &from(1)).await.expect_err("it is locked there as well");
    });
}

#[test]
fn a_source_with_many_wrong_passwords_is_told_how_long_to_wait() {
    run("many", |keeper| async move {
        let limits = keeper.limits();
        let mut refused = None;
        for number in 0..=limits.source_failures + 3 {
            let why = signs_in(&keeper, 1, &format!("name-{number}"), "guess")
                .await
                .expect_err("it is wrong");
            if why.kind == ErrorKind::Busy {
                refused = Some(why);
                break;
            }
        }
        let why = refused.expect("it has to wait").message;
        assert!(why.contains("too many wrong passwords came from 10.0.0.1"), "{why}");
        signs_in(&keeper, 2, "ada", "right one").await.expect("another source does not");
        tokio::time::sleep(Duration::from_secs(limits.source_interval_s)).await;
        signs_in(&keeper, 1, "ada", "right one").await.expect("it may try again");
    });
}

#[test]
fn requests_at_once_with_the_right_password_are_all_let_in() {
    run("at-once", |keeper| async move {
        let requests: Vec<_> = (0..12)
            .map(|_| {
                let keeper = keeper.clone();
                let ask = async move {
                    keeper.of_password("ada", &Password::new("right one"), &from(1)).await
                };
                tokio::spawn(ask)
            })
            .collect();
        for request in requests {
            request.await.expect("it ends").expect("it is right");
        }
    });
}

#[test]
fn a_client_that_is_gone_leaves_its_turn_to_the_next() {
    run("gone", |keeper| async move {
        for number in 0..30 {
            let keeper = keeper.clone();
            let request = tokio::spawn(async move { signs_in(&keeper, 1, "ada", "guess").await });
            for _ in 0..number % 4 {
                tokio::task::yield_now().await;
            }
            request.abort();
        }
        signs_in(&keeper, 2, "ada", "right one").await.expect("it is right");
    });
}
