//! Every command in every reply style, over any fragmentation and any number of connections and
//! shards, compared with a model in memory.

mod common;

use common::{Ask, Client, MEMORY, Machine, Plan, RAID5, client_options, options};
use layout::Level;
use nbd::{Command, CommandFlags, Errno, Extent, ReplyStyle};
use platform_sim::{Rng, SimOptions};

const STYLES: [ReplyStyle; 3] = [ReplyStyle::Simple, ReplyStyle::Structured, ReplyStyle::Extended];
const CAPACITY: u64 = 3 << 20;

fn noise(rng: &mut Rng, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(length as usize);
    bytes
}

#[test]
fn a_client_learns_what_the_volume_is() {
    let small = Plan { name: "zero", level: Level::Raid0, drives: 2, drive_bytes: 1 << 20 };
    let mut machine = Machine::start(options(1), &[RAID5, small]);
    machine.run(async |env| {
        let client =
            Client::connect(&env, client_options("five", ReplyStyle::Structured)).await.unwrap();
        let connected = client.protocol.connected().clone();
        assert_eq!(connected.size_bytes, CAPACITY);
        assert_eq!(connected.description, "raid5, 4 drives");
        assert_eq!(connected.block_sizes.minimum_bytes, 1);
        assert_eq!(connected.block_sizes.preferred_bytes, 4096);
        assert_eq!(u64::from(connected.block_sizes.maximum_bytes), MEMORY.0 / 4);
        let flags = connected.flags;
        assert!(flags.flush && flags.fua && flags.trim && flags.write_zeroes && flags.fast_zero);
        assert!(
            flags.cache && flags.multi_conn && flags.df && !flags.read_only && !flags.rotational
        );
        client.leave().await;
        let other =
            Client::connect(&env, client_options("zero", ReplyStyle::Simple)).await.unwrap();
        assert_eq!(other.protocol.connected().size_bytes, 2 << 20);
        other.leave().await;
        for name in ["", "six"] {
            let refused = Client::connect(&env, client_options(name, ReplyStyle::Structured)).await;
            let Err(common::Lost::Protocol(error)) = refused else { panic!("{name:?} was let in") };
            assert_eq!(error.kind, nbd::ErrorKind::UnknownExport);
        }
    });
    machine.assert_nothing_left();
}

#[test]
fn the_empty_name_means_the_only_volume() {
    let mut machine = Machine::start(options(2), &[RAID5]);
    machine.run(async |env| {
        let client = Client::connect(&env, client_options("", ReplyStyle::Extended)).await.unwrap();
        assert_eq!(client.protocol.connected().name.as_deref(), Some("five"));
        client.leave().await;
    });
    machine.assert_nothing_left();
}

#[test]
fn every_command_does_its_work_in_every_style() {
    for (seed, style) in STYLES.into_iter().enumerate() {
        let mut machine = Machine::start(options(seed as u64), &[RAID5]);
        machine.run(async move |env| {
            let mut client = Client::connect(&env, client_options("five", style)).await.unwrap();
            assert_eq!(client.protocol.connected().style, style);
            let hello = Ask::write(100_001, b"hello".to_vec()).with(CommandFlags::FUA);
            assert_eq!(client.ask(hello).await.result, Ok(()));
            assert_eq!(client.ask(Ask::read(100_000, 7)).await.data, b"\0hello\0");
            let long = vec![7; 200_000];
            assert_eq!(client.ask(Ask::write(300_000, long)).await.result, Ok(()));
            assert_eq!(client.ask(Ask::new(Command::Flush, 0, 0)).await.result, Ok(()));
            assert_eq!(client.ask(Ask::new(Command::Cache, 0, CAPACITY)).await.result, Ok(()));
            let zeroes = Ask::new(Command::WriteZeroes, 310_000, 10_000);
            assert_eq!(client.ask(zeroes.clone().with(CommandFlags::FUA)).await.result, Ok(()));
            assert_eq!(client.ask(zeroes.clone().with(CommandFlags::NO_HOLE)).await.result, Ok(()));
            let fast = client.ask(zeroes.with(CommandFlags::FAST_ZERO)).await.result.unwrap_err();
            assert_eq!(fast.errno, Errno::NotSup);
            let read = client.ask(Ask::read(300_000, 30_000)).await.data;
            assert_eq!(read[..10_000], [7; 10_000]);
            assert_eq!(read[10_000..20_000], [0; 10_000]);
            assert_eq!(read[20_000..], [7; 10_000]);
            let trim = Ask::new(Command::Trim, 0, CAPACITY).with(CommandFlags::FUA);
            assert_eq!(client.ask(trim).await.result, Ok(()));
            assert_eq!(client.ask(Ask::read(0, 500_000)).await.data, vec![0; 500_000]);
            client.leave().await;
        });
        machine.assert_nothing_left();
    }
}

#[test]
fn holes_are_reported_where_nothing_was_written() {
    let mut machine = Machine::start(options(3), &[RAID5]);
    machine.run(async |env| {
        let mut client =
            Client::connect(&env, client_options("five", ReplyStyle::Structured)).await.unwrap();
        assert_eq!(client.ask(Ask::write(65536, vec![1; 65536])).await.result, Ok(()));
        let all = client.ask(Ask::new(Command::BlockStatus, 0, CAPACITY)).await;
        assert_eq!(all.result, Ok(()));
        assert_eq!(all.extents.iter().map(|extent| extent.length_bytes).sum::<u64>(), CAPACITY);
        assert_eq!(all.extents[0], Extent::hole(65536));
        assert_eq!(all.extents[1], Extent::data(65536));
        // Not aligned to a sector: the reply covers exactly the requested range.
        let part = client.ask(Ask::new(Command::BlockStatus, 65536 - 100, 300)).await.extents;
        assert_eq!(part, [Extent::hole(100), Extent::data(200)]);
        let one = Ask::new(Command::BlockStatus, 1, CAPACITY - 1).with(CommandFlags::REQ_ONE);
        assert_eq!(client.ask(one).await.extents, [Extent::hole(65535)]);
    });
    machine.assert_nothing_left();
}

#[test]
fn requests_that_break_a_rule_are_refused_and_the_connection_goes_on() {
    use nbd::RequestHeader;
    for (seed, style) in STYLES.into_iter().enumerate() {
        let mut machine = Machine::start(options(seed as u64), &[RAID5]);
        machine.run(async move |env| {
            let mut client = Client::connect(&env, client_options("five", style)).await.unwrap();
            let too_long = MEMORY.0 / 4 + 1;
            let extended = style == ReplyStyle::Extended;
            let payload_flag = if extended { nbd::constants::CMD_FLAG_PAYLOAD_LEN } else { 0 };
            let cases = [
                (99, 0, 0, 0, Errno::Inval),
                (nbd::constants::CMD_READ, 0, CAPACITY, 1, Errno::Inval),
                (nbd::constants::CMD_READ, 0, 0, too_long, Errno::Inval),
                (nbd::constants::CMD_WRITE, payload_flag, CAPACITY - 1, 2, Errno::NoSpc),
                (nbd::constants::CMD_WRITE, payload_flag, 0, too_long, Errno::Inval),
                (nbd::constants::CMD_TRIM, 0, CAPACITY, 1, Errno::Inval),
                (nbd::constants::CMD_READ, 0x8000, 0, 1, Errno::Inval),
            ];
            for (command, flags, offset, length, errno) in cases {
                // A valid request takes the slot; an invalid header replaces its own.
                let ask = [Ask::new(Command::Trim, 0, 1)];
                let (cookies, _) = client.begin(&ask);
                let header = RequestHeader {
                    flags,
                    command,
                    cookie: cookies[0].to_wire(),
                    offset_bytes: offset,
                    length_bytes: length,
                };
                let mut bytes = header.encode(style).unwrap().as_ref().to_vec();
                if command == nbd::constants::CMD_WRITE {
                    bytes.resize(bytes.len() + length as usize, 9);
                }
                if extended && style == ReplyStyle::Extended && offset != 0 {
                    // The reply repeats the offset, which this client's protocol would not expect.
                    continue;
                }
                let sending = client.stream.send(common::slices(&bytes));
                let answers = client.answers(&ask, &cookies).await.unwrap();
                assert!(sending.await.result.is_ok());
                assert_eq!(
                    answers[0].result.as_ref().unwrap_err().errno,
                    errno,
                    "command {command}"
                );
            }
            assert_eq!(client.ask(Ask::read(0, 10)).await.data, [0; 10]);
            client.leave().await;
        });
        machine.assert_nothing_left();
    }
}

#[test]
fn a_medium_error_fails_the_read_that_meets_it_and_no_other() {
    let plain = Plan { name: "zero", level: Level::Raid0, drives: 2, drive_bytes: 1 << 20 };
    let mut machine = Machine::start(options(4), &[plain]);
    let bad = units::ByteRange::new(units::ByteOffset(4096), units::ByteCount(512));
    machine.sim.drive("zero0").unwrap().make_unreadable(bad);
    machine.run(async |env| {
        let mut client =
            Client::connect(&env, client_options("", ReplyStyle::Structured)).await.unwrap();
        let answers = client
            .ask_all(&[Ask::read(0, 4096), Ask::read(4096, 512), Ask::read(8192, 4096)])
            .await;
        let answers = answers.unwrap();
        assert_eq!(answers[0].result, Ok(()));
        let failure = answers[1].result.clone().unwrap_err();
        assert_eq!(failure.errno, Errno::Io);
        assert_eq!(failure.message, "the data is unreadable and beyond recovery");
        assert_eq!(answers[2].result, Ok(()));
    });
    machine.assert_nothing_left();
}

#[test]
fn a_read_only_server_refuses_writes() {
    let session = ports::SessionOptions { read_only: true, ..Default::default() };
    let mut machine = Machine::start_with(options(5), &[RAID5], session, Default::default());
    machine.run(async |env| {
        let mut client =
            Client::connect(&env, client_options("", ReplyStyle::Simple)).await.unwrap();
        assert!(client.protocol.connected().flags.read_only);
        assert_eq!(client.ask(Ask::read(0, 512)).await.result, Ok(()));
        let refused = client.protocol.begin(Command::Write, CommandFlags::NONE, 0, 512);
        assert_eq!(refused.err().unwrap().kind, nbd::ErrorKind::Usage);
    });
    machine.assert_nothing_left();
}

/// One batch of requests, which do not overlap, within `from..to`.
fn batch(rng: &mut Rng, from: u64, to: u64, extents: bool) -> Vec<Ask> {
    let count = rng.between(1, 12);
    let step = (to - from) / count;
    let mut asks = Vec::new();
    for index in 0..count {
        let (start, end) = (from + index * step, from + (index + 1) * step);
        let mut offset = rng.between(start, end - 1);
        let mut length = rng.between(1, end - offset);
        if rng.chance(1, 2) {
            (offset, length) = (offset & !511, (length + 511) & !511);
            if offset < start || offset + length > end {
                continue;
            }
        }
        let fua = if rng.chance(1, 4) { CommandFlags::FUA } else { CommandFlags::NONE };
        asks.push(match rng.below(10) {
            0..=3 => Ask::read(offset, length),
            4..=6 => Ask::write(offset, noise(rng, length)).with(fua),
            7 => Ask::new(Command::WriteZeroes, offset, length).with(fua),
            8 if extents => Ask::new(Command::BlockStatus, offset, length),
            8 => Ask::new(Command::Cache, offset, length),
            _ => Ask::new(Command::Flush, 0, 0),
        });
    }
    asks
}

async fn one_client(env: platform::Env, seed: u64, name: u64, from: u64, to: u64) {
    let mut rng = Rng::new(seed, "client", &name.to_string());
    let style = STYLES[rng.below(3) as usize];
    let mut model = vec![0; (to - from) as usize];
    let mut client = Client::connect(&env, client_options("", style)).await.unwrap();
    for _ in 0..12 {
        let asks = batch(&mut rng, from, to, style != ReplyStyle::Simple);
        let answers = client.ask_all(&asks).await.unwrap();
        for (ask, answer) in asks.iter().zip(answers) {
            assert_eq!(answer.result, Ok(()), "{:?}", ask.command);
            let (start, end) = if ask.command == Command::Flush {
                (0, 0)
            } else {
                ((ask.offset - from) as usize, (ask.offset - from + ask.length) as usize)
            };
            match ask.command {
                Command::Read => {
                    assert!(answer.data == model[start..end], "seed {seed}, client {name}")
                }
                Command::Write => model[start..end].copy_from_slice(&ask.payload),
                Command::WriteZeroes => model[start..end].fill(0),
                Command::BlockStatus => {
                    let mut at = start;
                    for extent in answer.extents {
                        let next = (at + extent.length_bytes as usize).min(end);
                        assert!(!extent.zero || model[at..next].iter().all(|byte| *byte == 0));
                        at = next;
                    }
                }
                _ => {}
            }
        }
    }
    if rng.chance(1, 2) {
        client.leave().await;
    }
}

#[test]
fn any_requests_over_any_connections_do_the_same_as_on_a_piece_of_memory() {
    let run = |seed: u64| {
        let mut rng = Rng::new(seed, "machine", "");
        let shards = rng.between(1, 3) as usize;
        let mut machine = Machine::start(SimOptions { shards, ..options(seed) }, &[RAID5]);
        let clients = rng.between(1, 4);
        let share = CAPACITY / clients;
        let env = machine.client_env();
        let tasks: Vec<_> = (0..clients)
            // Neighbours share a sector and a stripe, so that their requests interact in the
            // engine.
            .map(|name| {
                one_client(env.clone(), seed, name, name * share + 7 * name, (name + 1) * share)
            })
            .map(|client| env.spawn("client", client))
            .collect();
        for task in &tasks {
            machine.sim.finish(task).unwrap();
        }
        machine.assert_nothing_left();
        machine.sim.hash()
    };
    for seed in 0..12 {
        assert_eq!(run(seed), run(seed), "seed {seed} is not a function of itself");
    }
}
