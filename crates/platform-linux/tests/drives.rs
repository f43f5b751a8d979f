//! Drives on real files: requests, alignment, locks and wrong paths.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

mod common;

use common::{TestDir, file_drive, on_a_shard};
use platform::{BlockStatus, Buf, Durability, ErrorKind, IoErrorKind, IoRequest, Member, Slice};
use smallvec::smallvec;
use units::{ByteCount, ByteOffset, ByteRange};

const MIB: u64 = 1 << 20;

fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start), ByteCount(len))
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 512) as u8 ^ (i as u8).wrapping_mul(31) ^ seed).collect()
}

async fn read(drive: &Member, start: u64, len: u64) -> Vec<u8> {
    let outcome = drive.read(ByteOffset(start), smallvec![Buf::unpooled(ByteCount(len))]).await;
    assert_eq!(outcome.result.unwrap(), len);
    outcome.buffers[0].bytes().to_vec()
}

async fn write(drive: &Member, start: u64, bytes: &[u8]) {
    let slices = smallvec![Buf::copy_of(bytes).freeze()];
    let outcome = drive.write(ByteOffset(start), slices, Durability::Cached).await;
    assert_eq!(outcome.result.unwrap(), bytes.len() as u64);
}

#[test]
fn what_is_written_is_read_back_in_other_pieces() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    let on_disk = path.clone();
    on_a_shard(move |env| async move {
        let drive = file_drive(&env, &path, 4 * MIB).await;
        let (a, b) = (pattern(4096, 1), pattern(8192, 2));
        let slices = smallvec![
            Buf::copy_of(&a).freeze(),
            Slice::zero(ByteCount(1536)),
            Buf::copy_of(&b).freeze(),
            Slice::zero(ByteCount(2 * MIB)),
        ];
        let total = 4096 + 1536 + 8192 + 2 * MIB;
        let outcome = drive.write(ByteOffset(512), slices, Durability::Durable).await;
        assert_eq!(outcome.result.unwrap(), total);
        let buffers =
            smallvec![Buf::unpooled(ByteCount(512)), Buf::unpooled(ByteCount(total - 512))];
        let outcome = drive.read(ByteOffset(512), buffers).await;
        assert_eq!(outcome.result.unwrap(), total);
        let mut expected = a;
        expected.extend([0; 1536]);
        expected.extend(b);
        expected.extend(vec![0; 2 * MIB as usize]);
        assert_eq!([outcome.buffers[0].bytes(), outcome.buffers[1].bytes()].concat(), expected);
        assert_eq!(drive.flush().await.result, Ok(0));
        let from_outside = std::fs::read(&on_disk).unwrap();
        assert_eq!(from_outside[512..512 + total as usize], expected);
    });
}

#[test]
fn memory_that_direct_io_cannot_reach_is_bounced() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        let drive = file_drive(&env, &path, MIB).await;
        let bytes = pattern(4096, 3);
        // A payload after a header of 28 bytes, as it arrives from a socket, and pieces of odd
        // lengths.
        let mut message = vec![0; 28];
        message.extend(&bytes);
        let message = Buf::copy_of(&message).freeze();
        let slices = smallvec![
            message.cut(ByteCount(28), ByteCount(101)),
            message.cut(ByteCount(129), ByteCount(3995)),
            Slice::zero(ByteCount(512)),
        ];
        let outcome = drive.write(ByteOffset(4096), slices, Durability::Cached).await;
        assert_eq!(outcome.result.unwrap(), 4608);
        let mut odd = Buf::unpooled(ByteCount(8192));
        let mut target = odd.split_off(ByteCount(100));
        let rest = target.split_off(ByteCount(2000));
        let mut rest = rest;
        rest.split_off(ByteCount(2608));
        let outcome = drive.read(ByteOffset(4096), smallvec![target, rest]).await;
        assert_eq!(outcome.result.unwrap(), 4608);
        let got = [outcome.buffers[0].bytes(), outcome.buffers[1].bytes()].concat();
        assert_eq!(got[..4096], bytes);
        assert_eq!(got[4096..], [0; 512]);
    });
}

#[test]
fn zeroed_and_trimmed_ranges_read_as_zeroes_and_their_neighbours_stay() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    let on_disk = path.clone();
    on_a_shard(move |env| async move {
        let drive = file_drive(&env, &path, MIB).await;
        let full = pattern(MIB as usize, 4);
        write(&drive, 0, &full).await;
        for (start, len, may_unmap) in [(4096u64, 8192u64, false), (100 * 512, 3 * 512, true)] {
            let durability = Durability::Durable;
            let request =
                IoRequest::WriteZeroes { range: range(start, len), may_unmap, durability };
            drive.start(request).await.result.unwrap();
        }
        drive.trim(range(512 << 10, 64 << 10)).await.result.unwrap();
        let mut expected = full;
        expected[4096..4096 + 8192].fill(0);
        expected[100 * 512..103 * 512].fill(0);
        expected[512 << 10..576 << 10].fill(0);
        assert!(read(&drive, 0, MIB).await == expected);
        // A full file system must never fail a drive: no space was released.
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(&on_disk).unwrap();
        assert!(metadata.blocks() * 512 >= MIB, "{} blocks are left", metadata.blocks());
    });
}

#[test]
fn status_tells_data_from_what_was_never_written() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        let drive = file_drive(&env, &path, 4 * MIB).await;
        write(&drive, MIB, &pattern(64 << 10, 5)).await;
        let outcome = drive.start(IoRequest::Status { range: range(512 << 10, 2 * MIB) }).await;
        outcome.result.unwrap();
        let total: u64 = outcome.extents.iter().map(|extent| extent.len.0).sum();
        assert_eq!(total, 2 * MIB);
        let mut at = 512 << 10;
        for extent in &outcome.extents {
            let written = at < MIB + (64 << 10) && at + extent.len.0 > MIB;
            assert!(!written || extent.status == BlockStatus::Data, "{at}: {extent:?}");
            at += extent.len.0;
        }
        assert_eq!(outcome.extents[0].status, BlockStatus::Zero);
        assert_eq!(outcome.extents.last().unwrap().status, BlockStatus::Zero);
    });
}

#[test]
fn requests_that_cannot_be_are_refused_with_their_buffers() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        let drive = file_drive(&env, &path, MIB).await;
        for (start, len) in
            [(MIB, 512), (MIB - 512, 1024), (100, 512), (0, 100), (u64::MAX - 511, 512)]
        {
            let outcome =
                drive.read(ByteOffset(start), smallvec![Buf::unpooled(ByteCount(len))]).await;
            assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::Invalid, "{start}+{len}");
            assert_eq!(outcome.buffers[0].len(), ByteCount(len));
        }
        let hollow = drive.read(ByteOffset(0), smallvec![Buf::hollow(ByteCount(512))]).await;
        assert_eq!(hollow.result.unwrap_err().kind, IoErrorKind::Invalid);
        let slices = smallvec![Slice::hollow(ByteCount(512))];
        let hollow = drive.write(ByteOffset(0), slices, Durability::Cached).await;
        assert_eq!(hollow.result.unwrap_err().kind, IoErrorKind::Invalid);
        assert_eq!(drive.read(ByteOffset(0), smallvec![]).await.result, Ok(0));
    });
}

#[test]
fn a_drive_that_shrinks_says_that_it_changed() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        let drive = file_drive(&env, &path, MIB).await;
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(MIB / 2).unwrap();
        let outcome =
            drive.read(ByteOffset(MIB / 2 - 4096), smallvec![Buf::unpooled(ByteCount(8192))]).await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::Changed);
    });
}

#[test]
fn many_requests_at_once_all_come_back() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        // More than the submission queue holds.
        const COUNT: u64 = 2000;
        let drive = file_drive(&env, &path, COUNT * 4096).await;
        let write = |i: u64| {
            let slices = smallvec![Buf::copy_of(&pattern(4096, i as u8)).freeze()];
            drive.write(ByteOffset(i * 4096), slices, Durability::Cached)
        };
        let writes: Vec<_> = (0..COUNT).map(write).collect();
        for io in writes {
            assert_eq!(io.await.result, Ok(4096));
        }
        let reads: Vec<_> = (0..COUNT)
            .map(|i| drive.read(ByteOffset(i * 4096), smallvec![Buf::unpooled(ByteCount(4096))]))
            .collect();
        for (i, io) in reads.into_iter().enumerate() {
            assert!(io.await.buffers[0].bytes() == pattern(4096, i as u8));
        }
        assert_eq!(drive.outstanding(), 0);
    });
}

#[test]
fn a_drive_says_what_it_is() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        let drive = file_drive(&env, &path, MIB).await;
        let info = drive.info();
        assert_eq!((info.name.as_str(), info.size), (path.as_str(), ByteCount(MIB)));
        assert_eq!(info.kind, platform::DriveKind::File);
        assert!(!info.read_only && info.identity.0.starts_with("file:"));
    });
}

#[test]
fn a_second_controller_is_locked_out_until_the_first_lets_go() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        env.world().create_drive(&path, ByteCount(MIB)).await.unwrap();
        let first = env.world().open_drive(&path).await.unwrap();
        let error = env.world().open_drive(&path).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::InUse);
        let sentence = format!(
            "drive {path} is in use by this process: under another name, or with outstanding \
                operations"
        );
        assert_eq!(error.to_string(), sentence, "the holder is this process");
        // An attachment holds the drive as well.
        let attached = first.attach(&env).unwrap();
        drop(first);
        assert!(env.world().open_drive(&path).await.is_err());
        drop(attached);
        env.world().open_drive(&path).await.map(drop).unwrap();
    });
}

#[test]
fn another_path_to_the_same_file_is_the_same_drive() {
    let dir = TestDir::new();
    let (path, link) = (dir.file("drive"), dir.file("link"));
    on_a_shard(move |env| async move {
        env.world().create_drive(&path, ByteCount(MIB)).await.unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let identity = env.world().open_drive(&path).await.unwrap().info().identity.clone();
        assert_eq!(env.world().open_drive(&link).await.unwrap().info().identity, identity);
    });
}

#[test]
fn what_is_no_drive_is_refused_with_one_sentence() {
    let dir = TestDir::new();
    let directory = dir.path().to_str().unwrap().to_owned();
    let (missing, empty) = (dir.file("missing"), dir.file("empty"));
    std::fs::write(&empty, "").unwrap();
    on_a_shard(move |env| async move {
        for (path, kind, sentence) in [
            (&missing, ErrorKind::NotFound, format!("drive file {missing} does not exist")),
            (
                &directory,
                ErrorKind::WrongKind,
                format!("{directory} is a directory; a drive is a file or a block device"),
            ),
            (
                &empty,
                ErrorKind::WrongKind,
                format!(
                    "drive {empty} is empty; make a file drive with 'softroc drive add FILE \
                        --create 1G'"
                ),
            ),
            (
                &"/dev/null".to_owned(),
                ErrorKind::WrongKind,
                "/dev/null is a character device; a drive is a file or a block device".to_owned(),
            ),
        ] {
            let error = env.world().open_drive(path).await.err().unwrap();
            assert_eq!((error.kind, error.to_string()), (kind, sentence));
        }
    });
}

#[test]
fn a_drive_file_that_does_not_fit_leaves_nothing_behind() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        let error = env.world().create_drive(&path, ByteCount(1 << 60)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfSpace, "{error}");
        assert!(
            error.to_string().contains(&path) && error.to_string().contains(" free"),
            "{error}"
        );
        assert!(!std::path::Path::new(&path).exists());
        env.world().create_drive(&path, ByteCount(MIB)).await.unwrap();
        let again = env.world().create_drive(&path, ByteCount(MIB)).await.unwrap_err();
        assert_eq!(again.kind, ErrorKind::InUse);
        let odd = env.world().create_drive(&format!("{path}2"), ByteCount(1000)).await.unwrap_err();
        assert_eq!(odd.kind, ErrorKind::BadName);
    });
}

#[test]
fn a_drive_dropped_while_it_works_still_returns() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        let drive = file_drive(&env, &path, MIB).await;
        let io = drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(4096))]);
        drop(drive);
        assert_eq!(io.await.result, Ok(4096));
        env.world().open_drive(&path).await.map(drop).unwrap();
    });
}

#[test]
fn more_pieces_than_one_call_takes_are_moved_by_several() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    on_a_shard(move |env| async move {
        const PIECES: u64 = 3000;
        let drive = file_drive(&env, &path, 2 * MIB).await;
        let bytes = pattern(PIECES as usize * 512, 6);
        let whole = Buf::copy_of(&bytes).freeze();
        let slices = (0..PIECES).map(|i| whole.cut(ByteCount(i * 512), ByteCount(512))).collect();
        let outcome = drive.write(ByteOffset(0), slices, Durability::Cached).await;
        assert_eq!(outcome.result, Ok(PIECES * 512));
        let buffers = (0..PIECES).map(|_| Buf::unpooled(ByteCount(512))).collect();
        let outcome = drive.read(ByteOffset(0), buffers).await;
        assert_eq!(outcome.result, Ok(PIECES * 512));
        let got: Vec<u8> = outcome.buffers.iter().flat_map(|buf| buf.bytes().to_vec()).collect();
        assert!(got == bytes);
    });
}

#[test]
fn a_full_file_system_is_told_with_its_free_space() {
    let dir = TestDir::new();
    let mount = dir.file("small");
    std::fs::create_dir(&mount).unwrap();
    let options = ["-t", "tmpfs", "-o", "size=1M", "none", &mount];
    let mounted = std::process::Command::new("mount").args(options).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let path = format!("{mount}/drive");
    on_a_shard(move |env| async move {
        let error = env.world().create_drive(&path, ByteCount(4 * MIB)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfSpace);
        let sentence = format!("no room for drive file {path}: 4 MiB wanted, 1 MiB free");
        assert_eq!(error.to_string(), sentence);
        assert!(!std::path::Path::new(&path).exists());
        // A drive that fits can be created, on this file system too.
        let drive = file_drive(&env, &path, MIB / 2).await;
        write(&drive, 4096, &pattern(4096, 7)).await;
        assert_eq!(read(&drive, 4096, 4096).await, pattern(4096, 7));
        let zeroes = IoRequest::WriteZeroes {
            range: range(4096, 512),
            may_unmap: true,
            durability: Durability::Durable,
        };
        drive.start(zeroes).await.result.unwrap();
        assert_eq!(
            read(&drive, 4096, 4096).await[..1024],
            [&[0; 512], &pattern(4096, 7)[512..1024]].concat()
        );
    });
    let unmounted = std::process::Command::new("umount").arg(&mount).status().unwrap();
    assert!(unmounted.success());
}

#[test]
fn a_file_that_must_not_be_written_is_a_read_only_drive() {
    let dir = TestDir::new();
    let path = dir.file("drive");
    std::fs::write(&path, pattern(8192, 8)).unwrap();
    // Root can write to all files except immutable ones.
    let immutable = std::process::Command::new("chattr").args(["+i", &path]).status();
    if !immutable.is_ok_and(|status| status.success()) {
        println!("skipped: files cannot be made immutable here");
        return;
    }
    let on_disk = path.clone();
    on_a_shard(move |env| async move {
        let source = env.world().open_drive(&path).await.unwrap();
        assert!(source.info().read_only);
        let drive = Member::new(&env, source.attach(&env).unwrap());
        assert!(read(&drive, 0, 8192).await == pattern(8192, 8));
        let slices = smallvec![Buf::copy_of(&[1; 512]).freeze()];
        let outcome = drive.write(ByteOffset(0), slices, Durability::Cached).await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::ReadOnly);
        assert_eq!(env.world().open_drive(&path).await.err().unwrap().kind, ErrorKind::InUse);
    });
    std::process::Command::new("chattr").args(["-i", &on_disk]).status().unwrap();
}
