//! A second protocol: what `null_port` gets from the shared session, with well-behaved and hostile
//! clients.

mod common;
mod null_port;

use common::{MEMORY, MachineOf, RAID5, dial, hear, options, slices};
use null_port::{DONE, FAILED, HEAD_BYTES, Null, READ_ONLY, request};
use platform::{Env, Stream};
use platform_sim::{Rng, SimOptions};
use ports::{ServerOptions, SessionOptions};
use std::rc::Rc;
use std::time::Duration;

type Machine = MachineOf<Null>;

const SECOND: Duration = Duration::from_secs(1);
const CAPACITY: u64 = 3 << 20;
/// The maximum payload of a request.
const LONGEST: u32 = MEMORY.0 as u32 / 4;

struct Client {
    stream: Rc<dyn Stream>,
    heard: Vec<u8>,
}

impl Client {
    async fn connect(env: &Env, name: &str) -> (Client, u64) {
        let mut client = Client { stream: dial(env).await, heard: Vec::new() };
        client.send(&[&[name.len() as u8], name.as_bytes()].concat()).await;
        let capacity =
            client.take(8).await.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        (client, capacity)
    }

    async fn five(env: &Env) -> Client {
        let (client, capacity) = Client::connect(env, "five").await;
        assert_eq!(capacity, CAPACITY);
        client
    }

    async fn send(&self, bytes: &[u8]) {
        // The client detects a disconnected server when it receives.
        self.stream.send(slices(bytes)).await.result.ok();
    }

    /// The next `count` bytes; `None` at the end of the stream.
    async fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.heard.len() < count {
            let more = hear(&*self.stream).await;
            if more.is_empty() {
                return None;
            }
            self.heard.extend(more);
        }
        Some(self.heard.drain(..count).collect())
    }

    /// The status and the tag of the next reply.
    async fn answer(&mut self) -> Option<(u8, u32)> {
        let head = self.take(HEAD_BYTES).await?;
        Some((head[0], u32::from_le_bytes(head[1..].try_into().unwrap())))
    }

    async fn write(&mut self, offset: u64, payload: &[u8]) -> Option<u8> {
        let header = request(b'w', 7, offset, payload.len() as u32);
        self.send(&[&header[..], payload].concat()).await;
        self.answer().await.map(|(status, _)| status)
    }

    async fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, Option<u8>> {
        self.send(&request(b'r', 8, offset, length)).await;
        match self.answer().await {
            Some((DONE, 8)) => self.take(length as usize).await.ok_or(None),
            other => Err(other.map(|(status, _)| status)),
        }
    }
}

#[test]
fn what_is_written_is_read_in_any_fragments() {
    let mut machine = Machine::start(SimOptions { shards: 2, ..options(1) }, &[RAID5]);
    machine.run(async |env| {
        let mut client = Client::five(&env).await;
        assert_eq!(client.write(100_001, b"hello").await, Some(DONE));
        assert_eq!(client.read(100_000, 7).await.unwrap(), b"\0hello\0");
        assert_eq!(client.write(300_000, &[7; 200_000]).await, Some(DONE));
        assert_eq!(client.read(299_999, 200_002).await.unwrap()[1..200_001], [7; 200_000]);
        for byte in [request(b'w', 1, 0, 3), b"abc".to_vec()].concat() {
            client.send(&[byte]).await;
        }
        assert_eq!(client.answer().await, Some((DONE, 1)));
        assert_eq!(client.read(0, 3).await.unwrap(), b"abc");
        assert_eq!(client.write(CAPACITY - 1, b"xx").await, Some(FAILED));
        assert_eq!(client.read(CAPACITY, 1).await, Err(Some(FAILED)));
        assert_eq!(client.read(0, 0).await, Ok(Vec::new()));
        client.send(b"this is no request").await;
        assert_eq!(client.answer().await, None);
        assert_eq!(Client::connect(&env, "six").await.1, 0);
    });
    machine.assert_nothing_left();
}

#[test]
fn a_port_for_reading_refuses_writes_whatever_the_protocol_forgets() {
    let session = SessionOptions { read_only: true, ..SessionOptions::default() };
    let mut machine = Machine::start_with(options(2), &[RAID5], session, ServerOptions::default());
    machine.run(async |env| {
        let mut client = Client::five(&env).await;
        assert_eq!(client.write(0, b"x").await, Some(READ_ONLY));
        assert_eq!(client.read(0, 1).await.unwrap(), b"\0");
    });
    machine.assert_nothing_left();
}

#[test]
fn requests_beyond_the_limits_wait_or_end_the_connection() {
    let session = SessionOptions { requests_under_way: 2, ..SessionOptions::default() };
    let mut machine = Machine::start_with(options(3), &[RAID5], session, ServerOptions::default());
    machine.run(async |env| {
        let mut greedy = Client::five(&env).await;
        assert_eq!(greedy.read(0, LONGEST + 1).await, Err(None), "above the maximum");
        let mut client = Client::five(&env).await;
        let many: Vec<u8> =
            (0..60).flat_map(|tag| request(b'r', tag, 1000 * u64::from(tag), 512)).collect();
        client.send(&many).await;
        for _ in 0..60 {
            assert_eq!(client.answer().await.unwrap().0, DONE);
            client.take(512).await.unwrap();
        }
        // Stays connected, so that its tasks can be counted.
        std::mem::forget(client);
    });
    let tasks = machine.shards[0].env().executor().unfinished_tasks();
    assert_eq!(tasks.iter().filter(|task| **task == "port worker").count(), 2);
}

#[test]
fn a_client_that_stands_still_on_memory_is_cut_off_when_others_need_it() {
    let mut machine = Machine::start(options(4), &[RAID5]);
    machine.run(async |env| {
        // Half of the memory is for payloads: two of these clients use it all, and stop before the
        // last byte.
        let (mut first, mut second) = (Client::five(&env).await, Client::five(&env).await);
        let almost = [request(b'w', 1, 0, LONGEST), vec![5; LONGEST as usize - 1]].concat();
        first.send(&almost).await;
        second.send(&almost).await;
        env.sleep(SECOND * 600).await;
        first.send(&[5]).await;
        assert_eq!(first.answer().await, Some((DONE, 1)), "it may take its time");
        first.send(&almost).await;
        let (mut third, start) = (Client::five(&env).await, env.now());
        assert!(third.read(0, 512).await.is_ok());
        assert!(env.now().since(start) < SECOND * 3, "the second exceeded the stall limit");
        assert_eq!(second.answer().await, None);
    });
    machine.assert_nothing_left();
}

#[test]
fn a_shutdown_answers_what_was_taken_in() {
    let mut machine = Machine::start(options(5), &[RAID5]);
    let mut client = machine.run(async |env| {
        let client = Client::five(&env).await;
        let ask =
            |tag: u32| [request(b'w', tag, 5000 * u64::from(tag), 5000), vec![9; 5000]].concat();
        client.send(&(0..40).flat_map(ask).collect::<Vec<u8>>()).await;
        env.sleep(Duration::from_millis(1)).await;
        client
    });
    let server = machine.server.borrow_mut().take().unwrap();
    let env = machine.sim.env();
    let start = env.now();
    machine.sim.run(async move { server.shut_down(SECOND * 5).await }).unwrap();
    assert!(env.now().since(start) < SECOND, "nothing delays it");
    let answers = machine.run(async move |_| {
        let mut answers = Vec::new();
        while let Some((status, tag)) = client.answer().await {
            assert_eq!(status, DONE);
            answers.push(tag);
        }
        answers
    });
    assert!(!answers.is_empty());
    machine.assert_nothing_left();
}

#[test]
fn clients_beyond_the_limit_are_told_so_and_places_become_free() {
    let server = ServerOptions { max_connections: 1, ..ServerOptions::default() };
    let mut machine = Machine::start_with(options(6), &[RAID5], SessionOptions::default(), server);
    machine.run(async |env| {
        let first = Client::five(&env).await;
        assert_eq!(Client::connect(&env, "five").await.1, 0);
        first.stream.shutdown();
        env.sleep(SECOND).await;
        Client::five(&env).await;
    });
    machine.assert_nothing_left();
}

#[test]
fn a_client_that_vanishes_at_any_byte_leaves_nothing_behind() {
    for seed in 0..40 {
        let mut machine = Machine::start(SimOptions { shards: 2, ..options(seed) }, &[RAID5]);
        machine.run(async move |env| {
            let mut rng = Rng::new(seed, "vanish", "");
            let client = Client::five(&env).await;
            let asks = (0..20_u32).flat_map(|tag| match tag % 2 {
                0 => request(b'r', tag, u64::from(tag) * 10_000, 30_000),
                _ => [request(b'w', tag, u64::from(tag) * 10_000, 9_999), vec![tag as u8; 9_999]]
                    .concat(),
            });
            let bytes: Vec<u8> = asks.collect();
            let cut = rng.between(0, bytes.len() as u64) as usize;
            let sending = client.stream.send(slices(&bytes[..cut]));
            env.sleep(Duration::from_micros(rng.below(3000))).await;
            client.stream.shutdown();
            sending.await;
        });
        machine.assert_nothing_left();
    }
}

#[test]
fn connections_of_a_volume_that_is_no_longer_served_are_closed() {
    let mut machine = Machine::start(options(7), &[RAID5]);
    let mut client = machine.run(async |env| Client::five(&env).await);
    let detach = machine.detach();
    machine.sim.finish(&detach).unwrap();
    machine.run(async move |_| assert_eq!(client.take(1).await, None));
    machine.assert_nothing_left();
}
