//! The repair of an unreadable range that a patrol read found.

use crate::background::Running;
use crate::members::Places;
use crate::recovery::Mend;
use crate::task::TaskOutcome;
use platform::IoError;
use platform::locks::{ALL_COLUMNS, Mode};
use std::rc::Rc;
use units::{ByteCount, ByteRange, DriveIndex};

/// Repairs this shard's part of a range of a drive's data.
pub(crate) async fn mend_range(
    task: &Rc<Running>,
    slot: DriveIndex,
    range: ByteRange,
) -> TaskOutcome {
    let strip = task.volume.geometry().strip().bytes();
    let mut rest = range;
    while !rest.is_empty() && !task.must_end() {
        let cell_end = (rest.start + ByteCount(1)).align_up(strip);
        let part = ByteRange::from_to(rest.start, cell_end.min(rest.end()));
        rest = ByteRange::from_to(part.end(), rest.end());
        if let Err(error) = mend_cell(task, slot, part).await {
            task.note_error(error);
        }
    }
    TaskOutcome::Done
}

async fn mend_cell(task: &Rc<Running>, slot: DriveIndex, part: ByteRange) -> Result<(), IoError> {
    let volume = &task.volume;
    let Some(located) = volume.geometry().locate(slot, part.start) else { return Ok(()) };
    if !volume.is_mine(located.stripe) {
        return Ok(());
    }
    task.count(|progress| progress.total_stripes += 1);
    let Some(batch) = task.pace.turn(volume).await else { return Ok(()) };
    let _user = volume.enter()?;
    let _closed = volume.close_beside().await;
    let key = volume.lock_key(located.stripe);
    let _guard = volume.shard.locks().lock_columns(key, Mode::Exclusive, ALL_COLUMNS).await;
    let places = Places::from_iter([(slot, part)]);
    volume.mend(located.stripe, &places, Mend::Look).await?;
    batch.took(volume, part.len.0);
    task.count(|progress| {
        progress.done_stripes += 1;
        progress.drive_bytes += part.len.0;
    });
    Ok(())
}
