//! A stand-in for the controller, for arrays that live as long as their process: benchmarks and tests of the
//! engine. Nothing is made durable: a report becomes its change at once, which every shard applies.

use crate::messages::{Report, ReportKind, ShardIndex, ShardMessage};
use env::{Env, mailbox};
use state::{Change, VolumeState};
use std::collections::BTreeMap;

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
            let is_own = matches!(
                report.kind,
                ReportKind::Unsynced(_) | ReportKind::MarkDirty(_) | ReportKind::StripesInitialised { .. }
            );
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
