//! A stand-in for the controller, for arrays that live as long as their process: benchmarks and tests of the
//! engine. Nothing is made durable: a report becomes its change at once, which every shard applies.

use crate::attachment::Attachment;
use crate::host::Volume;
use crate::messages::{Report, ReportKind, ShardIndex, ShardMessage};
use crate::server::ShardSeed;
use env::{Env, mailbox};
use state::{Change, VolumeState};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A volume on a shard of its own, on this thread.
pub struct Alone {
    /// The volume.
    pub volume: Rc<Volume>,
    /// Its shard.
    pub shard: mailbox::Sender<ShardMessage>,
}

/// Starts a shard on this thread, tells it what it is to know before, has it serve a volume, and answers its reports.
///
/// # Errors
/// When the shard does not start, or cannot serve the volume: a sentence.
pub async fn attach(
    env: &Env,
    attachment: Attachment,
    before: impl IntoIterator<Item = ShardMessage>,
) -> Result<Alone, String> {
    let gone = || "the engine's shard did not start".to_owned();
    let (id, state) = (attachment.spec.id, attachment.state.clone());
    let seed = ShardSeed::new(env, 1);
    let sender = seed.sender();
    let (reports, receiver) = mailbox::mailbox(env, crate::REPORTS_OPEN);
    let shard = seed.start(ShardIndex(0), 1, reports);
    sender.send(ShardMessage::Peers(vec![sender.clone()])).map_err(|_| gone())?;
    for message in before {
        sender.send(message).map_err(|_| gone())?;
    }
    let (done, mut answers) = mailbox::mailbox(env, 1);
    sender.send(ShardMessage::Attach(Box::new(attachment), done)).map_err(|_| gone())?;
    answers.receive().await.ok_or_else(gone)??;
    let keeper = keep(env.clone(), receiver, vec![sender.clone()], BTreeMap::from([(id, state)]));
    env.spawn("keeper", keeper);
    Ok(Alone { volume: shard.volume(id).ok_or_else(gone)?, shard: sender })
}

/// Answers reports until every shard is gone. `states`: what is known of the volumes when they are attached.
pub async fn keep(
    env: Env,
    mut reports: mailbox::Receiver<Report>,
    shards: Vec<mailbox::Sender<ShardMessage>>,
    mut states: BTreeMap<crate::VolumeId, VolumeState>,
) {
    while let Some(report) = reports.receive().await {
        if let Some(state) = states.get_mut(&report.volume)
            && let Some(change) = report.kind.change(state)
        {
            state.apply(&change);
            // What the reporter has learned of its own regions since is not undone.
            let is_own = matches!(report.kind, ReportKind::Unsynced(_) | ReportKind::MarkDirty(_));
            let except = is_own.then_some(report.from);
            spread(&env, &shards, report.volume, &change, except).await;
        }
        let answer = ShardMessage::ReportDone { report: report.number, result: Ok(()) };
        if shards[usize::from(report.from.0)].send(answer).is_err() {
            tracing::warn!("a shard did not take the answer to its report");
        }
    }
}

/// Has every shard apply a change, and waits for them.
async fn spread(
    env: &Env,
    shards: &[mailbox::Sender<ShardMessage>],
    volume: crate::VolumeId,
    change: &Change,
    except: Option<ShardIndex>,
) {
    let (done, mut answers) = mailbox::mailbox(env, shards.len());
    for (index, shard) in (0..).zip(shards) {
        let message = ShardMessage::Apply(volume, change.clone(), None, Some(done.clone()));
        if except != Some(ShardIndex(index)) && shard.send(message).is_err() {
            tracing::warn!(shard = index, "a shard did not take a change of its volume");
        }
    }
    drop(done);
    while let Some(answer) = answers.receive().await {
        if let Err(why) = answer {
            tracing::warn!("a shard could not apply a change: {why}");
        }
    }
}
