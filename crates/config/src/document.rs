//! The document: everything that is configured, as people can read it.

use controller::{Error, ErrorKind, Result, SpareKind};
use notify::Channel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the document's form that this program writes. A document of a later version is refused.
pub const VERSION: u32 = 1;

/// What every document says that it is.
const FORMAT: &str = "softroc-config";

/// The configuration of a controller. A section that is not there is not compared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// `softroc-config`.
    pub format: String,
    /// The version of the form.
    pub version: u32,
    /// When and by which program it was saved. Nothing is compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Saved>,
    /// What is set for the controller as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerPart>,
    /// When drives are patrolled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patrol: Option<Schedule>,
    /// The log device that is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
    /// Drives that are registered.
    #[serde(default, rename = "drive", skip_serializing_if = "Option::is_none")]
    pub drives: Option<Vec<Drive>>,
    /// Arrays with their volumes.
    #[serde(default, rename = "array", skip_serializing_if = "Option::is_none")]
    pub arrays: Option<Vec<Array>>,
    /// Hot spares.
    #[serde(default, rename = "spare", skip_serializing_if = "Option::is_none")]
    pub spares: Option<Vec<Spare>>,
    /// Channels of notifications, without their secrets.
    #[serde(default, rename = "notification", skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Vec<Notification>>,
    /// Subscriptions to events by Redfish.
    #[serde(default, rename = "subscription", skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<Vec<Subscription>>,
    /// Accounts, without their passwords.
    #[serde(default, rename = "account", skip_serializing_if = "Option::is_none")]
    pub accounts: Option<Vec<Account>>,
}

/// How a document came to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The version of the controller that saved it.
    pub by: String,
    /// When, as a date in UTC.
    pub at: String,
}

/// What is set for the controller as a whole.
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

/// When something runs by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Whether it runs at all.
    pub on: bool,
    /// The period.
    pub every_days: u32,
    /// The time of the day, UTC: `HH:MM`.
    pub at: String,
    /// Whether a check repairs what it finds; absent for a patrol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<bool>,
    /// The share of time beside hosts; absent: that of the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<u8>,
    /// The most bytes per second; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
}

/// The log device that is in use.
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
    /// Its slot there.
    pub slot: u32,
    /// Its own number.
    pub device: u32,
}

/// A drive. It is found by the UUID of its label, else by model and serial number, else by its name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Its name: a path, an address.
    pub name: String,
    /// The UUID in its label as a member of an array.
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
    /// The numbers by which operators know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Numbers>,
}

/// An array.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// Its UUID.
    pub uuid: String,
    /// Its number (its drive group).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Its policies by name, as `volume show` names them.
    #[serde(default)]
    pub policies: BTreeMap<String, String>,
    /// Its drives by slot.
    #[serde(default, rename = "member")]
    pub members: Vec<Member>,
    /// Its volumes, in the order in which they lie on the drives.
    #[serde(default, rename = "volume")]
    pub volumes: Vec<Volume>,
}

/// A drive's place in an array.
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
    /// How often each strip is stored.
    pub copies: u16,
    /// The strip.
    pub strip_bytes: u64,
    /// The layout, where the level has a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// What hosts can use.
    pub capacity_bytes: u64,
    /// Its own policies by name, as `volume show` names them.
    #[serde(default)]
    pub policies: BTreeMap<String, String>,
    /// When its redundancy is checked; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Schedule>,
}

/// A hot spare.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// The name of the drive.
    pub drive: String,
    /// For which arrays.
    pub kind: SpareKind,
    /// Volumes of the arrays that a dedicated spare is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dedicated_to: Vec<String>,
    /// Whether it is a spare again after a copyback.
    pub revertible: bool,
}

/// A channel of notifications.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Notification {
    /// Whether it has a secret, which is not saved.
    #[serde(default)]
    pub has_secret: bool,
    /// The channel.
    #[serde(flatten)]
    pub channel: Channel,
}

/// A subscription to events by Redfish.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// Where events are sent.
    pub destination: String,
    /// What is sent along.
    #[serde(default)]
    pub context: String,
    /// Whether the certificate of the other side is checked.
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
    /// Whether it can be used.
    pub enabled: bool,
}

/// What every version says first.
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
    /// A document with no section.
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

    /// Whether this program understands it.
    ///
    /// # Errors
    /// `Invalid`, when it is something else, of a later version, or two entries have one name.
    pub fn check(&self) -> Result<()> {
        check_head(&self.format, self.version)?;
        let arrays = self.arrays.as_deref().unwrap_or_default();
        let volumes = arrays.iter().flat_map(|array| &array.volumes);
        once("volume", volumes.map(|volume| volume.name.as_str()))?;
        once("drive", self.drives.iter().flatten().map(|drive| drive.name.as_str()))?;
        once("spare", self.spares.iter().flatten().map(|spare| spare.drive.as_str()))?;
        once("notification", self.notifications.iter().flatten().map(|one| one.channel.name.as_str()))?;
        once("account", self.accounts.iter().flatten().map(|account| account.name.as_str()))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// `Invalid`, with the place of what is wrong.
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

    /// The text of a file.
    ///
    /// # Errors
    /// `Failed`, when it has a value that TOML has no form for.
    pub fn written(&self) -> Result<String> {
        let body = toml::to_string(self).map_err(|error| {
            Error::new(ErrorKind::Failed, format!("the configuration cannot be written as TOML: {error}"))
        })?;
        Ok(format!(
            "# The configuration of a SoftROC controller: 'softroc config restore FILE --dry-run' compares it.\n\
             # It has no passwords, keys or other secrets. A section that is removed is left alone.\n\n{body}"
        ))
    }
}

fn check_head(format: &str, version: u32) -> Result<()> {
    if format != FORMAT {
        return Err(invalid(format!(
            "that is no saved configuration: its format is '{format}', not '{FORMAT}'; 'softroc config save' writes one"
        )));
    }
    match version {
        1..=VERSION => Ok(()),
        0 => Err(invalid("that configuration has no version; 'softroc config save' writes one".to_owned())),
        later => Err(invalid(format!(
            "that configuration is of version {later}, and this controller reads versions 1 to {VERSION}; restore it with a later release"
        ))),
    }
}

/// No name is there twice.
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
