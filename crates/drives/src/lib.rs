//! Drives that run alike on a real system and in a simulation: memory, null, remote NBD exports.
//!
//! [`open`] accepts these names:
//!
//! | text | drive |
//! | --- | --- |
//! | `mem:1G` | [`MemoryDrive`]: memory of this process |
//! | `null:1G` | [`NullDrive`]: completes at once, reads zeroes, discards writes |
//! | `nbd://HOST[:PORT]/EXPORT`, `nbd+unix:///EXPORT?socket=PATH` | [`NbdDrive`]: a remote export |
//! | anything else | a file or block device (or another name that the environment knows) |
//!
//! A [`Window`] is a read-only part of a drive. A [`Beginning`] is a writable drive that ends
//! before the end of the drive below it. Drives with injected faults belong to the simulation.

mod memory;
mod nbd_drive;
mod null;
mod request;
mod window;

pub use memory::MemoryDrive;
pub use nbd_drive::NbdDrive;
pub use null::NullDrive;
pub use window::{Beginning, Window};

use platform::{DriveIdentity, DriveSource, Env, Error, ErrorKind, Result};
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

/// Opens the drive that `spec` names, with an exclusive lock where the drive supports locks.
///
/// # Errors
/// When `spec` names no drive, or the drive cannot be opened; the message names the drive.
pub async fn open(env: &Env, spec: &str) -> Result<Arc<dyn DriveSource>> {
    if let Some(size) = spec.strip_prefix("mem:") {
        let size = parse_size(spec, size)?;
        if size > memory::LARGEST {
            let most = memory::LARGEST;
            let sentence = format!("drive '{spec}' is too large; memory drives go up to {most}");
            return Err(Error::new(ErrorKind::BadName, sentence));
        }
        let drive = MemoryDrive::new(spec, new_identity(env, "mem"), size, SectorSize::B512);
        return Ok(Arc::new(drive));
    }
    if let Some(size) = spec.strip_prefix("null:") {
        let size = parse_size(spec, size)?;
        return Ok(Arc::new(NullDrive::new(spec, new_identity(env, "null"), size)));
    }
    if nbd::NbdUri::looks_like(spec) {
        return Ok(Arc::new(NbdDrive::open(env, spec).await?));
    }
    if spec.is_empty() {
        let sentence = "a drive needs a name: a path, mem:SIZE, null:SIZE or an nbd:// address";
        return Err(Error::new(ErrorKind::BadName, sentence));
    }
    env.world().open_drive(spec).await
}

/// Opens the drive that `spec` names read-only. A file or block device is opened without write
/// access, and the returned source rejects writes.
///
/// # Errors
/// As [`open`].
pub async fn open_for_reading(env: &Env, spec: &str) -> Result<Arc<dyn DriveSource>> {
    let is_made_here =
        ["mem:", "null:"].iter().any(|kind| spec.starts_with(kind)) || spec.is_empty();
    let source = if is_made_here || nbd::NbdUri::looks_like(spec) {
        open(env, spec).await?
    } else {
        env.world().open_drive_for_reading(spec).await?
    };
    let whole = ByteRange::new(ByteOffset(0), source.info().size);
    Ok(Arc::new(Window::new(source, whole)))
}

/// Memory and null drives have a random identity: two drives with the same name are different
/// drives.
fn new_identity(env: &Env, kind: &str) -> DriveIdentity {
    DriveIdentity(format!("{kind}:{:016x}", env.random()))
}

fn parse_size(spec: &str, size: &str) -> Result<ByteCount> {
    let wrong = |why: String| Error::new(ErrorKind::BadName, format!("drive '{spec}': {why}"));
    let size: ByteCount =
        size.parse().map_err(|error: units::ParseSizeError| wrong(error.to_string()))?;
    let sector = SectorSize::B512.bytes();
    if size.is_zero() || !size.is_aligned(sector) || size.0 > i64::MAX as u64 {
        let why = format!(
            "a size of {} bytes is not a whole number of 512-byte sectors, such as 1G",
            size.0
        );
        return Err(wrong(why));
    }
    Ok(size)
}
