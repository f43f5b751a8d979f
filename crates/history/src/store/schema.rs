//! The database schema, and opening the file.
//!
//! ```text
//! subject  id, kind (0 volume, 1 drive), key, name, last_s: when it was last written
//! minute   t, subject, data: what was done in the minute that begins at t (encoding.rs)
//! quarter  the same of fifteen minutes
//! meta     key, value: `bounds` of the histograms' buckets, `rolled_to`: up to where minutes were added up to quarters
//! ```

use platform::BUCKET_BOUNDS_NS;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The version of the schema.
const VERSION: i64 = 1;

/// The application ID of a history database: "SRHI".
const APPLICATION: i64 = 0x5352_4849;

/// The page size in bytes.
pub(super) const PAGE: u64 = 4096;

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

/// Why a file cannot be opened.
pub(super) enum Unusable {
    /// It is damaged, not a history, or of a later version: a new file replaces it.
    File(String),
    /// No space, no permission, or in use: it stays, and is retried.
    ForNow(String),
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Unusable {
        match is_damage(&error) {
            true => Unusable::File(error.to_string()),
            false => Unusable::ForNow(error.to_string()),
        }
    }
}

/// Whether an error means that the file is damaged.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SchemaChanged)
    )
}

/// Opens or creates the file, with a limit of `bytes`.
pub(super) fn open(path: &Path, bytes: u64) -> Result<Connection, Unusable> {
    let failed = |error: std::io::Error| Unusable::ForNow(format!("it cannot be opened: {error}"));
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => {
            return Err(Unusable::File("it is a symbolic link, which is not followed".to_owned()));
        }
        Ok(_) => {}
        // Only this user may read it.
        Err(_) => {
            let made = std::fs::OpenOptions::new().create_new(true).append(true).mode(0o600).open(path);
            match made {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
                _ => {}
            }
        }
    }
    // SQLite with NOFOLLOW rejects a link in any part of the path.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(failed)?;
    let path = folder.join(path.file_name().unwrap_or_default());
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    check(&mut connection)?;
    let pages = i64::try_from(bytes / PAGE).unwrap_or(i64::MAX);
    connection.pragma_update(None, "max_page_count", pages)?;
    Ok(connection)
}

fn check(connection: &mut Connection) -> Result<(), Unusable> {
    let number = |connection: &Connection, pragma: &str| -> rusqlite::Result<i64> {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
    };
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let (version, application) = (number(connection, "user_version")?, number(connection, "application_id")?);
    if tables > 0 && application != APPLICATION {
        return Err(Unusable::File("it is the database of another program".to_owned()));
    }
    if version > VERSION {
        return Err(Unusable::File(format!(
            "its layout has version {version}, and this program supports {VERSION}"
        )));
    }
    if tables > 0 {
        let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            return Err(Unusable::File(format!("it is damaged: {found}")));
        }
    }
    connection.pragma_update(None, "page_size", PAGE as i64)?;
    let journal: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if journal != "wal" {
        return Err(Unusable::ForNow(format!("its journal mode cannot be WAL, but is '{journal}'")));
    }
    // A committed transaction survives a power cut.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", JOURNAL_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_PAGES * PAGE as i64)?;
    if tables == 0 {
        let transaction = connection.transaction()?;
        transaction.execute_batch(TABLES)?;
        transaction.execute("INSERT INTO meta VALUES ('bounds', ?1)", [bounds()])?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
    }
    let kept: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE key = 'bounds'", [], |row| row.get(0))
        .optional()?;
    match kept == Some(bounds()) {
        true => Ok(()),
        false => Err(Unusable::File("its histograms have other buckets than this program's".to_owned())),
    }
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
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !journal.is_empty() => {}
                Err(error) => return Err(format!("it cannot be moved aside: {error}")),
            }
        }
        return Ok(aside.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    Err(format!("{MOST_ASIDE} such files are kept already; move them elsewhere"))
}
