//! Guest drivers of a split queue: a correct one, and some that violate the specification.

use super::{AVAILABLE, CAPACITY, DESCRIPTORS, SIZE, USED};
use guests::GuestMemory;
use platform::{Buf, Env, Slices, Stream};
use platform_sim::Rng;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use units::ByteCount;
use vm_memory::{Bytes, GuestAddress};

pub const HEADER: usize = 16;
/// The number of protocol violations.
pub const ATTACKS: u64 = 6;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// The address of buffers.
const BUFFERS: u64 = 0x1_0000;
/// The address of an indirect table.
const TABLE: u64 = 0x8000;
const NOWHERE: u64 = 1 << 40;

/// A buffer of a request.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    To(&'a [u8]),
    From(usize),
    /// A device-readable or device-writable buffer at an unmapped address.
    NowhereTo(u32),
    NowhereFrom(u32),
}

pub fn header(kind: u32, sector: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[8..].copy_from_slice(&sector.to_le_bytes());
    bytes
}

#[derive(Default)]
struct DriverState {
    kick: Option<Rc<dyn Stream>>,
    call: Option<Rc<dyn Stream>>,
    available: u16,
    used: u16,
}

#[derive(Clone)]
pub struct Driver {
    env: Env,
    memory: Arc<GuestMemory>,
    event_idx: bool,
    state: Rc<RefCell<DriverState>>,
}

impl Driver {
    pub fn new(env: &Env, memory: &Arc<GuestMemory>, event_idx: bool) -> Driver {
        Driver { env: env.clone(), memory: memory.clone(), event_idx, state: Rc::default() }
    }

    pub fn set_events(&self, kick: Rc<dyn Stream>, call: Rc<dyn Stream>) {
        let mut state = self.state.borrow_mut();
        (state.kick, state.call) = (Some(kick), Some(call));
    }

    /// Begins with an empty ring.
    pub fn reset(&self) {
        self.put(0, &vec![0; BUFFERS as usize]);
        *self.state.borrow_mut() = DriverState::default();
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn number(&self, at: u64) -> u16 {
        self.memory.read_obj::<u16>(GuestAddress(at)).unwrap()
    }

    fn descriptor(&self, at: u64, address: u64, len: u32, flags: u16, next: u16) {
        let bytes = [
            &address.to_le_bytes()[..],
            &len.to_le_bytes(),
            &flags.to_le_bytes(),
            &next.to_le_bytes(),
        ];
        self.put(at, &bytes.concat());
    }

    /// Makes a chain available.
    fn offer(&self, head: u16) {
        let available = self.state.borrow().available;
        self.put(AVAILABLE + 4 + u64::from(available % SIZE) * 2, &head.to_le_bytes());
        self.state.borrow_mut().available = available.wrapping_add(1);
        self.put(AVAILABLE + 2, &available.wrapping_add(1).to_le_bytes());
    }

    async fn kick(&self) {
        let (kick, new) =
            (self.state.borrow().kick.clone().unwrap(), self.state.borrow().available);
        let is_wanted = match self.event_idx {
            true => self.number(USED + 4 + u64::from(SIZE) * 8) == new.wrapping_sub(1),
            false => self.number(USED) & 1 == 0,
        };
        if is_wanted {
            let event: Slices = std::iter::once(Buf::copy_of(&[1; 8]).freeze()).collect();
            // A killed process receives no kick.
            let _ = kick.send(event).await;
        }
    }

    /// The next used head, and the number of bytes written for it.
    fn next_used(&self) -> Option<(u16, u32)> {
        let used = self.state.borrow().used;
        if self.number(USED + 2) == used {
            return None;
        }
        let at = USED + 4 + u64::from(used % SIZE) * 8;
        let head: u32 = self.memory.read_obj(GuestAddress(at)).unwrap();
        let written: u32 = self.memory.read_obj(GuestAddress(at + 4)).unwrap();
        let next = used.wrapping_add(1);
        self.state.borrow_mut().used = next;
        // Request a call for the next completion.
        self.put(AVAILABLE + 4 + u64::from(SIZE) * 2, &next.to_le_bytes());
        Some((head as u16, written))
    }

    /// Waits for a call until a head is used.
    async fn wait_used(&self) -> (u16, u32) {
        loop {
            if let Some(used) = self.next_used() {
                return used;
            }
            let call = self.state.borrow().call.clone().unwrap();
            let heard = call.receive(Buf::unpooled(ByteCount(64))).await;
            assert!(matches!(heard.result, Ok(1..)), "the process is gone");
        }
    }

    /// Sends a request of `parts` and a status byte; returns the status and the data of `expected`
    /// bytes.
    pub async fn ask(&self, parts: &[Part<'_>], expected: usize) -> (u8, Vec<u8>) {
        let status = BUFFERS - 16;
        let placed = self.place(parts);
        for (index, (address, len, flags)) in placed.iter().enumerate() {
            self.descriptor(
                DESCRIPTORS + index as u64 * 16,
                *address,
                *len,
                flags | NEXT,
                index as u16 + 1,
            );
        }
        self.descriptor(DESCRIPTORS + placed.len() as u64 * 16, status, 1, WRITE, 0);
        self.offer(0);
        self.kick().await;
        let (head, written) = self.wait_used().await;
        let (status, data) = self.outcome(status, &placed, expected);
        assert!(
            head == 0 && (status != 0 || written as usize == expected + 1),
            "{written} bytes were written"
        );
        (status, data)
    }

    /// The same with an indirect table, and the status behind the data in the last buffer.
    pub async fn ask_indirect(&self, parts: &[Part<'_>], expected: usize) -> (u8, Vec<u8>) {
        let placed = self.place(parts);
        let own = (BUFFERS - 16, 1, WRITE);
        let mut table = placed.clone();
        let status = match table.last_mut() {
            Some((address, len, WRITE)) => {
                *len += 1;
                *address + u64::from(*len) - 1
            }
            _ => {
                table.push(own);
                own.0
            }
        };
        for (index, (address, len, flags)) in table.iter().enumerate() {
            let more = if index + 1 < table.len() { NEXT } else { 0 };
            self.descriptor(
                TABLE + index as u64 * 16,
                *address,
                *len,
                flags | more,
                index as u16 + 1,
            );
        }
        self.descriptor(DESCRIPTORS + 48, TABLE, table.len() as u32 * 16, INDIRECT, 0);
        self.offer(3);
        self.kick().await;
        assert_eq!(self.wait_used().await.0, 3);
        self.outcome(status, &placed, expected)
    }

    /// Writes the buffers to memory, with gaps between.
    fn place(&self, parts: &[Part<'_>]) -> Vec<(u64, u32, u16)> {
        let mut at = BUFFERS + 3;
        let mut placed = Vec::new();
        for part in parts {
            match *part {
                Part::To(bytes) => {
                    self.put(at, bytes);
                    placed.push((at, bytes.len() as u32, 0));
                    at += bytes.len() as u64 + 7;
                }
                Part::From(len) => {
                    self.put(at, &vec![0xEE; len]);
                    placed.push((at, len as u32, WRITE));
                    at += len as u64 + 7;
                }
                Part::NowhereTo(len) => placed.push((NOWHERE, len, 0)),
                Part::NowhereFrom(len) => placed.push((NOWHERE, len, WRITE)),
            }
        }
        placed
    }

    fn outcome(&self, status: u64, placed: &[(u64, u32, u16)], expected: usize) -> (u8, Vec<u8>) {
        let mut data = Vec::new();
        for (address, len, _) in
            placed.iter().filter(|(address, _, flags)| *flags == WRITE && *address < NOWHERE)
        {
            let mut bytes = vec![0; *len as usize];
            self.memory.read_slice(&mut bytes, GuestAddress(*address)).unwrap();
            data.extend(bytes);
        }
        data.truncate(expected);
        (self.memory.read_obj(GuestAddress(status)).unwrap(), data)
    }

    /// Violates the protocol, then sends a valid request: neither completes.
    pub async fn attack(&self, way: u64) {
        let status = BUFFERS - 16;
        match way {
            0 => self.state.borrow_mut().available += SIZE + 1,
            1 => self.offer(SIZE + 3),
            2 => {
                self.descriptor(DESCRIPTORS, BUFFERS, 16, NEXT, 0);
                self.offer(0);
            }
            3 => {
                self.descriptor(TABLE, TABLE, 16, INDIRECT, 0);
                self.descriptor(DESCRIPTORS, TABLE, 16, INDIRECT, 0);
                self.offer(0);
            }
            4 => {
                self.descriptor(DESCRIPTORS, BUFFERS, 16, 0, 0);
                self.offer(0);
            }
            _ => {
                self.descriptor(DESCRIPTORS, BUFFERS, 16, NEXT, SIZE);
                self.offer(0);
            }
        }
        let available = self.state.borrow().available;
        self.put(AVAILABLE + 2, &available.to_le_bytes());
        self.kick().await;
        self.env.sleep(Duration::from_millis(10)).await;
        self.put(BUFFERS, &header(4, 0));
        self.descriptor(DESCRIPTORS, BUFFERS, 16, NEXT, 1);
        self.descriptor(DESCRIPTORS + 16, status, 1, WRITE, 0);
        self.offer(0);
        self.kick().await;
        self.env.sleep(Duration::from_millis(10)).await;
        assert_eq!(self.next_used(), None, "attack {way}");
    }

    /// Performs all writes, with at most two outstanding requests, over any number of processes.
    pub async fn write(&self, writes: &Writes) {
        // A request has three descriptors and its own buffers.
        let mut free = vec![0_u16, 3];
        let mut asked: Vec<(u16, usize)> = Vec::new();
        let mut next = 0;
        while next < writes.all.len() || !asked.is_empty() {
            while next < writes.all.len() && !free.is_empty() {
                let (sector, value) = writes.all[next];
                // One outstanding write per sector: the order of two would be undefined.
                if asked.iter().any(|(_, other)| writes.all[*other].0 == sector) {
                    break;
                }
                let head = free.pop().unwrap();
                let buffer = BUFFERS + u64::from(head) * 0x1000;
                self.put(buffer, &header(1, sector));
                self.put(buffer + 64, &[value; 512]);
                self.put(buffer + 32, &[0xEE]);
                let at = DESCRIPTORS + u64::from(head) * 16;
                self.descriptor(at, buffer, 16, NEXT, head + 1);
                self.descriptor(at + 16, buffer + 64, 512, NEXT, head + 2);
                self.descriptor(at + 32, buffer + 32, 1, WRITE, 0);
                asked.push((head, next));
                self.offer(head);
                self.kick().await;
                next += 1;
            }
            while let Some((head, _)) = self.next_used() {
                let at = asked.iter().position(|(asked, _)| *asked == head);
                let (_, number) =
                    asked.remove(at.unwrap_or_else(|| panic!("{head} completed twice")));
                let status: u8 = self
                    .memory
                    .read_obj(GuestAddress(BUFFERS + u64::from(head) * 0x1000 + 32))
                    .unwrap();
                assert_eq!(status, 0, "write {number}");
                writes.answered.fetch_add(1, Ordering::Relaxed);
                free.push(head);
            }
            self.env.sleep(Duration::from_micros(20)).await;
        }
    }
}

/// Writes to sectors, some repeated with other values.
pub struct Writes {
    all: Vec<(u64, u8)>,
    answered: AtomicU64,
}

impl Writes {
    pub fn new(seed: u64, count: usize) -> Writes {
        let mut rng = Rng::new(seed, "writes", "");
        let all = (0..count).map(|number| (rng.below(12), number as u8 + 1)).collect();
        Writes { all, answered: AtomicU64::new(0) }
    }

    /// Each write completed once, and each sector holds its last value.
    pub fn check(&self, content: &[u8]) {
        assert_eq!(self.answered.load(Ordering::Relaxed), self.all.len() as u64);
        assert_eq!(content.len() as u64, CAPACITY);
        let mut expected = vec![0; content.len()];
        for (sector, value) in &self.all {
            expected[*sector as usize * 512..][..512].fill(*value);
        }
        assert!(content == expected, "a sector does not hold the last write");
    }
}
