//! Streams, stored state and created drives, across the end of processes.

use platform::{Address, Buf, Env, ErrorKind, IoErrorKind, Stream};
use platform_sim::{NetworkOptions, Sim, SimOptions};
use smallvec::smallvec;
use std::rc::Rc;
use units::ByteCount;

fn address() -> Address {
    "unix:/run/test.sock".parse().unwrap()
}

async fn receive_all(stream: &Rc<dyn Stream>, piece: u64) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let outcome = stream.receive(Buf::unpooled(ByteCount(piece))).await;
        match outcome.result.unwrap() as usize {
            0 => return (bytes, sizes),
            count => {
                sizes.push(count);
                bytes.extend_from_slice(&outcome.buffers[0].bytes()[..count]);
            }
        }
    }
}

async fn connect(env: &Env) -> Rc<dyn Stream> {
    env.world().connect(&address()).await.unwrap().attach(env).unwrap()
}

fn message() -> Vec<u8> {
    (0..200_000u32).map(|index| (index / 3) as u8).collect()
}

/// Sends a long message through a small buffer; returns the lengths of the received fragments.
fn transfer(seed: u64, fragments: bool) -> Vec<usize> {
    let network =
        NetworkOptions { buffer: ByteCount(10_000), fragments, ..NetworkOptions::default() };
    let mut sim = Sim::new(SimOptions { network, ..SimOptions::seeded(seed) });
    let client_process = sim.add_process();
    let (server, client) = (sim.env(), sim.env_of(client_process, 0));
    let serving = server.clone().spawn("server", async move {
        let listener = server.world().listen(&address()).await.unwrap();
        let stream = listener.accept().await.unwrap().attach(&server).unwrap();
        receive_all(&stream, 4096).await
    });
    client.clone().spawn("client", async move {
        let stream = connect(&client).await;
        let slices =
            smallvec![Buf::copy_of(&message()).freeze(), platform::Slice::zero(ByteCount(1000))];
        assert_eq!(stream.send(slices).await.result.unwrap(), 201_000);
    });
    let (bytes, sizes) = sim.finish(&serving).unwrap();
    assert_eq!(bytes[..200_000], message());
    assert_eq!(bytes[200_000..], [0; 1000]);
    sizes
}

#[test]
fn a_stream_brings_every_byte_in_order_in_fragments_that_the_seed_cuts() {
    let sizes = transfer(1, true);
    assert!(sizes.contains(&1) && sizes.contains(&4096), "{sizes:?}");
    assert!(sizes.iter().any(|size| !size.is_multiple_of(2)));
    assert_eq!(sizes, transfer(1, true));
    assert_ne!(sizes, transfer(2, true));
    assert!(transfer(1, false).len() < 60, "whole pieces");
}

#[test]
fn an_end_that_shuts_down_ends_the_other_after_what_it_sent() {
    let mut sim = Sim::new(SimOptions::seeded(1));
    let env = sim.env();
    sim.run(async move {
        let listener = env.world().listen(&address()).await.unwrap();
        let client = connect(&env).await;
        let server = listener.accept().await.unwrap().attach(&env).unwrap();
        client.send(smallvec![Buf::copy_of(b"last words").freeze()]).await.result.unwrap();
        let own_receive = client.receive(Buf::unpooled(ByteCount(10)));
        client.shutdown();
        assert_eq!(own_receive.await.result.unwrap(), 0, "a receive in progress ends");
        assert_eq!(receive_all(&server, 100).await.0, b"last words");
        let sent = server.send(smallvec![Buf::copy_of(b"anybody?").freeze()]).await;
        assert_eq!(sent.result.unwrap_err().kind, IoErrorKind::Gone);
        let sent = client.send(smallvec![Buf::copy_of(b"more").freeze()]).await;
        assert_eq!(sent.result.unwrap_err().kind, IoErrorKind::Gone);
    })
    .unwrap();
}

#[test]
fn listeners_have_their_address_alone_and_closing_one_refuses_who_comes() {
    let mut sim = Sim::new(SimOptions::seeded(1));
    let env = sim.env();
    sim.run(async move {
        let world = env.world();
        assert_eq!(world.connect(&address()).await.err().unwrap().kind, ErrorKind::Unreachable);
        let listener = world.listen(&address()).await.unwrap();
        assert_eq!(world.listen(&address()).await.err().unwrap().kind, ErrorKind::InUse);
        let waiting = connect(&env).await;
        listener.close();
        assert!(listener.accept().await.is_err());
        assert!(receive_all(&waiting, 10).await.0.is_empty(), "never accepted: ended");
        assert_eq!(world.connect(&address()).await.err().unwrap().kind, ErrorKind::Unreachable);
        let any: Address = "127.0.0.1:0".parse().unwrap();
        let (first, second) =
            (world.listen(&any).await.unwrap(), world.listen(&any).await.unwrap());
        assert_ne!(first.address(), second.address());
        assert!(!matches!(first.address(), Address::Tcp { port: 0, .. }));
    })
    .unwrap();
}

#[test]
fn a_killed_server_ends_its_clients_streams_and_frees_its_address() {
    let mut sim = Sim::new(SimOptions::seeded(1));
    let client_process = sim.add_process();
    let (server, client) = (sim.env(), sim.env_of(client_process, 0));
    server.clone().spawn("server", async move {
        let listener = server.world().listen(&address()).await.unwrap();
        let stream = listener.accept().await.unwrap().attach(&server).unwrap();
        receive_all(&stream, 10).await;
    });
    let connecting = client.clone().spawn("client", async move { connect(&client).await });
    let stream = sim.finish(&connecting).unwrap();
    sim.run_until_idle().unwrap();
    let env = sim.restart_process();
    let client = sim.env_of(client_process, 0);
    let waiting = client.spawn("client", async move {
        assert!(receive_all(&stream, 10).await.0.is_empty());
        let sent = stream.send(smallvec![Buf::copy_of(b"x").freeze()]).await;
        assert_eq!(sent.result.unwrap_err().kind, IoErrorKind::Gone);
    });
    sim.finish(&waiting).unwrap();
    sim.run(async move { drop(env.world().listen(&address()).await.unwrap()) }).unwrap();
}

#[test]
fn a_store_that_was_not_done_leaves_old_or_new_and_an_append_any_beginning() {
    let (mut old, mut new, mut pieces) = (0, 0, [0; 5]);
    for seed in 0..200 {
        let mut sim = Sim::new(SimOptions::seeded(seed));
        let env = sim.env();
        sim.run(async move {
            let state = env.world().state();
            state.store("config", b"old".to_vec()).await.unwrap();
            state.append("log", b"done;".to_vec()).await.unwrap();
            assert_eq!(state.load("config").await.unwrap().unwrap(), b"old");
            assert!(state.load("nothing").await.unwrap().is_none());
            assert_eq!(state.load("../x").await.unwrap_err().kind, ErrorKind::BadName);
        })
        .unwrap();
        let (storing, appending) = (sim.env(), sim.env());
        storing.clone().spawn("store", async move {
            storing.world().state().store("config", b"new".to_vec()).await
        });
        appending.clone().spawn("append", async move {
            appending.world().state().append("log", b"next".to_vec()).await
        });
        sim.step();
        sim.step();
        sim.power_cut();
        match sim.stored("config").unwrap().as_slice() {
            b"old" => old += 1,
            b"new" => new += 1,
            other => panic!("a mixture: {other:?}"),
        }
        let log = sim.stored("log").unwrap();
        assert!(b"done;next".starts_with(&log) && log.starts_with(b"done;"), "{log:?}");
        pieces[log.len() - 5] += 1;
    }
    assert!(old > 50 && new > 50, "{old} {new}");
    assert!(pieces.iter().all(|count| *count > 10), "{pieces:?}");
}

#[test]
fn created_drives_stay_over_a_restart_and_space_runs_out() {
    let file_space = Some(ByteCount(3 << 20));
    let mut sim = Sim::new(SimOptions { file_space, ..SimOptions::seeded(1) });
    let env = sim.env();
    sim.run(async move {
        let create = |name, size| {
            let env = env.clone();
            async move {
                env.world().create_drive(name, ByteCount(size)).await.map_err(|error| error.kind)
            }
        };
        assert_eq!(create("f", 2 << 20).await, Ok(()));
        assert_eq!(create("f", 1 << 20).await, Err(ErrorKind::InUse));
        assert_eq!(create("g", 2 << 20).await, Err(ErrorKind::OutOfSpace));
        env.world().state().store("known", vec![1]).await.unwrap();
    })
    .unwrap();
    sim.power_cut();
    let env = sim.restart_process();
    sim.run(async move {
        let drive = env.world().open_drive("f").await.unwrap();
        assert_eq!(drive.info().size, ByteCount(2 << 20));
        assert_eq!(env.world().state().load("known").await.unwrap().unwrap(), [1]);
    })
    .unwrap();
}

#[test]
fn a_stream_that_outlives_its_killed_process_is_closed_all_the_same() {
    let mut sim = Sim::new(SimOptions::seeded(1));
    let client_process = sim.add_process();
    let (server, client) = (sim.env(), sim.env_of(client_process, 0));
    let serving = server.clone().spawn("server", async move {
        let listener = server.world().listen(&address()).await.unwrap();
        let stream = listener.accept().await.unwrap().attach(&server).unwrap();
        receive_all(&stream, 10).await.0
    });
    let connecting = client.clone().spawn("client", async move { connect(&client).await });
    let leaked = sim.finish(&connecting).unwrap();
    sim.kill_process(client_process);
    assert!(sim.finish(&serving).unwrap().is_empty());
    drop(leaked);
}
