//! All channels: as they are kept, and the tasks that work for them.

use super::post::{self, ChannelInfo, Kept, News, Post};
use crate::desk::Desk;
use crate::events;
use crate::files::{self, Files};
use ::notify::{Message, Sender, Target};
use access::Caller;
use controller::{
    ControllerHandle, Error, ErrorKind, Event, EventCode, Occurrence, Origin, Result, StateFile,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where channels are kept, in the state folder. Nobody else may read it: there are secrets in it.
const FILE: StateFile<Vec<Kept>> =
    StateFile::json("notifications.json", "the list of channels of notifications");

/// Channels there may be.
const MOST: usize = 32;

/// How often it is looked for messages that are due.
const LOOK: Duration = Duration::from_millis(200);

/// The channels.
pub(crate) struct Office {
    posts: Mutex<BTreeMap<String, Arc<Post>>>,
    files: Files,
    sender: Sender,
}

impl Office {
    /// Reads what the state folder has. Where no version of it can be read there are no channels, and an event says so.
    pub(crate) fn open(files: &Files, host: &str, controller: &ControllerHandle) -> Office {
        let loaded = files.load_state(&FILE);
        if let Some(trouble) = &loaded.trouble {
            files::tell_trouble(controller, trouble, "no channel gets messages; set them again");
        }
        let mut posts = BTreeMap::new();
        for kept in loaded.value.unwrap_or_default() {
            posts.insert(kept.channel.name.clone(), Arc::new(Post::open(files, kept, controller)));
        }
        let (host, pid) = (host.to_owned(), std::process::id());
        let sender = Sender { host, pid, started_unix_s: post::now_s() };
        Office { posts: Mutex::new(posts), files: files.clone(), sender }
    }

    fn posts(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Post>>> {
        // A change is one call: what a panic left behind is whole.
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Post>> {
        self.posts().values().cloned().collect()
    }

    fn get(&self, name: &str) -> Result<Arc<Post>> {
        self.posts().get(name).cloned().ok_or_else(|| missing(name))
    }

    fn has(&self, post: &Arc<Post>) -> bool {
        self.posts().values().any(|one| Arc::ptr_eq(one, post))
    }

    /// All channels, by name.
    pub(crate) fn list(&self) -> Vec<ChannelInfo> {
        self.all().iter().map(|post| post.info()).collect()
    }

    /// Makes the file anew, with one channel set or removed.
    fn store(&self, name: &str, kept: Option<&Kept>) -> Result<()> {
        let mut all: BTreeMap<String, Kept> =
            self.posts().iter().map(|(name, post)| (name.clone(), post.kept())).collect();
        match kept {
            Some(kept) => all.insert(name.to_owned(), kept.clone()),
            None => all.remove(name),
        };
        let all: Vec<Kept> = all.into_values().collect();
        self.files.store_state(&FILE, &all)
    }
}

fn missing(name: &str) -> Error {
    let sentence = format!("there is no channel '{name}'; see 'softroc notify list'");
    Error::new(ErrorKind::NotFound, sentence)
}

/// Sets a channel, as a whole; one that has its secret already keeps it unless another is given. Durable first, then in effect.
pub(crate) async fn set(desk: &Desk, caller: &Caller, mut kept: Kept) -> Result<ChannelInfo> {
    let office = &desk.office;
    let name = kept.channel.name.clone();
    let before = office.get(&name).ok();
    let same_target = |post: &Arc<Post>| post.kept().channel.target == kept.channel.target;
    if kept.secret.is_none() && before.as_ref().is_some_and(same_target) {
        kept.secret = before.as_ref().and_then(|post| post.kept().secret);
    }
    let target = kept.channel.check(kept.secret.is_some())?;
    let is_remote = matches!(caller.named().origin, Origin::Network { .. });
    if matches!(target, Target::Hook { .. }) && is_remote {
        let sentence = "a channel that runs programs is set on the machine itself, by its control socket";
        return Err(Error::new(ErrorKind::Denied, sentence));
    }
    if before.is_none() && office.posts().len() >= MOST {
        let sentence = format!("there are {MOST} channels already; remove one first");
        return Err(Error::new(ErrorKind::OutOfSpace, sentence));
    }
    let seen = newest(desk).await?;
    office.store(&name, Some(&kept))?;
    let what = format!("set, to {}", kind(&target));
    match before {
        Some(post) => post.set(kept),
        None => {
            let post = Arc::new(Post::new(&office.files, kept, seen));
            office.posts().insert(name.clone(), post.clone());
            tokio::spawn(work(desk.clone(), post));
        }
    }
    note(desk, EventCode::NotifyChanged, &name, Some(caller), &what);
    Ok(office.get(&name)?.info())
}

/// Removes a channel, and what waits for it.
pub(crate) fn remove(desk: &Desk, caller: &Caller, name: &str) -> Result<()> {
    let post = desk.office.get(name)?;
    desk.office.store(name, None)?;
    desk.office.posts().remove(name);
    post.remove().map_err(|error| {
        let sentence = format!("the channel is removed, but what waited for it is still on disk: {error}");
        Error::new(ErrorKind::Failed, sentence)
    })?;
    note(desk, EventCode::NotifyChanged, name, Some(caller), "removed");
    Ok(())
}

/// Sends a message to a channel at once, past its rules and its queue.
pub(crate) async fn test(desk: &Desk, caller: &Caller, name: &str) -> Result<()> {
    let post = desk.office.get(name)?;
    let sender = &desk.office.sender;
    let by = caller.named();
    let event = Event {
        number: 0,
        time_unix_s: post::now_s(),
        code: EventCode::NotifyTest.code().to_owned(),
        severity: EventCode::NotifyTest.severity(),
        subject: name.to_owned(),
        cause: format!("{by} asked for it"),
        effect: "none".to_owned(),
        text: format!("this is a test of the channel '{name}'; nothing has happened"),
        by: Some(by),
    };
    let sent = post::send_one(&post.kept(), &Message::of(&event), sender).await;
    let what = match &sent {
        Ok(()) => "tried, and works".to_owned(),
        Err(why) => format!("tried, and does not work: {why}"),
    };
    note(desk, EventCode::NotifyTest, name, Some(caller), &what);
    sent.map_err(|why| {
        let sentence = format!(
            "the message did not arrive at '{name}': {why}; change the channel with 'softroc notify set {name} …'"
        );
        Error::new(ErrorKind::Failed, sentence)
    })
}

/// What a target is, without what of its address may be secret.
fn kind(target: &Target) -> &'static str {
    match target {
        Target::Journal { .. } => "the journal",
        Target::Syslog(_) => "syslog",
        Target::Mail(_) => "mail",
        Target::Webhook { .. } => "a webhook",
        Target::Snmp { .. } => "SNMP",
        Target::Hook { .. } => "a program",
    }
}

/// Takes note of what became of a channel.
fn note(desk: &Desk, code: EventCode, name: &str, caller: Option<&Caller>, what: &str) {
    let by = caller.map(Caller::named);
    desk.controller.note(Occurrence {
        code,
        subject: name.to_owned(),
        cause: by
            .as_ref()
            .map_or_else(|| "a message was to be sent".to_owned(), |by| format!("{by} asked for it")),
        effect: what.to_owned(),
        text: format!("the channel '{name}' of notifications: {what}"),
        by,
    });
}

async fn newest(desk: &Desk) -> Result<u64> {
    let events = events::newest(desk, 1).await;
    let gone = || Error::new(ErrorKind::Stopping, "the controller is gone; start it again");
    Ok(events.ok_or_else(gone)?.last().map_or(0, |event| event.number))
}

/// Works for the channels until the controller is gone: one task follows the events, and each channel has one that sends.
pub(crate) async fn run(desk: Desk) {
    let Ok(newest) = newest(&desk).await else { return };
    let mut seen = desk.office.all().iter().map(|post| post.seen(newest)).min().unwrap_or(newest);
    for post in desk.office.all() {
        tokio::spawn(work(desk.clone(), post));
    }
    loop {
        let Some(events) = events::since(&desk, &mut seen).await else { return };
        if !events.is_empty() {
            desk.office.all().iter().for_each(|post| post.offer(&events));
        }
        tokio::time::sleep(events::LOOK).await;
    }
}

/// Sends what is due, as long as the channel is there.
async fn work(desk: Desk, post: Arc<Post>) {
    while desk.office.has(&post) {
        let (may_be_more, news) = post.send_next(&desk.office.sender).await;
        let name = post.kept().channel.name;
        match news {
            None => {}
            Some(News::Works) => note(&desk, EventCode::NotifyWorks, &name, None, "it takes messages again"),
            Some(News::Failing(why)) => {
                let what = format!("it takes no messages, which wait: {why}");
                note(&desk, EventCode::NotifyFailing, &name, None, &what);
            }
            Some(News::GivenUp(number, why)) => {
                let what = format!("the message of event {number} is given up after a day: {why}");
                note(&desk, EventCode::NotifyGivenUp, &name, None, &what);
            }
        }
        if !may_be_more {
            tokio::time::sleep(LOOK).await;
        }
    }
}
