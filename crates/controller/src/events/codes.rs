//! Every kind of event: its stable code, how much it matters, what it means. The one definition; `docs/operate/events.md` is
//! made from it.

use crate::interface::Severity;

macro_rules! event_codes {
    ($($name:ident $code:literal $severity:ident $meaning:literal;)*) => {
        /// A kind of event. Its code is stable: programs decide by it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum EventCode {
            $(#[doc = $meaning] $name,)*
        }

        impl EventCode {
            /// All of them, by subject.
            pub const ALL: &'static [EventCode] = &[$(EventCode::$name,)*];

            /// The code: the subject, a dot, and what happened to it.
            pub const fn code(self) -> &'static str {
                match self {
                    $(EventCode::$name => $code,)*
                }
            }

            /// How much it matters.
            pub const fn severity(self) -> Severity {
                match self {
                    $(EventCode::$name => Severity::$severity,)*
                }
            }

            /// What it means: a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(EventCode::$name => $meaning,)*
                }
            }
        }
    };
}

event_codes! {
    ControllerStarted "controller.started" Info "The controller was started; volumes follow.";
    ControllerStopped "controller.stopped" Info "The controller was shut down; it serves no volume.";
    ControllerCommand "controller.command" Info "Somebody changed something of which no other event tells.";
    ControllerStateUnreadable "controller.state-unreadable" Warning "A file of the state folder cannot be read; it is kept, and its previous version is used where there is one. The subject is its name.";
    ControllerStateRepaired "controller.state-repaired" Info "An order replaced a file of the state folder that could not be read.";
    ControllerStateNotStored "controller.state-not-stored" Warning "A file of the state folder cannot be stored; orders that are kept there alone are refused until it can be. Events and records of orders wait in memory.";
    ControllerStateStored "controller.state-stored" Info "A file of the state folder can be stored again.";

    EventsLeftOut "events.left-out" Warning "Events were replaced by newer ones before they were delivered or stored; the count says how many at most.";

    AlarmSounds "alarm.sounds" Info "The alarm begins to sound: a drive is out, or data is in danger; the cause says which event began it.";
    AlarmSilenced "alarm.silenced" Info "The alarm was silenced by order, until something else fails.";
    AlarmSwitched "alarm.switched" Info "The alarm was switched on or off by order; it does not sound now.";

    AccessFirstAccount "access.first-account" Warning "There was no account yet: one was made. Its password is in the file first-password of the state folder and has to be changed.";
    AccessCertificate "access.certificate-made" Info "There was no certificate yet: one was made; clients compare its fingerprint.";
    AccessAccount "access.account-changed" Info "An account was added, changed or removed; the cause says by whom, and from where.";
    AccessLocked "access.account-locked" Warning "An account was locked for a while for one source, from which its password was wrong several times in a row. Others can sign in.";
    AccessSession "access.session-opened" Info "Somebody signed in.";

    ProtectionOptimal "protection.optimal" Info "The UPS is on line: what is in the cache outlives an outage.";
    ProtectionCharging "protection.charging" Info "The UPS is on line and charges its battery: what is in the cache outlives an outage.";
    ProtectionDegraded "protection.degraded" Warning "The UPS is on battery, or not sure to bridge an outage: what is dirty is written to the drives.";
    ProtectionFailed "protection.failed" Critical "The battery of the UPS is nearly empty: everything is written to the drives and flushed.";
    ProtectionMissing "protection.missing" Warning "There is no contact with the UPS: nobody knows whether it bridges an outage.";
    BenchStarted "bench.started" Info "A measurement of a volume was begun in the console; the effect says whether what the volume holds may be lost.";
    BenchEnded "bench.ended" Info "A measurement of a volume that was begun in the console ended; the effect says how.";
    NotifyChanged "notify.channel-changed" Info "A channel of notifications was set or removed; the cause says by whom, and from where.";
    NotifyTest "notify.test" Info "A message was sent to a channel of notifications to try it.";
    NotifyFailing "notify.failing" Warning "A channel of notifications does not take messages; they wait, and are tried again.";
    NotifyWorks "notify.works" Info "A channel of notifications takes messages again; those that waited follow.";
    NotifyGivenUp "notify.given-up" Warning "A message could not be sent for a day, and was given up.";

    ArrayNotRecorded "array.not-recorded" Critical "A change of an array's state cannot be recorded on its drives; writes that depend on it fail until there is space.";
    ArrayMapUnreadable "array.map-unreadable" Warning "Blocks of the write-intent map cannot be read; what they stand for is resynced.";
    ArrayPolicyChanged "array.policy-changed" Info "An operator changed policies of an array.";
    ArrayNoSpare "array.no-spare" Warning "A drive is out or is expected to fail, and no spare can take its place.";
    ArraySlotEmpty "array.slot-empty" Critical "A drive was to take the slot of one that is out, and could not; the slot stays empty.";

    VolumeCreated "volume.created" Info "A volume was created.";
    VolumeDeleted "volume.deleted" Info "A volume was deleted.";
    VolumeForgotten "volume.forgotten" Info "A volume of which no drive was there is not listed any more, by order.";
    VolumeRenamed "volume.renamed" Info "A volume has another name.";
    VolumeReshaped "volume.reshaped" Info "A volume has come to another layout.";
    VolumeWriteHole "volume.write-hole-changed" Info "A volume was given a journal, or has given it up, by order.";
    VolumeLogDiscarded "volume.log-discarded" Warning "The journal of a volume on a log device that is missing was given up, by order.";
    VolumeWriteMode "volume.write-mode-changed" Info "Hosts of a volume are told at another time that their writes are done, by order.";
    VolumeReads "volume.reads-changed" Info "Whether reads of a volume are read ahead, or kept in the cache, was changed, by order.";
    VolumeDriveCache "volume.drive-cache-changed" Info "What a volume wants of its drives' own write caches was changed, by order.";
    VolumeSectors "volume.sectors-changed" Info "Hosts of a volume that connect from now on are told of other sectors, by order.";
    VolumeUnaligned "volume.unaligned-writes" Warning "Hosts write parts of the sectors of a volume's drives: each such write costs a read as well.";
    VolumeNotCached "volume.not-cached" Warning "A volume that is configured for write-back is write-through: the cache has no memory, or the power may go.";
    VolumeCacheLost "volume.cache-lost" Warning "The machine lost its power, or was started anew, while the cache had data of a volume: what was not flushed is lost.";
    VolumeCachePinned "volume.cache-pinned" Critical "What hosts were told is written cannot be written to the drives; the cache keeps it.";
    CacheMemoryRemoved "cache.memory-removed" Warning "An operator removed memory of the cache that another controller had left behind.";
    VolumeCacheDiscarded "volume.cache-discarded" Warning "An operator gave up what the cache had of a volume.";
    VolumeOverwritten "volume.overwritten" Warning "A volume that was not started is gone: its drives were taken for another one, by order.";
    VolumeImported "volume.imported" Info "A volume of another system was imported.";
    VolumeStarted "volume.started" Info "A volume was started with all of its drives.";
    VolumeStartedDegraded "volume.started-degraded" Warning "A volume was started without some of its drives.";
    VolumeNotStarted "volume.not-started" Fatal "A volume could not be started; its data cannot be reached.";
    VolumeOffline "volume.offline" Fatal "A volume lost more drives than it can do without, or cannot be served; its data cannot be reached.";
    VolumeResynced "volume.resynced" Info "A resync is complete: all redundancy of the volume agrees with its data.";
    VolumeInitialised "volume.initialised" Info "The background initialisation is complete: a first write to any block costs what any other does.";
    VolumeUnsynced "volume.unsynced" Warning "A write was left unfinished; redundancy is not trusted there until it is resynced.";
    VolumeForced "volume.forced" Warning "An operator forced stale parity; blocks of what is missing may read wrongly there.";
    VolumeMismatch "volume.mismatch" Warning "A check found a stripe whose redundancy does not agree with its data.";
    VolumeBlocksUnreadable "volume.blocks-unreadable" Fatal "Blocks of a volume cannot be read from any drive; hosts get an I/O error there.";
    VolumeDataLogReplayed "volume.data-log-replayed" Info "What hosts had flushed before a power cut was found on a log device.";
    VolumeJournalReplayed "volume.journal-replayed" Info "Writes that a crash interrupted were finished from the journal.";
    VolumeJournalIncomplete "volume.journal-incomplete" Warning "The journal does not tell all that a crash interrupted; the volume is treated as if it had none.";

    DriveCacheNotSet "drive.cache-not-set" Warning "A drive's own write cache could not be switched as a volume wants it.";
    DriveFailed "drive.failed" Warning "A drive failed; its array goes on without it.";
    DriveSuspended "drive.suspended" Warning "A drive did not answer in time; its array goes on without it until it answers.";
    DriveDeclaredFailed "drive.declared-failed" Warning "An operator declared a drive failed; its array goes on without it.";
    DriveSuspendedByOperator "drive.suspended-by-operator" Warning "An operator suspended a drive; its array goes on without it until an operator resumes it.";
    DriveOffline "drive.offline" Warning "An operator took a drive offline; its array goes on without it.";
    DriveMissing "drive.missing" Warning "A drive was not there when its array was started; the array goes on without it.";
    DriveNotInformed "drive.not-informed" Warning "A drive that is out could not be marked so; keep it from being started alone.";
    DriveBack "drive.back" Info "A drive that was out is used again.";
    DriveTakesSlot "drive.takes-slot" Info "A drive takes the slot of one that is out.";
    DriveReplacementBegun "drive.replacement-begun" Info "A drive is being filled to replace one that serves.";
    DriveReplaced "drive.replaced" Info "A drive took the slot of one that served until then.";
    DriveRemoved "drive.removed" Info "A volume has come to a layout on fewer drives; the drive is unused.";
    DriveReplacementEnded "drive.replacement-ended" Warning "A drive that was being filled is dropped; the one that it was to replace goes on.";
    DriveReplacementFailed "drive.replacement-failed" Warning "A drive could not be filled, or could not take the slot; the one that it was to replace goes on.";
    DrivePredictsFailure "drive.predicts-failure" Warning "A drive expects to fail or is worn out.";
    DriveMediumError "drive.medium-error" Warning "Sectors of a drive cannot be read; no data is lost.";
    DriveMediumErrorRepaired "drive.medium-error-repaired" Info "Sectors that could not be read were written anew from redundancy.";
    DrivePatrolStopped "drive.patrol-stopped" Warning "A drive does not answer; the patrol left the rest of it unread.";
    DriveMetadataRepaired "drive.metadata-repaired" Warning "Metadata of a drive were damaged, and were repaired from the other copy or from the label.";
    DriveMetadataDamaged "drive.metadata-damaged" Warning "One copy of a drive's metadata is damaged and cannot be repaired; replace the drive.";
    DriveMetadataRestored "drive.metadata-restored" Warning "Both copies of a drive's metadata are damaged; the other drives of its array tell what it is.";
    DriveLabelNotErased "drive.label-not-erased" Warning "A label that means nothing any more could not be erased.";
    DriveImportUndone "drive.import-undone" Warning "The import of a drive was interrupted; the drive is what it was before.";
    DriveCleared "drive.cleared" Warning "An operator erased the metadata by which another system knew the drive.";
    DriveUnsteady "drive.unsteady" Warning "A drive vanished and came back several times; the next time it stays out.";
    DriveTrusted "drive.trusted" Info "An operator cleared the failure of a drive; it can be used again.";
    DriveGrown "drive.grown" Info "A drive was made larger, and all of it is used from now on, by order.";
    DriveUnregistered "drive.unregistered" Info "An operator unregistered a drive.";

    SpareAdded "spare.added" Info "A drive is a hot spare.";
    SpareRemoved "spare.removed" Info "A drive is no hot spare any more.";
    SpareRestored "spare.restored" Info "A spare that stood in is free, and is ready again.";
    SpareNotRestored "spare.not-restored" Warning "A spare that stood in is free, but could not be made a spare again.";
    SpareFailed "spare.failed" Warning "A spare has failed or lost its label; it is no spare any more.";
    SpareReady "spare.ready" Info "A spare that had failed answers again, and is ready.";

    LogAdded "log.added" Info "Journals lie on log devices from now on, by order.";
    LogDeviceFailed "log.device-failed" Critical "A log device failed; journals go on on the other device, or on the drives of their volumes.";
    LogRemoved "log.removed" Info "An operator removed the log; its devices are unused drives.";
    LogNotAdded "log.not-added" Warning "The log devices that the controller was started with cannot be used; journals stay where they are.";

    TaskBegun "task.begun" Info "A background task begins.";
    TaskPaused "task.paused" Info "An operator paused a task.";
    TaskResumed "task.resumed" Info "An operator resumed a task.";
    TaskStopped "task.stopped" Warning "An operator stopped a task before it was done.";
    TaskNotStopped "task.not-stopped" Warning "A move to another layout that an operator stopped goes on, as it cannot be taken back.";
    TaskDone "task.done" Info "A task is complete.";
    TaskFound "task.found" Warning "A task is complete, and found something wrong.";
    TaskCancelled "task.cancelled" Info "A task ended, since the volume that it was about was deleted.";
    TaskFailed "task.failed" Warning "A task failed; what is still needed is tried again.";
    ScheduleMissed "schedule.missed" Info "A scheduled task did not begin; it begins at its next time.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_differ_and_name_their_subject() {
        let codes: BTreeSet<&str> = EventCode::ALL.iter().map(|code| code.code()).collect();
        assert_eq!(codes.len(), EventCode::ALL.len());
        for code in EventCode::ALL {
            let (subject, what) = code.code().split_once('.').unwrap();
            let is_word = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(is_word(subject) && is_word(what), "{}", code.code());
            assert!(code.meaning().ends_with('.') && !code.meaning().contains('|'), "{}", code.code());
        }
    }
}
