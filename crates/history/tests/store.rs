//! The history file: crash-safe, bounded, and its failures stop nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these tests are about a file"
)]

use history::{
    Counters, History, Interval, Kind, Limits, Notice, Question, Reading, Row, Series, Store,
    Subject, Temperatures,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The start of a quarter of an hour.
const BEGIN: u64 = 1_700_000_100 / 900 * 900;
const DAY_S: u64 = 86_400;

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("softroc-history-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("history.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Notices = Arc<Mutex<Vec<Notice>>>;

fn open(path: &Path, limits: Limits) -> (History, Notices) {
    let notices = Notices::default();
    let here = notices.clone();
    let notice = move |notice| here.lock().expect("no test panics with it").push(notice);
    (History::open(path, limits, notice).expect("a thread"), notices)
}

/// A store without a recorder, for chosen rows.
fn store(path: &Path, limits: Limits) -> (Store, Notices) {
    let notices = Notices::default();
    let here = notices.clone();
    let notice = move |notice| here.lock().expect("no test panics with it").push(notice);
    (Store::open(path, limits, notice).expect("a thread"), notices)
}

fn subject(kind: Kind, at: u64) -> Subject {
    Subject { kind, key: format!("key of {at}"), name: format!("{kind:?} {at}").to_lowercase() }
}

fn row(at_s: u64, reads: u64, of: u64) -> Row {
    let mut interval = Interval { covered_ms: 60_000, ..Interval::default() };
    interval.done[0].buckets[5] = reads;
    interval.done[0].bytes = reads * 4096;
    interval.temperatures = Some(Temperatures { least: 30, most: 31 });
    Row { subject: subject(Kind::Volume, of), at_s, interval }
}

/// Queues rows; retries while the queue is full.
fn write(store: &Store, rows: Vec<Row>, now_s: u64) {
    let mut left = rows;
    while let Err(rows) = store.write(left, now_s) {
        left = rows;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn asked(path: &Path, from_s: u64, to_s: u64, points: u64) -> Vec<Series> {
    let (history, notices) = open(path, Limits::default());
    let question = Question { kind: Some(Kind::Volume), name: None, from_s, to_s, points };
    let (_, series) = history.ask(&question).expect("it can be read");
    assert_eq!(*notices.lock().unwrap(), [], "no failure");
    series.into_iter().map(|(_, series)| series).collect()
}

/// The number of reads in a series.
fn reads(series: &Series) -> u64 {
    (series.total.read.iops * series.total.covered_s).round() as u64
}

#[test]
fn what_was_written_is_there_after_a_start_and_adds_up() {
    let folder = Folder::new("kept");
    let (kept, _) = store(&folder.file(), Limits::default());
    // A minute may arrive in parts.
    write(&kept, vec![row(BEGIN, 10, 1), row(BEGIN, 5, 2)], BEGIN + 30);
    write(&kept, vec![row(BEGIN, 7, 1)], BEGIN + 60);
    kept.close();
    let series = asked(&folder.file(), BEGIN, BEGIN + 600, 10);
    assert_eq!(
        series.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["volume 1", "volume 2"]
    );
    assert_eq!(series.iter().map(reads).collect::<Vec<_>>(), [17, 5]);
    assert_eq!(series[0].total.temperature_most_c, Some(31));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(folder.file()).unwrap());
    assert_eq!(mode & 0o777, 0o600, "only the user may read it");
}

/// The first quarter is rolled up only after its last minute.
#[test]
fn what_begins_within_a_quarter_is_there_at_once_and_counted_once() {
    let folder = Folder::new("within");
    for (later, reads_before) in [(0, 0), (1800, 9), (3 * 3600, 18)] {
        let (kept, _) = store(&folder.file(), Limits::default());
        let at_s = BEGIN + 7 * 60 + later;
        write(&kept, vec![row(at_s, 9, 1)], at_s + 60);
        kept.close();
        let series = asked(&folder.file(), BEGIN, at_s + 60, 5);
        assert_eq!(reads(&series[0]), reads_before + 9, "{later} s later");
    }
}

/// Regression: after a restart in the first ten seconds of a minute, only the file has the data
/// that the previous process recorded in that minute.
#[test]
fn a_start_within_a_minute_loses_nothing_of_it() {
    let folder = Folder::new("start");
    let reading = |reads: u64| {
        let mut counters = Counters::default();
        counters.done[0].buckets[5] = reads;
        vec![Reading { subject: subject(Kind::Volume, 1), counters }]
    };
    for (process, expected) in [(0_u64, 30), (1, 60)] {
        let (history, _) = open(&folder.file(), Limits::default());
        // Both start within the same ten seconds.
        for look in 0..4_u64 {
            history.note(BEGIN + process * 4 + look, look * 1_000_000_000, &reading(look * 10));
        }
        let question =
            Question { kind: None, name: None, from_s: BEGIN - 60, to_s: BEGIN + 10, points: 1 };
        let (_, series) = history.ask(&question).expect("it can be read");
        assert_eq!(reads(&series[0].1), expected, "process {process}");
        history.close(BEGIN + 10);
    }
}

/// A copy of the files in use equals the state after a kill.
#[test]
fn a_kill_leaves_every_batch_that_was_written() {
    let folder = Folder::new("killed");
    let (running, _) = store(&folder.file(), Limits::default());
    for minute in 0..20 {
        write(&running, vec![row(BEGIN + minute * 60, 100, 1)], BEGIN + minute * 60);
    }
    let killed = Folder::new("killed-copy");
    // The thread processes requests in order: the response to a query follows the batches before
    // it.
    let (other, _) = open(&killed.0.join("other.db"), Limits::default());
    drop(other);
    wait_for_rows(&folder.file(), 20);
    for suffix in ["", "-wal"] {
        let name = format!("history.db{suffix}");
        std::fs::copy(folder.0.join(&name), killed.0.join(&name)).expect("a copy");
    }
    assert_eq!(reads(&asked(&killed.file(), BEGIN, BEGIN + 1200, 10)[0]), 2000);
    drop(running);
}

/// Waits until the file has that number of minutes. Another connection reads committed rows only.
fn wait_for_rows(path: &Path, rows: i64) {
    let reader = rusqlite::Connection::open(path).expect("a second reader");
    let count = || -> i64 {
        reader.query_row("SELECT count(*) FROM minute", [], |row| row.get(0)).unwrap_or_default()
    };
    while count() < rows {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn minutes_are_kept_for_a_day_and_quarters_for_thirty() {
    let folder = Folder::new("retention");
    let (kept, _) = store(&folder.file(), Limits::default());
    let minutes = 32 * DAY_S / 60;
    // Every sixth minute is enough to check the retention.
    for minute in (0..minutes).step_by(6) {
        let at_s = BEGIN + minute * 60;
        write(&kept, vec![row(at_s, 1, 1)], at_s + 60);
    }
    kept.close();
    let end = BEGIN + 32 * DAY_S;
    let reader = rusqlite::Connection::open(folder.file()).unwrap();
    let of = |table: &str| -> (i64, i64) {
        let text = format!("SELECT count(*), min(t) FROM {table}");
        reader.query_row(&text, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let (minutes, oldest) = of("minute");
    assert!(
        (240..=245).contains(&minutes) && oldest as u64 >= end - DAY_S - 1800,
        "{minutes} from {oldest}"
    );
    let (quarters, oldest) = of("quarter");
    assert!(
        (2870..=2882).contains(&quarters) && oldest as u64 >= end - 30 * DAY_S - 1800,
        "{quarters} from {oldest}"
    );
    drop(reader);
    // Thirty days of both tables, each read counted once: two and a half per quarter.
    let series = asked(&folder.file(), end - 30 * DAY_S, end, 100);
    assert!((7195..=7205).contains(&reads(&series[0])), "{}", reads(&series[0]));
    assert!(series[0].points.len() <= 101, "{}", series[0].points.len());
}

/// Reads and writes of 50 µs to 100 ms, and flushes: a busy system.
fn busy(at_s: u64, minutes: u64, of: u64) -> Row {
    let kind = if of < 64 { Kind::Volume } else { Kind::Drive };
    let mut interval = Interval { covered_ms: minutes * 60_000, ..Interval::default() };
    let mixed = at_s.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    for (kind, buckets) in [(0, 3..13), (1, 4..13), (3, 6..10)] {
        let done = &mut interval.done[kind];
        for bucket in buckets {
            done.buckets[bucket] =
                minutes * (9000 + of * 131 + mixed % 8000) / (1 + bucket as u64 % 4);
        }
        (done.bytes, done.time_ns) =
            (minutes * ((1 << 32) + mixed), minutes * (40_000_000_000 + mixed));
    }
    match kind {
        Kind::Volume => {
            (interval.cache_hits, interval.cache_writes) = (minutes * 70_000, minutes * 50_000)
        }
        Kind::Drive => interval.temperatures = Some(Temperatures { least: 38, most: 41 }),
    }
    Row { subject: subject(kind, of), at_s, interval }
}

/// 64 volumes and 128 drives, thirty days. A quarter written as one row has the same size as
/// fifteen minutes.
#[test]
fn thirty_days_of_64_volumes_and_128_drives_fit_into_128_mib() {
    let folder = Folder::new("bound");
    let (kept, notices) = store(&folder.file(), Limits::default());
    let day = BEGIN + 30 * DAY_S;
    let of_all =
        |at_s: u64, minutes: u64| (0..192).map(|of| busy(at_s, minutes, of)).collect::<Vec<Row>>();
    for at_s in (BEGIN..day).step_by(900) {
        write(&kept, of_all(at_s, 15), at_s + 900);
    }
    for at_s in (day..day + DAY_S).step_by(60) {
        write(&kept, of_all(at_s, 1), at_s + 60);
    }
    kept.close();
    let bytes: u64 = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes <= 128 << 20, "{} MiB", bytes >> 20);
    assert_eq!(*notices.lock().unwrap(), [], "nothing was dropped");
    let reader = rusqlite::Connection::open(folder.file()).unwrap();
    let quarters: i64 =
        reader.query_row("SELECT count(*) FROM quarter", [], |row| row.get(0)).unwrap();
    assert!(quarters >= 192 * (30 * 96 - 2), "all thirty days are stored: {quarters}");
}

/// The file never exceeds its limit; the oldest rows are deleted.
#[test]
fn a_file_at_its_limit_gives_up_what_is_oldest() {
    let folder = Folder::new("limit");
    let limits = Limits { bytes: 1 << 20 };
    let (kept, notices) = store(&folder.file(), limits);
    let end = BEGIN + 5 * DAY_S;
    for at_s in (BEGIN..end).step_by(900) {
        write(&kept, (0..40).map(|of| busy(at_s, 15, of)).collect(), at_s + 900);
    }
    kept.close();
    assert!(std::fs::metadata(folder.file()).unwrap().len() <= limits.bytes);
    assert_eq!(*notices.lock().unwrap(), []);
    let series = asked(&folder.file(), end - 3600, end, 4);
    assert_eq!(series.len(), 40);
    assert!(
        series.iter().all(|one| one.total.covered_s >= 3600.0 - 1.0),
        "the newest hour is stored"
    );
}

/// Makes a file unusable.
type Damage = fn(&Path);

#[test]
fn a_file_that_cannot_be_used_is_kept_aside_and_begun_anew() {
    let spoil: [(&str, Damage); 4] = [
        ("damaged", |path| {
            std::fs::write(
                path,
                b"this is no database, whatever its name says, and long enough to be one"
                    .repeat(99),
            )
            .unwrap();
        }),
        ("of something else", |path| {
            let other = rusqlite::Connection::open(path).unwrap();
            other.execute_batch("CREATE TABLE runs (id INTEGER)").unwrap();
        }),
        ("of a later version", |path| {
            store(path, Limits::default()).0.close();
            rusqlite::Connection::open(path)
                .unwrap()
                .pragma_update(None, "user_version", 2)
                .unwrap();
        }),
        ("with other buckets", |path| {
            store(path, Limits::default()).0.close();
            let other = rusqlite::Connection::open(path).unwrap();
            other.execute_batch("UPDATE meta SET value = '1 2 3' WHERE key = 'bounds'").unwrap();
        }),
    ];
    for (what, spoil) in spoil {
        let folder = Folder::new("unreadable");
        spoil(&folder.file());
        let before = std::fs::read(folder.file()).unwrap();
        let (kept, notices) = store(&folder.file(), Limits::default());
        write(&kept, vec![row(BEGIN, 3, 1)], BEGIN + 60);
        kept.close();
        let told = notices.lock().unwrap().clone();
        let [Notice::SetAside { now_at, .. }] = &told[..] else { panic!("{what}: {told:?}") };
        assert_eq!(now_at, "history.db.unreadable-1");
        let aside = std::fs::read(folder.0.join(now_at)).unwrap();
        assert!(aside == before || what != "damaged", "{what}: the file is unchanged");
        assert_eq!(reads(&asked(&folder.file(), BEGIN, BEGIN + 60, 1)[0]), 3, "{what}");
        drop(folder);
    }
}

#[test]
fn a_page_that_is_damaged_is_found_at_the_start() {
    let folder = Folder::new("page");
    let (kept, _) = store(&folder.file(), Limits::default());
    for minute in 0..400 {
        write(
            &kept,
            (0..20).map(|of| busy(BEGIN + minute * 60, 1, of)).collect(),
            BEGIN + minute * 60,
        );
    }
    kept.close();
    let mut bytes = std::fs::read(folder.file()).unwrap();
    let page = bytes.len() / 4096 / 2 * 4096;
    bytes[page..page + 64].fill(0xA5);
    std::fs::write(folder.file(), bytes).unwrap();
    let (kept, notices) = store(&folder.file(), Limits::default());
    kept.close();
    assert!(matches!(notices.lock().unwrap()[..], [Notice::SetAside { .. }]), "{notices:?}");
}

/// The target of a symbolic link may belong to another program: the link is moved aside, the target
/// is unchanged.
#[test]
fn a_link_is_not_followed() {
    let folder = Folder::new("link");
    let outside = folder.0.join("outside");
    for content in [&b""[..], b"precious"] {
        std::fs::write(&outside, content).unwrap();
        std::os::unix::fs::symlink(&outside, folder.file()).unwrap();
        let (kept, notices) = store(&folder.file(), Limits::default());
        write(&kept, vec![row(BEGIN, 2, 1)], BEGIN + 60);
        kept.close();
        let told = notices.lock().unwrap().clone();
        let [Notice::SetAside { now_at, .. }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(std::fs::read_link(folder.0.join(now_at)).unwrap(), outside);
        assert_eq!(std::fs::read(&outside).unwrap(), content);
        assert!(!folder.file().is_symlink());
        std::fs::remove_file(folder.file()).unwrap();
    }
}

/// An unwritable folder is reported once; the waiting rows are written later.
#[test]
fn a_store_without_room_waits_and_says_so_once() {
    let folder = Folder::new("room");
    let place = folder.0.join("later");
    let (kept, notices) = store(&place.join("history.db"), Limits::default());
    for minute in 0..5 {
        write(&kept, vec![row(BEGIN + minute * 60, 2, 1)], BEGIN + minute * 60);
    }
    while notices.lock().unwrap().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::fs::create_dir(&place).unwrap();
    write(&kept, vec![row(BEGIN + 300, 2, 1)], BEGIN + 300);
    kept.close();
    let told = notices.lock().unwrap().clone();
    assert!(matches!(told[..], [Notice::NotStored { .. }, Notice::StoredAgain]), "{told:?}");
    // The number of rows before the folder exists is not fixed; none is lost.
    assert_eq!(reads(&asked(&place.join("history.db"), BEGIN, BEGIN + 360, 1)[0]), 12);
}
