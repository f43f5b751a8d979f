//! Assembles volumes from drives.

use drives::Window;
use ondisk::ErrorKind;
use ondisk::ddf::{self, Drive, Effort, Look, tell};
use ondisk::foreign::{
    FoundVolume, Glimpse, Record, Seen, Told, partitions, read, reconcile, search,
};
use platform::{Buf, DriveIdentity, DriveSource, Env, Member};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{ByteCount, ByteOffset, ByteRange};

/// The maximum number of requests of a decoder, against endless ones. The longest chain is that of
/// partitions in an extended one.
const ROUNDS: usize = 160;

/// A drive as the user gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// A path, or another address that [`drives::open`] accepts.
    pub name: String,
    /// The serial number of the copied drive, if the copy does not report one.
    pub serial: Option<String>,
    /// The drive's original size, if it was copied to a larger one: only this range is read.
    pub size_was: Option<ByteCount>,
}

/// A drive with the results of its scan.
#[derive(Clone)]
pub struct ScannedDrive {
    /// Its name as given.
    pub name: String,
    /// The drive; `None` where it could not be opened.
    pub source: Option<Arc<dyn DriveSource>>,
    /// The contents of its metadata.
    pub told: Told,
    /// The contents that can be decoded without other drives.
    own: Told,
    /// DDF metadata: decoding their volumes needs all drives of the group.
    ddf: Option<Drive>,
    /// Why it could not be opened or read, as a sentence.
    pub trouble: Option<String>,
}

impl ScannedDrive {
    fn unread(name: String) -> ScannedDrive {
        ScannedDrive {
            name,
            source: None,
            told: Told::default(),
            own: Told::default(),
            ddf: None,
            trouble: None,
        }
    }

    /// Whether metadata were found, or a note about them.
    fn has_metadata(&self) -> bool {
        self.own != Told::default() || self.ddf.is_some() || self.trouble.is_some()
    }

    /// Its size; `None` where it could not be opened.
    pub fn size(&self) -> Option<ByteCount> {
        self.source.as_ref().map(|source| source.info().size)
    }
}

/// A volume that the scan found.
pub struct ScannedVolume {
    /// The name under which it is served: its own name, made unique.
    pub export: String,
    /// Its description from the drives' metadata.
    pub found: FoundVolume,
    /// The backup of its reshape, if a part of its data is read from there
    /// ([`FoundVolume::saved`]).
    pub backup: Option<Arc<dyn DriveSource>>,
}

/// All drives, and the volumes that they form.
pub struct Scan {
    /// In the order in which they were given.
    pub drives: Vec<ScannedDrive>,
    /// The volumes.
    pub volumes: Vec<ScannedVolume>,
}

/// Opens drives for reading, and finds the volumes on them and on their partitions. A drive that
/// cannot be opened or read is listed with the reason, and ignored. Partitions with metadata are
/// listed as drives.
pub async fn scan(env: &Env, named: &[Named]) -> Scan {
    let mut drives: Vec<ScannedDrive> = Vec::new();
    let mut known: BTreeMap<DriveIdentity, String> = BTreeMap::new();
    for one in named {
        let refused = |trouble: String| ScannedDrive {
            trouble: Some(trouble),
            ..ScannedDrive::unread(one.name.clone())
        };
        let source = match drives::open_for_reading(env, &one.name).await {
            Ok(source) => source,
            Err(error) => {
                drives.push(refused(error.to_string()));
                continue;
            }
        };
        if let Some(earlier) = known.insert(source.info().identity.clone(), one.name.clone()) {
            drives.push(refused(format!("is the same drive as {earlier}")));
            continue;
        }
        match as_it_was(one, source) {
            Ok((source, note)) => {
                let mut looked = look_with_partitions(env, one, source).await;
                if let (Some(note), Some(first)) = (note, looked.first_mut()) {
                    let nothing = if first.has_metadata() {
                        ""
                    } else {
                        "; no metadata of an array were found"
                    };
                    first.own.notes.push(format!("{note}{nothing}"));
                }
                drives.extend(looked);
            }
            Err(trouble) => drives.push(refused(trouble)),
        }
    }
    assemble(drives)
}

/// Limits the drive to its original size, and returns a note about it.
///
/// # Errors
/// A sentence, when that size is impossible.
fn as_it_was(
    one: &Named,
    source: Arc<dyn DriveSource>,
) -> Result<(Arc<dyn DriveSource>, Option<String>), String> {
    let (size, sector) = (source.info().size, source.info().logical_sector.bytes());
    match one.size_was {
        Some(was) if was.is_zero() || !was.is_aligned(sector) => Err(format!(
            "is not read: a size of {was} is no whole number of its sectors of {}; give the exact \
             size with --size-was",
            sector.0
        )),
        Some(was) if was > size => Ok((
            source,
            Some(format!("has {size}, less than the {was} of --size-was, and is read as it is")),
        )),
        Some(was) if was < size => {
            let range = ByteRange::new(ByteOffset(0), was);
            let first: Arc<dyn DriveSource> = Arc::new(Window::new(source, range));
            let note =
                format!("is read as a drive of {was}, its size by --size-was; it has {size}");
            Ok((first, Some(note)))
        }
        _ => Ok((source, None)),
    }
}

/// Assembles the volumes of these drives, which may be a subset of the scanned ones.
pub fn assemble(mut drives: Vec<ScannedDrive>) -> Scan {
    for drive in &mut drives {
        drive.told = drive.own.clone();
    }
    let with_ddf: Vec<usize> =
        (0..drives.len()).filter(|index| drives[*index].ddf.is_some()).collect();
    let told = tell(&drives.iter().filter_map(|drive| drive.ddf.as_ref()).collect::<Vec<_>>());
    for (index, told) in with_ddf.into_iter().zip(told) {
        drives[index].told.extend(told);
    }
    let seen: Vec<Seen> =
        drives.iter().enumerate().flat_map(|(index, drive)| seen(index, drive)).collect();
    let mut exports = BTreeSet::new();
    let volumes = reconcile(&seen).into_iter().map(|found| ScannedVolume {
        export: export_name(&found, &mut exports),
        found,
        backup: None,
    });
    let volumes = volumes.collect();
    Scan { drives, volumes }
}

/// Scans a drive, and its partitions with metadata.
async fn look_with_partitions(
    env: &Env,
    one: &Named,
    source: Arc<dyn DriveSource>,
) -> Vec<ScannedDrive> {
    let serial = one.serial.clone().or(source.info().hardware.serial.clone());
    let (mut whole, partitions) = look(env, one.name.clone(), serial, source.clone()).await;
    let (mut found, are_partitions) = (Vec::new(), !partitions.is_empty());
    for (number, range) in (1..).zip(partitions) {
        let window = Arc::new(Window::new(source.clone(), range));
        let (part, _) = look(env, format!("{} partition {number}", one.name), None, window).await;
        // Metadata at the end of the last partition may be at the end of the drive too.
        let set = |record: &Record| (record.volume.format, record.volume.identity.bytes.clone());
        whole
            .own
            .records
            .retain(|record| part.own.records.iter().all(|own| set(own) != set(record)));
        if part.has_metadata() {
            found.push(part);
        }
    }
    if found.is_empty() || whole.has_metadata() {
        if found.is_empty() && !whole.has_metadata() && are_partitions {
            whole.own.notes.push(
                "holds a partition table, and no array metadata outside or inside the partitions; \
                 a member that it was written over counts as missing; \
                 one that was copied to a larger drive is found with --size-was"
                    .into(),
            );
        }
        found.insert(0, whole);
    }
    found
}

fn seen(index: usize, drive: &ScannedDrive) -> impl Iterator<Item = Seen> {
    let size = drive.size().unwrap_or_default();
    drive.told.records.iter().map(move |record: &Record| Seen {
        drive: index,
        name: drive.name.clone(),
        size,
        record: record.clone(),
    })
}

/// A note about DDF metadata without a usable copy, on a drive with these other metadata.
fn note_of_lost(lost: &ddf::Lost, own: &Told) -> String {
    match own.records.first() {
        None => format!("holds metadata in DDF, and {}", lost.error),
        Some(other) => format!(
            "holds remains of DDF metadata in addition to those of {} {}, which are used ({})",
            other.volume.format, other.volume.version, lost.error
        ),
    }
}

/// Reads a drive's metadata, and finds its partitions.
async fn look(
    env: &Env,
    name: String,
    serial: Option<String>,
    source: Arc<dyn DriveSource>,
) -> (ScannedDrive, Vec<ByteRange>) {
    let info = source.info().clone();
    let mut drive = ScannedDrive::unread(name);
    let member = match source.attach(env) {
        Ok(attached) => Member::new(env, attached),
        Err(error) => {
            drive.trouble = Some(error.to_string());
            return (drive, Vec::new());
        }
    };
    let mut glimpse = Glimpse::new(info.size).with_serial(serial);
    let mut unreadable = 0;
    let mut found = Vec::new();
    let mut effort = Effort::Usual;
    for _ in 0..ROUNDS {
        drive.own = read(&glimpse);
        found = partitions(&glimpse);
        if effort == Effort::Search {
            drive.own.extend(search(&glimpse));
        }
        let look = ddf::look(&glimpse, effort);
        let wanted = glimpse.wanted();
        if wanted.is_empty() {
            match look {
                Look::Found(found) => drive.ddf = Some(*found),
                Look::Lost(lost) => drive.own.notes.push(note_of_lost(&lost, &drive.own)),
                // Firmware may use another offset: drives without other metadata are searched.
                Look::Nothing(_) | Look::NotYet
                    if effort == Effort::Usual
                        && drive.own == Told::default()
                        && found.is_empty() =>
                {
                    effort = Effort::Search;
                    continue;
                }
                Look::Nothing(error) if error.kind != ErrorKind::Blank => {
                    drive.own.notes.push(format!("holds metadata in DDF, and {error}"));
                }
                Look::Nothing(_) | Look::NotYet => {}
            }
            break;
        }
        for range in wanted {
            let whole = range.align_out(info.logical_sector.bytes());
            let whole = whole.intersection(ByteRange::new(ByteOffset(0), info.size));
            let bytes = bytes(&member, whole).await;
            unreadable += u32::from(bytes.is_none());
            glimpse.put(if bytes.is_some() { whole } else { range }, bytes);
        }
    }
    if unreadable > 0 {
        drive.trouble = Some(format!(
            "could not be read at {unreadable} places where metadata may be; it may have more"
        ));
    }
    drive.source = Some(source);
    (drive, found)
}

async fn bytes(member: &Member, range: ByteRange) -> Option<Vec<u8>> {
    let outcome = member.read(range.start, [Buf::unpooled(range.len)].into_iter().collect()).await;
    let all = outcome.result.is_ok_and(|bytes| bytes == range.len.0);
    let buffers = outcome.buffers.iter().map(Buf::bytes);
    all.then(|| buffers.collect::<Vec<_>>().concat())
        .filter(|bytes| bytes.len() as u64 == range.len.0)
}

/// The volume's own name in characters that an address permits, with a number if it is taken.
fn export_name(found: &FoundVolume, taken: &mut BTreeSet<String>) -> String {
    let name = &found.record.name;
    // Linux md puts the name of its host before the name.
    let name = name.rsplit_once(':').map_or(name.as_str(), |(_, name)| name);
    let letters = name.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
    });
    let mut own: String = letters.collect();
    if own.is_empty() {
        own = found.record.level.replace(' ', "-");
    }
    let numbered = (2..).map(|number| format!("{own}-{number}"));
    let free = std::iter::once(own.clone()).chain(numbered).find(|name| !taken.contains(name));
    let export = free.unwrap_or(own);
    taken.insert(export.clone());
    export
}
