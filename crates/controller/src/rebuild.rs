//! Rebuilds and copies, begun where something is stale: after a start, and when a drive was taken in.

use crate::array::Array;
use crate::core::{Core, ShardTask};
use crate::volume::Volume;
use engine::{ShardMessage, TaskId, TaskKind, TaskOrder, TaskPace};
use std::rc::Rc;
use units::DriveIndex;

impl Core {
    /// Begins to make current what is stale of a volume that is served: on its drives, and on their shadows.
    pub(crate) async fn begin_rebuilds(self: &Rc<Self>, array: &Rc<Array>, volume: &Volume) {
        let label = array.label();
        for (slot, member) in label.member.iter().enumerate() {
            let drive = DriveIndex(slot as u16);
            let kind = match &member.shadow {
                Some(_) => TaskKind::Copy { slot: drive },
                None => TaskKind::Rebuild { slot: drive },
            };
            let stale = match &member.shadow {
                Some(_) => self.shadow_stale(array, slot),
                None => array.missed(slot),
            };
            let lanes = volume.own_lanes(&stale);
            if member.is_online() && !lanes.is_empty() && !self.is_under_way(volume, kind) {
                self.begin_task(array, volume, kind, Some(lanes)).await;
            }
        }
    }

    /// Begins a task on all shards. Its number, if they begin.
    pub(crate) async fn begin_task(
        self: &Rc<Self>,
        array: &Rc<Array>,
        volume: &Volume,
        kind: TaskKind,
        lanes: Option<engine::LaneSet>,
    ) -> Option<TaskId> {
        let id = volume.id()?;
        let task = self.new_task_id();
        let share_percent = array.label().policy.task_share_percent;
        let pace = TaskPace { share_percent, paused: false, max_bytes_per_s: None };
        let order = TaskOrder { volume: id, task, kind, lanes, pace };
        // A shard may be done before the others have begun.
        let of_shards = ShardTask { volume: id, kind, shards_left: self.shards.len() };
        self.tasks.borrow_mut().insert(task, of_shards);
        let started = self.tell_shards(|done| ShardMessage::StartTask(Box::new(order.clone()), done)).await;
        match started {
            Ok(()) => Some(task),
            Err(why) => {
                self.tasks.borrow_mut().remove(&task);
                self.tell_all_to_stop(task);
                let name = volume.name();
                let text = format!("a task on '{name}' was not begun: {why}");
                self.events.warn(&name, &why, "redundancy is not restored yet", text);
                None
            }
        }
    }

    fn tell_all_to_stop(&self, task: TaskId) {
        drop(self.send_shards(|done| ShardMessage::StopTask(task, done)));
    }

    /// Whether a task of that kind is under way on a volume as it is served now.
    pub(crate) fn is_under_way(&self, volume: &Volume, kind: TaskKind) -> bool {
        let is_it = |task: &ShardTask| Some(task.volume) == volume.id() && task.kind == kind;
        self.tasks.borrow().values().any(is_it)
    }

    /// Shadows that are current in everything take their slots.
    pub(crate) async fn promote_complete(self: &Rc<Self>, array: &Rc<Array>) {
        for slot in 0..array.places().len() {
            let _turn = array.metadata.take(1).await;
            let label = array.label();
            let member = &label.member[slot];
            let is_complete = member.is_online()
                && member.shadow.as_ref().is_some_and(|shadow| shadow.stale.is_empty())
                && array.places()[slot].shadow.is_some();
            if is_complete
                && array.is_running()
                && let Err(error) = self.promote(array, slot).await
            {
                let names = array.names();
                let text = format!("a drive that is filled could not take drive {slot} of {names}: {error}");
                self.events.warn(
                    &array.name(),
                    &error.message,
                    "the drive that was to be replaced goes on",
                    text,
                );
                self.end_shadow(array, slot, &error.message).await;
            }
        }
    }
}
