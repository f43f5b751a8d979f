//! Time, time limits and messages between threads.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

mod common;

use common::on_a_shard;
use platform::mailbox::{Sender, mailbox};
use platform::{Completion, Drive, DriveInfo, IoErrorKind, IoOutcome, IoRequest, Member};
use platform_linux::{Settings, Shard, spawn_shard};
use smallvec::smallvec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, SectorSize};

fn settings() -> Settings {
    Settings::with_memory(ByteCount::MIB)
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines_and_not_early() {
    on_a_shard(|env| async move {
        let order = Rc::new(RefCell::new(Vec::new()));
        let start = env.now();
        let sleepers: Vec<_> = [30u64, 10, 20]
            .into_iter()
            .map(|ms| {
                let (env, order) = (env.clone(), order.clone());
                env.clone().spawn("sleeper", async move {
                    env.sleep(Duration::from_millis(ms)).await;
                    assert!(env.now() - start >= Duration::from_millis(ms));
                    order.borrow_mut().push(ms);
                })
            })
            .collect();
        for sleeper in sleepers {
            sleeper.await;
        }
        assert_eq!(*order.borrow(), [10, 20, 30]);
    });
}

#[test]
fn two_shards_exchange_messages_while_either_sleeps() {
    const ROUNDS: u64 = 20_000;
    let (hand_out, senders) = mpsc::channel::<Sender<u64>>();
    let (to_first, from_main) = mpsc::channel::<Sender<u64>>();
    let first = spawn_shard("first", settings(), move |env| {
        let (sender, mut receiver) = mailbox::<u64>(&env, 4);
        hand_out.send(sender).unwrap();
        let other = from_main.recv().unwrap();
        async move {
            let mut sum = 0;
            while let Some(number) = receiver.receive().await {
                sum += number;
                other.send(number + 1).unwrap();
            }
            sum
        }
    })
    .unwrap();
    let first_sender = senders.recv().unwrap();
    let second = spawn_shard("second", settings(), move |env| {
        let (sender, mut receiver) = mailbox::<u64>(&env, 4);
        to_first.send(sender).unwrap();
        async move {
            for round in 0..ROUNDS {
                first_sender.send(round).unwrap();
                assert_eq!(receiver.receive().await, Some(round + 1));
                if round % 1000 == 0 {
                    env.sleep(Duration::from_micros(200)).await;
                }
            }
        }
    })
    .unwrap();
    second.join().unwrap();
    assert_eq!(first.join().unwrap(), ROUNDS * (ROUNDS - 1) / 2);
}

#[test]
fn a_thread_outside_reaches_a_sleeping_shard() {
    let (hand_out, senders) = mpsc::channel();
    let shard = spawn_shard("sleeper", settings(), move |env| {
        let (sender, mut receiver) = mailbox::<&'static str>(&env, 1);
        hand_out.send(sender).unwrap();
        async move { receiver.receive().await }
    })
    .unwrap();
    let sender = senders.recv().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    sender.send("hello").unwrap();
    assert_eq!(shard.join().unwrap(), Some("hello"));
}

#[test]
fn a_nearer_deadline_takes_the_place_of_a_farther_one_that_the_shard_sleeps_by() {
    let (hand_out, senders) = mpsc::channel();
    let shard = spawn_shard("sleeper", settings(), move |env| {
        let (sender, mut receiver) = mailbox::<&'static str>(&env, 1);
        hand_out.send(sender).unwrap();
        async move {
            let far = env.clone();
            env.spawn("in an hour", async move { far.sleep(Duration::from_secs(3600)).await });
            // Without other work, the shard sleeps with the one-hour timer until it is woken.
            receiver.receive().await.unwrap();
            let start = env.now();
            // With another timer, with limits of the waits themselves, and with a timer again.
            for ms in [30, 2, 15, 40, 1] {
                env.sleep(Duration::from_millis(ms)).await;
            }
            env.now() - start
        }
    })
    .unwrap();
    let sender = senders.recv().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    sender.send("go on").unwrap();
    assert!(shard.join().unwrap() >= Duration::from_millis(88));
}

#[test]
fn a_panic_in_a_shard_goes_on_where_it_is_joined() {
    let shard =
        spawn_shard("doomed", settings(), |_| async { std::panic::panic_any("on purpose") })
            .unwrap();
    let panic =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shard.join())).unwrap_err();
    assert_eq!(*panic.downcast_ref::<&str>().unwrap(), "on purpose");
}

#[test]
fn a_shard_ends_with_tasks_and_operations_still_under_way() {
    let dir = common::TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        let drive = common::file_drive(&env, &path, 1 << 20).await;
        let address: platform::Address = format!("unix:{path}.socket").parse().unwrap();
        let listener = env.world().listen(&address).await.unwrap();
        env.spawn("accepts for ever", async move { listener.accept().await.map(drop) });
        env.spawn("reads", async move {
            loop {
                let buffers = smallvec![platform::Buf::unpooled(ByteCount(4096))];
                drive.read(ByteOffset(0), buffers).await.result.unwrap();
            }
        });
        env.sleep(Duration::from_millis(5)).await;
    });
    assert!(!std::path::Path::new(&dir.file("drive.socket")).exists());
}

/// A drive that holds its requests.
struct HoldingDrive {
    info: DriveInfo,
    kept: RefCell<Vec<(IoRequest, Completion)>>,
}

impl Drive for HoldingDrive {
    fn info(&self) -> &DriveInfo {
        &self.info
    }
    fn start(&self, request: IoRequest, completion: Completion) {
        self.kept.borrow_mut().push((request, completion));
    }
}

fn keeper() -> Rc<HoldingDrive> {
    let info = DriveInfo {
        name: "keeper".to_owned(),
        identity: platform::DriveIdentity("keeper".to_owned()),
        kind: platform::DriveKind::Memory,
        size: ByteCount::MIB,
        logical_sector: SectorSize::B512,
        physical_sector: SectorSize::B512,
        rotational: false,
        read_only: false,
        exclusive: true,
        hardware: platform::Hardware::default(),
    };
    Rc::new(HoldingDrive { info, kept: RefCell::default() })
}

#[test]
fn an_operation_that_never_returns_is_told_as_timed_out_and_stays_outstanding() {
    on_a_shard(|env| async move {
        let drive = keeper();
        let member = Member::with_time_limit(&env, drive.clone(), Duration::from_millis(20));
        let outcome = member.flush().await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::TimedOut);
        assert_eq!(member.outstanding(), 1);
        let (_, completion) = drive.kept.borrow_mut().pop().unwrap();
        completion.complete(IoOutcome::done(0));
        assert_eq!(member.outstanding(), 0);
    });
}

/// After a stop of the process all its drives had exceeded their time limits.
#[test]
fn a_process_that_did_not_run_blames_no_drive() {
    on_a_shard(|env| async move {
        let drive = keeper();
        let member = Member::with_time_limit(&env, drive.clone(), Duration::from_secs(2));
        let flush = member.flush();
        // Simulates a stop: the shard's thread does nothing meanwhile.
        std::thread::sleep(Duration::from_secs(3));
        env.sleep(Duration::from_millis(1)).await;
        let (_, completion) = drive.kept.borrow_mut().pop().unwrap();
        completion.complete(IoOutcome::done(0));
        assert!(flush.await.result.is_ok());
        assert!(env.executor().stood_still() >= Duration::from_secs(3));
    });
}

#[test]
fn a_shard_runs_again_where_it_stopped() {
    let shard = Shard::new(&settings()).unwrap();
    let count = Rc::new(Cell::new(0));
    let (env, counter) = (shard.env().clone(), count.clone());
    shard.env().spawn("counter", async move {
        loop {
            env.sleep(Duration::from_millis(1)).await;
            counter.set(counter.get() + 1);
        }
    });
    let env = shard.env().clone();
    shard.run(async move { env.sleep(Duration::from_millis(10)).await });
    let before = count.get();
    let env = shard.env().clone();
    shard.run(async move { env.sleep(Duration::from_millis(10)).await });
    assert!(count.get() > before);
}

#[test]
fn random_numbers_differ_from_shard_to_shard() {
    let draw = || on_a_shard(|env| async move { (env.random(), env.random()) });
    let (a, b) = (draw(), draw());
    assert!(a.0 != a.1 && a != b);
}
