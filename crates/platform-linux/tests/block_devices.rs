//! Block devices, on a loop device if this computer permits one; skipped with a message otherwise.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

mod common;

use common::{Loop, on_a_shard};
use platform::{Buf, DriveKind, Durability, ErrorKind, IoErrorKind, IoRequest, Member};
use smallvec::smallvec;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

const MIB: u64 = 1 << 20;

#[test]
fn a_block_device_does_what_a_drive_does() {
    let Some(device) = Loop::new(&["--sector-size", "4096"]) else { return };
    let path = device.path.clone();
    on_a_shard(move |env| async move {
        let source = env.world().open_drive(&path).await.unwrap();
        let info = source.info().clone();
        assert_eq!((info.kind, info.size), (DriveKind::BlockDevice, ByteCount(8 * MIB)));
        assert_eq!(
            (info.logical_sector, info.physical_sector),
            (SectorSize::B4096, SectorSize::B4096)
        );
        assert!(info.identity.0.starts_with("block:"), "{:?}", info.identity);
        let error = env.world().open_drive(&path).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::InUse, "{error}");
        let drive = Member::new(&env, source.attach(&env).unwrap());
        let bytes: Vec<u8> = (0..MIB).map(|i| (i / 13) as u8).collect();
        let slices = smallvec![Buf::copy_of(&bytes).freeze()];
        drive.write(ByteOffset(MIB), slices, Durability::Durable).await.result.unwrap();
        let mut expected = bytes;
        let range = |start, len| ByteRange::new(ByteOffset(start), ByteCount(len));
        for (at, may_unmap) in [(0usize, false), (65536, true)] {
            let durability = Durability::Durable;
            let range = range(MIB + at as u64, 8192);
            drive
                .start(IoRequest::WriteZeroes { range, may_unmap, durability })
                .await
                .result
                .unwrap();
            expected[at..at + 8192].fill(0);
        }
        // Trimmed content is undefined; adjacent content is not.
        let trimmed = drive.trim(range(MIB + (512 << 10), 512 << 10)).await;
        assert!(trimmed.result.is_ok_and(|len| len == 512 << 10), "{:?}", trimmed.result);
        drive.flush().await.result.unwrap();
        let outcome =
            drive.read(ByteOffset(MIB), smallvec![Buf::unpooled(ByteCount(512 << 10))]).await;
        assert!(outcome.buffers[0].bytes() == &expected[..512 << 10]);
        let odd = drive.read(ByteOffset(512), smallvec![Buf::unpooled(ByteCount(512))]).await;
        assert_eq!(odd.result.unwrap_err().kind, IoErrorKind::Invalid);
    });
}

#[test]
fn a_read_only_device_says_so_and_refuses_writes() {
    let Some(device) = Loop::new(&["--read-only"]) else { return };
    let path = device.path.clone();
    on_a_shard(move |env| async move {
        let source = env.world().open_drive(&path).await.unwrap();
        assert!(source.info().read_only);
        let drive = Member::new(&env, source.attach(&env).unwrap());
        let slices = smallvec![Buf::copy_of(&[1; 512]).freeze()];
        let outcome = drive.write(ByteOffset(0), slices, Durability::Cached).await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::ReadOnly);
        let trim = drive.trim(ByteRange::new(ByteOffset(0), ByteCount(512))).await;
        assert_eq!(trim.result.unwrap_err().kind, IoErrorKind::ReadOnly);
        let outcome = drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(512))]).await;
        assert_eq!(outcome.result, Ok(512));
    });
}

#[test]
fn a_device_that_cannot_tell_its_health_is_unknown() {
    let Some(device) = Loop::new(&[]) else { return };
    let path = device.path.clone();
    on_a_shard(move |env| async move {
        let source = env.world().open_drive(&path).await.unwrap();
        let drive = Member::new(&env, source.attach(&env).unwrap());
        assert_eq!(drive.health().await.unwrap(), platform::DriveHealth::default());
        assert_eq!(drive.locate(true).await.result.unwrap_err().kind, IoErrorKind::NotSupported);
        let hardware = drive.info().hardware.clone();
        assert!(
            hardware.backing.as_ref().is_some_and(|file| file.starts_with("file:")),
            "{hardware:?}"
        );
        let hardware = platform::Hardware { backing: None, ..hardware };
        assert_eq!((hardware, drive.info().exclusive), (platform::Hardware::default(), true));
    });
}
