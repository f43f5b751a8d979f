//! Hosts in a storm test.

use crate::common::{pattern, read, write};
use engine::{Volume, VolumeService};
use platform::{Buf, IoError, IoErrorKind, Member};
use platform_sim::Rng;
use smallvec::smallvec;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use units::{ByteCount, ByteOffset};

/// Compares read data with the model. Where blocks are lost, a medium error is allowed as well.
fn check(got: Result<Vec<u8>, IoError>, wanted: &[u8], some_lost: bool, what: &str) {
    match got {
        Ok(got) => {
            let first = got.iter().zip(wanted).position(|(got, wanted)| got != wanted);
            assert!(
                first.is_none() && got.len() == wanted.len(),
                "{what}: data differs from byte {first:?} on"
            );
        }
        Err(error) => assert!(some_lost && error.kind == IoErrorKind::Medium, "{what}: {error}"),
    }
}

async fn read_as_drive(drive: &Member, at: u64, len: u64) -> Result<Vec<u8>, IoError> {
    let outcome = drive.read(ByteOffset(at), smallvec![Buf::unpooled(ByteCount(len))]).await;
    outcome.result.map(|_| outcome.buffers[0].bytes().to_vec())
}

/// A part of the volume.
#[derive(Clone, Copy)]
pub struct Part {
    pub start: u64,
    pub len: u64,
    /// The initial content of the volume.
    pub seed: u64,
    /// Some blocks may be lost: then an error is allowed.
    pub some_lost: bool,
}

/// Compares a part of the volume with its model, sector by sector. Where blocks may be lost, a
/// write of the whole part repairs them.
async fn check_all(volume: &Rc<Volume>, start: u64, model: &[u8], some_lost: bool) {
    let len = model.len() as u64;
    for at in (0..len).step_by(512) {
        let wanted = &model[at as usize..][..512];
        let got = read(volume, start + at, 512).await;
        check(got, wanted, some_lost, &format!("at the end, at {at}"));
    }
    if some_lost {
        write(volume, start, model).await.expect("a write repairs all of its sectors");
        assert!(read(volume, start, len).await.expect("healed") == model);
    }
}

/// Writes and reads its own part of the volume until it is stopped.
pub async fn host(
    volume: Rc<Volume>,
    part: Part,
    mut rng: Rng,
    end: Rc<Cell<bool>>,
    busy: Rc<Cell<u32>>,
) {
    let Part { start, len, seed, some_lost } = part;
    let mut model =
        pattern(seed, volume.spec().capacity.0)[start as usize..][..len as usize].to_vec();
    let is_lost = |error: &platform::IoError| some_lost && error.kind == IoErrorKind::Medium;
    let mut stamp = 0;
    let drive = VolumeService::new(volume.clone()).as_drive();
    // The drives' own time limits apply.
    let drive =
        Member::with_time_limit(volume.shard().env(), Rc::new(drive), Duration::from_secs(3600));
    while !end.get() {
        let at = rng.below(len);
        let most = (len - at).min(9000);
        let count = 1 + rng.below(most);
        let (at, count) = match rng.chance(2, 3) {
            true => (at / 512 * 512, count.div_ceil(512) * 512),
            false => (at, count),
        };
        let count = count.min(len - at);
        let now = volume.shard().env().now().ns;
        match rng.below(10) {
            0 => volume.flush().await.unwrap_or_else(|error| panic!("flush at {now}: {error}")),
            1..=5 => {
                stamp += 1;
                let bytes = pattern(stamp * 7 + start, count);
                let result = write(&volume, start + at, &bytes).await;
                if (at % 512 > 0 || count % 512 > 0) && result.as_ref().is_err_and(is_lost) {
                    // The sectors before the lost one may be written or not.
                    model[at as usize..][..count as usize].copy_from_slice(&bytes);
                    let whole = (at / 512 * 512, (at + count).div_ceil(512) * 512);
                    let (at, count) = (whole.0, (whole.1 - whole.0).min(len - whole.0));
                    let bytes = model[at as usize..][..count as usize].to_vec();
                    write(&volume, start + at, &bytes).await.expect("whole sectors");
                    continue;
                }
                result.unwrap_or_else(|error| panic!("write {count} at {at} at {now}: {error}"));
                model[at as usize..][..count as usize].copy_from_slice(&bytes);
            }
            _ => {
                let wanted = &model[at as usize..][..count as usize];
                let what = format!("{count} bytes at {} at {now}", start + at);
                let got = match (start / len).is_multiple_of(2) {
                    true => read(&volume, start + at, count).await,
                    false => read_as_drive(&drive, start + at, count).await,
                };
                check(got, wanted, some_lost, &what);
            }
        }
        if rng.chance(1, 3) {
            volume.shard().env().sleep(Duration::from_micros(rng.below(2000))).await;
        }
    }
    check_all(&volume, start, &model, some_lost).await;
    busy.set(busy.get() - 1);
}
