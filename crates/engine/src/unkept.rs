//! A substitute for the controller, for arrays that live as long as their process: benchmarks and
//! engine tests. Nothing is durable: each report becomes its change at once, which every shard
//! applies. It gives up one unresponsive drive per volume: it does not know the fault tolerance,
//! and shards may report several drives at once.

use crate::messages::{Report, ReportKind, ShardIndex, ShardMessage};
use platform::{Env, IoError, IoErrorKind, mailbox};
use std::collections::BTreeMap;
use volume_state::{Change, VolumeState};

/// Replies to reports until every shard is gone. `states`: the states of the volumes when they are
/// attached.
pub async fn keep(
    env: Env,
    mut reports: mailbox::Receiver<Report>,
    shards: Vec<mailbox::Sender<ShardMessage>>,
    mut states: BTreeMap<crate::VolumeId, VolumeState>,
) {
    let mut let_go = BTreeMap::new();
    while let Some(report) = reports.receive().await {
        if let ReportKind::DriveSilent { drive, .. } = report.kind
            && *let_go.entry(report.volume).or_insert(drive) != drive
        {
            let result = Err(IoError::new(IoErrorKind::Busy));
            answer(
                &shards,
                report.from,
                ShardMessage::ReportDone { report: report.number, result },
            );
            continue;
        }
        if let Some(state) = states.get_mut(&report.volume)
            && let Some(change) = report.kind.change(state)
        {
            state.apply(&change);
            // The reporter's later changes of its own regions must not be undone.
            let is_own = matches!(
                report.kind,
                ReportKind::Unsynced(_)
                    | ReportKind::MarkDirty(_)
                    | ReportKind::StripesInitialised { .. }
            );
            let except = is_own.then_some(report.from);
            spread(&env, &shards, report.volume, &change, except).await;
        }
        answer(
            &shards,
            report.from,
            ShardMessage::ReportDone { report: report.number, result: Ok(()) },
        );
    }
}

fn answer(shards: &[mailbox::Sender<ShardMessage>], to: ShardIndex, message: ShardMessage) {
    if shards[usize::from(to.0)].send(message).is_err() {
        tracing::warn!("a shard did not accept the reply to its report");
    }
}

/// Sends a change to every shard, and waits until all have applied it.
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
            tracing::warn!(shard = index, "a shard did not accept a change of its volume");
        }
    }
    drop(done);
    while let Some(answer) = answers.receive().await {
        if let Err(why) = answer {
            tracing::warn!("a shard could not apply a change: {why}");
        }
    }
}
