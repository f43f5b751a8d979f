//! The notifier: all channels, their file, and their tasks.

use super::post::{self, ChannelEvent, ChannelInfo, RunningChannel, StoredChannel};
use crate::desk::AppState;
use crate::files::{self, Files};
use crate::supervise::supervise;
use ::notify::{Message, Sender, Target};
use access::{Action, Caller};
use controller::{
    ControllerHandle, Error, ErrorKind, Event, EventCode, EventFeed, Occurrence, Origin, Result,
    StateFile,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The file of the channels in the state folder. It is private because it contains secrets.
const FILE: StateFile<Vec<StoredChannel>> =
    StateFile::json("notifications.json", "the list of channels of notifications");

/// Maximum number of channels.
const MOST: usize = 32;

/// Interval of the checks for due messages.
const LOOK: Duration = Duration::from_millis(200);

/// The channels.
pub(crate) struct Notifier {
    posts: Mutex<BTreeMap<String, Arc<RunningChannel>>>,
    files: Files,
    sender: Sender,
}

impl Notifier {
    /// Reads the state folder. Without a readable version there are no channels, and an event
    /// reports it.
    pub(crate) fn open(files: &Files, host: &str, controller: &ControllerHandle) -> Notifier {
        let loaded = files.load_state(&FILE);
        if let Some(trouble) = &loaded.trouble {
            files::tell_trouble(
                controller,
                trouble,
                "no notifications are sent; set the channels again",
            );
        }
        let mut posts = BTreeMap::new();
        for kept in loaded.value.unwrap_or_default() {
            posts.insert(
                kept.channel.name.clone(),
                Arc::new(RunningChannel::open(files, kept, controller)),
            );
        }
        let (host, pid) = (host.to_owned(), std::process::id());
        let sender = Sender { host, pid, started_unix_s: post::now_s() };
        Notifier { posts: Mutex::new(posts), files: files.clone(), sender }
    }

    fn posts(&self) -> MutexGuard<'_, BTreeMap<String, Arc<RunningChannel>>> {
        // A change is one call, so the state is consistent after a panic.
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<RunningChannel>> {
        self.posts().values().cloned().collect()
    }

    fn get(&self, name: &str) -> Result<Arc<RunningChannel>> {
        self.posts().get(name).cloned().ok_or_else(|| missing(name))
    }

    fn has(&self, post: &Arc<RunningChannel>) -> bool {
        self.posts().values().any(|one| Arc::ptr_eq(one, post))
    }

    /// All channels, by name.
    pub(crate) fn list(&self) -> Vec<ChannelInfo> {
        self.all().iter().map(|post| post.info()).collect()
    }

    /// Writes the file, with one channel set or removed.
    fn store(&self, name: &str, kept: Option<&StoredChannel>) -> Result<()> {
        let mut all: BTreeMap<String, StoredChannel> =
            self.posts().iter().map(|(name, post)| (name.clone(), post.kept())).collect();
        match kept {
            Some(kept) => all.insert(name.to_owned(), kept.clone()),
            None => all.remove(name),
        };
        let all: Vec<StoredChannel> = all.into_values().collect();
        self.files.store_state(&FILE, &all)
    }
}

fn missing(name: &str) -> Error {
    let sentence = format!("there is no channel '{name}'; see 'softroc notify list'");
    Error::new(ErrorKind::NotFound, sentence)
}

/// Sets a channel as a whole; without a new secret it keeps the old one. First durably, then in
/// memory.
pub(crate) async fn set(
    desk: &AppState,
    caller: &Caller,
    kept: StoredChannel,
) -> Result<ChannelInfo> {
    let name = kept.channel.name.clone();
    let set = async {
        // Earlier events are not sent to it.
        let newest = desk.controller.events().begun().await;
        put(desk, caller, kept, newest)
    };
    desk.order((caller, Action::Notifications), ("notify-set", &name), set).await
}

fn put(
    desk: &AppState,
    caller: &Caller,
    mut kept: StoredChannel,
    newest: u64,
) -> Result<ChannelInfo> {
    let office = &desk.office;
    let name = kept.channel.name.clone();
    let before = office.get(&name).ok();
    let same_target =
        |post: &Arc<RunningChannel>| post.kept().channel.target == kept.channel.target;
    if kept.secret.is_none() && before.as_ref().is_some_and(same_target) {
        kept.secret = before.as_ref().and_then(|post| post.kept().secret);
    }
    let target = kept.channel.check(kept.secret.is_some())?;
    let is_remote = matches!(caller.named().origin, Origin::Network { .. });
    if matches!(target, Target::Hook { .. }) && is_remote {
        let sentence = "a channel that runs programs can only be set on the machine itself, \
            through the control socket";
        return Err(Error::new(ErrorKind::Denied, sentence));
    }
    if before.is_none() && office.posts().len() >= MOST {
        let sentence = format!("there are {MOST} channels already; remove one first");
        return Err(Error::new(ErrorKind::OutOfSpace, sentence));
    }
    office.store(&name, Some(&kept))?;
    let what = format!("set, to {}", kind(&target));
    match before {
        Some(post) => post.set(kept),
        None => {
            let post = Arc::new(RunningChannel::new(&office.files, kept, newest));
            office.posts().insert(name.clone(), post.clone());
            begin(desk, &post);
        }
    }
    note(desk, EventCode::NotifyChanged, &name, Some(caller), &what);
    Ok(office.get(&name)?.info())
}

/// Removes a channel and its queued messages.
pub(crate) async fn remove(desk: &AppState, caller: &Caller, name: &str) -> Result<()> {
    let remove = async { take_away(desk, caller, name) };
    desk.order((caller, Action::Notifications), ("notify-remove", name), remove).await
}

fn take_away(desk: &AppState, caller: &Caller, name: &str) -> Result<()> {
    let post = desk.office.get(name)?;
    desk.office.store(name, None)?;
    desk.office.posts().remove(name);
    post.remove().map_err(|error| {
        let sentence = format!("the channel is removed, but its queue is still on disk: {error}");
        Error::new(ErrorKind::Failed, sentence)
    })?;
    note(desk, EventCode::NotifyChanged, name, Some(caller), "removed");
    Ok(())
}

/// Sends a message to a channel at once, without its rules and its queue.
pub(crate) async fn test(desk: &AppState, caller: &Caller, name: &str) -> Result<()> {
    desk.order((caller, Action::Notifications), ("notify-test", name), tried(desk, caller, name))
        .await
}

async fn tried(desk: &AppState, caller: &Caller, name: &str) -> Result<()> {
    let post = desk.office.get(name)?;
    let sender = &desk.office.sender;
    let by = caller.named();
    let event = Event {
        number: 0,
        time_unix_s: post::now_s(),
        code: EventCode::NotifyTest.code().to_owned(),
        severity: EventCode::NotifyTest.severity(),
        subject: name.to_owned(),
        cause: format!("requested by {by}"),
        effect: "none".to_owned(),
        text: format!("this is a test of the channel '{name}'; no action is needed"),
        by: Some(by),
        related: None,
        count: 1,
        first_unix_s: None,
    };
    let sent = post::send_one(&post.kept(), &Message::of(&event), sender).await;
    let what = match &sent {
        Ok(()) => "tested, and works".to_owned(),
        Err(why) => format!("tested, and failed: {why}"),
    };
    note(desk, EventCode::NotifyTest, name, Some(caller), &what);
    sent.map_err(|why| {
        let sentence = format!(
            "sending to '{name}' failed: {why}; change the channel with 'softroc notify set {name} \
                …'"
        );
        Error::new(ErrorKind::Failed, sentence)
    })
}

/// The kind of a target, without secrets of its address.
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

/// Reports the state of a channel.
fn note(desk: &AppState, code: EventCode, name: &str, caller: Option<&Caller>, what: &str) {
    let by = caller.map(Caller::named);
    desk.controller.note(Occurrence {
        code,
        subject: name.to_owned(),
        cause: by
            .as_ref()
            .map_or_else(|| "a message was due".to_owned(), |by| format!("requested by {by}")),
        effect: what.to_owned(),
        text: format!("notification channel '{name}': {what}"),
        by,
    });
}

/// Runs the channels until the controller has stopped: one task follows the events, and each
/// channel has one that sends.
pub(crate) fn run(desk: &AppState) {
    for post in desk.office.all() {
        begin(desk, &post);
    }
    let (office, events) = (desk.office.clone(), desk.controller.events().clone());
    supervise("the notifier", move || follow(office.clone(), events.clone()));
}

fn begin(desk: &AppState, post: &Arc<RunningChannel>) {
    let (desk, post) = (desk.clone(), post.clone());
    supervise("a notification channel", move || work(desk.clone(), post.clone()));
}

/// Offers every event to every channel, from the last event that the channel has seen, also after a
/// restart.
async fn follow(office: Arc<Notifier>, feed: EventFeed) {
    let newest = feed.begun().await;
    let seen = office.all().iter().map(|post| post.seen(newest)).min().unwrap_or(newest);
    let mut events = feed.subscribe(seen);
    while let Some(events) = events.next().await {
        office.all().iter().for_each(|post| post.offer(&events));
    }
}

/// Sends due messages while the channel exists.
async fn work(desk: AppState, post: Arc<RunningChannel>) {
    while desk.office.has(&post) {
        let (may_be_more, news) = post.send_next(&desk.office.sender).await;
        let name = post.kept().channel.name;
        match news {
            None => {}
            Some(ChannelEvent::Works) => {
                note(&desk, EventCode::NotifyWorks, &name, None, "it accepts messages again")
            }
            Some(ChannelEvent::Failing(why)) => {
                let what = format!("the target does not accept messages, which are queued: {why}");
                note(&desk, EventCode::NotifyFailing, &name, None, &what);
            }
            Some(ChannelEvent::GivenUp(number, why)) => {
                let what = format!("the message of event {number} is dropped after a day: {why}");
                note(&desk, EventCode::NotifyGivenUp, &name, None, &what);
            }
        }
        if !may_be_more {
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller::Severity;
    use platform::Publisher;

    fn event(number: u64) -> Event {
        Event {
            number,
            time_unix_s: 1_700_000_000 + number,
            code: "drive.failed".to_owned(),
            severity: Severity::Warning,
            subject: format!("drive {number}"),
            related: None,
            cause: "pulled".to_owned(),
            effect: "the array goes on".to_owned(),
            text: format!("event {number}"),
            by: None,
            count: 1,
            first_unix_s: None,
        }
    }

    /// The notifier with one channel.
    fn office(files: &Files, post: RunningChannel) -> Arc<Notifier> {
        let sender = Sender { host: "here".to_owned(), pid: 1, started_unix_s: 0 };
        let posts = BTreeMap::from([("it".to_owned(), Arc::new(post))]);
        Arc::new(Notifier { posts: Mutex::new(posts), files: files.clone(), sender })
    }

    /// An ended feed that has the newest ten events.
    fn feed_of(numbers: std::ops::RangeInclusive<u64>) -> EventFeed {
        let publisher = Publisher::new(10);
        publisher.open();
        numbers.for_each(|number| publisher.publish(number, event(number)));
        publisher.feed().clone().into()
    }

    fn kept() -> StoredChannel {
        let channel = serde_json::json!({"name": "it", "target": "journal", "fold_s": 0});
        StoredChannel { channel: serde_json::from_value(channel).expect("a channel"), secret: None }
    }

    /// The messages in the channel's queue file.
    fn waiting(folder: &std::path::Path) -> Vec<(u64, String)> {
        let text = std::fs::read_to_string(folder.join("notify-it.queue")).expect("its file");
        let lines =
            text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let messages = lines.filter_map(|line| {
            let message = &line["put"]["message"];
            Some((message["number"].as_u64()?, message["code"].as_str()?.to_owned()))
        });
        messages.collect()
    }

    /// Regression: one "busy" reply ended all notifications until the next restart. A channel now
    /// follows a feed, without queries.
    #[test]
    fn a_channel_goes_on_from_what_it_has_seen_and_is_told_what_it_missed() {
        let folder = std::env::temp_dir().join(format!("softroc-office-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let files = Files::new(&folder);
        runtime.block_on(follow(
            office(&files, RunningChannel::new(&files, kept(), 0)),
            feed_of(1..=3),
        ));
        let numbers =
            |waiting: &[(u64, String)]| waiting.iter().map(|one| one.0).collect::<Vec<u64>>();
        assert_eq!(numbers(&waiting(&folder)), [1, 2, 3]);
        // Events 4 to 20 happened while the process was down; the newest ten are kept.
        let (post, unreadable) = RunningChannel::read(&files, kept());
        assert!(unreadable.is_none());
        runtime.block_on(follow(office(&files, post), feed_of(1..=20)));
        let waiting = waiting(&folder);
        assert_eq!(numbers(&waiting), [1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
        assert_eq!(waiting[3].1, "events.left-out", "lost events are reported");
        std::fs::remove_dir_all(&folder).expect("it is removed");
    }
}
