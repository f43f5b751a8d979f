//! The label of a log device: a file, a partition or a drive that holds the journals of volumes,
//! instead of the members. A log has one device or two with equal content.
//!
//! ```text
//! device   64 KiB    512 KiB   1 MiB                                      end
//! ┌───────┬─────────┬─────────┬──────────────────────────────────────────┬────────┐
//! │ zeroes│ copy 0  │ copy 1  │ journals, each at the same place on both │ unused │
//! └───────┴─────────┴─────────┴──────────────────────────────────────────┴────────┘
//! end: size − 1 MiB, rounded down to 256 KiB
//!
//! copy: a head, and the label as TOML; numbers are little-endian
//!    0  8  "SRoClogd"                     32  8  generation
//!    8  4  version, 1                     40  4  length of the text
//!   12  4  CRC-32C of head and text,      44 20  zero
//!          this field as zero             64     the text, and zeroes to a multiple of 4096
//!   16 16  UUID of the device
//! ```
//! # Fault model and invariants
//! - A change is durable in copy 0 before copy 1 is written, and takes effect only when both are
//!   durable. An interruption leaves one copy whole, with the state in effect or the next one: of
//!   two valid copies the newer counts.
//! - Where one copy is damaged and the other is absent, the first label was being written, or the
//!   last one removed. It never took effect: the device has no label.

use crate::bytes::{crc_without, u32_at, u64_at};
use crate::error::{Error, ErrorKind, Result};
use crate::tail::BLOCK;
use crate::uuid::Uuid;
use crate::volume::{MAX_LOG_DEVICES, is_volume_name};
use serde::{Deserialize, Serialize};
use units::{ByteCount, ByteOffset, ByteRange};

const MAGIC: [u8; 8] = *b"SRoClogd";
const VERSION: u32 = 1;
const AT_VERSION: usize = 8;
const AT_CRC: usize = 12;
const AT_DEVICE: usize = 16;
const AT_GENERATION: usize = 32;
const AT_LEN: usize = 40;
const AT_TEXT: usize = 64;

/// The length of a copy.
const COPY: ByteCount = ByteCount(256 << 10);

/// The offsets of the copies.
const COPIES_AT: [ByteOffset; 2] = [ByteOffset(64 << 10), ByteOffset(512 << 10)];

/// The bytes at both ends without journals.
const END: ByteCount = ByteCount(1 << 20);

/// The space of the journals ends at a multiple of this.
const GRAIN: ByteCount = ByteCount(256 << 10);

/// The least space for journals on a log device.
const LEAST_ROOM: ByteCount = ByteCount(4 << 20);

/// The most journals on a log: their entries fit into a copy, with names of any length.
const MOST_PLACES: usize = 1024;

/// The longest name of a device.
const LONGEST_DEVICE_NAME: usize = 4096;

/// One of the devices of a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogMember {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name, for users only.
    pub name: String,
}

/// The place of a journal on the devices of a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogPlace {
    /// The volume of the journal.
    pub volume: Uuid,
    /// The volume's name, for users only.
    pub name: String,
    /// Its offset on the device.
    pub start_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
}

impl LogPlace {
    /// Its range on the device; `None` where it overflows.
    fn range(&self) -> Option<ByteRange> {
        self.start_bytes.checked_add(self.len_bytes)?;
        Some(ByteRange::new(ByteOffset(self.start_bytes), ByteCount(self.len_bytes)))
    }
}

/// The label of a log device: itself and its log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogLabel {
    /// The UUID of the log, equal on all its devices.
    pub log: Uuid,
    /// The device that carries this label: from its head, not from the text.
    #[serde(skip)]
    pub device: Uuid,
    /// The number of its latest change.
    pub generation: u64,
    /// The time of the log's creation, in seconds since 1970.
    pub since_unix_s: u64,
    /// All devices of the log.
    pub devices: Vec<LogMember>,
    /// The journals and their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub place: Vec<LogPlace>,
}

/// The result of looking for a log device's label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogFound {
    /// No label.
    Blank,
    /// A valid label.
    Sound(LogLabel),
    /// An unusable label: a sentence without a full stop.
    Bad(String),
}

/// The state of one copy.
enum Copy {
    None,
    Sound(LogLabel),
    Damaged(String),
    /// Whole, but unusable.
    Refused(String),
}

fn contradiction(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Contradiction, what)
}

impl LogLabel {
    /// The space for the label at the beginning of every device.
    pub const FRONT: ByteCount = END;

    /// The ranges of the copies, in the order of writing.
    pub fn copies() -> [ByteRange; 2] {
        COPIES_AT.map(|at| ByteRange::new(at, COPY))
    }

    /// The space for journals on a device of that size; `None` for less than 4 MiB.
    pub fn room(size: ByteCount) -> Option<ByteRange> {
        let end = ByteOffset(size.0.checked_sub(END.0)?).align_down(GRAIN);
        let start = ByteOffset(END.0);
        let is_enough = end.0 >= start.0 + LEAST_ROOM.0;
        is_enough.then(|| ByteRange::from_to(start, end))
    }

    /// The same label for another device of the log.
    pub fn for_device(&self, device: Uuid) -> LogLabel {
        LogLabel { device, ..self.clone() }
    }

    /// Whether all its journals fit a device of that size.
    pub fn fits(&self, size: ByteCount) -> bool {
        let Some(room) = LogLabel::room(size) else { return false };
        self.place.iter().filter_map(LogPlace::range).all(|range| room.contains(range))
    }

    /// Checks the content.
    ///
    /// # Errors
    /// Describes the first invalid field.
    pub fn check(&self) -> Result<()> {
        if self.generation == 0 || self.generation >= u64::MAX / 2 {
            let sentence =
                format!("the log's label has the invalid generation {}", self.generation);
            return Err(contradiction(sentence));
        }
        self.check_devices()?;
        self.check_places()
    }

    fn check_devices(&self) -> Result<()> {
        let devices = &self.devices;
        if devices.is_empty() || devices.len() > MAX_LOG_DEVICES {
            return Err(contradiction(format!("the log's label names {} devices", devices.len())));
        }
        if devices.windows(2).any(|pair| pair[0].uuid == pair[1].uuid) {
            return Err(contradiction("the log's label names one device twice"));
        }
        if !devices.iter().any(|device| device.uuid == self.device) {
            let sentence =
                format!("the log's label does not name the device {} it is on", self.device);
            return Err(contradiction(sentence));
        }
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= LONGEST_DEVICE_NAME
                && !name.contains(char::is_control)
        };
        match devices.iter().all(|device| is_name(&device.name)) {
            true => Ok(()),
            false => Err(contradiction("the log's label names a device with no name")),
        }
    }

    fn check_places(&self) -> Result<()> {
        if self.place.len() > MOST_PLACES {
            return Err(contradiction(format!(
                "the log's label names {} journals",
                self.place.len()
            )));
        }
        let mut ranges = Vec::new();
        for place in &self.place {
            let is_aligned = |bytes: u64| ByteCount(bytes).is_aligned(BLOCK);
            let range = place.range().filter(|range| !range.len.is_zero());
            let Some(range) =
                range.filter(|_| is_aligned(place.start_bytes) && is_aligned(place.len_bytes))
            else {
                let sentence =
                    format!("the log's label gives the volume {} an invalid place", place.volume);
                return Err(contradiction(sentence));
            };
            ranges.push(range);
            if !is_volume_name(&place.name) {
                return Err(contradiction("the log's label names a volume with no name"));
            }
        }
        ranges.sort_unstable();
        if ranges.first().is_some_and(|first| first.start < ByteOffset(END.0)) {
            return Err(contradiction("the log's label has a journal that overlaps the label"));
        }
        if ranges.windows(2).any(|pair| pair[0].end() > pair[1].start) {
            return Err(contradiction("the log's label has two journals on the same bytes"));
        }
        let mut volumes: Vec<Uuid> = self.place.iter().map(|place| place.volume).collect();
        volumes.sort_unstable();
        match volumes.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(contradiction("the log's label gives one volume two journals")),
            false => Ok(()),
        }
    }

    /// The bytes of one copy.
    ///
    /// # Errors
    /// [`ErrorKind::Contradiction`] where its content is invalid, [`ErrorKind::TooLarge`] where it
    /// does not fit.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check()?;
        let text = toml::to_string(self).map_err(|error| {
            contradiction(format!("the log's label cannot be written as text: {error}"))
        })?;
        let mut bytes = vec![0; AT_TEXT];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[AT_VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[AT_DEVICE..][..16].copy_from_slice(&self.device.0);
        bytes[AT_GENERATION..][..8].copy_from_slice(&self.generation.to_le_bytes());
        bytes[AT_LEN..][..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend(text.into_bytes());
        if ByteCount::of(&bytes) > COPY {
            let sentence = format!(
                "the log's label takes {} bytes, but there is room for {}; use shorter names",
                bytes.len(),
                COPY.0
            );
            return Err(Error::new(ErrorKind::TooLarge, sentence));
        }
        let crc = crc_without(&bytes, AT_CRC);
        bytes[AT_CRC..][..4].copy_from_slice(&crc.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK.as_usize()), 0);
        Ok(bytes)
    }

    /// The label by both copies; `None` for an unreadable one.
    pub fn find(copy0: Option<&[u8]>, copy1: Option<&[u8]>) -> LogFound {
        let unreadable = || Copy::Damaged("it cannot be read".to_owned());
        match [copy0, copy1].map(|bytes| bytes.map_or_else(unreadable, look)) {
            // Newer software wrote one of them: the present content is unknown.
            [Copy::Refused(why), _] | [_, Copy::Refused(why)] => LogFound::Bad(why),
            [Copy::Sound(one), Copy::Sound(other)] => {
                LogFound::Sound(if other.generation > one.generation { other } else { one })
            }
            [Copy::Sound(one), _] | [_, Copy::Sound(one)] => LogFound::Sound(one),
            [Copy::Damaged(why), Copy::Damaged(_)] => {
                LogFound::Bad(format!("both copies of its log label are damaged ({why})"))
            }
            [Copy::None, _] | [_, Copy::None] => LogFound::Blank,
        }
    }

    /// Whether a copy begins with the magic number.
    pub fn is_begun(head: &[u8]) -> bool {
        head.starts_with(&MAGIC)
    }
}

fn look(bytes: &[u8]) -> Copy {
    if !LogLabel::is_begun(bytes) {
        return Copy::None;
    }
    let version = u32_at(bytes, AT_VERSION);
    let end = (u32_at(bytes, AT_LEN) as usize).checked_add(AT_TEXT);
    let whole = end.filter(|end| *end <= COPY.as_usize()).and_then(|end| bytes.get(..end));
    let Some(whole) = whole.filter(|whole| u32_at(whole, AT_CRC) == crc_without(whole, AT_CRC))
    else {
        return Copy::Damaged("its checksum is wrong".to_owned());
    };
    if version != VERSION {
        return Copy::Refused(format!(
            "its log label has version {version} of its format, but this software knows version \
                {VERSION}; use the software that wrote it"
        ));
    }
    match decode(whole) {
        Ok(label) => Copy::Sound(label),
        Err(error) => Copy::Refused(error.to_string()),
    }
}

/// Decodes a copy with a valid checksum.
fn decode(bytes: &[u8]) -> Result<LogLabel> {
    let text = std::str::from_utf8(&bytes[AT_TEXT..])
        .map_err(|_| contradiction("the log label's text is not UTF-8"))?;
    let label: LogLabel = toml::from_str(text).map_err(|error| {
        contradiction(format!("the log label's text cannot be understood: {}", error.message()))
    })?;
    let device = Uuid(std::array::from_fn(|index| bytes[AT_DEVICE + index]));
    let label = label.for_device(device);
    if label.generation != u64_at(bytes, AT_GENERATION) {
        return Err(contradiction("the log label's head and its text have different generations"));
    }
    label.check()?;
    Ok(label)
}
