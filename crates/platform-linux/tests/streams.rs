//! Sockets: echo over both kinds, ends of connections, leftover files of ended servers.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

mod common;

use common::{TestDir, on_a_shard};
use platform::{Address, Buf, Env, ErrorKind, IoErrorKind, Listener, Slice, Stream};
use smallvec::smallvec;
use std::rc::Rc;
use units::ByteCount;

/// Receives exactly that many bytes.
async fn receive_all(stream: &Rc<dyn Stream>, len: usize) -> Vec<u8> {
    let mut got = Vec::new();
    while got.len() < len {
        let outcome = stream.receive(Buf::unpooled(ByteCount((len - got.len()) as u64))).await;
        let count = outcome.result.unwrap() as usize;
        assert_ne!(count, 0, "the stream ended after {} of {len} bytes", got.len());
        got.extend(&outcome.buffers[0].bytes()[..count]);
    }
    got
}

/// Connects to an address.
async fn connect(env: &Env, address: &Address) -> Rc<dyn Stream> {
    env.world().connect(address).await.unwrap().attach(env).unwrap()
}

/// Accepts the next connection.
async fn accept(env: &Env, listener: &Rc<dyn Listener>) -> Rc<dyn Stream> {
    listener.accept().await.unwrap().attach(env).unwrap()
}

/// Listens at a free address.
async fn listen(env: &Env, address: &str) -> (Rc<dyn Listener>, Address) {
    let listener = env.world().listen(&address.parse().unwrap()).await.unwrap();
    let address = listener.address();
    (listener, address)
}

/// Creates both ends of a connection.
async fn pair(env: &Env, address: &str) -> (Rc<dyn Stream>, Rc<dyn Stream>) {
    let (listener, address) = listen(env, address).await;
    (connect(env, &address).await, accept(env, &listener).await)
}

/// An echo server for one connection.
async fn echo_at(env: &Env, address: &str) -> Address {
    let (listener, address) = listen(env, address).await;
    let env = env.clone();
    env.clone().spawn("echo", async move {
        let stream = accept(&env, &listener).await;
        loop {
            let outcome = stream.receive(Buf::unpooled(ByteCount(64 << 10))).await;
            let (Ok(count @ 1..), mut buffers) = (outcome.result, outcome.buffers) else { return };
            let slice = buffers.remove(0).freeze().cut(ByteCount::ZERO, ByteCount(count));
            stream.send(smallvec![slice]).await.result.unwrap();
        }
    });
    address
}

fn echoes(address: &str) {
    let address = address.to_owned();
    on_a_shard(move |env| async move {
        let address = echo_at(&env, &address).await;
        let source = env.world().connect(&address).await.unwrap();
        assert_eq!(source.peer(), platform::Peer::at(address.to_string()));
        let stream = source.attach(&env).unwrap();
        // Slices of several kinds, together longer than the socket buffers.
        let long: Vec<u8> = (0..3 << 20).map(|i: u32| (i % 251) as u8).collect();
        let slices = smallvec![
            Buf::copy_of(b"head").freeze(),
            Slice::zero(ByteCount(1500 << 10)),
            Buf::copy_of(&long).freeze(),
            Buf::copy_of(b"tail").freeze(),
        ];
        let mut expected = b"head".to_vec();
        expected.extend(vec![0; 1500 << 10]);
        expected.extend(&long);
        expected.extend(b"tail");
        let sent = stream.send(slices);
        let got = receive_all(&stream, expected.len()).await;
        assert_eq!(sent.await.result, Ok(expected.len() as u64));
        assert!(got == expected);
    });
}

#[test]
fn what_is_sent_over_tcp_comes_back() {
    echoes("127.0.0.1:0");
}

#[test]
fn what_is_sent_over_a_unix_socket_comes_back() {
    let dir = TestDir::new();
    echoes(&format!("unix:{}", dir.file("socket")));
}

#[test]
fn more_pieces_than_one_call_takes_are_sent_by_several() {
    let dir = TestDir::new();
    let address = format!("unix:{}", dir.file("socket"));
    on_a_shard(move |env| async move {
        let address = echo_at(&env, &address).await;
        let stream = connect(&env, &address).await;
        let bytes: Vec<u8> = (0..30_000u32).map(|i| (i % 251) as u8).collect();
        let whole = Buf::copy_of(&bytes).freeze();
        let slices = (0..3000).map(|i| whole.cut(ByteCount(i * 10), ByteCount(10))).collect();
        let sent = stream.send(slices);
        assert!(receive_all(&stream, bytes.len()).await == bytes);
        assert_eq!(sent.await.result, Ok(30_000));
    });
}

/// Available bytes are received without the ring; the ring waits for others: a part, the rest of it
/// together, the end.
#[test]
fn who_wants_all_gets_what_has_come_and_waits_for_the_rest() {
    let dir = TestDir::new();
    let address = format!("unix:{}", dir.file("socket"));
    on_a_shard(move |env| async move {
        let (stream, other) = pair(&env, &address).await;
        let send = async |bytes: &'static [u8]| {
            assert_eq!(
                other.send(smallvec![Buf::copy_of(bytes).freeze()]).await.result,
                Ok(bytes.len() as u64)
            );
        };
        send(b"first").await;
        let outcome = stream.receive_full(Buf::unpooled(ByteCount(9))).await;
        assert_eq!((outcome.result, &outcome.buffers[0].bytes()[..5]), (Ok(5), &b"first"[..]));

        let waiting = stream.receive_full(Buf::unpooled(ByteCount(4)));
        send(b"la").await;
        env.yield_now().await;
        send(b"st").await;
        let outcome = waiting.await;
        assert_eq!((outcome.result, outcome.buffers[0].bytes()), (Ok(4), &b"last"[..]));

        other.shutdown();
        let outcome = stream.receive_full(Buf::unpooled(ByteCount(9))).await;
        assert_eq!((outcome.result, outcome.buffers.len()), (Ok(0), 1));
    });
}

#[test]
fn a_receive_in_progress_ends_when_either_side_shuts_down() {
    let dir = TestDir::new();
    let address = format!("unix:{}", dir.file("socket"));
    on_a_shard(move |env| async move {
        let (listener, address) = listen(&env, &address).await;
        for ours in [true, false] {
            let stream = connect(&env, &address).await;
            let other = accept(&env, &listener).await;
            let receiving = stream.receive(Buf::unpooled(ByteCount(100)));
            env.yield_now().await;
            if ours {
                stream.shutdown()
            } else {
                drop(other)
            }
            assert_eq!(receiving.await.result, Ok(0));
        }
    });
}

#[test]
fn sending_to_a_side_that_has_gone_is_an_error_and_no_signal() {
    let dir = TestDir::new();
    let address = format!("unix:{}", dir.file("socket"));
    on_a_shard(move |env| async move {
        let (listener, address) = listen(&env, &address).await;
        let stream = connect(&env, &address).await;
        drop(listener.accept().await.unwrap());
        let outcome = stream.send(smallvec![Buf::copy_of(b"hello").freeze()]).await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::Gone);
        let hollow = stream.send(smallvec![Slice::hollow(ByteCount(10))]).await;
        assert_eq!(hollow.result.unwrap_err().kind, IoErrorKind::Invalid);
    });
}

#[test]
fn closing_a_listener_ends_the_accept_in_progress() {
    let dir = TestDir::new();
    for address in [format!("unix:{}", dir.file("socket")), "127.0.0.1:0".to_owned()] {
        on_a_shard(move |env| async move {
            let (listener, _) = listen(&env, &address).await;
            let accepting = listener.clone();
            let accepted = env.spawn("accept", async move { accepting.accept().await.err() });
            env.yield_now().await;
            env.sleep(std::time::Duration::from_millis(5)).await;
            listener.close();
            assert!(accepted.await.unwrap().to_string().contains("is closed"));
        });
    }
}

#[test]
fn an_accept_that_is_dropped_takes_no_connection_with_it() {
    let dir = TestDir::new();
    let address = format!("unix:{}", dir.file("socket"));
    on_a_shard(move |env| async move {
        let (listener, address) = listen(&env, &address).await;
        {
            let mut accepting = listener.accept();
            std::future::poll_fn(|context| {
                assert!(accepting.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        }
        env.sleep(std::time::Duration::from_millis(1)).await;
        let stream = connect(&env, &address).await;
        let other = accept(&env, &listener).await;
        other.send(smallvec![Buf::copy_of(b"x").freeze()]).await.result.unwrap();
        assert_eq!(receive_all(&stream, 1).await, b"x");
    });
}

#[test]
fn an_address_in_use_is_refused_and_the_leftover_of_a_dead_server_is_replaced() {
    let dir = TestDir::new();
    let path = dir.file("socket");
    // A socket of an ended server, which did not remove it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(std::path::Path::new(&path).exists());
    let outside = path.clone();
    on_a_shard(move |env| async move {
        let address = Address::Unix(path.clone());
        let listener = env.world().listen(&address).await.unwrap();
        let error = env.world().listen(&address).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::InUse);
        assert_eq!(
            error.to_string(),
            format!("socket {path} is in use by another server; stop it or listen elsewhere")
        );
        drop(listener);
        assert!(!std::path::Path::new(&path).exists());
        let tcp = env.world().listen(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let error = env.world().listen(&tcp.address()).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::InUse);
    });
    std::fs::write(&outside, "precious").unwrap();
    let path = outside.clone();
    on_a_shard(move |env| async move {
        let error = env.world().listen(&Address::Unix(path)).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::WrongKind);
    });
    assert_eq!(std::fs::read(&outside).unwrap(), b"precious");
}

#[test]
fn who_is_not_there_cannot_be_connected_to() {
    let dir = TestDir::new();
    let (missing, dead) = (dir.file("missing"), dir.file("dead"));
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    on_a_shard(move |env| async move {
        let error = env.world().connect(&Address::Unix(missing)).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::NotFound);
        let error = env.world().connect(&Address::Unix(dead)).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Unreachable);
        let error = env.world().connect(&Address::Unix("x".repeat(200))).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::BadName);
        // A free port.
        let listener = env.world().listen(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address();
        drop(listener);
        env.yield_now().await;
        let error = env.world().connect(&address).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Unreachable);
    });
}

/// A task that yielded in a loop was polled again and again before the network was checked.
#[test]
fn a_task_that_gives_way_lets_pass_what_arrives() {
    let dir = TestDir::new();
    let address = format!("unix:{}", dir.file("socket"));
    on_a_shard(move |env| async move {
        let (stream, other) = pair(&env, &address).await;
        let answering = env.spawn("answering", async move {
            for _ in 0..10 {
                assert_eq!(other.receive(Buf::unpooled(ByteCount(1))).await.result, Ok(1));
                assert_eq!(other.send(smallvec![Buf::copy_of(b"a").freeze()]).await.result, Ok(1));
            }
        });
        let asking = env.spawn("asking", async move {
            for _ in 0..10 {
                assert_eq!(stream.send(smallvec![Buf::copy_of(b"q").freeze()]).await.result, Ok(1));
                assert_eq!(stream.receive(Buf::unpooled(ByteCount(1))).await.result, Ok(1));
            }
        });
        // A yielding task continues soon, and so do other tasks.
        let mut turns = 0;
        while !(answering.is_finished() && asking.is_finished()) {
            env.give_way().await;
            turns += 1;
            assert!(turns < 1_000_000, "no other task continues");
        }
        assert!(turns > 10, "data arrives in a later turn");
    });
}
