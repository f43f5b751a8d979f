//! How a document differs from what there is, and which step removes each difference.

mod drives;
mod numbers;
mod others;
mod schedules;
mod volumes;

use crate::current::Current;
use crate::document::{Document, Subscription};
use access::Role;
use controller::{Command, VolumeInfo};
use drives::Places;
use notify::Channel;
use serde::{Deserialize, Serialize};

/// What a comparison may propose.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Volumes that are not found are created on the drives that they had, if these are unused.
    pub create: bool,
}

/// A difference between a document and what there is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// What it is about: `volume data`, `drive /dev/sdb`, `controller`.
    pub about: String,
    /// Which setting of it.
    pub what: String,
    /// What the file says; absent: the file does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What there is; absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Why a restore leaves it as it is, and what to do: a sentence; absent: a restore removes the difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// Whether a restore has removed it.
    #[serde(default)]
    pub applied: bool,
    /// Why the restore of it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A change that removes a difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A command of the controller.
    Command(Command),
    /// An account is made, with a password that is not known to anybody, or changed.
    Account {
        /// Its name.
        name: String,
        /// Its role.
        role: Role,
        /// Whether it can be used.
        enabled: bool,
        /// Whether it is made.
        is_new: bool,
    },
    /// A channel of notifications is set. One that has a secret keeps it.
    Channel(Channel),
    /// A subscription by Redfish is made.
    Subscription(Subscription),
}

/// A difference with its step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The difference.
    pub difference: Difference,
    /// What removes it; `None` where it stays.
    pub step: Option<Step>,
}

impl Step {
    /// Steps of a lower phase come first: what is compared after them may be more.
    pub fn phase(&self) -> u8 {
        match self {
            Step::Command(Command::DriveAdd { .. }) => 0,
            Step::Command(Command::VolumeCreate(_)) => 1,
            Step::Command(Command::VolumeSet { .. }) => 2,
            Step::Command(Command::LogAdd { .. }) => 3,
            Step::Command(_) => 4,
            Step::Account { .. } | Step::Channel(_) | Step::Subscription(_) => 5,
        }
    }
}

/// Every difference, in the order of the document.
pub fn compare(document: &Document, now: &Current, options: Options) -> Vec<Finding> {
    let places = Places::of(document, now);
    let mut found = Found::default();
    others::controller(document, now, &mut found);
    drives::compare(document, now, &places, &mut found);
    let volumes = Pairs::of(document, now);
    volumes::compare(document, now, (&places, &volumes), options, &mut found);
    schedules::compare(document, now, &volumes, &mut found);
    numbers::compare(document, now, (&places, &volumes), &mut found);
    others::spares(document, now, &places, &mut found);
    others::log(document, now, &places, &mut found);
    others::notifications(document, now, &mut found);
    others::subscriptions(document, now, &mut found);
    others::accounts(document, now, &mut found);
    found.0
}

/// Which volume of the document is which of those there are: by UUID, else by name, if no other entry has that volume.
struct Pairs<'a>(Vec<(&'a crate::document::Volume, &'a crate::document::Array, Option<&'a VolumeInfo>)>);

impl<'a> Pairs<'a> {
    fn of(document: &'a Document, now: &'a Current) -> Pairs<'a> {
        let entries: Vec<_> = document
            .arrays
            .iter()
            .flatten()
            .flat_map(|array| array.volumes.iter().map(move |volume| (volume, array)))
            .collect();
        let by_uuid = |uuid: &str| now.present().find(|there| there.uuid == uuid);
        let is_taken = |there: &VolumeInfo| entries.iter().any(|(volume, _)| volume.uuid == there.uuid);
        let pair = |&(volume, array): &(&'a crate::document::Volume, &'a crate::document::Array)| {
            let by_name = || now.present().find(|there| there.name == volume.name && !is_taken(there));
            (volume, array, by_uuid(&volume.uuid).or_else(by_name))
        };
        Pairs(entries.iter().map(pair).collect())
    }
}

/// What was found so far.
#[derive(Default)]
struct Found(Vec<Finding>);

impl Found {
    /// A difference that a step removes.
    fn changes(&mut self, of: Of<'_>, step: Step) {
        self.0.push(Finding { difference: of.difference(None), step: Some(step) });
    }

    /// A difference that stays, and why.
    fn stays(&mut self, of: Of<'_>, why: impl Into<String>) {
        self.0.push(Finding { difference: of.difference(Some(why.into())), step: None });
    }
}

/// What a difference is about.
struct Of<'a> {
    about: String,
    what: &'a str,
    file: Option<String>,
    now: Option<String>,
}

impl<'a> Of<'a> {
    fn new(about: impl Into<String>, what: &'a str) -> Of<'a> {
        Of { about: about.into(), what, file: None, now: None }
    }

    fn file(self, value: impl Into<String>) -> Of<'a> {
        Of { file: Some(value.into()), ..self }
    }

    fn now(self, value: impl Into<String>) -> Of<'a> {
        Of { now: Some(value.into()), ..self }
    }

    fn difference(self, stays: Option<String>) -> Difference {
        let Of { about, what, file, now } = self;
        Difference { about, what: what.to_owned(), file, now, stays, applied: false, failure: None }
    }
}
