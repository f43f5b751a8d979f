//! A machine in virtual time: a memory disk, the process that serves it, and a guest with a driver.
#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

mod disk;
mod driver;

pub use disk::{Disk, TestTargets};
pub use driver::{ATTACKS, Driver, HEADER, Part, Writes, header};

use guests::{
    Disk as Told, GuestMemory, GuestMessage, InFlight, QueueId, QueueStart, RingPlace,
    guest_mailbox, in_flight_bytes, serve_guests,
};
use platform::{Address, Env, Hosts, Peer, Stream, StreamSource, mailbox};
use platform_sim::{ProcessId, Sim, SimOptions};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use units::ByteCount;
use vm_memory::{Bytes, GuestAddress};

pub const CAPACITY: u64 = 4 << 20;
/// Longer than the longest payload that memory allows.
pub const LONG: usize = (2 << 20) + 4096;
const MEMORY: ByteCount = ByteCount(4 << 20);
const GUEST_BYTES: usize = 8 << 20;

/// The queue's size and addresses.
pub const SIZE: u16 = 8;
pub const DESCRIPTORS: u64 = 0x1000;
pub const AVAILABLE: u64 = 0x2000;
pub const USED: u64 = 0x3000;

pub struct Machine {
    sim: Sim,
    disk: Rc<Disk>,
    guest: ProcessId,
    memory: Arc<GuestMemory>,
    notes: Arc<GuestMemory>,
    driver: Driver,
    event_idx: bool,
    shard: mailbox::Sender<GuestMessage>,
    queue: QueueId,
    writing: Option<platform::JoinHandle<()>>,
}

fn new_memory(len: usize) -> Arc<GuestMemory> {
    Arc::new(GuestMemory::from_ranges(&[(GuestAddress(0), len)]).unwrap())
}

impl Machine {
    pub fn start(seed: u64, read_only: bool, event_idx: bool) -> Machine {
        let mut sim = Sim::new(SimOptions { memory: MEMORY, ..SimOptions::seeded(seed) });
        let guest = sim.add_process();
        let memory = new_memory(GUEST_BYTES);
        let disk = Rc::new(Disk::new(read_only));
        let driver = Driver::new(&sim.env_of(guest, 0), &memory, event_idx);
        let shard = serve(&sim.env(), &disk);
        let notes = new_memory(in_flight_bytes(SIZE).as_usize());
        let queue = QueueId(0);
        let mut machine = Machine {
            sim,
            disk,
            guest,
            memory,
            notes,
            driver,
            event_idx,
            shard,
            queue,
            writing: None,
        };
        machine.start_queue();
        machine
    }

    /// An event shared by the guest and the process: both ends.
    fn event(&mut self, name: &str) -> (Rc<dyn Stream>, Box<dyn StreamSource>) {
        let address = Address::Unix(format!("{name}{}", self.queue.0));
        let (env, guest) = (self.sim.env(), self.sim.env_of(self.guest, 0));
        let listens = address.clone();
        let listener =
            self.sim.run(async move { env.world().listen(&listens).await }).unwrap().unwrap();
        let connecting = guest.spawn("connect", {
            let guest = guest.clone();
            async move { guest.world().connect(&address).await.unwrap().attach(&guest).unwrap() }
        });
        let far = self.sim.run(async move { listener.accept().await }).unwrap().unwrap();
        (self.sim.finish(&connecting).unwrap(), far)
    }

    /// Starts the queue at its used ring's index, as a virtual machine monitor does. A broken ring
    /// is reset first.
    pub fn start_queue(&mut self) {
        self.queue.0 += 1;
        let (kick, far_kick) = self.event("kick");
        let (call, far_call) = self.event("call");
        self.driver.set_events(kick, call);
        let next: u16 = self.memory.read_obj(GuestAddress(USED + 2)).unwrap();
        let start = QueueStart {
            queue: self.queue,
            target: 1,
            peer: Peer::at("guest"),
            disk: Told { geometry: disk::geometry(), read_only: self.disk.read_only },
            negotiated: guests::Negotiated { flushes: true, event_idx: self.event_idx },
            memory: self.memory.clone(),
            ring: RingPlace {
                size: SIZE,
                descriptors: DESCRIPTORS,
                available: AVAILABLE,
                used: USED,
                next_available: next,
            },
            in_flight: Some(InFlight::new(self.notes.clone(), ByteCount::ZERO, SIZE)),
            kick: far_kick,
            call: Some(far_call),
        };
        assert!(self.shard.send(GuestMessage::Start(Box::new(start))).is_ok());
    }

    /// Runs the guest's task to its end.
    pub fn run<F: Future<Output = ()> + 'static>(&mut self, does: impl FnOnce(Driver) -> F) {
        let task = self.sim.env_of(self.guest, 0).spawn("guest", does(self.driver.clone()));
        self.sim.finish(&task).unwrap();
    }

    pub fn flushes(&self) -> u64 {
        self.disk.flushes.get()
    }

    pub fn changes(&self) -> u64 {
        self.disk.changes.get()
    }

    pub fn longest_call(&self) -> ByteCount {
        ByteCount(self.disk.longest.get())
    }

    /// Transfers that took no task of a queue.
    pub fn begun(&self) -> u64 {
        self.disk.begun.get()
    }

    pub fn content(&self) -> Vec<u8> {
        self.disk.bytes.borrow().clone()
    }

    /// Stops the queue, and returns whether it had ended. Resets the ring.
    pub fn queue_ends(&mut self) -> bool {
        let (tell, told) = mpsc::channel();
        assert!(self.shard.send(GuestMessage::Stop(self.queue, tell)).is_ok());
        let later = self.sim.now() + Duration::from_secs(1);
        self.sim.run_until(later).unwrap();
        self.driver.reset();
        self.notes = new_memory(in_flight_bytes(SIZE).as_usize());
        told.try_recv().is_ok()
    }

    /// The guest writes until `events` events have happened; then the process is killed.
    pub fn write_until_killed(&mut self, writes: &Arc<Writes>, events: u64) {
        self.begin_to_write(writes);
        let stop = self.sim.events() + events;
        self.sim.stop_at_event(Some(stop));
        let later = self.sim.now() + Duration::from_millis(100);
        // The run stops at the event; this is not an error.
        let _ = self.sim.run_until(later);
        self.sim.stop_at_event(None);
        self.sim.kill();
    }

    fn begin_to_write(&mut self, writes: &Arc<Writes>) {
        if self.writing.is_none() {
            let (driver, writes) = (self.driver.clone(), writes.clone());
            let env = self.sim.env_of(self.guest, 0);
            self.writing = Some(env.spawn("writer", async move { driver.write(&writes).await }));
        }
    }

    /// Starts the next process. Returns the number of in-flight requests of the last one.
    pub fn restart(&mut self) -> u64 {
        let env = self.sim.restart_process();
        self.shard = serve(&env, &self.disk);
        let mut marks = 0;
        for head in 0..u64::from(SIZE) {
            let mark: u8 = self.notes.read_obj(GuestAddress(16 + head * 16)).unwrap();
            marks += u64::from(mark);
        }
        self.start_queue();
        marks
    }

    /// The guest performs all remaining writes.
    pub fn write_all(&mut self, writes: &Arc<Writes>) {
        self.begin_to_write(writes);
        let task = self.writing.take().unwrap();
        self.sim.finish(&task).unwrap();
    }
}

fn serve(env: &Env, disk: &Rc<Disk>) -> mailbox::Sender<GuestMessage> {
    let (sender, receiver) = guest_mailbox(env);
    env.spawn("guests", serve_guests(TestTargets::new(env, disk), Hosts::default(), receiver));
    sender
}
