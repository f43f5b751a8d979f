//! The page of a volume.

use crate::lists::{EventList, TaskList};
use crate::overview::{Bay, bay, survives};
use crate::page::Part;
use crate::traffic::Traffic;
use crate::words::{Badge, Moment, encoded, sentence};
use crate::{Viewer, World, deed};
use askama::Template;
use controller::{Event, HostInfo, Policy, VolumeInfo, VolumeState};
use units::{ByteCount, counted};

/// Maximum number of events on the page.
const EVENTS: usize = 20;

#[derive(Template)]
#[template(path = "volume.html")]
struct Head {
    name: String,
    badge: Badge<VolumeState>,
    since: Moment,
    reasons: Vec<String>,
    facts: Vec<(&'static str, String)>,
    bench: String,
    what_if: String,
}

#[derive(Template)]
#[template(path = "slots.html")]
struct Slots {
    slots: Vec<(usize, Bay)>,
}

#[derive(Template)]
#[template(path = "policies.html")]
struct Policies {
    policies: Vec<(Policy, Moment)>,
    /// The volumes that share the array's policies, if there are several.
    array: Option<String>,
    forms: Vec<String>,
}

#[derive(Template)]
#[template(path = "hosts.html")]
struct Hosts {
    sum: String,
    hosts: Vec<HostRow>,
}

struct HostRow {
    host: String,
    protocol: String,
    since: Moment,
    rates: String,
}

#[derive(Template)]
#[template(path = "history.html")]
pub(crate) struct History {
    pub(crate) list: EventList,
}

#[derive(Template)]
#[template(path = "deeds.html")]
pub(crate) struct ActionForms {
    pub(crate) deeds: Vec<String>,
}

impl Policies {
    fn is_of_array(&self, policy: &Policy) -> bool {
        deed::is_of_array(&policy.name)
    }
}

/// `None`: no such volume.
pub(crate) fn parts(world: &World, viewer: &Viewer, back: &str, name: &str) -> Option<Vec<Part>> {
    let volume = world.volumes.iter().find(|volume| volume.name == name)?;
    let now_s = world.now_unix_s;
    let head = Head {
        name: volume.name.clone(),
        badge: Badge(volume.state),
        since: Moment { at_s: volume.since_unix_s, now_s },
        reasons: volume.reasons.iter().map(|reason| sentence(reason)).collect(),
        facts: facts(volume),
        bench: format!("/console/bench?of={}", encoded(&volume.name)),
        what_if: format!("/console/what-if?of={}", encoded(&volume.name)),
    };
    let slots = volume.drives.iter().map(bay).enumerate().collect();
    let policy = |policy: &Policy| (policy.clone(), Moment { at_s: policy.since_unix_s, now_s });
    let is_of = |event: &Event| event.concerns(&volume.name);
    Some(vec![
        Part::new("volume", &head),
        Part::new("slots", &Slots { slots }),
        Part::new("hosts", &hosts(volume, now_s)),
        Part::new("traffic", &Traffic::of(world)),
        Part::new(
            "tasks",
            &TaskList::of(world, viewer, back, |task| task.volume.as_ref() == Some(&volume.name)),
        ),
        Part::new(
            "policies",
            &Policies {
                policies: volume.policies.iter().map(policy).collect(),
                array: (volume.array_volumes.len() > 1).then(|| volume.array_volumes.join(", ")),
                forms: policy_forms(world, volume, viewer, back),
            },
        ),
        Part::new("deeds", &ActionForms { deeds: deeds(world, volume, viewer, back) }),
        Part::new("events", &History { list: EventList::of(world, EVENTS, is_of) }),
    ])
}

/// A form for each policy that can be changed.
fn policy_forms(world: &World, volume: &VolumeInfo, viewer: &Viewer, back: &str) -> Vec<String> {
    let names = deed::settable(volume.policies.iter().map(|policy| policy.name.as_str()));
    let form =
        |name: &&str| deed::form(world, viewer, back, &volume.name, "policy", &[("policy", name)]);
    names.iter().filter_map(form).collect()
}

fn facts(volume: &VolumeInfo) -> Vec<(&'static str, String)> {
    let mut level = volume.level.clone();
    if let Some(arrangement) = &volume.arrangement {
        level = format!("{level}, {arrangement}");
    }
    if volume.spans > 1 {
        level = format!("{level}, {} spans", volume.spans);
    }
    let mut facts = vec![
        ("Level", level),
        ("Capacity", ByteCount(volume.capacity_bytes).to_string()),
        ("Strip", ByteCount(volume.strip_bytes).to_string()),
        ("Fault tolerance (drives)", survives(volume)),
        (
            "Lost",
            if volume.lost_bytes == 0 {
                "nothing".to_owned()
            } else {
                ByteCount(volume.lost_bytes).to_string()
            },
        ),
        ("Dirty in the cache", ByteCount(volume.cache.dirty_bytes).to_string()),
        ("Volumes of its array", volume.array_volumes.join(", ")),
        ("Free in its array", ByteCount(volume.array_free_bytes).to_string()),
        ("UUID", volume.uuid.clone()),
    ];
    if let Some(resync) = volume.resync {
        facts.insert(4, ("Resynced", format!("{} %", resync.percent)));
    }
    if let Some(initialised) = volume.initialisation {
        facts.insert(4, ("Initialised", format!("{} %", initialised.percent)));
    }
    if let Some(disk) = &volume.disk {
        facts.push(("Disk of this machine", disk.device.clone()));
    }
    facts
}

fn hosts(volume: &VolumeInfo, now_s: u64) -> Hosts {
    let of = |what: fn(&HostInfo) -> u64| volume.hosts.iter().map(what).sum::<u64>();
    let sum = format!(
        "Over the last five seconds: {} per second, {}/s; {} per second, {}/s.",
        counted(of(|host| host.reads_per_s), "read"),
        ByteCount(of(|host| host.read_bytes_per_s)),
        counted(of(|host| host.writes_per_s), "write"),
        ByteCount(of(|host| host.written_bytes_per_s)),
    );
    let row = |host: &HostInfo| HostRow {
        host: host.host.clone(),
        protocol: host.protocol.clone(),
        since: Moment { at_s: host.since_unix_s, now_s },
        rates: format!(
            "{} outstanding; {} + {} requests/s, {}/s + {}/s",
            host.outstanding,
            host.reads_per_s,
            host.writes_per_s,
            ByteCount(host.read_bytes_per_s),
            ByteCount(host.written_bytes_per_s)
        ),
    };
    Hosts { sum, hosts: volume.hosts.iter().map(row).collect() }
}

fn deeds(world: &World, volume: &VolumeInfo, viewer: &Viewer, back: &str) -> Vec<String> {
    let mut verbs = Vec::new();
    if volume.state == VolumeState::Offline {
        verbs.push("start");
    }
    if volume.state.serves() {
        verbs.extend(["check", "repair", "flush"]);
    }
    verbs.extend(["rename", "delete"]);
    deed::forms(world, viewer, back, &volume.name, &verbs)
}
