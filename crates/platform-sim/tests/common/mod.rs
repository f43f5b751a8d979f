//! Common parts of the tests of this crate.
#![allow(dead_code)]

use platform::{Buf, Durability, Env, IoErrorKind, Member};
use smallvec::smallvec;
use units::{ByteCount, ByteOffset, ByteRange};

pub const SECTOR: u64 = 512;

pub fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start), ByteCount(len))
}

pub async fn open(env: &Env, name: &str) -> Member {
    let source = env.world().open_drive(name).await.expect("the drive opens");
    Member::new(env, source.attach(env).expect("it attaches"))
}

pub async fn write(
    drive: &Member,
    at: u64,
    bytes: &[u8],
    durability: Durability,
) -> Result<u64, IoErrorKind> {
    let slices = smallvec![Buf::copy_of(bytes).freeze()];
    drive.write(ByteOffset(at), slices, durability).await.result.map_err(|error| error.kind)
}

pub async fn read(drive: &Member, at: u64, len: u64) -> Result<Vec<u8>, IoErrorKind> {
    let outcome = drive.read(ByteOffset(at), smallvec![Buf::unpooled(ByteCount(len))]).await;
    assert_eq!(outcome.buffers.len(), 1, "buffers come back whatever happens");
    match outcome.result {
        Ok(bytes) => {
            assert_eq!(bytes, len);
            Ok(outcome.buffers[0].bytes().to_vec())
        }
        Err(error) => Err(error.kind),
    }
}

pub async fn flush(drive: &Member) -> Result<u64, IoErrorKind> {
    drive.flush().await.result.map_err(|error| error.kind)
}
