//! A ublk queue in virtual time, while its volume stops and returns, and when the disk is given up.

mod common;

use common::{CAPACITY, Disk, TestTargets};
use guests::{GuestMessage, KernelStart, QueueId, guest_mailbox, serve_guests};
use platform::{
    Completion, Env, Hosts, Io, IoError, IoOutcome, KernelQueue, KernelQueueSource, KernelRequest,
    KernelWork, Peer, mailbox,
};
use platform_sim::{Sim, SimOptions};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const BLOCK: u64 = 4096;
const EIO: i32 = -5;

/// The results that the kernel received, with their times.
type Answers = Arc<Mutex<Vec<(Duration, i32)>>>;

/// A queue with one slot, whose kernel reads a block every second.
struct Kernel {
    env: Env,
    answers: Answers,
    asked: Cell<u32>,
    /// Held until the next request arrives.
    next: RefCell<Option<Completion>>,
}

impl KernelQueue for Kernel {
    fn depth(&self) -> u16 {
        1
    }

    fn next(&self, _: u16, answer: i32) -> Io {
        if self.asked.replace(self.asked.get() + 1) > 0 {
            self.answers.lock().unwrap().push((Duration::from_nanos(self.env.now().ns), answer));
        }
        let (io, completion) = self.env.start_operation(None);
        *self.next.borrow_mut() = Some(completion);
        io
    }

    fn request(&self, _: u16) -> KernelRequest {
        let range = ByteRange::new(ByteOffset(CAPACITY - BLOCK), ByteCount(BLOCK));
        KernelRequest { work: KernelWork::Read, range, durable: false }
    }

    fn take(&self, _: u16, _: u64, _: &mut [u8]) -> Result<(), IoError> {
        unreachable!("nothing is written")
    }

    fn give(&self, _: u16, _: u64, from: &[u8]) -> Result<(), IoError> {
        assert_eq!(from.len() as u64, BLOCK);
        Ok(())
    }
}

struct Source(Answers);

impl KernelQueueSource for Source {
    fn attach(self: Box<Self>, env: &Env) -> platform::Result<Rc<dyn KernelQueue>> {
        let kernel = Rc::new(Kernel {
            env: env.clone(),
            answers: self.0,
            asked: Cell::default(),
            next: RefCell::default(),
        });
        let asks = kernel.clone();
        env.spawn("the kernel asks", async move {
            loop {
                asks.env.sleep(Duration::from_secs(1)).await;
                let next = asks.next.borrow_mut().take();
                if let Some(next) = next {
                    next.complete(IoOutcome::done(0));
                }
            }
        });
        Ok(kernel)
    }
}

struct Machine {
    sim: Sim,
    disk: Rc<Disk>,
    shard: mailbox::Sender<GuestMessage>,
    answers: Answers,
}

const QUEUE: QueueId = QueueId(7);

impl Machine {
    fn start() -> Machine {
        let sim = Sim::new(SimOptions { memory: ByteCount(4 << 20), ..SimOptions::seeded(1) });
        let (disk, answers) = (Rc::new(Disk::new(false)), Answers::default());
        let (shard, receiver) = guest_mailbox(&sim.env());
        sim.env().spawn(
            "guests",
            serve_guests(TestTargets::new(&sim.env(), &disk), Hosts::default(), receiver),
        );
        let start = KernelStart {
            queue: QUEUE,
            target: 1,
            peer: Peer::at("/dev/ublkb0"),
            read_only: false,
            source: Box::new(Source(answers.clone())),
            alive: Arc::new(()),
        };
        assert!(shard.send(GuestMessage::Kernel(Box::new(start))).is_ok());
        Machine { sim, disk, shard, answers }
    }

    /// Lets time pass. Returns the results in that time.
    fn pass(&mut self, seconds: u64) -> Vec<(Duration, i32)> {
        self.answers.lock().unwrap().clear();
        let later = self.sim.now() + Duration::from_secs(seconds);
        self.sim.run_until(later).unwrap();
        self.answers.lock().unwrap().clone()
    }
}

fn codes(answers: &[(Duration, i32)]) -> Vec<i32> {
    answers.iter().map(|(_, answer)| *answer).collect()
}

#[test]
fn requests_wait_for_a_volume_that_is_away_and_fail_after_two_minutes() {
    let mut machine = Machine::start();
    let read = BLOCK as i32;
    assert!(codes(&machine.pass(5)).len() >= 4);
    machine.disk.is_away.set(true);
    // Reads in progress may still complete.
    let answered = codes(&machine.pass(60));
    assert!(answered.len() <= 1 && answered.iter().all(|code| *code == read), "{answered:?}");
    machine.disk.is_away.set(false);
    assert!(codes(&machine.pass(5)).iter().all(|code| *code == read));
    machine.disk.is_away.set(true);
    machine.pass(115);
    assert_eq!(codes(&machine.pass(10)), [EIO]);
}

/// Regression: `detach --force` of a disk with a stopped volume. The kernel removes it after all
/// requests are complete, so the removal, and the removal of every other disk, waited for two
/// minutes.
#[test]
fn what_waits_fails_at_once_when_the_disk_is_given_up() {
    let mut machine = Machine::start();
    machine.pass(5);
    machine.disk.is_away.set(true);
    machine.pass(30);
    let given_up = Duration::from_nanos(machine.sim.now().ns);
    assert!(machine.shard.send(GuestMessage::GiveUp(QUEUE)).is_ok());
    let answers = machine.pass(5);
    // The waiting request, and later ones.
    assert!(answers.len() >= 4 && codes(&answers).iter().all(|code| *code == EIO), "{answers:?}");
    assert!(
        answers[0].0 - given_up < Duration::from_millis(200),
        "{answers:?}, given up at {given_up:?}"
    );
}
