//! The database schema, and opening the file.
//!
//! ```text
//! subject  id, kind (0 volume, 1 drive), key, name, last_s: when it was last written
//! minute   t, subject, data: what was done in the minute that begins at t (encoding.rs)
//! quarter  the same of fifteen minutes
//! meta     key, value: `bounds` of the histograms' buckets, `rolled_to`: up to where minutes were
//!          added up to quarters
//! ```

use database::{Layout, PAGE, Unusable};
use platform::BUCKET_BOUNDS_NS;
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};

/// The version of the schema.
const VERSION: i64 = 1;

/// The application ID of a history database: "SRHI".
const APPLICATION: i64 = 0x5352_4849;

/// The WAL is checkpointed at this number of pages.
const JOURNAL_PAGES: i64 = 512;

/// The limit of files moved aside.
const MOST_ASIDE: u32 = 8;

const TABLES: &str = "
CREATE TABLE subject (
    id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    last_s INTEGER NOT NULL,
    UNIQUE (kind, key)
) STRICT;
CREATE TABLE minute (
    t INTEGER NOT NULL,
    subject INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (t, subject)
) STRICT, WITHOUT ROWID;
CREATE TABLE quarter (
    t INTEGER NOT NULL,
    subject INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (t, subject)
) STRICT, WITHOUT ROWID;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

/// Opens or creates the file, with a limit of `bytes`.
pub(super) fn open(path: &Path, bytes: u64) -> Result<Connection, Unusable> {
    let create = format!("{TABLES} INSERT INTO meta VALUES ('bounds', '{}');", bounds());
    let layout = Layout { application: APPLICATION, version: VERSION, create: &create };
    let connection = database::open(path, layout)?;
    database::check(&connection)?;
    let journal: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if journal != "wal" {
        return Err(Unusable::ForNow(format!(
            "its journal mode cannot be WAL, but is '{journal}'"
        )));
    }
    connection.pragma_update(None, "wal_autocheckpoint", JOURNAL_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_PAGES * PAGE as i64)?;
    let kept: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE key = 'bounds'", [], |row| row.get(0))
        .optional()?;
    if kept != Some(bounds()) {
        return Err(Unusable::File(
            "its histograms have other buckets than this program's".to_owned(),
        ));
    }
    let pages = i64::try_from(bytes / PAGE).unwrap_or(i64::MAX);
    connection.pragma_update(None, "max_page_count", pages)?;
    Ok(connection)
}

fn bounds() -> String {
    BUCKET_BOUNDS_NS.map(|bound| bound.to_string()).join(" ")
}

/// The path of a companion file: its WAL, or its name when moved aside.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Renames an unusable file and its WAL. Returns the new name, or why renaming failed.
pub(super) fn set_aside(path: &Path) -> Result<String, String> {
    for number in 1..=MOST_ASIDE {
        let suffix = format!(".unreadable-{number}");
        let aside = beside(path, &suffix);
        if aside.symlink_metadata().is_ok() {
            continue;
        }
        // The WAL first: a new database must not find the WAL of the old one.
        for journal in ["-wal", "-shm", ""] {
            match std::fs::rename(beside(path, journal), beside(&aside, journal)) {
                Ok(()) => {}
                Err(error)
                    if error.kind() == std::io::ErrorKind::NotFound && !journal.is_empty() => {}
                Err(error) => return Err(format!("it cannot be moved aside: {error}")),
            }
        }
        return Ok(aside.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    Err(format!("{MOST_ASIDE} such files are kept already; move them elsewhere"))
}
