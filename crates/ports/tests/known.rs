//! Connections without a greeting, for disks that are attached here. They are served like others,
//! end with their target, and notify their creator when all their requests are complete.

mod common;

use common::{Machine, RAID5, options, slices};
use platform::{Address, Buf, Env, Stream};
use ports::{Known, PortMessage};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use units::ByteCount;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
/// Linux' number for "not permitted", as NBD uses it.
const EPERM: u32 = 1;

/// A request as the kernel sends it: magic, flags, command, cookie, offset, length.
fn request(command: u16, cookie: u64, offset: u64, length: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&0_u16.to_be_bytes());
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn pair() -> Address {
    Address::Unix("pair".to_owned())
}

async fn hear_at_most(stream: &dyn Stream, count: usize) -> Vec<u8> {
    let outcome = stream.receive(Buf::unpooled(ByteCount(count as u64))).await;
    outcome.buffers[0].bytes()[..outcome.result.unwrap_or(0) as usize].to_vec()
}

/// The next `count` bytes; fewer at the end of the stream.
async fn take(stream: &dyn Stream, count: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let more = hear_at_most(stream, count - taken.len()).await;
        if more.is_empty() {
            break;
        }
        taken.extend(more);
    }
    taken
}

/// The error of a simple reply with that cookie.
async fn answer(stream: &dyn Stream, cookie: u64) -> u32 {
    let reply = take(stream, 16).await;
    assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
    assert_eq!(reply[8..], cookie.to_be_bytes());
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

/// A connection to target `number` on the first shard: the client's stream, and a reference that is
/// dropped at the end of the connection.
fn connect(machine: &mut Machine, number: u64, read_only: bool) -> (Rc<dyn Stream>, Weak<()>) {
    let port = machine.ports[0].clone();
    let (server, client) = (machine.sim.env(), machine.client_env());
    let alive = Arc::new(());
    let over = Arc::downgrade(&alive);
    let accepted = server.spawn("accept", {
        let server = server.clone();
        async move {
            let listener = server.world().listen(&pair()).await.unwrap();
            let source = listener.accept().await.unwrap();
            let known = Known { source, target: number, read_only, alive };
            assert!(port.send(PortMessage::Known(known)).is_ok());
        }
    });
    let dialled = client.spawn("dial", {
        let client: Env = client.clone();
        async move {
            loop {
                match client.world().connect(&pair()).await {
                    Ok(source) => return source.attach(&client).unwrap(),
                    Err(_) => client.sleep(std::time::Duration::from_millis(1)).await,
                }
            }
        }
    });
    machine.sim.finish(&accepted).unwrap();
    let stream = machine.sim.finish(&dialled).unwrap();
    (stream, over)
}

#[test]
fn requests_are_answered_without_a_greeting() {
    let mut machine = Machine::start(options(1), &[RAID5]);
    let (stream, over) = connect(&mut machine, 1, false);
    let own = stream.clone();
    machine.run(async move |_| {
        own.send(slices(&request(WRITE, 7, 4096, 5, b"hello"))).await.result.unwrap();
        assert_eq!(answer(&*own, 7).await, 0);
        own.send(slices(&request(FLUSH, 8, 0, 0, b""))).await.result.unwrap();
        assert_eq!(answer(&*own, 8).await, 0);
        own.send(slices(&request(READ, 9, 4095, 7, b""))).await.result.unwrap();
        assert_eq!(answer(&*own, 9).await, 0);
        assert_eq!(take(&*own, 7).await, b"\0hello\0");
    });
    assert_eq!(machine.hosts.count(), 1, "it is a host as others are");
    assert!(over.strong_count() > 0);
    machine.run(async move |env| {
        stream.shutdown();
        drop(stream);
        env.sleep(std::time::Duration::from_secs(1)).await;
    });
    assert_eq!(over.strong_count(), 0, "who made it learns that it is over");
    machine.assert_nothing_left();
}

#[test]
fn one_that_may_only_read_writes_nothing() {
    let mut machine = Machine::start(options(2), &[RAID5]);
    let (stream, _over) = connect(&mut machine, 1, true);
    machine.run(async move |_| {
        stream.send(slices(&request(WRITE, 1, 0, 4, b"over"))).await.result.unwrap();
        assert_eq!(answer(&*stream, 1).await, EPERM);
        stream.send(slices(&request(READ, 2, 0, 4, b""))).await.result.unwrap();
        assert_eq!(answer(&*stream, 2).await, 0);
        assert_eq!(take(&*stream, 4).await, [0; 4]);
        stream.shutdown();
    });
    machine.assert_nothing_left();
}

#[test]
fn a_number_that_is_nobodys_and_a_target_that_goes_end_it() {
    let mut machine = Machine::start(options(3), &[RAID5]);
    let (nobody, over) = connect(&mut machine, 99, false);
    machine.run(async move |_| assert_eq!(take(&*nobody, 1).await, b""));
    assert_eq!(over.strong_count(), 0);
    let (stream, over) = connect(&mut machine, 1, false);
    let detached = machine.detach();
    machine.sim.finish(&detached).unwrap();
    machine.run(async move |_| assert_eq!(take(&*stream, 1).await, b""));
    assert_eq!(over.strong_count(), 0);
    machine.assert_nothing_left();
}
