//! Memory and null drives, and valid drive names.

use drives::{MemoryDrive, open};
use platform::{
    BlockStatus, Buf, DriveHealth, DriveIdentity, DriveSource, Durability, Env, ErrorKind,
    IoErrorKind, IoRequest, Member, Slice,
};
use platform_linux::{Settings, Shard};
use smallvec::smallvec;
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

const MIB: u64 = 1 << 20;
/// The allocation unit of memory drives.
const CHUNK: u64 = 2 * MIB;

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
        let (source, drive) = memory(&env, 4 * CHUNK);
        let bytes: Vec<u8> = (0..2 * CHUNK).map(|i| (i / 7) as u8).collect();
        write(&drive, CHUNK - 1024, &bytes).await;
        let other = Member::new(&env, source.attach(&env).unwrap());
        assert!(read(&other, CHUNK - 1024, 2 * CHUNK).await == bytes);
        assert!(read(&other, 0, CHUNK - 1024).await.iter().all(|byte| *byte == 0));
        // Zero whole chunks and parts of them.
        drive.trim(range(CHUNK - 512, CHUNK + 1024)).await.result.unwrap();
        let left = read(&drive, CHUNK - 1024, 2 * CHUNK).await;
        assert_eq!(left[..512], bytes[..512]);
        assert!(left[512..512 + 1024 + CHUNK as usize].iter().all(|byte| *byte == 0));
        assert!(left[512 + 1024 + CHUNK as usize..] == bytes[512 + 1024 + CHUNK as usize..]);
        let status = drive.start(IoRequest::Status { range: range(0, 4 * CHUNK) }).await.extents;
        let status: Vec<_> =
            status.iter().map(|extent| (extent.len.0 / CHUNK, extent.status)).collect();
        assert_eq!(
            status,
            [
                (1, BlockStatus::Data),
                (1, BlockStatus::Hole),
                (1, BlockStatus::Data),
                (1, BlockStatus::Hole)
            ]
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
            for (start, len) in
                [(MIB, 512), (MIB - 512, 1024), (1, 512), (0, 100), (u64::MAX - 511, 512)]
            {
                let outcome =
                    drive.read(ByteOffset(start), smallvec![Buf::unpooled(ByteCount(len))]).await;
                assert_eq!(
                    outcome.result.unwrap_err().kind,
                    IoErrorKind::Invalid,
                    "{spec} {start}+{len}"
                );
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

/// Regression: the chunk table of the largest drive took 384 MiB at creation.
#[test]
fn the_largest_memory_drive_takes_memory_where_it_is_used() {
    on_a_shard(|env| async move {
        let drive = Member::new(&env, open(&env, "mem:16T").await.unwrap().attach(&env).unwrap());
        let last = (16 << 40) - 8192;
        write(&drive, last, &[7; 8192]).await;
        assert_eq!(read(&drive, last, 8192).await, [7; 8192]);
        assert_eq!(read(&drive, 8 << 40, 4096).await, [0; 4096]);
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

#[test]
fn health_is_unknown_where_nobody_tells() {
    on_a_shard(|env| async move {
        for name in ["mem:1M", "null:1M"] {
            let drive = Member::new(&env, open(&env, name).await.unwrap().attach(&env).unwrap());
            assert_eq!(drive.health().await, Ok(DriveHealth::default()), "{name}");
            assert_eq!(
                drive.locate(true).await.result.unwrap_err().kind,
                IoErrorKind::NotSupported
            );
            assert!(drive.info().exclusive);
        }
    });
}
