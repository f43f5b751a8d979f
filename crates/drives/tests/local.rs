//! Memory, null and faulty drives, and what people may write for a drive.

use drives::{Fault, FaultRule, FaultScript, FaultyDrive, MemoryDrive, OpKind, open};
use env::{
    BlockStatus, Buf, DriveHealth, DriveIdentity, DriveSource, Durability, Env, ErrorKind, HealthScript,
    IoErrorKind, IoRequest, Member, Slice,
};
use smallvec::smallvec;
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};
use world_real::{Settings, Shard};

const MIB: u64 = 1 << 20;

fn on_a_shard<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce(Env) -> F) -> T {
    let shard = Shard::new(&Settings::with_memory(ByteCount(64 << 20))).unwrap();
    let future = body(shard.env().clone());
    shard.run(future)
}

fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start), ByteCount(len))
}

async fn write(drive: &Member, start: u64, bytes: &[u8]) {
    let slices = smallvec![Buf::copy_of(bytes).freeze()];
    drive.write(ByteOffset(start), slices, Durability::Cached).await.result.unwrap();
}

async fn read(drive: &Member, start: u64, len: u64) -> Vec<u8> {
    let mut dirty = Buf::unpooled(ByteCount(len));
    dirty.bytes_mut().fill(0xEE);
    let outcome = drive.read(ByteOffset(start), smallvec![dirty]).await;
    assert_eq!(outcome.result, Ok(len));
    outcome.buffers[0].bytes().to_vec()
}

fn memory(env: &Env, size: u64) -> (Arc<dyn DriveSource>, Member) {
    let identity = DriveIdentity("test".to_owned());
    let source = Arc::new(MemoryDrive::new("test", identity, ByteCount(size), SectorSize::B512));
    let member = Member::new(env, source.attach(env).unwrap());
    (source, member)
}

#[test]
fn memory_keeps_what_is_written_across_its_chunks_and_for_every_attachment() {
    on_a_shard(|env| async move {
        let (source, drive) = memory(&env, 4 * MIB);
        let bytes: Vec<u8> = (0..2 * MIB).map(|i| (i / 7) as u8).collect();
        write(&drive, MIB - 1024, &bytes).await;
        let other = Member::new(&env, source.attach(&env).unwrap());
        assert!(read(&other, MIB - 1024, 2 * MIB).await == bytes);
        assert!(read(&other, 0, MIB - 1024).await.iter().all(|byte| *byte == 0));
        // Zeroed: whole chunks and parts of them.
        drive.trim(range(MIB - 512, MIB + 1024)).await.result.unwrap();
        let left = read(&drive, MIB - 1024, 2 * MIB).await;
        assert_eq!(left[..512], bytes[..512]);
        assert!(left[512..512 + 1024 + MIB as usize].iter().all(|byte| *byte == 0));
        assert!(left[512 + 1024 + MIB as usize..] == bytes[512 + 1024 + MIB as usize..]);
        let status = drive.start(IoRequest::Status { range: range(0, 4 * MIB) }).await.extents;
        let status: Vec<_> = status.iter().map(|extent| (extent.len.0 / MIB, extent.status)).collect();
        assert_eq!(
            status,
            [(1, BlockStatus::Data), (1, BlockStatus::Hole), (1, BlockStatus::Data), (1, BlockStatus::Hole)]
        );
    });
}

#[test]
fn memory_takes_hollow_and_zero_buffers() {
    on_a_shard(|env| async move {
        let (_, drive) = memory(&env, MIB);
        write(&drive, 0, &[7; 4096]).await;
        let slices = smallvec![Slice::hollow(ByteCount(512)), Slice::zero(ByteCount(512))];
        assert_eq!(drive.write(ByteOffset(0), slices, Durability::Durable).await.result, Ok(1024));
        let bytes = read(&drive, 0, 4096).await;
        assert_eq!((&bytes[..512], &bytes[512..1024]), (&[7; 512][..], &[0; 512][..]));
        let outcome = drive.read(ByteOffset(0), smallvec![Buf::hollow(ByteCount(4096))]).await;
        assert_eq!((outcome.result, outcome.buffers[0].len()), (Ok(4096), ByteCount(4096)));
    });
}

#[test]
fn requests_beyond_the_end_or_off_the_sectors_are_invalid() {
    on_a_shard(|env| async move {
        for spec in ["mem:1M", "null:1M"] {
            let drive = Member::new(&env, open(&env, spec).await.unwrap().attach(&env).unwrap());
            for (start, len) in [(MIB, 512), (MIB - 512, 1024), (1, 512), (0, 100), (u64::MAX - 511, 512)] {
                let outcome = drive.read(ByteOffset(start), smallvec![Buf::unpooled(ByteCount(len))]).await;
                assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::Invalid, "{spec} {start}+{len}");
                assert_eq!(outcome.buffers.len(), 1);
            }
        }
    });
}

#[test]
fn null_reads_zeroes_whatever_was_written_and_whatever_the_buffer_held() {
    on_a_shard(|env| async move {
        let drive = Member::new(&env, open(&env, "null:1G").await.unwrap().attach(&env).unwrap());
        assert_eq!(drive.info().size, ByteCount::GIB);
        write(&drive, 0, &[7; 4096]).await;
        assert_eq!(read(&drive, 0, 4096).await, [0; 4096]);
        assert_eq!(drive.flush().await.result, Ok(0));
    });
}

#[test]
fn drives_of_one_name_are_not_one_drive() {
    on_a_shard(|env| async move {
        let first = open(&env, "mem:1M").await.unwrap();
        let second = open(&env, "mem:1M").await.unwrap();
        assert_ne!(first.info().identity, second.info().identity);
    });
}

#[test]
fn what_names_no_drive_is_refused_with_one_sentence() {
    on_a_shard(|env| async move {
        for (spec, part) in [
            ("mem:", "'' is not a size"),
            ("mem:12X", "'12X' is not a size"),
            ("mem:0", "not a whole number of 512-byte sectors"),
            ("mem:1000", "a size of 1000 bytes"),
            ("mem:17T", "go up to 16 TiB"),
            ("null:1000", "drive 'null:1000'"),
            ("", "a drive needs a name"),
            ("nbd:localhost", "no usable NBD address"),
            ("nbds://localhost/x", "TLS"),
        ] {
            let error = open(&env, spec).await.err().unwrap();
            assert_eq!(error.kind, ErrorKind::BadName, "{spec}: {error}");
            assert!(error.to_string().contains(part), "{spec}: {error}");
        }
        assert_eq!(open(&env, "/nowhere/drive").await.err().unwrap().kind, ErrorKind::NotFound);
    });
}

fn faulty(env: &Env) -> (FaultScript, Member) {
    let script = FaultScript::new();
    let (source, _) = memory(env, MIB);
    let source = FaultyDrive::new(source, script.clone());
    let drive = source.attach(env).unwrap();
    (script, Member::with_time_limit(env, drive, Duration::from_millis(40)))
}

#[test]
fn a_rule_hits_its_kind_its_range_and_its_turn() {
    on_a_shard(|env| async move {
        let (script, drive) = faulty(&env);
        let fault = Fault::Fail(IoErrorKind::Medium);
        script.add(FaultRule::always(fault).on(OpKind::Read).within(range(4096, 512)).nth(1));
        let kind_of = async |start: u64| {
            let outcome = drive.read(ByteOffset(start), smallvec![Buf::unpooled(ByteCount(4096))]).await;
            assert_eq!(outcome.buffers.len(), 1);
            outcome.result.err().map(|error| error.kind)
        };
        assert_eq!(kind_of(0).await, None);
        write(&drive, 4096, &[1; 512]).await;
        assert_eq!(kind_of(4096).await, None);
        assert_eq!(kind_of(512).await, Some(IoErrorKind::Medium));
        assert_eq!(kind_of(4096).await, None);
        assert_eq!(script.injected(), 1);
    });
}

#[test]
fn a_held_write_lands_late_and_not_before_it_is_released() {
    on_a_shard(|env| async move {
        let (script, drive) = faulty(&env);
        script.add(FaultRule::always(Fault::Hold).on(OpKind::Write).nth(0));
        let slices = smallvec![Buf::copy_of(&[9; 512]).freeze()];
        let outcome = drive.write(ByteOffset(0), slices, Durability::Cached).await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::TimedOut);
        assert_eq!(drive.outstanding(), 1);
        assert_eq!(read(&drive, 0, 512).await, [0; 512]);
        script.release();
        while drive.outstanding() > 0 {
            env.yield_now().await;
        }
        assert_eq!(read(&drive, 0, 512).await, [9; 512]);
    });
}

#[test]
fn a_held_answer_belongs_to_a_write_that_has_landed() {
    on_a_shard(|env| async move {
        let (script, drive) = faulty(&env);
        script.add(FaultRule::always(Fault::HoldAnswer).on(OpKind::Write).nth(0));
        let slices = smallvec![Buf::copy_of(&[9; 512]).freeze()];
        let writing = drive.write(ByteOffset(0), slices, Durability::Cached);
        assert_eq!(read(&drive, 0, 512).await, [9; 512]);
        assert_eq!(drive.outstanding(), 1);
        script.release();
        assert_eq!(writing.await.result, Ok(512));
    });
}

#[test]
fn delays_take_their_time_and_the_rest_overtakes() {
    on_a_shard(|env| async move {
        let (script, drive) = faulty(&env);
        let delay = Duration::from_millis(5);
        for fault in [Fault::Delay(delay), Fault::Late(delay)] {
            script.clear();
            script.add(FaultRule::always(fault).on(OpKind::Flush).nth(0));
            let start = env.now();
            let flush = drive.flush();
            read(&drive, 0, 512).await;
            assert_eq!(drive.outstanding(), 1);
            flush.await.result.unwrap();
            assert!(env.now() - start >= delay);
        }
    });
}

#[test]
fn a_drive_that_is_gone_fails_everything_and_what_it_delayed() {
    on_a_shard(|env| async move {
        let (script, drive) = faulty(&env);
        script.add(FaultRule::always(Fault::Delay(Duration::from_millis(5))).on(OpKind::Flush));
        let flush = drive.flush();
        script.set_gone(true);
        let outcome = drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(512))]).await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::Gone);
        assert_eq!(flush.await.result.unwrap_err().kind, IoErrorKind::Gone);
        script.set_gone(false);
        read(&drive, 0, 512).await;
    });
}

#[test]
fn health_is_unknown_where_nobody_tells_and_scripted_where_somebody_does() {
    on_a_shard(|env| async move {
        for name in ["mem:1M", "null:1M"] {
            let drive = Member::new(&env, open(&env, name).await.unwrap().attach(&env).unwrap());
            assert_eq!(drive.health().await, Ok(DriveHealth::default()), "{name}");
            assert_eq!(drive.locate(true).await.result.unwrap_err().kind, IoErrorKind::NotSupported);
            assert!(drive.info().exclusive);
        }
        let (script, drive) = faulty(&env);
        assert_eq!(drive.health().await, Ok(DriveHealth::default()), "the drive behind it tells nothing");
        script.set_health(Some(HealthScript {
            bytes_per_wear_percent: Some(ByteCount(1024)),
            ..HealthScript::failing_from(env.now())
        }));
        write(&drive, 0, &[1; 3072]).await;
        let health = drive.health().await.unwrap();
        assert_eq!((health.predicted_failure, health.wear_percent), (Some(true), Some(3)));
        // It is asked like anything else: its questions meet faults, and others' faults do not meet it.
        script.add(FaultRule::always(Fault::Fail(IoErrorKind::Medium)).on(OpKind::Read));
        script.add(FaultRule::always(Fault::Delay(Duration::from_millis(1))).on(OpKind::Health).nth(0));
        assert_eq!(drive.health().await.unwrap().wear_percent, Some(3));
        script.set_gone(true);
        assert_eq!(drive.health().await.unwrap_err().kind, IoErrorKind::Gone);
        script.set_gone(false);
        script.set_health(None);
        assert_eq!(drive.health().await, Ok(DriveHealth::default()));
    });
}
