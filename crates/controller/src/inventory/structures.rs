//! Writes structures to drives: several drives at once, step by step.
//!
//! # Fault model and invariants
//! - A power cut or kill during an update leaves the old or the new structure (`ondisk::ddf`).
//!   Every write is durable before the next step, so no flush is needed.
//! - After a failed write, the structure of a drive is read again before the next write: the sound
//!   copy must not be overwritten first.
//! - A write that timed out may land late, even on the copy that is sound by then. Until it has
//!   returned, nothing is written to that drive.
//! - Blocks that are already up to date were written durably, or were flushed before they were
//!   read.

use super::access::{Ios, join};
use crate::inventory::Drive;
use crate::inventory::access::LabelSeen;
use ondisk::ddf::{self, Step};
use ondisk::{Content, Telling, Told};
use platform::{IoError, IoErrorKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::ByteCount;

/// The known state of the structure on a drive.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// The drive has no structure that could be updated.
    Nothing,
    /// Both copies are lost; its anchor and its witness exist.
    Headless,
    /// This structure.
    This(Rc<ddf::Drive>),
    /// A write to it failed.
    Unsure,
}

impl Written {
    /// The known state for this content of the label area.
    pub(crate) fn of(label: &LabelSeen) -> Written {
        match label {
            LabelSeen::Sound(carried) => {
                carried.drive.clone().map_or(Written::Headless, Written::This)
            }
            LabelSeen::Headless(_) => Written::Headless,
            _ => Written::Nothing,
        }
    }
}

/// Steps in progress on a drive.
struct Underway {
    number: usize,
    drive: Rc<Drive>,
    steps: std::vec::IntoIter<Step>,
    /// The state after these steps.
    then: Written,
}

impl Underway {
    /// Starts the writes up to the next flush.
    fn start(&mut self) -> Ios {
        let access = self.drive.access();
        let mut ios: Ios = Vec::new();
        for step in self.steps.by_ref() {
            match step {
                Step::Write { at, bytes } => {
                    ios.push((self.number, access.as_ref().map(|access| access.write(at, &bytes))));
                }
                Step::Flush if ios.is_empty() => {}
                Step::Flush => break,
            }
        }
        ios
    }
}

/// Writes new structures: first to new drives, so that no drive names one without a structure; then
/// to all others at once. Returns the failures, by number.
pub(crate) async fn write_structures(
    updates: Vec<(usize, Rc<Drive>, Told)>,
) -> BTreeMap<usize, IoError> {
    let mut failed = BTreeMap::new();
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for (number, drive, told) in updates {
        // A drive without a structure, or with both copies lost, counts as new.
        let is_new = matches!(*drive.structure.borrow(), Written::Nothing | Written::Headless);
        let underway = if is_new { &mut new } else { &mut known };
        match steps(&drive, &told).await {
            Ok(steps) => {
                let size = drive.access().map_or(ByteCount::ZERO, |access| access.info().size);
                let then = Written::This(Rc::new(ddf::Drive::written(size, told.structure)));
                underway.push(Underway { number, drive, steps: steps.into_iter(), then });
            }
            Err(error) => {
                failed.insert(number, error);
            }
        }
    }
    failed.extend(run(new).await);
    failed.extend(run(known).await);
    failed
}

/// Repairs a drive's structure: a damaged or outdated copy is rewritten from the other one; if both
/// are damaged, both are rewritten from the known content. Returns the resulting structure.
///
/// # Errors
/// When a write fails; a sound copy is unchanged.
pub(crate) async fn repair(
    drive: &Rc<Drive>,
    content: &Content,
    found: &ddf::Drive,
) -> Result<Rc<ddf::Drive>, IoError> {
    let invalid = |error: ondisk::Error| {
        tracing::error!("drive {} cannot be repaired: {error}", drive.name);
        IoError::new(IoErrorKind::Invalid)
    };
    let mut sound = found.clone();
    if !found.has_sound_copy() {
        let site = drive
            .access()
            .and_then(|access| access.site())
            .ok_or(IoError::new(IoErrorKind::Gone))?;
        let told = Telling::of_content(content, &site)
            .and_then(|telling| telling.told(&site, content.drive()));
        sound.structure = told.map_err(invalid)?.structure;
    }
    let steps = ddf::repair(&sound).map_err(invalid)?.into_iter();
    let then = Rc::new(ddf::Drive::written(found.size, sound.structure));
    let underway =
        Underway { number: 0, drive: drive.clone(), steps, then: Written::This(then.clone()) };
    run(vec![underway]).await.into_values().next().map_or(Ok(then), Err)
}

async fn run(mut underway: Vec<Underway>) -> BTreeMap<usize, IoError> {
    let mut failed = BTreeMap::new();
    for one in &underway {
        one.drive.structure.replace(Written::Unsure);
    }
    loop {
        let ios: Ios = underway.iter_mut().flat_map(Underway::start).collect();
        if ios.is_empty() {
            break;
        }
        failed.extend(join(ios).await);
        underway.retain(|one| !failed.contains_key(&one.number));
    }
    for Underway { drive, then, .. } in underway {
        drive.structure.replace(then);
    }
    failed
}

async fn steps(drive: &Drive, told: &Told) -> Result<Vec<Step>, IoError> {
    let access = drive.access().ok_or(IoError::new(IoErrorKind::Gone))?;
    if access.metadata_writes_under_way() > 0 {
        return Err(IoError::new(IoErrorKind::TimedOut));
    }
    let known = drive.structure.borrow().clone();
    let known = match known {
        Written::Unsure => Written::of(&access.read_label().await?),
        known => known,
    };
    let size = access.info().size;
    let old = match &known {
        Written::This(old) if old.structure == told.structure && !old.needs_repair() => {
            return Ok(Vec::new());
        }
        Written::This(old) => Some(&**old),
        _ => None,
    };
    let steps = match known {
        Written::Headless => told.steps_for_headless(size),
        _ => told.steps(size, old),
    };
    steps.map_err(|error| {
        tracing::error!("the metadata of drive {} cannot be updated: {error}", drive.name);
        IoError::new(IoErrorKind::Invalid)
    })
}
