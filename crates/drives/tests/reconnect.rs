//! Lost connections of remote drives, in virtual time: unflushed writes, repeated requests, and
//! late writes that must not overwrite newer data.

mod server;

use drives::NbdDrive;
use platform::{
    Buf, DriveSource, Durability, Env, Instant, Io, IoErrorKind, IoOutcome, IoRequest, Member,
};
use platform_sim::{Sim, SimOptions};
use server::{Mode, SIZE, Server, URI, all_flags};
use smallvec::smallvec;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange};

const SEEDS: u64 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Runs a scenario with its own server and exported drive, for several seeds.
fn scenario<F: Future<Output = ()> + 'static>(
    flags: nbd::ExportFlags,
    body: impl Fn(Env, Rc<Server>, NbdDrive) -> F + Copy + 'static,
) {
    for seed in 0..SEEDS {
        let mut sim = Sim::new(SimOptions { shards: 2, ..SimOptions::seeded(seed) });
        let process = sim.add_process();
        let server = Server::new(&sim.env_of(process, 0), flags);
        let (env, started) = (sim.env(), server.clone());
        let starting = sim.env_of(process, 0).spawn("start", async move { started.start().await });
        sim.finish(&starting).unwrap();
        sim.run(async move {
            let drive = NbdDrive::open(&env, URI).await.unwrap();
            assert!(!drive.info().exclusive);
            body(env, server, drive).await;
        })
        .unwrap_or_else(|stall| panic!("seed {seed}: {stall}"));
    }
}

fn attach(env: &Env, drive: &NbdDrive) -> Member {
    Member::new(env, drive.attach(env).unwrap())
}

fn write(drive: &Member, at: u64, fill: u8, len: usize, durability: Durability) -> Io {
    drive.write(ByteOffset(at), smallvec![Buf::copy_of(&vec![fill; len]).freeze()], durability)
}

fn read(drive: &Member, at: u64, len: u64) -> Io {
    drive.read(ByteOffset(at), smallvec![Buf::unpooled(ByteCount(len))])
}

fn kind(outcome: &IoOutcome) -> Result<u64, IoErrorKind> {
    outcome.result.map_err(|error| error.kind)
}

/// A connected drive filled with ones, flushed.
async fn prepared(env: &Env, drive: &NbdDrive) -> Member {
    let member = attach(env, drive);
    write(&member, 0, 1, 8192, Durability::Cached).await.result.unwrap();
    member.flush().await.result.unwrap();
    member
}

#[test]
fn reads_and_status_are_asked_again_and_nobody_notices() {
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        server.mode.set(Mode::Swallow);
        let start = env.now();
        let reads: Vec<Io> =
            [(0, 512), (0, 8192), (4096, 100 << 10)].map(|(at, len)| read(&drive, at, len)).into();
        let status = drive
            .start(IoRequest::Status { range: ByteRange::new(ByteOffset(0), ByteCount(64 << 10)) });
        env.sleep(SECOND).await;
        server.mode.set(Mode::Serve);
        server.break_off();
        for (io, len) in reads.into_iter().zip([512, 8192, 100 << 10]) {
            let outcome = io.await;
            assert_eq!(kind(&outcome), Ok(len));
            assert_eq!(outcome.buffers[0].bytes().iter().all(|byte| *byte == 1), len <= 8192);
        }
        let status = status.await;
        assert_eq!(status.extents.iter().map(|extent| extent.len.0).sum::<u64>(), 64 << 10);
        assert!(env.now().since(start) < SECOND * 2, "reads need not settle");
        assert_eq!((server.connections.get(), drive.outstanding()), (3, 0));
    });
}

#[test]
fn a_status_that_was_told_in_part_is_told_once() {
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        let range = ByteRange::new(ByteOffset(0), ByteCount(256 << 10));
        let status = drive.start(IoRequest::Status { range });
        env.sleep(Duration::from_micros(1500)).await;
        server.break_off();
        let extents = status.await.extents;
        assert_eq!(extents.len(), 64);
        let is_in_turn = |(index, extent): (usize, &platform::StatusExtent)| {
            (extent.status == platform::BlockStatus::Hole) == (index % 2 == 1)
                && extent.len.0 == 4096
        };
        assert!(extents.iter().enumerate().all(is_in_turn), "{extents:?}");
    });
}

#[test]
fn a_drive_nobody_uses_connects_again_when_somebody_does() {
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        server.stop();
        env.sleep(SECOND * 3600).await;
        server.start().await;
        assert_eq!(kind(&write(&drive, 0, 2, 512, Durability::Durable).await), Ok(512));
        assert_eq!(kind(&drive.flush().await), Ok(0));
        assert_eq!(server.content(0, 1024), [[2; 512], [1; 512]].concat());
    });
}

#[test]
fn a_write_that_was_acknowledged_and_not_flushed_loses_the_drive() {
    // The server's host may have lost the write; a later flush would still have succeeded.
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        write(&drive, 0, 2, 512, Durability::Cached).await.result.unwrap();
        server.lose_cache();
        server.break_off();
        let outcome = drive.flush().await;
        assert_eq!(kind(&outcome), Err(IoErrorKind::Gone));
        for io in [read(&drive, 0, 512), write(&drive, 0, 3, 512, Durability::Durable)] {
            assert_eq!(kind(&io.await), Err(IoErrorKind::Gone));
        }
        assert_eq!((server.connections.get(), drive.outstanding()), (2, 0));
    });
}

#[test]
fn a_write_under_way_is_written_again_but_not_before_the_old_one_can_land_no_more() {
    // Forbidden sequence: the connection breaks, the write is resent and acknowledged at once,
    // newer data are written over it, and then the server performs the first, delayed write.
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        server.mode.set(Mode::Hold);
        let old = write(&drive, 4096, 2, 512, Durability::Durable);
        env.sleep(SECOND).await;
        server.mode.set(Mode::Serve);
        server.break_off();
        let late = server.clone();
        let sleeper = env.clone();
        env.spawn("late", async move {
            sleeper.sleep(SECOND * 4).await;
            late.land_held();
        });
        assert_eq!(kind(&old.await), Ok(512));
        assert_eq!(kind(&write(&drive, 4096, 3, 512, Durability::Durable).await), Ok(512));
        env.sleep(SECOND * 10).await;
        assert_eq!(server.content(4096, 512), [3; 512]);
        assert_eq!(drive.outstanding(), 0);
    });
}

#[test]
fn a_write_in_parts_is_written_again_as_a_whole() {
    // 200 KiB take four requests. The acknowledged ones were in a cache that is lost.
    for (flags, durability) in [
        (all_flags(), Durability::Cached),
        (nbd::ExportFlags { fua: false, ..all_flags() }, Durability::Durable),
    ] {
        let run = move |env: Env, server: Rc<Server>, drive: NbdDrive| async move {
            let drive = prepared(&env, &drive).await;
            let len = 200 << 10;
            server.mode.set(if durability == Durability::Durable {
                Mode::NoFlush
            } else {
                Mode::Serve
            });
            let writing = write(&drive, 0, 5, len, durability);
            let parts = server.writes.get();
            while server.writes.get() < parts + 4 - u32::from(durability == Durability::Cached) {
                env.sleep(Duration::from_micros(10)).await;
            }
            if durability == Durability::Durable {
                env.sleep(SECOND).await; // All parts have replies, the flush has none.
            }
            server.mode.set(Mode::Serve);
            server.lose_cache();
            server.break_off();
            assert_eq!(kind(&writing.await), Ok(len as u64));
            if durability == Durability::Durable {
                server.lose_cache();
            }
            assert_eq!(server.content(0, len as u64), vec![5; len]);
        };
        scenario(flags, run);
    }
}

#[test]
fn when_the_server_stays_away_everybody_is_told_in_time() {
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        server.mode.set(Mode::Hold);
        let (reading, writing) =
            (read(&drive, 0, 512), write(&drive, 0, 2, 512, Durability::Cached));
        env.sleep(SECOND).await;
        let broken = env.now();
        server.stop();
        let (reading, writing) = (reading.await, writing.await);
        assert_eq!(
            (kind(&reading), kind(&writing)),
            (Err(IoErrorKind::Gone), Err(IoErrorKind::Gone))
        );
        assert_eq!(reading.buffers.len(), 1);
        let waited = env.now().since(broken);
        assert!(waited > SECOND * 10 && waited <= SECOND * 15, "{waited:?}");
        server.mode.set(Mode::Serve);
        server.start().await;
        assert_eq!(kind(&drive.flush().await), Err(IoErrorKind::Gone), "the drive stays lost");
        assert_eq!(drive.outstanding(), 0);
    });
}

#[test]
fn a_lost_drive_tells_at_once_and_returns_writes_only_when_they_can_land_no_more() {
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        write(&drive, 0, 2, 512, Durability::Cached).await.result.unwrap();
        server.mode.set(Mode::Hold);
        let (reading, writing) =
            (read(&drive, 0, 512), write(&drive, 0, 3, 512, Durability::Durable));
        env.sleep(SECOND).await;
        let broken = env.now();
        server.break_off();
        assert_eq!(kind(&writing.await), Err(IoErrorKind::Gone));
        assert_eq!(kind(&reading.await), Err(IoErrorKind::Gone));
        assert!(env.now().since(broken) < SECOND);
        assert_eq!(drive.outstanding(), 1, "the write may still land");
        env.sleep(SECOND * 4).await;
        assert_eq!(drive.outstanding(), 1);
        env.sleep(SECOND * 2).await;
        assert_eq!(drive.outstanding(), 0);
    });
}

#[test]
fn what_nobody_waits_for_any_more_is_not_written_later() {
    scenario(all_flags(), |env, server, drive| async move {
        let hasty = Member::with_time_limit(&env, drive.attach(&env).unwrap(), SECOND * 2);
        write(&hasty, 0, 1, 512, Durability::Durable).await.result.unwrap();
        server.stop();
        let waiting = write(&hasty, 0, 2, 512, Durability::Durable);
        assert_eq!(kind(&waiting.await), Err(IoErrorKind::TimedOut));
        assert_eq!(hasty.outstanding(), 1);
        server.start().await;
        env.sleep(SECOND * 5).await;
        assert_eq!((hasty.outstanding(), server.content(0, 512)), (0, vec![1; 512]));
        assert_eq!(kind(&read(&hasty, 0, 512).await), Ok(512), "the drive itself works");
    });
}

#[test]
fn another_export_at_the_same_address_is_another_drive() {
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        server.shrink();
        server.break_off();
        assert_eq!(kind(&read(&drive, 0, 512).await), Err(IoErrorKind::Gone));
        assert_eq!(SIZE, drive.info().size.0);
    });
}

#[test]
fn attachments_stand_and_fall_together() {
    for flushed in [true, false] {
        for seed in 0..SEEDS {
            let mut sim = Sim::new(SimOptions { shards: 2, ..SimOptions::seeded(seed) });
            let process = sim.add_process();
            let server = Server::new(&sim.env_of(process, 0), all_flags());
            let started = server.clone();
            let starting =
                sim.env_of(process, 0).spawn("start", async move { started.start().await });
            sim.finish(&starting).unwrap();
            let envs = [sim.shard(0), sim.shard(1)];
            let opener = envs[0].clone();
            let source =
                sim.run(async move { NbdDrive::open(&opener, URI).await.unwrap() }).unwrap();
            let [first, second] = [0, 1].map(|shard| attach(&envs[shard], &source));
            let on = |sim: &mut Sim, shard: usize, drive: &Member, request: fn(&Member) -> Io| {
                let drive = drive.clone();
                let task =
                    envs[shard].spawn("request", async move { kind(&request(&drive).await) });
                sim.finish(&task).unwrap()
            };
            // One writes, the other flushes; then both connections break, and the other uses the
            // drive first.
            let write_one: fn(&Member) -> Io = |drive| write(drive, 0, 7, 512, Durability::Cached);
            assert_eq!(on(&mut sim, 0, &first, write_one), Ok(512));
            assert_eq!(on(&mut sim, 1, &second, |drive| read(drive, 0, 512)), Ok(512));
            if flushed {
                assert_eq!(on(&mut sim, 1, &second, |drive| drive.flush()), Ok(0));
            }
            server.lose_cache();
            server.break_off();
            let expected = |bytes| if flushed { Ok(bytes) } else { Err(IoErrorKind::Gone) };
            assert_eq!(on(&mut sim, 1, &second, |drive| drive.flush()), expected(0), "seed {seed}");
            assert_eq!(on(&mut sim, 0, &first, |drive| read(drive, 0, 512)), expected(512));
            assert_eq!(on(&mut sim, 0, &first, write_one), expected(512));
            assert!(sim.now() > Instant::default());
        }
    }
}

#[test]
fn a_drive_that_is_dropped_while_its_server_is_away_ends() {
    scenario(all_flags(), |env, server, drive| async move {
        let member = prepared(&env, &drive).await;
        server.stop();
        let reading = read(&member, 0, 512);
        drop(member);
        drop(drive);
        assert_eq!(kind(&reading.await), Err(IoErrorKind::Gone));
        env.sleep(SECOND * 60).await;
    });
}

/// Regression: a short lack of memory on the server counted as bad blocks, and the drive was
/// replaced.
#[test]
fn a_server_without_memory_is_asked_again_and_nobody_notices() {
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        for breaks_off in [false, true] {
            server.mode.set(Mode::NoMemory);
            let reading = [read(&drive, 0, 8192), read(&drive, 4096, 100 << 10)];
            let writing = [(16384, 512), (32768, 100 << 10)];
            let writing =
                writing.map(|(at, len)| (at, len, write(&drive, at, 2, len, Durability::Cached)));
            env.sleep(SECOND).await;
            assert_eq!(server.content(16384, 512), [if breaks_off { 2 } else { 0 }; 512]);
            if breaks_off {
                // The new connection resends a waiting request once.
                server.break_off();
            }
            server.mode.set(Mode::Serve);
            for (io, len) in reading.into_iter().zip([8192, 100 << 10]) {
                assert_eq!(kind(&io.await), Ok(len));
            }
            for (at, len, io) in writing {
                assert_eq!(kind(&io.await), Ok(len as u64));
                assert!(server.content(at, len as u64) == vec![2; len]);
            }
            assert_eq!(kind(&drive.flush().await), Ok(0));
            assert_eq!(drive.outstanding(), 0);
        }
    });
}

#[test]
fn a_server_that_stays_without_memory_is_busy_and_not_lost() {
    scenario(all_flags(), |env, server, drive| async move {
        let drive = prepared(&env, &drive).await;
        server.mode.set(Mode::NoMemory);
        let start = env.now();
        let asked = [read(&drive, 0, 8192), write(&drive, 0, 2, 8192, Durability::Cached)];
        for io in asked {
            assert_eq!(kind(&io.await), Err(IoErrorKind::Busy));
        }
        assert!(env.now().since(start) <= SECOND * 16, "half of the time is for the server");
        // A system reports a lost write-back once, with any error number: a repeated flush would
        // hide the loss.
        let durable = write(&drive, 0, 2, 512, Durability::Durable);
        for io in [drive.flush(), durable] {
            assert_eq!(kind(&io.await), Err(IoErrorKind::Unknown));
        }
        server.mode.set(Mode::Serve);
        let outcome = read(&drive, 0, 8192).await;
        assert_eq!((kind(&outcome), server.connections.get()), (Ok(8192), 2));
        assert_eq!(outcome.buffers[0].bytes(), [1; 8192]);
    });
}
