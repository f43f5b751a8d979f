//! The document: the whole configuration as readable text.

use controller::{Error, ErrorKind, Result, SpareKind};
use notify::Channel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The format version that this release writes. Later versions are refused.
pub const VERSION: u32 = 1;

/// The `format` value of every document.
const FORMAT: &str = "softroc-config";

/// The configuration of a controller. Absent sections are not compared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// `softroc-config`.
    pub format: String,
    /// The format version.
    pub version: u32,
    /// When and by which release it was saved. Ignored in comparisons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Saved>,
    /// Settings of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerPart>,
    /// The schedule of the patrol read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patrol: Option<Schedule>,
    /// The log device in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
    /// Registered drives.
    #[serde(default, rename = "drive", skip_serializing_if = "Option::is_none")]
    pub drives: Option<Vec<Drive>>,
    /// Arrays with their volumes.
    #[serde(default, rename = "array", skip_serializing_if = "Option::is_none")]
    pub arrays: Option<Vec<Array>>,
    /// Hot spares.
    #[serde(default, rename = "spare", skip_serializing_if = "Option::is_none")]
    pub spares: Option<Vec<Spare>>,
    /// Notification channels, without secrets.
    #[serde(default, rename = "notification", skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Vec<Notification>>,
    /// Redfish event subscriptions.
    #[serde(default, rename = "subscription", skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<Vec<Subscription>>,
    /// Accounts, without passwords.
    #[serde(default, rename = "account", skip_serializing_if = "Option::is_none")]
    pub accounts: Option<Vec<Account>>,
}

/// The origin of a document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The release that saved it.
    pub by: String,
    /// The date, in UTC.
    pub at: String,
}

/// Settings of the controller.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerPart {
    /// Its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Whether the alarm is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<bool>,
}

/// A schedule of background tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Whether it is enabled.
    pub on: bool,
    /// The period in days.
    pub every_days: u32,
    /// The time of day, UTC: `HH:MM`.
    pub at: String,
    /// Whether a check repairs the errors it finds; absent for a patrol read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<bool>,
    /// The share of time given to the task next to hosts; absent: the share of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// The rate limit in bytes per second; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// The log device in use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Its drives, one or two, by name.
    pub drives: Vec<String>,
}

/// Numbers of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Its enclosure.
    pub enclosure: u32,
    /// Its slot in the enclosure.
    pub slot: u32,
    /// Its device number.
    pub device: u32,
}

/// A drive. It is matched by label UUID, else by model and serial number, else by name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Its name: a path or an address.
    pub name: String,
    /// Its UUID as a member of an array, from its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Its capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Its numbers for operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
}

/// An array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// Its UUID.
    pub uuid: String,
    /// Its drive group number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Its policies, by the names of `volume show`.
    #[serde(default)]
    pub policies: BTreeMap<String, String>,
    /// Its drives by slot.
    #[serde(default, rename = "member")]
    pub members: Vec<Member>,
    /// Its volumes, in their order on the drives.
    #[serde(default, rename = "volume")]
    pub volumes: Vec<Volume>,
}

/// A member of an array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The slot.
    pub slot: u16,
    /// The name of the drive.
    pub drive: String,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The RAID level.
    pub level: String,
    /// Spans; 1 where the level has none.
    pub spans: u16,
    /// The number of copies of each strip.
    pub copies: u16,
    /// The strip.
    pub strip_bytes: u64,
    /// The layout, if the level offers several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The capacity for hosts.
    pub capacity_bytes: u64,
    /// Its policies, by the names of `volume show`.
    #[serde(default)]
    pub policies: BTreeMap<String, String>,
    /// The check schedule; absent for levels without redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Schedule>,
}

/// A hot spare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// The name of the drive.
    pub drive: String,
    /// Which arrays it serves.
    pub kind: SpareKind,
    /// Volumes of the arrays that a dedicated spare serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dedicated_to: Vec<String>,
    /// Whether it becomes a spare again after a copyback.
    pub revertible: bool,
}

/// A notification channel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Notification {
    /// Whether it has a secret (never saved).
    #[serde(default)]
    pub has_secret: bool,
    /// The channel.
    #[serde(flatten)]
    pub channel: Channel,
}

/// A Redfish event subscription.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// The address that receives the events.
    pub destination: String,
    /// A value that is sent with each event.
    #[serde(default)]
    pub context: String,
    /// Whether the receiver's certificate is verified.
    pub verify_certificate: bool,
}

/// An account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: access::Role,
    /// Whether it is enabled.
    pub enabled: bool,
}

/// The first fields of every version.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u32,
}

fn invalid(sentence: String) -> Error {
    Error::new(ErrorKind::Invalid, sentence)
}

impl Document {
    /// A document without sections.
    pub fn empty() -> Document {
        Document {
            format: FORMAT.to_owned(),
            version: VERSION,
            saved: None,
            controller: None,
            patrol: None,
            log: None,
            drives: None,
            arrays: None,
            spares: None,
            notifications: None,
            subscriptions: None,
            accounts: None,
        }
    }

    /// Checks that this release can restore the document.
    ///
    /// # Errors
    /// `Invalid` for another format, a later version, or duplicate names.
    pub fn check(&self) -> Result<()> {
        check_head(&self.format, self.version)?;
        let arrays = self.arrays.as_deref().unwrap_or_default();
        let volumes = arrays.iter().flat_map(|array| &array.volumes);
        once("volume", volumes.map(|volume| volume.name.as_str()))?;
        once("drive", self.drives.iter().flatten().map(|drive| drive.name.as_str()))?;
        once("spare", self.spares.iter().flatten().map(|spare| spare.drive.as_str()))?;
        once(
            "notification",
            self.notifications.iter().flatten().map(|one| one.channel.name.as_str()),
        )?;
        once("account", self.accounts.iter().flatten().map(|account| account.name.as_str()))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `Invalid`, with the position of the error.
    pub fn read(text: &str) -> Result<Document> {
        let wrong = |error: toml::de::Error| {
            let what = error.to_string();
            invalid(format!(
                "that is no saved configuration: {}; 'softroc config save' writes one",
                what.trim_end()
            ))
        };
        let head: Head = toml::from_str(text).map_err(wrong)?;
        check_head(&head.format, head.version)?;
        let document: Document = toml::from_str(text).map_err(wrong)?;
        document.check()?;
        Ok(document)
    }

    /// The document as TOML.
    ///
    /// # Errors
    /// `Failed`, when TOML cannot represent a value.
    pub fn written(&self) -> Result<String> {
        let body = toml::to_string(self).map_err(|error| {
            Error::new(
                ErrorKind::Failed,
                format!("the configuration cannot be written as TOML: {error}"),
            )
        })?;
        Ok(format!(
            "# The configuration of a SoftROC controller: 'softroc config restore FILE --dry-run' \
             compares it.\n\
             # It has no passwords, keys or other secrets. A section that is removed is left \
             alone.\n\n{body}"
        ))
    }
}

fn check_head(format: &str, version: u32) -> Result<()> {
    if format != FORMAT {
        return Err(invalid(format!(
            "that is no saved configuration: its format is '{format}', not '{FORMAT}'; 'softroc \
                config save' writes one"
        )));
    }
    match version {
        1..=VERSION => Ok(()),
        0 => Err(invalid(
            "that configuration has no version; 'softroc config save' writes one".to_owned(),
        )),
        later => Err(invalid(format!(
            "that configuration is of version {later}, and this controller reads versions 1 to \
                {VERSION}; restore it with a later release"
        ))),
    }
}

/// Fails on a duplicate name.
fn once<'n>(what: &str, names: impl Iterator<Item = &'n str>) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(invalid(format!(
                "the configuration has two entries for {what} '{name}'; remove one"
            )));
        }
    }
    Ok(())
}
