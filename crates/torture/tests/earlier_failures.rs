//! Seeds that once failed, and why: only `TORTURE_TESTS=all` runs them.
//!
//! A change of the product or the harness gives a seed another history. So each defect of the
//! product also has its own test, which is named here.

mod common;

use common::{assert_fine, is_long};
use layout::Level;
use torture::{Larger, Log, Logged, Migrations, Neighbour, Options, Reads, Times, run_all};

fn passes(seed: u64, options: &Options) {
    assert_fine(&run_all(seed..seed + 1, options, Times::Once, 1, |_, _| true));
}

/// Seeds without a neighbour.
const KEPT: [(u64, &str); 17] = [
    (1000822, "a patrol paused during a repair never ended (controller/tests/tasks.rs)"),
    (
        1000840,
        "policies set while a drive was missing made it foreign (controller/tests/half_done.rs)",
    ),
    (2000727, "the harness missed a misdirected write without a read before the crash"),
    (2000772, "the harness forgot a drive replaced in the life of the creation"),
    (2003111, "a drive that hung in a replay was used without it (controller/tests/journals.rs)"),
    (2003216, "a copy that was complete at a stop never took its slot (controller/tests/kept.rs)"),
    (2003584, "a torn record was replayed, and lost during the replay (controller/tests/kept.rs)"),
    (2005832, "the harness did not wait for a stopped task"),
    (
        2012334,
        "a strip copied back unlocked one copied out: writes missed the spare (engine, \
            relocate.rs)",
    ),
    (2021223, "an unreadable block rebuilt from P was not updated in Q (engine/tests/forced.rs)"),
    (
        2021300,
        "a rebuild was recorded for a drive that had failed meanwhile \
            (controller/tests/returning.rs)",
    ),
    (
        2022417,
        "a drive was used again before a late write had reached it (controller/tests/half_done.rs)",
    ),
    (
        2012771,
        "shards forgot punctured blocks when the drive left its slot (engine/tests/medium.rs)",
    ),
    (2009270, "the harness forgot a drive that was removed while it took its slot"),
    (3003489, "the harness stopped because it missed a drive that had just taken its slot"),
    (6100263, "a kill tore a full-stripe write without a record, in an unrecorded rebuild"),
    (
        715,
        "the harness forgot a write that was outstanding when its drive was lost (scene/tests.rs)",
    ),
];

/// Seeds that once failed, with or without a cache, and why.
const AS_DRAWN: [(u64, bool, &str); 38] = [
    (
        2_912_061_406,
        false,
        "the harness missed the removal of the only other copy before its reply (scene/tests.rs)",
    ),
    (
        2_912_061_635,
        false,
        "a log device under the name of a smaller drive was missing \
            (controller/tests/log_devices.rs)",
    ),
    (
        3_733_000_479,
        false,
        "a drive that was cut off was not found once it was whole (controller/tests/grown.rs)",
    ),
    (
        664_080_398,
        false,
        "a resync did not end beside a drive's blocks in parity alone (engine/tests/forced.rs)",
    ),
    (
        664_063_304,
        false,
        "blocks of two strips of a drive were repaired as those of one (engine/tests/medium.rs)",
    ),
    (
        664_062_598,
        false,
        "the harness repaired a drive that a replacement had pushed from its path",
    ),
    (
        10_899_218,
        false,
        "a start deleted a volume without one drive, which restored it \
            (controller/tests/missing.rs)",
    ),
    (
        837_800_121,
        false,
        "the harness applied consent to stale parity to an unreadable block (scene/tests.rs)",
    ),
    (910_001_072, false, "the label of a removed log overwrote that of the next log"),
    (
        910_003_085,
        false,
        "a partly rebuilt drive was listed as online (controller/tests/spares.rs)",
    ),
    (
        920_000_202,
        true,
        "a shard bypassed the cache before another had destaged (controller/tests/write_mode.rs)",
    ),
    (
        930_000_104,
        true,
        "a write was longer than the ring of the data log (engine/tests/data_log.rs)",
    ),
    (
        809_121_535,
        false,
        "the harness forgot the expansion of a volume that was offline after a reshape",
    ),
    (
        770_215_504,
        true,
        "the harness relied on a journal without its log after a stop during a resync",
    ),
    (3_098_337_250, false, "the harness did not wait for a resync that waited for a rebuild"),
    (
        3_098_337_500,
        false,
        "the harness missed a reshape: the only drive that recorded it was missing",
    ),
    (3_429_043_434, true, "the harness waited for a reshape that no drive recorded"),
    (3_429_045_998, true, "the harness waited for a drive that was offline before a reshape"),
    (
        2_755_330_642,
        false,
        "a drive that refused a strip of sectors used up all memory (engine, stripe/excluded.rs)",
    ),
    (
        4_128_212_272,
        false,
        "excluded blocks of a drive stayed excluded on its replacement \
            (engine/tests/unkept_blocks.rs)",
    ),
    (
        3_986_961_137,
        false,
        "waits for a stalled write polled every 50 us (engine, stripe/beside.rs)",
    ),
    (
        3_986_961_837,
        true,
        "saved reshape windows overwrote data of a returned drive (controller, arrays/members.rs)",
    ),
    (
        2_903_177_147,
        false,
        "the harness took a stripe written in pieces to a small log for a single write",
    ),
    (
        2_992_205_197,
        false,
        "a drive was removed before an exclusion was recorded (controller, arrays/reports.rs)",
    ),
    (
        2_992_206_483,
        true,
        "after a kill, an old destage overwrote a later trim (engine, host/stripe_request.rs)",
    ),
    (
        2_992_205_889,
        false,
        "the harness forgot stuck blocks of a drive that took another slot (scene/tests.rs)",
    ),
    (
        2_992_206_213,
        false,
        "the harness ignored that an interrupted order may have removed a drive (scene/tests.rs)",
    ),
    (
        551_200_097,
        false,
        "the harness checked an order against a layout that was ordered meanwhile",
    ),
    (
        662_000_033,
        false,
        "a layout too large for the memory stopped all starts (controller/tests/reshape_begins.rs)",
    ),
    (
        662_000_621,
        false,
        "blocks copied from the distributed spare stayed excluded (engine/tests/unkept_blocks.rs)",
    ),
    (
        3_431_826_078,
        false,
        "a paused rebuild continued on the new drive (engine/tests/tasks.rs, \
            controller/tests/spares.rs)",
    ),
    (3_431_828_515, true, "the harness did not accept stale parity during a reshape order"),
    (
        4_119_937_836,
        false,
        "the harness did not expect an expansion of a volume that waited for its log",
    ),
    (
        3_141_592_743,
        true,
        "the harness forgot a slot's losses when its rebuilding drive was removed (scene/tests.rs)",
    ),
    (
        1_529_089_642,
        false,
        "the harness waited for a check that had failed a drive with stuck blocks",
    ),
    (
        1_529_090_675,
        false,
        "accepted stale parity included a write to blocks that stayed punctured",
    ),
    (
        3_416_052_257,
        false,
        "a replacement that took its slot at once was not registered (probes.rs)",
    ),
    (
        1_543_625_028,
        false,
        "the harness did not expect a suspended drive to return by itself during an order",
    ),
];

#[test]
fn seeds_that_failed_as_they_are_drawn_pass() {
    if !is_long() {
        return;
    }
    for (seed, write_back, _) in AS_DRAWN {
        let options = Options { write_back, ..Options::default() };
        passes(seed, &options);
    }
}

/// Seeds with a neighbour that once failed:
/// - 629, 2835, 3574: a delayed task wrote the label of a deleted array, which returned.
/// - 2656, 3944, 4076, 4855: a volume created during a rebuild was incomplete on the rebuilding
///   drive (controller/tests/arrays.rs).
/// - 6709: a slot was read before the shards knew its new drive (controller/tests/trust.rs).
/// - Harness: forgot losses before the log's loss (1227, 1352), or a drive that was absent at the
///   start (2410); relied on a relabelled log device with a pending fault (2961); forgot that a
///   volume waits for its log also after an orderly stop (4499).
#[test]
fn seeds_that_failed_beside_a_neighbour_or_with_a_log_pass() {
    if !is_long() {
        return;
    }
    for seed in [629, 1227, 1352, 2410, 2656, 2835, 2961, 3574, 3944, 4076, 4499, 4855, 6709] {
        let options = Options { migrations: Migrations::Never, ..Options::default() };
        passes(seed, &options);
    }
    // A drive that hung during a deletion restored its volume (controller/tests/missing.rs).
    let options = Options { write_back: true, migrations: Migrations::Never, ..Options::default() };
    passes(904, &options);
}

/// Seeds with a cache that once failed, without a read cache:
/// - 20908: a trim of a whole stripe failed with the last log device (engine/tests/log_devices.rs).
/// - 61315, with read-ahead: a flush was acknowledged before an older record that waited for space
///   (engine/tests/data_log.rs).
/// - 65008: a start with consent lost its log midway, and was not repeated.
/// - 72277: shards used a log device that had failed for another volume
///   (engine/tests/log_devices.rs).
/// - 80384, 81441: logged zeroes were acknowledged from the drives' caches
///   (engine/tests/data_log.rs).
/// - 112974: a data log was discarded while a member was missing, without consent to stale parity
///   (controller/tests/data_log.rs).
/// - 113383: a power cut right after a deletion restored the volume (controller/tests/missing.rs).
/// - Harness: a start failed with a drive that a neighbour without redundancy needs (20041, 22449);
///   silent corruption between power cuts was forgotten with a lost log (20761, scene/tests.rs);
///   consent was applied to a drive that failed during the order (20773) or was rebuilding (50705);
///   flushed data was still in the log that the journal had left (21829); the cache destaged after
///   a drive failure during a resync (23916, scene/tests.rs); a partly removed log was added again
///   by one of two devices (27206); writes that were durable only by a log joined a full-stripe
///   write (61258); a returned device was taken to have the next log's records (71851) or earlier
///   ones (113505); rot reached into the neighbour (72736); a truncated drive of a neighbour was
///   not copied (75311); a spare that came and went had no name (100063).
#[test]
fn seeds_that_failed_with_a_cache_pass() {
    if !is_long() {
        return;
    }
    let options = Options {
        write_back: true,
        logged: Logged::Never,
        reads: Reads::Never,
        migrations: Migrations::Never,
        ..Options::default()
    };
    for seed in [20041, 20761, 20773, 20908, 21829, 22449, 23916, 27206, 61258] {
        passes(seed, &options);
    }
    let options = Options { reads: Reads::Drawn, ..options };
    for seed in [50705, 61315, 71851, 72277, 72736, 75311] {
        passes(seed, &options);
    }
    let drawn = Options { logged: Logged::Drawn, ..options.clone() };
    for seed in [80384, 81441, 100063, 112974, 113383, 113505] {
        passes(seed, &drawn);
    }
    let options = Options { log: Log::Always, ..options };
    passes(65008, &options);
}

/// Seeds that once failed:
/// - 125065: a replaced drive counted as a member again.
/// - 120620, 125382: leftovers of a queued reshape in a map stopped the controller, or were listed.
/// - Harness: the effect of a rolled back reshape on hosts (125149), and the capacity after one
///   (125241).
#[test]
fn volumes_with_a_cache_that_lost_something_once_do_not_any_more() {
    if !is_long() {
        return;
    }
    let options = Options { write_back: true, larger: Larger::Never, ..Options::default() };
    // A flush that began with the journal on a log device invalidated records of the next journal.
    let moving = Options { migrations: Migrations::Always, ..options.clone() };
    passes(300_020, &moving);
    // A spare took a slot while the map was longer than the label of a reshaped volume; a rolled
    // back begin disconnected hosts although no shard had reported it.
    passes(310_000, &moving);
    passes(310_260, &moving);
    // The last row of a layout with spans was written as if it were not in use.
    passes(320_029, &moving);
    // A RAID 0 that lost a drive at the begin of a reshape stayed offline after its return; the
    // order was refused, and a start continued the reshape.
    passes(402_378, &moving);
    // Harness: it did not know where the distributed spare has a returned drive's strips; that a
    // drive listed in a slot does not have it after a kill before the record; that a drive filled
    // before is current when it takes the slot; that a neighbour takes free drives.
    for seed in [702_784, 703_241, 703_356, 703_488] {
        passes(seed, &moving);
    }
    for seed in [120620, 125065, 125149, 125241, 125382] {
        passes(seed, &options);
    }
    // Seeds that once failed:
    // - 51766175: a write was acknowledged before old records of an earlier process, whose replay
    //   overwrote it (engine/tests/data_log.rs).
    // - 800886: a sector that a drive refused once in a replay was lost in the next resync.
    // - 801773: a drive failed because a replay wrote to it while its label was written for another
    //   volume.
    // - 1539695330: a rebuild waited endlessly for the regions of a deleted volume.
    // - 1816322254: a label written before the record of initialised stripes was read omitted it
    //   (controller/tests/initialisation.rs).
    // - Harness: a log device with unreadable blocks counted as a copy (800726); unreadable blocks
    //   of a drive were forgotten when a reshape to it was rolled back (3098336180).
    let drawn = Options { write_back: true, ..Options::default() };
    for seed in [51_766_175, 800_726, 800_886, 801_773, 1_539_695_330, 1_816_322_254, 3_098_336_180]
    {
        passes(seed, &drawn);
    }
}

#[test]
fn seeds_that_failed_once_do_not_any_more() {
    if !is_long() {
        return;
    }
    let (neighbour, log, migrations) = (Neighbour::Never, Log::Never, Migrations::Never);
    let alone = Options { neighbour, log, migrations, ..Options::default() };
    for (seed, story) in KEPT {
        let summary = run_all(seed..seed + 1, &alone, Times::Once, 1, |_, _| true);
        if let Some(failed) = summary.failed.first() {
            panic!(
                "{}\nearlier failure: {story}\n\
                 replay it: torture --seed {seed} --neighbour never --log never \
                 --migrations never --trace",
                failed.error
            );
        }
    }
}

/// Seeds with a cache that once failed:
/// - 51, 91: the oracle did not know the cache's outstanding writes, and those of whole stripes, at
///   a kill.
/// - 195: a host waited endlessly behind data that could not be written.
/// - 161, with a neighbour: the cache acknowledged a delayed write after a switch to write-through
///   (engine/tests/write_back.rs).
#[test]
fn seeds_that_failed_with_a_cache_and_a_neighbour_pass() {
    if !is_long() {
        return;
    }
    let (never, always) = (Neighbour::Never, Neighbour::Always);
    for (seed, neighbour) in [(51, never), (91, never), (195, never), (161, always)] {
        let (migrations, log) = (Migrations::Never, Log::Never);
        passes(
            seed,
            &Options { write_back: true, neighbour, log, migrations, ..Options::default() },
        );
    }
}

/// Seeds with a reshape that once failed:
/// - 1002: a stripe was moved in pieces while a drive was missing, with the parity of the old data
///   there.
/// - 2056: a RAID 0 lost a drive while a window was saved: hosts waited endlessly.
/// - 2128, 2167: overlapping writes had another order on a replacement; a volume with missing
///   drives was listed with a future one.
#[test]
fn seeds_that_failed_in_a_reshape_pass() {
    if !is_long() {
        return;
    }
    let levels = vec![Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6];
    let (migrations, larger) = (Migrations::Always, Larger::Never);
    let options = Options { migrations, larger, levels, write_back: true, ..Options::default() };
    [1002, 2056, 2128, 2167].into_iter().for_each(|seed| passes(seed, &options));
}

/// Seeds with reshapes of two volumes that once failed:
/// - 900130, 900206: a reshaping volume lost a drive that the other one did not use yet, and did
///   not get it back (controller/tests/reshape_along_held.rs).
/// - Harness: took a volume that was offline at the begin for reshaped (900001, 900094); forgot
///   unreadable blocks of a drive that a volume had left (900167).
#[test]
fn seeds_that_failed_in_reshapes_of_two_volumes_pass() {
    if !is_long() {
        return;
    }
    let options = Options {
        migrations: Migrations::AtOnce,
        neighbour: Neighbour::Always,
        larger: Larger::Never,
        levels: vec![Level::Raid0, Level::Raid5, Level::Raid6, Level::Raid10],
        ..Options::default()
    };
    [900_001, 900_094, 900_130, 900_167, 900_206]
        .into_iter()
        .for_each(|seed| passes(seed, &options));
}

/// Seeds with drives that became larger that once failed:
/// - 910031: an array started while metadata moved (controller/tests/grown.rs).
/// - 910120, 910296: expanded mirrors were filled too far (controller/tests/reshape_longer.rs).
/// - 910147, 910306: unreadable data hid the label of a larger drive (controller/tests/grown.rs).
/// - Harness: an extended file was truncated behind its label (920117).
#[test]
fn seeds_that_failed_with_drives_that_became_larger_pass() {
    if !is_long() {
        return;
    }
    let options =
        Options { migrations: Migrations::Always, larger: Larger::Always, ..Options::default() };
    [910_031, 910_120, 910_147, 910_296, 910_306, 920_117]
        .into_iter()
        .for_each(|seed| passes(seed, &options));
}

/// Seeds with a log that once failed (controller/tests/log_devices.rs):
/// - 8, 13: a volume without its log and a drive could never start again.
/// - 31: a volume reported why another one was not started.
/// - 122, with a cache: a volume waited for its log after an orderly stop.
#[test]
fn seeds_that_failed_with_a_log_pass() {
    if !is_long() {
        return;
    }
    for (seed, write_back) in [(8, false), (13, false), (31, false), (122, true)] {
        let migrations = Migrations::Never;
        passes(seed, &Options { log: Log::Always, write_back, migrations, ..Options::default() });
    }
}
