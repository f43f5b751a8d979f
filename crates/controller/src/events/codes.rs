//! All kinds of events: stable code, severity and meaning. `softroc help event-codes` prints them.

use crate::interface::Severity;

macro_rules! event_codes {
    ($($name:ident $code:literal $severity:ident $meaning:literal;)*) => {
        /// A kind of event. Its code is stable: programs decide by it.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum EventCode {
            $(#[doc = $meaning] $name,)*
        }

        impl EventCode {
            /// All kinds, by subject.
            pub const ALL: &'static [EventCode] = &[$(EventCode::$name,)*];

            /// The code: the subject, a dot, and what happened to it.
            pub const fn code(self) -> &'static str {
                match self {
                    $(EventCode::$name => $code,)*
                }
            }

            /// Its severity.
            pub const fn severity(self) -> Severity {
                match self {
                    $(EventCode::$name => Severity::$severity,)*
                }
            }

            /// Its meaning: a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(EventCode::$name => $meaning,)*
                }
            }
        }
    };
}

event_codes! {
    ControllerStarted "controller.started" Info
        "The controller was started; it starts the volumes next.";
    ControllerStopped "controller.stopped" Info "The controller was shut down; it serves no \
        volume.";
    ControllerCommand "controller.command" Info
        "A command changed something that no other event reports.";
    ControllerStateUnreadable "controller.state-unreadable" Warning
        "A file of the state folder cannot be read. SoftROC keeps the damaged file, and uses its \
         previous version if there is one. The subject is the file's name.";
    ControllerStateRepaired "controller.state-repaired" Info
        "A command replaced an unreadable file of the state folder.";
    ControllerStateNotStored "controller.state-not-stored" Warning
        "A file of the state folder cannot be stored. Commands that depend on it are refused; \
        events and audit records wait in memory.";
    ControllerStateStored "controller.state-stored" Info "A file of the state folder can be stored \
        again.";

    EventsLeftOut "events.left-out" Warning
        "Events were replaced by newer ones before they were delivered or stored; the count is the \
         largest possible number of lost events.";

    AlarmSounds "alarm.sounds" Info
        "The alarm sounds: a drive is out of service, or data is in danger; the cause names the \
        event that started it.";
    AlarmSilenced "alarm.silenced" Info "An operator silenced the alarm, until the next failure.";
    AlarmSwitched "alarm.switched" Info
        "An operator switched the alarm on or off; it does not sound now.";

    AccessFirstAccount "access.first-account" Warning
        "The first account was created. Its password is in the file first-password of the state \
        folder and must be changed.";
    AccessCertificate "access.certificate-made" Info
        "A certificate was created, since there was none; clients compare its fingerprint.";
    AccessAccount "access.account-changed" Info
        "An account was added, changed or removed; the cause names the account that made the \
         change, and its address.";
    AccessLocked "access.account-locked" Warning
        "An account was locked temporarily for one source address after several wrong passwords in \
        a row. It still works from other addresses.";
    AccessSession "access.session-opened" Info "An account signed in.";

    ProtectionOptimal "protection.optimal" Info
        "The UPS is on line: data in the cache survives a power outage.";
    ProtectionCharging "protection.charging" Info
        "The UPS is on line and charges its battery: data in the cache survives a power outage.";
    ProtectionDegraded "protection.degraded" Warning
        "The UPS is on battery, or may not bridge an outage: dirty data is written to the drives.";
    ProtectionFailed "protection.failed" Critical
        "The battery of the UPS is nearly empty: all dirty data is written to the drives and \
        flushed.";
    ProtectionMissing "protection.missing" Warning
        "There is no contact with the UPS: whether it bridges an outage is unknown.";
    BenchStarted "bench.started" Info
        "The console started a benchmark of a volume; the effect says whether it overwrites data.";
    BenchEnded "bench.ended" Info
        "A benchmark of a volume from the console ended; the effect names its result.";
    NotifyChanged "notify.channel-changed" Info
        "A notification channel was set or removed; the cause names the account that made the \
         change, and its address.";
    NotifyTest "notify.test" Info "A test message was sent to a notification channel.";
    NotifyFailing "notify.failing" Warning
        "A notification channel cannot deliver; its messages are queued and retried.";
    NotifyWorks "notify.works" Info
        "A notification channel delivers again; queued messages follow.";
    NotifyGivenUp "notify.given-up" Warning
        "A message could not be delivered for a day and was dropped.";

    ArrayNotRecorded "array.not-recorded" Critical "A change of an array's state cannot be \
        recorded on its drives; writes that depend on it fail until there is space.";
    ArrayMapUnreadable "array.map-unreadable" Warning
        "Blocks of the write-intent map cannot be read; their regions are resynced.";
    ArrayPolicyChanged "array.policy-changed" Info "An operator changed policies of an array.";
    ArrayNoSpare "array.no-spare" Warning
        "A drive is out of service or predicts its failure, and no hot spare fits.";
    ArraySlotEmpty "array.slot-empty" Critical
        "A drive could not take the slot of a drive that is out of service; the slot stays empty.";

    VolumeCreated "volume.created" Info "A volume was created.";
    VolumeDeleted "volume.deleted" Info "A volume was deleted.";
    VolumeForgotten "volume.forgotten" Info "An operator removed a missing volume from the list.";
    VolumeRenamed "volume.renamed" Info "An operator renamed a volume.";
    VolumeReshaped "volume.reshaped" Info "The reshape of a volume is complete.";
    VolumeWriteHole "volume.write-hole-changed" Info
        "An operator enabled or disabled the journal of a volume.";
    VolumeLogDiscarded "volume.log-discarded" Warning
        "An operator discarded the journal of a volume on a missing log device.";
    VolumeWriteMode "volume.write-mode-changed" Info
        "An operator changed the write mode of a volume.";
    VolumeReads "volume.reads-changed" Info
        "An operator changed the read-ahead or the read cache of a volume.";
    VolumeDriveCache "volume.drive-cache-changed" Info
        "An operator changed the setting of a volume for its drives' own write caches.";
    VolumeSectors "volume.sectors-changed" Info
        "An operator changed the sector format that a volume reports to new host connections.";
    VolumeUnaligned "volume.unaligned-writes" Warning
        "Host writes are not aligned to the sectors of a volume's drives: each such write also \
        costs a read.";
    VolumeNotCached "volume.not-cached" Warning
        "A volume that is configured for write-back is write-through: the cache has no memory, or \
        the UPS may not bridge an outage.";
    VolumeCacheLost "volume.cache-lost" Warning
        "The host lost power or was rebooted while the cache had data of a volume: unflushed \
        writes are lost.";
    VolumeCachePinned "volume.cache-pinned" Critical
        "Acknowledged writes cannot be written to the drives; the cache preserves them.";
    CacheMemoryRemoved "cache.memory-removed" Warning
        "An operator removed orphaned cache memory of another controller.";
    CacheMemoryShort "cache.memory-short" Warning
        "The host lacks memory for the whole write cache: the cache stays smaller than configured.";
    VolumeCacheDiscarded "volume.cache-discarded" Warning
        "An operator discarded the cached data of a volume.";
    VolumeOverwritten "volume.overwritten" Warning
        "A volume that was not started is gone: an operator reused its drives for another volume.";
    VolumeImported "volume.imported" Info "A volume of another system was imported.";
    VolumeStarted "volume.started" Info "A volume was started with all of its drives.";
    VolumeStartedDegraded "volume.started-degraded" Warning "A volume was started without some of \
        its drives.";
    VolumeNotStarted "volume.not-started" Fatal "A volume could not be started; its data cannot be \
        reached.";
    VolumeOffline "volume.offline" Fatal
        "A volume lost more drives than its redundancy covers, or cannot be served; its data \
        cannot be reached.";
    VolumeResynced "volume.resynced" Info "A resync is complete: all redundancy of the volume \
        agrees with its data.";
    VolumeInitialised "volume.initialised" Info
        "The background initialisation is complete: first writes need no extra I/O any more.";
    VolumeUnsynced "volume.unsynced" Warning
        "A write was left unfinished; its region is unsynced until a resync.";
    VolumeForced "volume.forced" Warning
        "An operator accepted stale parity; where a write was interrupted, blocks of the missing \
         drives may be wrong.";
    VolumeMismatch "volume.mismatch" Warning "A check found a stripe whose redundancy does not \
        agree with its data.";
    VolumeBlocksUnreadable "volume.blocks-unreadable" Fatal "Blocks of a volume cannot be read \
        from any drive; hosts that read them get an I/O error.";
    VolumeDataLogReplayed "volume.data-log-replayed" Info
        "Writes that hosts had flushed before a power cut were found on a log device.";
    VolumeJournalReplayed "volume.journal-replayed" Info
        "Writes that a crash interrupted were finished from the journal.";
    VolumeJournalIncomplete "volume.journal-incomplete" Warning
        "The journal is incomplete; the volume is treated as if it had none.";

    DriveCacheNotSet "drive.cache-not-set" Warning
        "A drive's own write cache could not be switched to a volume's setting.";
    DriveFailed "drive.failed" Warning "A drive failed; its array works without it.";
    DriveSuspended "drive.suspended" Warning
        "A drive did not respond in time; its array works without it until it responds.";
    DriveDeclaredFailed "drive.declared-failed" Warning
        "An operator declared a drive failed; its array works without it.";
    DriveSuspendedByOperator "drive.suspended-by-operator" Warning
        "An operator suspended a drive; its array works without it until an operator resumes it.";
    DriveOffline "drive.offline" Warning
        "An operator took a drive offline; its array works without it.";
    DriveMissing "drive.missing" Warning
        "A drive was missing when its array was started; the array works without it.";
    DriveNotInformed "drive.not-informed" Warning
        "The label of a drive that is out of service could not be updated; do not start the array \
        from this drive alone.";
    DriveBack "drive.back" Info "A drive that was out of service is online again.";
    DriveTakesSlot "drive.takes-slot" Info
        "A drive takes the slot of a drive that is out of service.";
    DriveReplacementBegun "drive.replacement-begun" Info
        "A replacement of an online drive began: its content is copied to the new drive.";
    DriveReplaced "drive.replaced" Info "A drive replaced an online drive.";
    DriveRemoved "drive.removed" Info
        "A volume was reshaped to fewer drives; the removed drive is unused.";
    DriveReplacementEnded "drive.replacement-ended" Warning
        "A copy to a replacement drive stopped before it was complete; the old drive stays online.";
    DriveReplacementFailed "drive.replacement-failed" Warning
        "A replacement failed; the old drive stays online.";
    DrivePredictsFailure "drive.predicts-failure" Warning
        "A drive predicts its failure or is worn out.";
    DriveMediumError "drive.medium-error" Warning "Sectors of a drive cannot be read; no data is \
        lost.";
    DriveMediumErrorRepaired "drive.medium-error-repaired" Info
        "Unreadable sectors were rewritten from redundancy.";
    DrivePatrolStopped "drive.patrol-stopped" Warning
        "A drive does not respond; the patrol read skipped the rest of the drive.";
    DriveMetadataRepaired "drive.metadata-repaired" Warning
        "Damaged metadata of a drive was repaired from the other copy or from the label.";
    DriveMetadataDamaged "drive.metadata-damaged" Warning "One copy of a drive's metadata is \
        damaged and cannot be repaired; replace the drive.";
    DriveMetadataRestored "drive.metadata-restored" Warning
        "Both copies of a drive's metadata are damaged; they are restored from the other drives \
        of its array.";
    DriveLabelNotErased "drive.label-not-erased" Warning "An obsolete label could not be erased.";
    DriveImportUndone "drive.import-undone" Warning
        "The import of a drive was interrupted and undone.";
    DriveCleared "drive.cleared" Warning "An operator erased foreign metadata from a drive.";
    DriveUnsteady "drive.unsteady" Warning
        "A drive disappeared and returned several times; the next time it stays out of service.";
    DriveTrusted "drive.trusted" Info "An operator cleared the failure of a drive; it can be used \
        again.";
    DriveGrown "drive.grown" Info
        "An operator made the controller use the additional capacity of a grown drive.";
    DriveUnregistered "drive.unregistered" Info "An operator unregistered a drive.";

    SpareAdded "spare.added" Info "A drive is a hot spare.";
    SpareRemoved "spare.removed" Info "A drive is no longer a hot spare.";
    SpareRestored "spare.restored" Info
        "An active hot spare is free after a copyback, and is ready again.";
    SpareNotRestored "spare.not-restored" Warning
        "An active hot spare is free after a copyback, but could not become a hot spare again.";
    SpareFailed "spare.failed" Warning
        "A hot spare failed or lost its label; it is no longer a hot spare.";
    SpareReady "spare.ready" Info "A failed hot spare responds again and is ready.";

    LogAdded "log.added" Info "An operator added a log; journals move to its devices.";
    LogDeviceFailed "log.device-failed" Critical
        "A log device failed; journals continue on the other device, or on the drives of their \
        volumes.";
    LogRemoved "log.removed" Info "An operator removed the log; its devices are unused drives.";
    LogNotAdded "log.not-added" Warning
        "The log devices given at the start cannot be used; journals stay where they are.";

    TaskBegun "task.begun" Info "A background task begins.";
    TaskPaused "task.paused" Info "An operator paused a task.";
    TaskResumed "task.resumed" Info "An operator resumed a task.";
    TaskStopped "task.stopped" Warning "An operator stopped a task before completion.";
    TaskNotStopped "task.not-stopped" Warning
        "An operator stopped a reshape that cannot be rolled back; it continues.";
    TaskDone "task.done" Info "A task is complete.";
    TaskFound "task.found" Warning "A task is complete and found errors.";
    TaskCancelled "task.cancelled" Info "A task ended, since its volume was deleted.";
    TaskFailed "task.failed" Warning "A task failed; it is retried as long as the volume or drive \
        needs it.";
    ScheduleMissed "schedule.missed" Info "A scheduled task did not begin; it begins at its next \
        time.";
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
            assert!(
                code.meaning().ends_with('.') && !code.meaning().contains('|'),
                "{}",
                code.code()
            );
        }
    }
}
