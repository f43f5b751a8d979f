//! Reads the backup file (`mdadm --grow --backup-file`) of an interrupted reshape together with the
//! drives.

use crate::scan::Scan;
use ondisk::foreign::Backup;
use platform::{Buf, Env, Member};
use units::{ByteCount, ByteOffset};

/// mdadm that does not limit a reshape to the saved range lets it overwrite unsaved data, and saves
/// data that is already overwritten. No metadata shows this.
const NOT_HELD_BACK: &str = "data from the backup file and after it are right only if mdadm \
                             limited the reshape to the saved range; 4.2 and later do not: \
                             check the data before you rely on them";

/// Serves a volume with an interrupted reshape from a backup file, where its members lack data. The
/// file is only read.
///
/// # Errors
/// A sentence, when the file is unreadable or damaged, or belongs to no volume of this scan.
pub async fn with_backup(env: &Env, scan: &mut Scan, name: &str) -> Result<(), String> {
    let source = drives::open_for_reading(env, name).await.map_err(|error| error.to_string())?;
    let drive = Member::new(env, source.attach(env).map_err(|error| error.to_string())?);
    let len = Backup::HEADER.align_up(source.info().logical_sector.bytes());
    let outcome = drive.read(ByteOffset(0), [Buf::unpooled(len)].into_iter().collect()).await;
    let done =
        outcome.result.map_err(|error| format!("backup file {name} cannot be read: {error}"))?;
    let header = outcome.buffers.iter().map(Buf::bytes).collect::<Vec<_>>().concat();
    if ByteCount(done) < len {
        return Err(format!("backup file {name} ends within its header"));
    }
    let wrong = |why: String| format!("backup file {name} {why}");
    let backup = Backup::decode(&header, source.info().size).map_err(wrong)?;
    let of = scan.volumes.iter_mut().find(|volume| volume.found.is_of(&backup));
    let volume = of.ok_or_else(|| {
        let uuid: Vec<String> = backup.array.iter().map(|byte| format!("{byte:02x}")).collect();
        wrong(format!("is of another array ({}); no drive of it was given", uuid.concat()))
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
