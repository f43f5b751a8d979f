//! The file in which mdadm has what an interrupted reshape overwrites, read beside the drives.

use crate::scan::Scan;
use ondisk::foreign::Backup;
use platform::{Buf, Env, Member};
use units::{ByteCount, ByteOffset};

/// An mdadm that does not hold a reshape back has it go on over what is saved nowhere, and saves what was written over already. Nothing tells.
const NOT_HELD_BACK: &str = "what is read of the backup, and behind it, is right only if mdadm held the reshape back to what it had saved; \
                             4.2 and later do not: look at what is served before you trust it";

/// Has the volume whose reshape was interrupted be read with the backup that is in a file, where its members alone do not have all of it.
/// The file is only read.
///
/// # Errors
/// When it cannot be read, is damaged, or has nothing for a volume of this scan: a sentence.
pub async fn with_backup(env: &Env, scan: &mut Scan, name: &str) -> Result<(), String> {
    let source = drives::open_for_reading(env, name).await.map_err(|error| error.to_string())?;
    let drive = Member::new(env, source.attach(env).map_err(|error| error.to_string())?);
    let len = Backup::HEADER.align_up(source.info().logical_sector.bytes());
    let outcome = drive.read(ByteOffset(0), [Buf::unpooled(len)].into_iter().collect()).await;
    let done = outcome.result.map_err(|error| format!("backup file {name} cannot be read: {error}"))?;
    let header = outcome.buffers.iter().map(Buf::bytes).collect::<Vec<_>>().concat();
    if ByteCount(done) < len {
        return Err(format!("backup file {name} ends within its header"));
    }
    let wrong = |why: String| format!("backup file {name} {why}");
    let backup = Backup::decode(&header, source.info().size).map_err(wrong)?;
    let of = scan.volumes.iter_mut().find(|volume| volume.found.is_of(&backup));
    let volume = of.ok_or_else(|| {
        let uuid: Vec<String> = backup.array.iter().map(|byte| format!("{byte:02x}")).collect();
        wrong(format!("is of another array ({}), of which no drive is named", uuid.concat()))
    })?;
    volume
        .found
        .take_backup(&backup)
        .map_err(|why| wrong(format!("is not used for {}: {why}", volume.export)))?;
    if !volume.found.saved.is_empty() {
        volume.found.reasons.push(NOT_HELD_BACK.into());
    }
    volume.backup = Some(source);
    Ok(())
}
