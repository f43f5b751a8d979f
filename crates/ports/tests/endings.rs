//! Ends of connections: clients vanish, send garbage or stall; servers stop. Outstanding requests
//! complete, no resources leak, and other connections continue.

mod common;

use common::{
    Answer, Ask, Client, Lost, Machine, RAID5, client_options, dial, hear, options, slices,
};
use nbd::{Command, CommandFlags, ErrorKind, ReplyStyle};
use platform::Env;
use platform_sim::{Rng, SimOptions};
use ports::nbd::Nbd;
use ports::{Server, ServerOptions, SessionOptions};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

async fn connect(env: &Env) -> Client {
    Client::connect(env, client_options("five", ReplyStyle::Structured)).await.unwrap()
}

/// Requests that keep the engine and the reply queue busy.
fn many(count: u64) -> Vec<Ask> {
    (0..count)
        .map(|index| match index % 4 {
            0 => Ask::write(index * 10_000, vec![index as u8; 9_999]),
            1 => Ask::new(Command::Flush, 0, 0),
            2 => Ask::new(Command::WriteZeroes, index * 10_000, 9_000),
            _ => Ask::read(index * 10_000, 30_000),
        })
        .collect()
}

#[test]
fn a_client_that_vanishes_at_any_byte_leaves_nothing_behind() {
    for seed in 0..60 {
        let mut machine = Machine::start(SimOptions { shards: 2, ..options(seed) }, &[RAID5]);
        machine.run(async move |env| {
            let mut rng = Rng::new(seed, "vanish", "");
            let mut client = connect(&env).await;
            let (_, bytes) = client.begin(&many(20));
            let cut = rng.between(0, bytes.len() as u64) as usize;
            let sending = client.stream.send(slices(&bytes[..cut]));
            env.sleep(Duration::from_micros(rng.below(3000))).await;
            client.stream.shutdown();
            assert!(sending.await.result.is_ok() || cut > 0);
        });
        machine.assert_nothing_left();
        machine.run(async |env| {
            let mut client = connect(&env).await;
            assert_eq!(client.ask(Ask::read(0, 512)).await.result, Ok(()));
        });
    }
}

#[test]
fn a_client_process_that_is_killed_leaves_nothing_behind() {
    for seed in 0..20 {
        let mut machine = Machine::start(options(seed), &[RAID5]);
        let env = machine.client_env();
        env.spawn("client", {
            let env = env.clone();
            async move {
                let mut client = connect(&env).await;
                loop {
                    client.ask_all(&many(20)).await.unwrap();
                }
            }
        });
        let moment =
            machine.sim.now() + Duration::from_micros(Rng::new(seed, "kill", "").below(20_000));
        machine.sim.run_until(moment).unwrap();
        machine.sim.kill_process(machine.clients);
        machine.clients = machine.sim.add_process();
        machine.assert_nothing_left();
    }
}

#[test]
fn garbage_closes_only_its_own_connection() {
    for seed in 0..40 {
        let mut machine = Machine::start(options(seed), &[RAID5]);
        machine.run(async move |env| {
            let mut rng = Rng::new(seed, "garbage", "");
            let mut good = connect(&env).await;
            let stream =
                if rng.chance(1, 2) { dial(&env).await } else { connect(&env).await.stream };
            let mut garbage: Vec<u8> =
                (0..rng.between(1, 4000)).map(|_| rng.next_u64() as u8).collect();
            if rng.chance(1, 2) {
                // The first words are valid.
                garbage.splice(0..0, *b"\0\0\0\x03IHAVEOPT\xff\xff\xff\xff\xff\xff\xff\xff");
            }
            let sent = stream.send(slices(&garbage));
            let listen = async { while !hear(&*stream).await.is_empty() {} };
            // A few bytes may be the start of a valid message: then the client disconnects.
            if garbage.len() > 64 {
                listen.await;
            }
            stream.shutdown();
            sent.await;
            assert_eq!(good.ask(Ask::read(0, 512)).await.result, Ok(()));
            good.leave().await;
        });
        machine.assert_nothing_left();
    }
}

#[test]
fn a_write_that_announces_more_than_memory_holds_is_not_waited_for() {
    let mut machine = Machine::start(options(1), &[RAID5]);
    machine.run(async |env| {
        let client = connect(&env).await;
        let header = nbd::RequestHeader {
            flags: 0,
            command: nbd::constants::CMD_WRITE,
            cookie: 1,
            offset_bytes: 0,
            length_bytes: u32::MAX.into(),
        };
        let header = header.encode(ReplyStyle::Structured).unwrap();
        client.stream.send(slices(header.as_ref())).await.result.unwrap();
        env.sleep(SECOND).await;
        let mut other = connect(&env).await;
        assert_eq!(other.ask(Ask::write(0, vec![1; 1 << 20])).await.result, Ok(()));
        client.stream.shutdown();
        other.leave().await;
    });
    machine.assert_nothing_left();
}

#[test]
fn a_handshake_that_is_not_finished_in_time_is_ended() {
    let mut machine = Machine::start(options(2), &[RAID5]);
    machine.run(async |env| {
        let stream = dial(&env).await;
        let start = env.now();
        let dribble = env.spawn("dribble", {
            let (env, stream) = (env.clone(), stream.clone());
            async move {
                // One byte of an option's payload at a time: the connection is never idle for long.
                let bytes = b"\0\0\0\x03IHAVEOPT\0\0\0\x06\0\0\x10\0";
                stream.send(slices(bytes)).await.result?;
                loop {
                    env.sleep(SECOND).await;
                    stream.send(slices(b"x")).await.result?;
                }
                #[allow(unreachable_code, reason = "names the error")]
                Ok::<(), platform::IoError>(())
            }
        });
        while !hear(&*stream).await.is_empty() {}
        let waited = env.now().since(start);
        assert!((29..32).contains(&waited.as_secs()), "{waited:?}");
        assert!(dribble.await.is_err());
    });
    machine.assert_nothing_left();
}

#[test]
fn an_idle_client_stays_for_ever() {
    let mut machine = Machine::start(options(3), &[RAID5]);
    machine.run(async |env| {
        let mut client = connect(&env).await;
        env.sleep(SECOND * 3600 * 24).await;
        assert_eq!(client.ask(Ask::read(0, 512)).await.result, Ok(()));
        client.leave().await;
    });
    machine.assert_nothing_left();
}

/// Reserves the memory limit of one connection, and stops before the last byte of a payload.
async fn hoard(client: &mut Client) -> Vec<nbd::Cookie> {
    let (cookies, bytes) = client.begin(&[hoarding()]);
    let sent = client.stream.send(slices(&bytes[..bytes.len() - 1])).await;
    assert!(sent.result.is_ok());
    cookies
}

fn hoarding() -> Ask {
    Ask::write(0, vec![5; 1 << 20])
}

#[test]
fn a_client_that_stands_still_on_memory_is_cut_off_only_when_others_need_it() {
    let mut machine = Machine::start(options(4), &[RAID5]);
    machine.run(async |env| {
        // Half of the 4 MiB is for payloads: two of these clients use it all.
        let (mut first, mut second) = (connect(&env).await, connect(&env).await);
        let cookies = hoard(&mut first).await;
        hoard(&mut second).await;
        env.sleep(SECOND * 600).await;
        // Without other clients they may take their time.
        first.stream.send(slices(&[5])).await.result.unwrap();
        assert_eq!(first.answers(&[hoarding()], &cookies).await.unwrap()[0].result, Ok(()));
        hoard(&mut first).await;
        let mut third = connect(&env).await;
        let start = env.now();
        assert_eq!(third.ask(Ask::read(0, 512)).await.result, Ok(()));
        assert!(env.now().since(start) < SECOND * 3, "the second exceeded the stall limit");
        assert!(hear(&*second.stream).await.is_empty());
        hoard(&mut third).await;
        let mut fourth = connect(&env).await;
        let start = env.now();
        assert_eq!(fourth.ask(Ask::read(0, 512)).await.result, Ok(()));
        let waited = env.now().since(start);
        assert!(waited > SECOND * 20 && waited < SECOND * 35, "{waited:?}");
    });
    machine.assert_nothing_left();
}

/// Requests more than the stream and one connection's share of memory hold, and reads no replies.
async fn be_deaf(env: &Env) -> (Client, Vec<Ask>, Vec<nbd::Cookie>) {
    let mut client = connect(env).await;
    let asks: Vec<_> = (0..60).map(|index| Ask::read(index * 1000, 200_000)).collect();
    let (cookies, bytes) = client.begin(&asks);
    client.stream.send(slices(&bytes)).await.result.unwrap();
    env.sleep(SECOND).await;
    (client, asks, cookies)
}

#[test]
fn a_client_that_takes_no_replies_is_cut_off_when_others_need_its_memory() {
    let mut machine = Machine::start(options(11), &[RAID5]);
    machine.run(async |env| {
        let (mut first, asks, cookies) = be_deaf(&env).await;
        let _second = be_deaf(&env).await;
        let mut third = connect(&env).await;
        let start = env.now();
        assert_eq!(third.ask(Ask::write(0, vec![1; 1 << 20])).await.result, Ok(()));
        let waited = env.now().since(start);
        assert!(waited > SECOND * 20 && waited < SECOND * 35, "{waited:?}");
        assert!(matches!(first.answers(&asks, &cookies).await, Err(Lost::Closed)));
    });
    machine.assert_nothing_left();
}

#[test]
fn a_client_that_takes_no_replies_does_not_stop_the_others() {
    let mut machine = Machine::start(options(5), &[RAID5]);
    machine.run(async |env| {
        let (mut deaf, asks, cookies) = be_deaf(&env).await;
        let mut other = connect(&env).await;
        for _ in 0..20 {
            assert_eq!(other.ask(Ask::write(1 << 20, vec![1; 100_000])).await.result, Ok(()));
        }
        other.leave().await;
        // No other connection waited for its memory, so it still receives all replies.
        let answers = deaf.answers(&asks, &cookies).await.unwrap();
        assert!(answers.iter().all(|answer| answer.result.is_ok() && answer.data == [0; 200_000]));
        deaf.leave().await;
    });
    machine.assert_nothing_left();
}

#[test]
fn more_requests_than_may_be_under_way_wait_their_turn() {
    let session = SessionOptions { requests_under_way: 2, ..SessionOptions::default() };
    let mut machine = Machine::start_with(options(6), &[RAID5], session, ServerOptions::default());
    machine.run(async |env| {
        let mut client = connect(&env).await;
        let answers = client.ask_all(&many(60)).await.unwrap();
        assert!(answers.iter().all(|answer| answer.result.is_ok()));
        // Stays connected, so that its tasks can be counted.
        std::mem::forget(client);
    });
    let tasks = machine.shards[0].env().executor().unfinished_tasks();
    assert_eq!(tasks.iter().filter(|task| **task == "port worker").count(), 2);
}

#[test]
fn requests_in_front_of_a_farewell_are_answered() {
    for seed in 0..20 {
        let mut machine = Machine::start(options(seed), &[RAID5]);
        machine.run(async |env| {
            let mut client = connect(&env).await;
            let asks = many(40);
            let (cookies, mut bytes) = client.begin(&asks);
            bytes.extend_from_slice(client.protocol.disconnect().unwrap().as_ref());
            let sending = client.stream.send(slices(&bytes));
            let answers = client.answers(&asks, &cookies).await.unwrap();
            assert!(answers.iter().all(|answer| answer.result.is_ok()));
            assert!(sending.await.result.is_ok());
            assert!(hear(&*client.stream).await.is_empty());
        });
        machine.assert_nothing_left();
    }
}

#[test]
fn connections_beyond_the_limit_are_told_so_and_places_become_free() {
    let server = ServerOptions { max_connections: 2, ..ServerOptions::default() };
    let mut machine = Machine::start_with(options(7), &[RAID5], SessionOptions::default(), server);
    machine.run(async |env| {
        let (first, second) = (connect(&env).await, connect(&env).await);
        let third = Client::connect(&env, client_options("five", ReplyStyle::Structured)).await;
        let Err(Lost::Protocol(error)) = third else { panic!("a third connection was let in") };
        assert_eq!(error.kind, ErrorKind::ShuttingDown);
        first.leave().await;
        env.sleep(SECOND).await;
        connect(&env).await.leave().await;
        second.leave().await;
        // A silent client is rejected as well, after a while.
        let (_first, _second) = (connect(&env).await, connect(&env).await);
        let silent = dial(&env).await;
        while !hear(&*silent).await.is_empty() {}
    });
    machine.assert_nothing_left();
}

#[test]
fn who_says_nothing_makes_room_for_who_comes_next() {
    for shards in [1, 3] {
        let server =
            ServerOptions { max_connections: 6, max_greetings: 3, ..ServerOptions::default() };
        let sim = SimOptions { shards, ..options(9) };
        let mut machine = Machine::start_with(sim, &[RAID5], SessionOptions::default(), server);
        machine.run(async move |env| {
            let mut client = connect(&env).await;
            let mut silent = Vec::new();
            for _ in 0..40 {
                silent.push(dial(&env).await);
            }
            // Earlier clients work, and a client that completes its greeting gets a slot.
            assert_eq!(client.ask(Ask::read(0, 512)).await.result, Ok(()));
            let mut others = Vec::new();
            for _ in 0..5 {
                others.push(connect(&env).await);
            }
            let began = env.now();
            for silent in &silent[..35] {
                while !hear(&**silent).await.is_empty() {}
            }
            assert!(env.now().since(began) < SECOND, "they were cut off before their time was up");
            for client in others.iter_mut().chain([&mut client]) {
                assert_eq!(client.ask(Ask::read(0, 512)).await.result, Ok(()));
            }
            // Six clients are greeted: none of them is displaced.
            let seventh =
                Client::connect(&env, client_options("five", ReplyStyle::Structured)).await;
            let Err(Lost::Protocol(error)) = seventh else {
                panic!("a seventh connection was let in")
            };
            assert_eq!(error.kind, ErrorKind::ShuttingDown);
            assert_eq!(client.ask(Ask::read(0, 512)).await.result, Ok(()));
        });
        assert_eq!(machine.server.borrow().as_ref().map(Server::connections), Some(6));
        machine.run(async move |env| env.sleep(SECOND).await);
        machine.assert_nothing_left();
    }
}

#[test]
fn remote_addresses_need_permission() {
    let mut machine = Machine::start(options(8), &[RAID5]);
    let env = machine.sim.env();
    machine
        .sim
        .run(async move {
            let address: platform::Address = "0.0.0.0:10809".parse().unwrap();
            let options = ServerOptions::default();
            let refused =
                Server::<Nbd>::start(&env, std::slice::from_ref(&address), Vec::new(), options)
                    .await;
            let error = refused.err().unwrap();
            assert_eq!(error.kind, ports::ErrorKind::Remote);
            assert!(
                error.context.contains("'0.0.0.0:10809'")
                    && error.context.contains("--allow-remote")
            );
            let options = ServerOptions { allow_remote: true, ..options };
            let allowed =
                Server::<Nbd>::start(&env, std::slice::from_ref(&address), Vec::new(), options)
                    .await;
            let twice = Server::<Nbd>::start(&env, &[address], Vec::new(), options).await;
            assert_eq!(twice.err().unwrap().kind, ports::ErrorKind::Listen);
            allowed.unwrap().shut_down(SECOND).await;
        })
        .unwrap();
}

/// Sends requests and shuts the server down meanwhile; returns their results.
fn shut_down_under(machine: &mut Machine, pause: Duration, limit: Duration) -> (Vec<bool>, bool) {
    let env = machine.client_env();
    let sent = Rc::new(Cell::new(false));
    let client = env.spawn("client", {
        let (env, sent) = (env.clone(), sent.clone());
        async move {
            let mut client = connect(&env).await;
            let asks: Vec<_> =
                (0..40).map(|index| Ask::write(index * 5000, vec![9; 5000])).collect();
            let (cookies, bytes) = client.begin(&asks);
            let sending = client.stream.send(slices(&bytes));
            sent.set(true);
            let mut answered = vec![false; asks.len()];
            // One by one, so that replies before the end of the stream count.
            loop {
                let input = hear(&*client.stream).await;
                let mut rest = &input[..];
                while let Some(event) = {
                    let step = client.protocol.receive(rest).unwrap();
                    rest = &rest[step.consumed..];
                    step.event
                } {
                    let nbd::ReplyEvent::Done { cookie, result } = event else {
                        panic!("{event:?}")
                    };
                    assert_eq!(result, Ok(()));
                    answered[cookies.iter().position(|known| *known == cookie).unwrap()] = true;
                }
                if input.is_empty() {
                    sending.await;
                    return answered;
                }
            }
        }
    });
    while !sent.get() {
        machine.sim.step();
    }
    let moment = machine.sim.now() + pause;
    machine.sim.run_until(moment).unwrap();
    let server = machine.server.borrow_mut().take().unwrap();
    let env = machine.sim.env();
    let start = env.now();
    machine.sim.run(async move { server.shut_down(limit).await }).unwrap();
    let late = env.now().since(start) > limit + Duration::from_millis(20);
    let answered = machine.sim.finish(&client).unwrap();
    (answered, late)
}

#[test]
fn a_shutdown_answers_what_it_took_in_and_every_answered_write_is_there() {
    let mut some = false;
    for seed in 0..30 {
        let mut machine = Machine::start(SimOptions { shards: 2, ..options(seed) }, &[RAID5]);
        let pause = Duration::from_micros(Rng::new(seed, "pause", "").below(4000));
        let (answered, late) = shut_down_under(&mut machine, pause, SECOND * 5);
        assert!(!late, "seed {seed}");
        machine.assert_nothing_left();
        some |= answered.contains(&true) && answered.contains(&false);
        let volume = machine.shards[0].volume_named("five").unwrap();
        let content = machine
            .sim
            .run(async move {
                let range = units::ByteRange::new(units::ByteOffset(0), units::ByteCount(200_000));
                let (result, buf) = volume.read(range, platform::Buf::unpooled(range.len)).await;
                result.unwrap();
                buf.unwrap().bytes().to_vec()
            })
            .unwrap();
        for (index, _) in answered.iter().enumerate().filter(|(_, answered)| **answered) {
            assert_eq!(
                content[index * 5000..(index + 1) * 5000],
                [9; 5000],
                "seed {seed}, write {index}"
            );
        }
    }
    assert!(some, "no shutdown came in the middle: the test has lost its subject");
}

#[test]
fn a_shutdown_does_not_wait_for_a_client_that_takes_no_replies() {
    let mut machine = Machine::start(options(9), &[RAID5]);
    machine.run(async |env| {
        // The stream stays open, and the client reads nothing.
        std::mem::forget(be_deaf(&env).await);
    });
    let server = machine.server.borrow_mut().take().unwrap();
    let env = machine.sim.env();
    let start = env.now();
    machine.sim.run(async move { server.shut_down(SECOND * 5).await }).unwrap();
    let took = env.now().since(start);
    assert!(took >= SECOND * 5 && took < SECOND * 6, "{took:?}");
    machine.assert_nothing_left();
}

#[test]
fn neither_idle_connections_nor_handshakes_nor_eager_clients_delay_a_shutdown() {
    for seed in 0..10 {
        let mut machine = Machine::start(options(seed), &[RAID5]);
        machine.run(async |env| {
            // The connections stay open and silent.
            std::mem::forget((connect(&env).await, dial(&env).await));
            env.sleep(SECOND).await;
        });
        let env = machine.client_env();
        let eager = env.spawn("eager", {
            let env = env.clone();
            async move {
                let mut client = connect(&env).await;
                while client.ask_all(&many(30)).await.is_ok() {}
            }
        });
        let soon = machine.sim.now() + Duration::from_millis(50);
        machine.sim.run_until(soon).unwrap();
        let server = machine.server.borrow_mut().take().unwrap();
        let env = machine.sim.env();
        let start = env.now();
        machine.sim.run(async move { server.shut_down(SECOND * 5).await }).unwrap();
        assert!(env.now().since(start) < Duration::from_millis(100), "seed {seed}");
        machine.sim.finish(&eager).unwrap();
        machine.assert_nothing_left();
    }
}

#[test]
fn connections_of_a_volume_that_is_no_longer_served_are_closed() {
    let mut machine = Machine::start(options(10), &[RAID5]);
    let env = machine.client_env();
    let client = env.spawn("client", {
        let env = env.clone();
        async move {
            let mut client = connect(&env).await;
            let mut answers: Vec<Answer> = Vec::new();
            loop {
                match client.ask_all(&[Ask::read(0, 512)]).await {
                    Ok(more) => answers.extend(more),
                    Err(_) => return answers,
                }
                env.sleep(Duration::from_millis(100)).await;
            }
        }
    });
    let soon = machine.sim.now() + SECOND;
    machine.sim.run_until(soon).unwrap();
    let detach = machine.detach();
    machine.sim.finish(&detach).unwrap();
    let answers = machine.sim.finish(&client).unwrap();
    assert!(answers[0].result.is_ok());
    let last = answers.last().unwrap().result.clone();
    assert!(last.is_ok() || last.unwrap_err().errno == nbd::Errno::Shutdown);
    machine.assert_nothing_left();
}

#[test]
fn a_flush_covers_the_writes_of_all_connections_and_forced_requests_need_none() {
    for seed in 0..10 {
        let mut machine = Machine::start(SimOptions { shards: 2, ..options(seed) }, &[RAID5]);
        machine.run(async |env| {
            let (mut writer, mut flusher) = (connect(&env).await, connect(&env).await);
            for index in 0..8 {
                let answer = writer.ask(Ask::write(index * 50_000, vec![3; 40_000])).await;
                assert_eq!(answer.result, Ok(()));
            }
            assert_eq!(flusher.ask(Ask::new(Command::Flush, 0, 0)).await.result, Ok(()));
            let fua = Ask::write(900_000, vec![4; 1000]).with(CommandFlags::FUA);
            assert_eq!(writer.ask(fua).await.result, Ok(()));
            let trim = Ask::new(Command::Trim, 0, 400_000).with(CommandFlags::FUA);
            assert_eq!(writer.ask(trim).await.result, Ok(()));
        });
        for drive in 0..4 {
            let drive = machine.sim.drive(&format!("five{drive}")).unwrap();
            assert_eq!(drive.unflushed_writes(), 0, "seed {seed}");
        }
    }
}
