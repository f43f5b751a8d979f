//! Differences between a document and the controller, and the step that removes each.

mod drives;
mod numbers;
mod others;
mod schedules;
mod volumes;

use crate::current::Current;
use crate::document::{Document, Subscription};
use access::Role;
use controller::{Command, VolumeInfo};
use drives::DriveMatches;
use notify::Channel;
use serde::{Deserialize, Serialize};

/// Limits of the steps that a comparison may propose.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Create missing volumes on their former drives, if these are unused.
    pub create: bool,
}

/// A difference between a document and the controller.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The subject: `volume data`, `drive /dev/sdb`, `controller`.
    pub about: String,
    /// The setting.
    pub what: String,
    /// The value in the file; absent: not in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The current value; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Why a restore skips it, and what to do (a sentence); absent: a restore removes the
    /// difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// Whether a restore removed it.
    #[serde(default)]
    pub applied: bool,
    /// Why the restore failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A change that removes a difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A command of the controller.
    Command(Command),
    /// Create an account with a random, unknown password, or change it.
    Account {
        /// Its name.
        name: String,
        /// Its role.
        role: Role,
        /// Whether it is enabled.
        enabled: bool,
        /// Whether it is created.
        is_new: bool,
    },
    /// Set a notification channel. Its secret, if any, is kept.
    Channel(Channel),
    /// Create a Redfish subscription.
    Subscription(Subscription),
}

/// A difference with its step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The difference.
    pub difference: Difference,
    /// The step that removes it; `None`: the difference remains.
    pub step: Option<Step>,
}

impl Step {
    /// The order of the steps, ascending. Later comparisons may find more differences.
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
    let places = DriveMatches::of(document, now);
    let mut found = Findings::default();
    others::controller(document, now, &mut found);
    drives::compare(document, now, &places, &mut found);
    let volumes = VolumeMatches::of(document, now);
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

/// Matches volumes of the document with current volumes: by UUID, else by name, unless another
/// entry already matches that volume.
struct VolumeMatches<'a>(
    Vec<(&'a crate::document::Volume, &'a crate::document::Array, Option<&'a VolumeInfo>)>,
);

impl<'a> VolumeMatches<'a> {
    fn of(document: &'a Document, now: &'a Current) -> VolumeMatches<'a> {
        let entries: Vec<_> = document
            .arrays
            .iter()
            .flatten()
            .flat_map(|array| array.volumes.iter().map(move |volume| (volume, array)))
            .collect();
        let by_uuid = |uuid: &str| now.present().find(|there| there.uuid == uuid);
        let is_taken =
            |there: &VolumeInfo| entries.iter().any(|(volume, _)| volume.uuid == there.uuid);
        let pair =
            |&(volume, array): &(&'a crate::document::Volume, &'a crate::document::Array)| {
                let by_name =
                    || now.present().find(|there| there.name == volume.name && !is_taken(there));
                (volume, array, by_uuid(&volume.uuid).or_else(by_name))
            };
        VolumeMatches(entries.iter().map(pair).collect())
    }
}

/// The differences found so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a difference that a step removes.
    fn changes(&mut self, of: Subject<'_>, step: Step) {
        self.0.push(Finding { difference: of.difference(None), step: Some(step) });
    }

    /// Adds a difference that remains, with the reason.
    fn stays(&mut self, of: Subject<'_>, why: impl Into<String>) {
        self.0.push(Finding { difference: of.difference(Some(why.into())), step: None });
    }
}

/// The subject and the values of a difference.
struct Subject<'a> {
    about: String,
    what: &'a str,
    file: Option<String>,
    now: Option<String>,
}

impl<'a> Subject<'a> {
    fn new(about: impl Into<String>, what: &'a str) -> Subject<'a> {
        Subject { about: about.into(), what, file: None, now: None }
    }

    fn file(self, value: impl Into<String>) -> Subject<'a> {
        Subject { file: Some(value.into()), ..self }
    }

    fn now(self, value: impl Into<String>) -> Subject<'a> {
        Subject { now: Some(value.into()), ..self }
    }

    fn difference(self, stays: Option<String>) -> Difference {
        let Subject { about, what, file, now } = self;
        Difference { about, what: what.to_owned(), file, now, stays, applied: false, failure: None }
    }
}
